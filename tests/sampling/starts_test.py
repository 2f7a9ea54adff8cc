"""Where chains start: the optimization against plain NumPy, trained weights, and runs."""

import numpy as np
import pytest
import sampling_runs
import tensorflow as tf
import tensorflow_probability as tfp
import toys

import tfp_reprior as tfr
from tfp_reprior.sampling import progress, starts
from tfp_reprior.sampling import settings as settings_lib

NUM_STEPS = 20
OPTIMIZED = dict(start='optimized', num_results=4, num_burnin_steps=0)


def _norms(parts):
  return [np.sqrt(np.sum(np.square(p), axis=tuple(range(1, p.ndim)))) for p in map(np.array, parts)]


def test_a_step_of_the_ascent_is_adam_with_one_second_moment_for_a_part_on_its_sphere():
  sampler = tfr.make_sampler(toys.tiny_posterior(), 'rotation')
  state = sampler.start_fn(3, seed=1)
  kernel = starts.Ascent(sampler, NUM_STEPS)
  results = kernel.bootstrap_results(state)
  moved, after = kernel.one_step(state, results)
  second, _ = kernel.one_step(moved, after)
  m = sampler.num_moving_parts
  means, squares = [0.0] * m, [0.0] * m
  expected = [np.array(p) for p in state[:m]]
  for t, actual in enumerate([moved, second]):
    parts = [tf.constant(p) for p in expected]
    _, gradients = tfp.math.value_and_gradient(sampler.log_likelihood_fn, parts)
    for i, g in enumerate(map(np.array, gradients)):
      axes = tuple(range(1, g.ndim))
      means[i] = 0.9 * means[i] + 0.1 * g
      squares[i] = 0.99 * squares[i] + 0.01 * np.mean(g**2, axis=axes, keepdims=True)
      direction = means[i] / (1 - 0.9 ** (t + 1)) / np.sqrt(squares[i] / (1 - 0.99 ** (t + 1)))
      size = 0.015 * (1 + np.cos(np.pi * t / NUM_STEPS))
      old, new = expected[i], expected[i] + size * direction
      norm = np.sqrt(np.sum(old**2, axes, keepdims=True) / np.sum(new**2, axes, keepdims=True))
      expected[i] = norm * new
      np.testing.assert_allclose(actual[i], expected[i], rtol=1e-9)
  for before, now in zip(state[m:], moved[m:], strict=True):  # the readout is integrated out
    np.testing.assert_array_equal(before, now)


@pytest.mark.parametrize('likelihood', [None, tfr.likelihoods.Categorical()])
def test_the_ascent_climbs_and_moves_scales_freely(likelihood):
  posterior = tfr.Posterior(
    sampling_runs.make_model(num_outputs=2),
    sampling_runs.X,
    sampling_runs.Y if likelihood is None else np.arange(10) % 2,
    likelihood=likelihood,
  )
  sampler = tfr.make_sampler(posterior)
  state = sampler.start_fn(2, seed=1)
  kernel = starts.Ascent(sampler, NUM_STEPS)
  step = tf.function(kernel.one_step, autograph=False)
  results = first = kernel.bootstrap_results(state)
  moved = state
  for _ in range(NUM_STEPS):
    moved, results = step(moved, results)
  assert np.all(results.log_likelihood > first.log_likelihood)
  last = sampler.num_moving_parts
  is_scale = [
    unit != 1.0 or not shape
    for unit, shape in zip(sampler.units, posterior.split.event_shapes, strict=False)
  ]
  assert sum(is_scale) == 1  # of the noise, or of the outputs
  for before, after, free in zip(_norms(state[:last]), _norms(moved[:last]), is_scale, strict=True):
    assert np.allclose(before, after, rtol=1e-4) != free


def test_runs_that_optimize_go_on_bit_for_bit_and_say_so(tmp_path, monkeypatch):
  monkeypatch.setattr(settings_lib, '_OPTIMIZATION_STEPS', NUM_STEPS)
  expected = sampling_runs.sample(**OPTIMIZED, num_kept_draws=4)
  update, count = progress.Progress.update, iter(range(100))

  def update_and_crash(self, *arguments):
    update(self, *arguments)
    if next(count) == 0:  # in the optimization
      raise RuntimeError('crash')

  with monkeypatch.context() as patch:
    patch.setattr(progress.Progress, 'update', update_and_crash)
    with pytest.raises(RuntimeError, match='crash'):
      sampling_runs.sample(**OPTIMIZED, run_dir=tmp_path, checkpoint_seconds=1e-9)
  resumed = sampling_runs.sample(**OPTIMIZED, run_dir=tmp_path)
  sampling_runs.assert_same(resumed, expected)
  assert resumed.seconds.keys() == {'optimization', 'sampling'}
  assert resumed.settings['start'] == 'optimized'
  assert 'starts: where draws of the prior climbed to' in resumed.summary()
  with pytest.raises(ValueError, match="start was 'optimized' and is 'prior'"):
    sampling_runs.sample(**{**OPTIMIZED, 'start': 'auto'}, run_dir=tmp_path)


def test_the_optimization_is_part_of_the_budget_of_warm_up_and_of_its_table():
  settings = tfr.sampling.Settings(start='optimized', num_warmup_steps=210)
  assert settings.budgets == {'optimization': 70, 'warm-up': 140, 'burn-in': 0}
  assert tfr.sampling.Settings(start='optimized').budgets['optimization'] == 150
  assert tfr.sampling.Settings(num_warmup_steps=210).budgets['optimization'] == 0
  found = tfr.sampling.Warmup(0.1, 0.2, 4, 140, [], [])
  found = starts.with_ascent(found, {'log_likelihood': np.array([[1.0, 2.0], [3.0, 5.0]])})
  assert found.num_gradients == 142 and found.blocks[0].log_likelihood == 4.0
  assert found.blocks[0].acceptance_text == '' and 'optimizing' in found.table()
  assert starts.with_ascent(found, {}) is found


@pytest.mark.parametrize('name', ['rotation', 'standard', 'auto'])
def test_chains_start_near_the_weights_of_the_model(name):
  posterior = tfr.Posterior(sampling_runs.make_model(), sampling_runs.X, sampling_runs.Y)
  sampler = tfr.make_sampler(posterior, name)
  state = starts.states('model', sampler, 3, seed=[1, 2])
  parts = sampler.theta_fn(state)
  weights = posterior.split.network.current_parts()
  for i, (part, weight) in enumerate(zip(parts, weights, strict=True)):
    is_scale, is_readout = weight.shape.rank == 0, i >= posterior.split.num_hidden
    if is_scale or (is_readout and name != 'standard'):
      continue  # which has another start, or is integrated out
    turned = np.cos(0.1) * np.array(weight)
    residual = (np.array(part) - turned) / np.sin(0.1)  # of 8 weights or more
    assert 0.3 < np.std(residual) < 2 and np.ptp(residual, axis=0).min() > 0


def test_starts_are_named():
  with pytest.raises(ValueError, match="`start` must be one of 'auto', 'prior', 'optimized'"):
    tfr.sampling.Settings(start='warm')
  posterior = tfr.Posterior(sampling_runs.make_model(), sampling_runs.X, sampling_runs.Y)
  posterior.split.model.trainable_variables[0].assign_add(np.full([1, 8], np.nan))
  with pytest.raises(ValueError, match='needs a model with finite weights'):
    starts.states('model', tfr.make_sampler(posterior), 2, seed=[1, 2])
