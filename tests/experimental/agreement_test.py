"""Chains through the linearised map sample the posterior, where it does not fold."""

import functools

import numpy as np
import pytest
import scipy.stats
import statistics_lib as stats
import tensorflow as tf
import tensorflow_probability as tfp
import toys

import tfp_reprior as tfr

NUM_CHAINS = 32
REGULARIZER = 1.0


@functools.cache
def _posterior():
  return toys.tiny_posterior(n=4, inputs=2, width=6, outputs=1)


class _WithoutLogDet(tfr.experimental.LinearizedReprior):
  """A map with a wrong log-determinant."""

  def _forward_log_det_jacobian(self, x):
    return tf.zeros_like(self._steps(x)[0].gram_log_det)


def _chain_moments(bijector, num_results=250):
  """Mean and mean square of outputs for each chain, `[c, 2 m]`; chains are independent."""
  posterior = _posterior()
  kernel = tfp.mcmc.TransformedTransitionKernel(
    tfr.mcmc.UnderdampedLangevin(posterior.target_log_prob_fn, 0.3, 0.1), bijector
  )

  @tf.function(autograph=False)
  def run(*phi):
    return tfp.mcmc.sample_chain(
      num_results,
      current_state=bijector.forward(list(phi)),
      previous_kernel_results=kernel.bootstrap_results(transformed_init_state=list(phi)),
      kernel=kernel,
      num_burnin_steps=100,
      num_steps_between_results=1,
      trace_fn=None,
      seed=(1, 2),
    )

  theta = run(*posterior.sample_prior(NUM_CHAINS, seed=1))
  x_new = np.random.default_rng(9).normal(size=(3, 2))
  f = posterior.split.apply(theta, x_new).numpy()[..., 0]  # [s, c, m]
  return np.concatenate([f.mean(axis=0), (f**2).mean(axis=0)], axis=-1)


def _p_value(moments, reference):
  """Two-sample z-test, Bonferroni."""
  error = np.sqrt((moments.var(0, ddof=1) + reference.var(0, ddof=1)) / NUM_CHAINS)
  z = np.abs(moments.mean(0) - reference.mean(0)) / error
  return len(z) * 2 * scipy.stats.norm.sf(np.max(z))


@pytest.mark.slow
def test_moments_are_those_of_the_readout_map_and_need_the_log_determinant():
  # The false-alarm rate is 1e-6. The control is the power: without the log-determinant it fails.
  reference = _chain_moments(_posterior().reprior(), num_results=1500)
  exact = tfr.experimental.LinearizedReprior(_posterior(), REGULARIZER)
  phi = _posterior().sample_prior(200, seed=5)
  assert np.all(tf.function(exact.jacobian_sign, autograph=False)(phi) > 0), 'it must not fold'
  assert _p_value(_chain_moments(exact), reference) > stats.FALSE_ALARM
  assert _p_value(_chain_moments(_WithoutLogDet(_posterior(), REGULARIZER)), reference) < (
    stats.FALSE_ALARM
  )
