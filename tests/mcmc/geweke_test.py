"""Geweke's joint test: simulate data, step through bijector and kernel, keep the prior.

If the weights have their prior distribution, data are simulated from them, and a kernel steps the
weights towards the posterior given these data, the weights still have their prior distribution. A
mistake in density, Jacobian or kernel shows up in the moments. All in one: model, likelihood,
bijector and kernel are the real ones; only the targets change from replicate to replicate.
"""

import numpy as np
import pytest
import statistics_lib as stats
import tensorflow as tf
import tensorflow_probability as tfp

import tfp_reprior as tfr

NUM_REPLICATES = 2000
NUM_SWEEPS = 1
NOISE_SCALE = 0.5


class _WithoutLogDet(tfr.ReadoutReprior):
  """The negative control: a bijector that forgets its Jacobian."""

  def _forward_log_det_jacobian(self, x):
    return 0.0 * super()._forward_log_det_jacobian(x)


def _transformed(bijector_class):
  """Steps of `UnderdampedLangevin` through a bijector, in TFP's composition."""

  def steps(posterior, theta, seed):
    reprior = bijector_class(
      posterior.features_fn, posterior.y, NOISE_SCALE**2, posterior.split.event_ndims
    )
    kernel = tfp.mcmc.TransformedTransitionKernel(
      tfr.mcmc.UnderdampedLangevin(posterior.target_log_prob_fn, 0.8, 0.3), reprior
    )
    results = kernel.bootstrap_results(theta)
    for i in range(2):
      theta, results = kernel.one_step(theta, results, seed=seed + i)
    return theta

  return steps


def _collapsed(make_kernel):
  """Steps of the hidden parts on the collapsed density, then an exact draw of the readout."""

  def steps(posterior, theta, seed):
    collapsed = tfr.CollapsedPosterior(posterior)
    kernel = make_kernel(collapsed.log_likelihood_fn)
    hidden = theta[:2]
    results = kernel.bootstrap_results(hidden)
    for i in range(2):
      hidden, results = kernel.one_step(hidden, results, seed=seed + i)
    return [*hidden, *collapsed.sample_readout(hidden, seed=seed + 2)]

  return steps


def _wrong_sign(log_likelihood_fn):
  return tfr.mcmc.RotationLangevin(lambda *h: -log_likelihood_fn(*h), 0.8, 0.3)


STEPS = {
  'langevin through the bijector': _transformed(tfr.ReadoutReprior),
  'rotation': _collapsed(lambda fn: tfr.mcmc.RotationLangevin(fn, 0.8, 0.3)),
  'crank-nicolson': _collapsed(lambda fn: tfr.mcmc.PreconditionedCrankNicolson(fn, 0.8)),
}
MISTAKES = {
  'a forgotten jacobian': _transformed(_WithoutLogDet),
  'a likelihood of the wrong sign': _collapsed(_wrong_sign),
}


def _p_value(steps):
  model = tfr.models.fcn((1,), 1, width=2, depth=1, dtype='float64')
  x = np.array([[-1.0], [0.5], [2.0]])

  def replicate(arguments):
    seed, *theta = arguments
    for sweep in range(NUM_SWEEPS):
      data_seed, kernel_seed = tfp.random.split_seed(seed + sweep, n=2)
      split = tfr.models.ReadoutSplit(model)
      noise = tf.random.stateless_normal([3, 1], data_seed, dtype=tf.float64)
      y = split.apply(theta, x) + NOISE_SCALE * noise
      theta = steps(tfr.Posterior(split, x, y, NOISE_SCALE), theta, kernel_seed)
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
  assert 0.5 < np.mean(end[0] != start[0]), 'the chains must move'
  pairs = flat[:, :-1] * flat[:, 1:]  # independence between neighbours
  return stats.mean_p_value(np.concatenate([flat, flat**2 - 1, pairs], axis=1), 0.0)


@pytest.mark.parametrize('name', STEPS)
def test_prior_moments_survive(name):
  assert _p_value(STEPS[name]) > stats.FALSE_ALARM


@pytest.mark.parametrize('name', MISTAKES)
def test_mistakes_are_found(name):
  assert _p_value(MISTAKES[name]) < stats.FALSE_ALARM
