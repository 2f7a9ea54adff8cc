"""A small run of `sample_posterior` that several tests share."""

import contextlib
import functools
import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfp_reprior as tfr
from tfp_reprior.sampling import runner

X = np.linspace(-1, 1, 10, dtype=np.float32)[:, np.newaxis]
Y = np.concatenate([np.sin(3 * X), np.cos(2 * X)], axis=1)
X_TEST = np.linspace(-1.2, 1.2, 4, dtype=np.float32)[:, np.newaxis]
SETTINGS = dict(
  noise_scale=0.2,
  standardize=False,
  x_test=X_TEST,
  num_chains=2,
  num_results=12,
  thinning=2,
  num_burnin_steps=2,
  step_size=0.4,
  num_projections=3,
  num_kept_draws=4,
  seed=1,
  progress=False,
)
# Arguments that the graphs of a run do not depend on.
_FREE = (
  'run_dir',
  'resume',
  'num_results',
  'num_kept_draws',
  'num_burnin_steps',
  'checkpoint_seconds',
  'y_test',
)
_runners = {}
_numbers = itertools.count()


def make_model(activation='gelu', num_outputs=2):
  return tfr.models.fcn((1,), num_outputs, width=8, depth=1, activation=activation)


def categorical():
  """Arguments of `sample` for three classes."""
  labels = np.array([0, 0, 0, 1, 1, 2, 1, 2, 2, 2])
  likelihood = tfr.likelihoods.Categorical()
  return dict(model=make_model(num_outputs=3), y=labels, noise_scale=None, likelihood=likelihood)


def bernoulli():
  """Arguments of `sample` for a yes or no of two outputs."""
  likelihood = tfr.likelihoods.Bernoulli()
  return dict(y=(Y > 0).astype(int), noise_scale=None, likelihood=likelihood)


@contextlib.contextmanager
def shared_graphs(key):
  """Runs inside share their graphs with others of the same key, for tracing takes seconds.

  Args:
    key: String that tells runs apart whose graphs differ; seeds may.
  """
  Runner, count = runner.Runner, itertools.count()

  def shared_runner(kernel, observe_fn, thinning, seed, run_loop):
    # By its place in the run, too: with a regularizer to be tuned there are several warm-ups.
    whose = key, next(count), *(int(word) for word in seed)
    if whose not in _runners:
      _runners[whose] = Runner(kernel, observe_fn, thinning, seed, run_loop)
    return _runners[whose]

  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(runner, 'Runner', shared_runner)
    yield


def sample(model=None, x=X, y=Y, run=tfr.sample_posterior, **changes):
  """Runs `sample_posterior`, or `warm_up`, on toy data, with changes to `SETTINGS`.

  Runs that differ in nothing but `_FREE` share their graphs.
  """
  model = make_model() if model is None else model
  settings = sorted((k, v) for k, v in changes.items() if k not in _FREE)
  key = repr([_layers(model), _bytes(x), _bytes(y), settings])
  with shared_graphs(key):
    return run(model, x, y, **{**SETTINGS, **changes})


def _layers(model):
  """What the layers of a model are, apart from their names; the dtype is among it."""
  if not isinstance(model, keras.Model):
    return next(_numbers)  # a posterior: nothing is shared
  configs = [{**layer.get_config(), 'name': None} for layer in model.layers]
  return [(type(layer), config) for layer, config in zip(model.layers, configs, strict=True)]


def _bytes(values):
  array = np.asarray(values)
  return array.shape, array.dtype, array.tobytes()


def reference(num_results=12):
  """A run without a folder, from beginning to end, that keeps all draws. Not to be changed."""
  # The optimizer of graphs rounds in its own way.
  return _reference(num_results, repr(tf.config.optimizer.get_experimental_options()))


@functools.cache
def _reference(num_results, optimizer):
  del optimizer  # that in force
  return sample(num_results=num_results, num_kept_draws=num_results)


def assert_same(result, expected):
  """Checks that two results agree bit for bit, kept draws as far as both have them."""
  assert result.is_complete
  for name in ('trace', 'warmup_trace'):
    actual, wanted = getattr(result, name), getattr(expected, name)
    assert set(actual) == set(wanted)
    for key in wanted:
      np.testing.assert_array_equal(actual[key], wanted[key], err_msg=f'{name} {key}')
  for moment in ('mean', 'variance'):
    parts = zip(
      getattr(result.theta_moments, moment), getattr(expected.theta_moments, moment), strict=True
    )
    for a, b in parts:
      np.testing.assert_array_equal(a, b)
  assert len(result.draws) > 0
  for i, number in enumerate(result.draws.numbers):
    j = expected.draws.numbers.index(number)
    for a, b in zip(result.draws[i], expected.draws[j], strict=True):
      np.testing.assert_array_equal(a, b)
