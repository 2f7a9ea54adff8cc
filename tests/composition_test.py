"""The pieces together in plain TFP code: Keras model, posterior, bijector, kernels, drivers."""

import numpy as np
import pytest
import statistics_lib as stats
import tensorflow as tf
import tensorflow_probability as tfp
import toys

import tfp_reprior as tfr


def _inner_kernels(target_log_prob_fn):
  return {
    'langevin': tfr.mcmc.UnderdampedLangevin(target_log_prob_fn, 0.2, 0.1),
    'hmc': tfp.mcmc.HamiltonianMonteCarlo(target_log_prob_fn, 0.2, num_leapfrog_steps=3),
    'mala': tfp.mcmc.MetropolisAdjustedLangevinAlgorithm(target_log_prob_fn, 0.05),
    'nuts': tfp.mcmc.NoUTurnSampler(target_log_prob_fn, 0.2, max_tree_depth=3),
    'random walk': tfp.mcmc.RandomWalkMetropolis(
      target_log_prob_fn, tfp.mcmc.random_walk_normal_fn(scale=0.05)
    ),
    'adaptive': tfp.mcmc.DualAveragingStepSizeAdaptation(
      tfr.mcmc.UnderdampedLangevin(target_log_prob_fn, 0.2, 0.1), num_adaptation_steps=5
    ),
  }


@pytest.mark.parametrize('name', _inner_kernels(lambda *_: 0.0))
@pytest.mark.parametrize('chains', [(), (2, 3)])
def test_kernels_sample_through_the_bijector(name, chains):
  posterior = toys.tiny_posterior()
  reprior = posterior.reprior()
  kernel = tfp.mcmc.TransformedTransitionKernel(
    _inner_kernels(posterior.target_log_prob_fn)[name], reprior
  )
  start = reprior.forward(posterior.sample_prior(chains, seed=1))

  @tf.function(autograph=False)
  def run(*start):
    return tfp.mcmc.sample_chain(
      num_results=10,
      current_state=list(start),
      kernel=kernel,
      trace_fn=lambda _, results: results.transformed_state,
      seed=2,
    )

  theta, phi = run(*start)
  assert [p.shape for p in theta] == [[10, *chains, *s] for s in posterior.split.event_shapes]
  assert all(np.all(np.isfinite(p)) for p in theta)
  assert np.any(theta[0][-1] != start[0])
  for part, expected in zip(theta, reprior.forward(phi), strict=True):
    np.testing.assert_allclose(part, expected, atol=1e-9)


@pytest.mark.parametrize('name', ['langevin', 'hmc', 'nuts'])
def test_the_composition_compiles(name):
  posterior = toys.tiny_posterior()
  reprior = posterior.reprior()
  kernel = tfp.mcmc.TransformedTransitionKernel(
    _inner_kernels(posterior.target_log_prob_fn)[name], reprior
  )

  @tf.function(autograph=False, jit_compile=True)
  def run(*phi):
    return tfp.mcmc.sample_chain(
      num_results=3,
      current_state=reprior.forward(list(phi)),
      previous_kernel_results=kernel.bootstrap_results(transformed_init_state=list(phi)),
      kernel=kernel,
      trace_fn=None,
      seed=tf.constant([1, 2]),
    )

  theta = run(*posterior.sample_prior(3, seed=1))
  assert all(np.all(np.isfinite(p)) for p in theta)
  assert np.any(theta[0][0] != theta[0][-1])


def test_compiled_steps_equal_plain_ones():
  posterior = toys.tiny_posterior()
  kernel = tfp.mcmc.TransformedTransitionKernel(
    tfr.mcmc.UnderdampedLangevin(posterior.target_log_prob_fn, 0.2, 0.1), posterior.reprior()
  )

  def run(*phi):
    state, results = list(phi), kernel.bootstrap_results(transformed_init_state=list(phi))
    for step in range(2):
      state, results = kernel.one_step(state, results, seed=tf.constant([1, step]))
    return state

  phi = posterior.sample_prior(3, seed=1)
  plain = tf.function(run, autograph=False)(*phi)
  compiled = tf.function(run, autograph=False, jit_compile=True)(*phi)
  for a, b in zip(compiled, plain, strict=True):
    np.testing.assert_allclose(a, b, atol=1e-10)


@pytest.mark.slow
def test_posterior_moments_agree_with_the_standard_parametrisation():
  # Long runs of the corrected kernel in both parametrisations, 64 chains each. Chains are
  # independent: their means of the outputs are compared by a two-sample z-test of rate 1e-6.
  posterior = toys.tiny_posterior(n=6, width=8, outputs=1)
  x_new = np.random.default_rng(9).normal(size=(3, 3))
  chains = posterior.reprior().forward(posterior.sample_prior(64, seed=1))

  def chain_means(bijector, step_size):
    kernel = tfr.mcmc.UnderdampedLangevin(posterior.target_log_prob_fn, step_size, 0.1)
    if bijector is not None:
      kernel = tfp.mcmc.TransformedTransitionKernel(kernel, bijector)

    @tf.function(autograph=False)
    def run():
      return tfp.mcmc.sample_chain(
        2000,
        chains,
        kernel=kernel,
        num_burnin_steps=2000,
        num_steps_between_results=4,
        trace_fn=lambda theta, _: posterior.split.apply(theta, x_new)[..., 0],
        seed=2,
      ).trace

    outputs = run().numpy()  # [s, c, 3]
    return np.concatenate([outputs.mean(axis=0), (outputs**2).mean(axis=0)], axis=-1)

  standard = chain_means(None, 0.1)
  repriorised = chain_means(posterior.reprior(), 0.2)
  assert stats.mean_p_value(standard - repriorised, 0.0) > stats.FALSE_ALARM
  error = np.std(standard - repriorised, axis=0) / 8
  assert np.all(error[:3] < 0.05), 'the chains must be long enough to see a difference'
