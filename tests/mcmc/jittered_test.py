"""Transitions of varying length."""

import numpy as np
import pytest
import scipy.stats
import statistics_lib
import tensorflow as tf
import tensorflow_probability as tfp

import tfp_reprior as tfr
from tfp_reprior.mcmc import jittered


def _lengths(num_steps, count):
  @tf.function(autograph=False)
  def lengths(num_steps):
    return tf.map_fn(lambda i: jittered.jittered_length(num_steps, i), tf.range(count))

  return lengths(tf.constant(num_steps)).numpy()


@pytest.mark.parametrize('num_steps', [1, 2, 3, 8, 31])
def test_lengths_are_spread_evenly_about_the_mean(num_steps):
  low, high = (num_steps + 1) // 2, num_steps + num_steps // 2
  lengths = _lengths(num_steps, 1000)
  values, counts = np.unique(lengths, return_counts=True)
  np.testing.assert_array_equal(values, np.arange(low, high + 1))
  # Multiples of the golden ratio have a discrepancy of 2 or so: far less than chance has.
  expected = 1000 / len(values)
  assert np.max(np.abs(counts - expected)) <= 4
  assert abs(np.sum(lengths) - 1000 * num_steps) <= 4 * num_steps


def _kernel(settings):
  return tfr.mcmc.Jittered(
    lambda s: tfr.mcmc.UnderdampedLangevin(
      lambda x: -0.5 * tf.reduce_sum(x**2, axis=-1) + tf.sin(x[..., 0]),
      s.step_size,
      s.damping,
      s.num_integrator_steps,
    ),
    settings,
  )


def test_one_transition_is_that_of_the_inner_kernel_with_its_length():
  state = tf.constant(np.random.default_rng(0).normal(size=(3, 2)))
  kernel = _kernel(tfr.mcmc.KernelSettings(step_size=0.3, num_integrator_steps=6))
  assert kernel.is_calibrated and kernel.name == 'jittered'
  results = kernel.bootstrap_results(state)
  for i in range(3):
    length = int(jittered.jittered_length(tf.constant(6), tf.constant(i)))
    inner = tfr.mcmc.UnderdampedLangevin(
      kernel.parameters['kernel_fn'](kernel.parameters['settings']).target_log_prob_fn,
      tf.constant(0.3, tf.float64),
      tf.constant(1.0, tf.float64),
      length,
    )
    expected, _ = inner.one_step(state, results.inner_results, seed=[1, i])
    state, results = kernel.one_step(state, results, seed=[1, i])
    np.testing.assert_array_equal(state, expected)
    assert int(results.number) == i + 1


def test_settings_can_be_changed_between_runs_of_one_graph():
  kernel = _kernel(tfr.mcmc.KernelSettings(step_size=0.3))
  state = tf.constant(np.random.default_rng(0).normal(size=(3, 2)))
  step = tf.function(kernel.one_step, autograph=False)
  for step_size in (0.1, 0.5):
    settings = jittered.as_tensors(
      tfr.mcmc.KernelSettings(step_size=step_size, num_integrator_steps=4), tf.float64
    )
    results = kernel.bootstrap_with(state, settings)
    actual, _ = step(state, results, seed=tf.constant([1, 2]))
    fixed = _kernel(tfr.mcmc.KernelSettings(step_size=step_size, num_integrator_steps=4))
    expected, _ = fixed.one_step(state, fixed.bootstrap_results(state), seed=[1, 2])
    np.testing.assert_allclose(actual, expected, rtol=1e-12)
  assert step.experimental_get_tracing_count() == 1


def test_exact_draws_stay_exact():
  # From N(0, I) with a skewed likelihood: exact draws by rejection, 3 transitions of different
  # lengths, and the distribution of the first coordinate is still that of exact draws.
  rng = np.random.default_rng(0)
  x = rng.normal(size=(60_000, 2))
  x = x[np.log(rng.uniform(size=len(x))) < np.sin(x[:, 0]) - 1.0]
  grid = np.linspace(-8, 8, 20_001)
  density = np.exp(-0.5 * grid**2 + np.sin(grid))
  cdf = np.cumsum(density) / np.sum(density)

  def p_value(draws):
    return statistics_lib.cdf_p_value(draws, lambda v: np.interp(v, grid, cdf))

  kernel = _kernel(tfr.mcmc.KernelSettings(step_size=0.9, num_integrator_steps=3))
  moved, results = tf.constant(x), kernel.bootstrap_results(tf.constant(x))
  for i in range(3):
    moved, results = kernel.one_step(moved, results, seed=[3, i])
  accepted = np.mean(results.inner_results.is_accepted)
  assert 0.5 < accepted < 0.999, 'accept / reject must have mattered'
  assert p_value(moved[:, 0]) > statistics_lib.FALSE_ALARM
  assert statistics_lib.detectable_cdf_error(len(x)) < 0.05
  assert p_value(moved[:, 0] + 0.15) < statistics_lib.FALSE_ALARM, 'the control'
  assert scipy.stats.pearsonr(moved[:, 1], x[:, 1])[0] < 0.9, 'the chains moved'


def test_it_runs_in_sample_chain_and_compiles():
  kernel = _kernel(tfr.mcmc.KernelSettings(step_size=0.5, num_integrator_steps=4))

  @tf.function(jit_compile=True)
  def run():
    return tfp.mcmc.sample_chain(
      5, tf.zeros([2, 3], tf.float64), kernel=kernel, trace_fn=None, seed=tf.constant([1, 2])
    )

  assert run().shape == [5, 2, 3]
  assert np.all(np.diff(run(), axis=0).any(axis=(0, -1)))  # every chain moves


def test_steps_must_be_positive():
  with pytest.raises(ValueError, match='`step_size` must be positive. Received: step_size=-0.1'):
    _kernel(tfr.mcmc.KernelSettings(step_size=-0.1))
