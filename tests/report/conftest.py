"""Results that the tests of the report share: small real runs, and runs with made-up traces."""

import copy

import numpy as np
import pytest

import tfp_reprior as tfr


def _run(inputs, y, num_outputs=None, **kwargs):
  model = tfr.models.fcn(inputs.shape[1:], num_outputs or y.shape[1], width=16, depth=1)
  arguments = dict(num_chains=2, num_results=20, num_burnin_steps=0, thinning=1, progress=False)
  arguments |= dict(step_size=0.1, damping=0.1, x_test=inputs[::2], y_test=y[::2])
  if 'likelihood' not in kwargs:
    arguments['noise_scale'] = 0.1
  return tfr.sample_posterior(model, inputs, y, **(arguments | kwargs))


@pytest.fixture(scope='session')
def regression():
  """A run on one input and one real target."""
  x = np.linspace(-1, 1, 12, dtype=np.float32)[:, np.newaxis]
  return _run(x, np.sin(3 * x), num_burnin_steps=10)


@pytest.fixture(scope='session')
def classes():
  """A run on two inputs and three classes, as if it had warmed up."""
  rng = np.random.default_rng(1)
  y = tfr.data.centered_one_hot(np.arange(30) % 3, num_classes=3)
  x = (y[:, :2] + 0.3 * rng.standard_normal([30, 2])).astype(np.float32)
  result = _run(x, y, thinning=3)
  blocks = [
    ('first step', 0.3, np.nan, 1, 1.0, 1, [0.0, 0.5], -200.0),
    ('measuring', 0.1, 0.2, 8, 1.0, 1500, [0.625, 0.75], -4.5, 4e-2, 'hidden'),
  ]
  blocks = [tfr.sampling.Block(*block) for block in blocks]
  result.warmup = tfr.sampling.Warmup(0.1, 0.2, 8, 12_001, blocks, doubts=[])
  return result


@pytest.fixture(scope='session')
def categorical():
  """A run on one input and eight classes, by a softmax."""
  x = np.linspace(-1, 1, 24, dtype=np.float32)[:, np.newaxis]
  likelihood = tfr.likelihoods.Categorical()
  y = np.arange(24) // 3
  return _run(x, y, num_outputs=8, likelihood=likelihood, regularizer='n*noise')


@pytest.fixture(scope='session')
def bernoulli():
  """A run on one input and two outputs of zeros and ones."""
  x = np.linspace(-1, 1, 12, dtype=np.float32)[:, np.newaxis]
  y = np.concatenate([x > 0, x > -0.5], axis=1).astype(int)
  return _run(x, y, likelihood=tfr.likelihoods.Bernoulli(), regularizer='n*noise')


@pytest.fixture
def pretend(regression):
  """Function that changes attributes of a run; traces are made up of draws `[s, c, r]`.

  Such runs have no hidden weights, as those of linear models.
  """

  def change(theta=None, f=None, acceptance=0.9, settings=None, **attributes):
    result = copy.copy(regression)
    result.__dict__.pop('verdict', None)  # which was on the other trace
    result.settings = result.settings | (settings or {})
    if theta is not None:
      s, c = theta.shape[:2]
      rng = np.random.default_rng(0)
      result.settings = result.settings | {'num_results': s, 'num_chains': c} | (settings or {})
      energy = rng.standard_normal([s, c])
      log_likelihood = rng.standard_normal([s, c])
      result.trace = {'theta': theta, 'energy': energy, 'log_prob': -energy}
      result.trace |= {'log_likelihood': log_likelihood}
      result.trace |= {'acceptance': np.full([s, c], acceptance)} | ({} if f is None else {'f': f})
      result.warmup_trace = {}
    for name, value in attributes.items():
      setattr(result, name, value)
    return result

  return change


@pytest.fixture
def noise():
  """Function that draws independent normal numbers `[s, c, r]`."""
  return lambda *shape: np.random.default_rng(3).standard_normal(shape).astype(np.float32)
