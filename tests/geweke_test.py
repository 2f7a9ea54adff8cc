"""Geweke's joint test: simulate data, step through bijector and kernel, keep the prior.

If the weights have their prior distribution, data are simulated from them, and a kernel steps the
weights towards the posterior given these data, the weights still have their prior distribution. A
mistake in density, Jacobian or kernel shows up in the moments. All in one: model, likelihood,
bijector and kernel are the real ones; only the targets change from replicate to replicate.
"""

import numpy as np
import statistics_lib as stats
import tensorflow as tf
import tensorflow_probability as tfp

import tfp_reprior as tfr

NUM_REPLICATES = 2000
NUM_SWEEPS = 3


class _WithoutLogDet(tfr.ReadoutReprior):
  """The negative control: a bijector that forgets its Jacobian."""

  def _forward_log_det_jacobian(self, x):
    return 0.0 * super()._forward_log_det_jacobian(x)


def _p_value(bijector_class):
  model = tfr.models.fcn((1,), 1, width=2, depth=1, dtype='float64')
  x = np.array([[-1.0], [0.5], [2.0]])
  noise_scale = 0.5

  def replicate(arguments):
    seed, *theta = arguments
    for sweep in range(NUM_SWEEPS):
      data_seed, kernel_seed = tfp.random.split_seed(seed + sweep, n=2)
      split = tfr.models.ReadoutSplit(model)
      noise = tf.random.stateless_normal([3, 1], data_seed, dtype=tf.float64)
      y = split.apply(theta, x) + noise_scale * noise
      posterior = tfr.Posterior(split, x, y, noise_scale)
      reprior = bijector_class(
        posterior.features_fn, y, noise_scale**2, posterior.split.event_ndims
      )
      kernel = tfp.mcmc.TransformedTransitionKernel(
        tfr.mcmc.UnderdampedLangevin(posterior.target_log_prob_fn, 0.8, 0.3), reprior
      )
      results = kernel.bootstrap_results(theta)
      for step in range(2):
        theta, results = kernel.one_step(theta, results, seed=kernel_seed + step)
    return theta

  @tf.function(autograph=False)
  def run():
    split = tfr.models.ReadoutSplit(model)
    theta = split.sample_prior(NUM_REPLICATES, seed=1)
    seeds = tf.random.stateless_uniform(
      [NUM_REPLICATES, 2], [2, 3], minval=None, maxval=None, dtype=tf.int32
    )
    return theta, tf.map_fn(replicate, [seeds, *theta], fn_output_signature=[tf.float64] * 4)

  start, end = run()
  flat = np.concatenate([np.reshape(p, (NUM_REPLICATES, -1)) for p in end], axis=1)
  moved = np.mean(end[0] != start[0])
  assert 0.5 < moved, 'the chains must move'
  pairs = flat[:, :-1] * flat[:, 1:]  # independence between neighbours
  return stats.mean_p_value(np.concatenate([flat, flat**2 - 1, pairs], axis=1), 0.0)


def test_prior_moments_survive():
  assert _p_value(tfr.ReadoutReprior) > stats.FALSE_ALARM


def test_a_forgotten_jacobian_is_found():
  assert _p_value(_WithoutLogDet) < stats.FALSE_ALARM
