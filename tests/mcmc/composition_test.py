"""The pieces together in plain TFP code: Keras model, posterior, bijector, kernels, drivers."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp
import toys

import tfp_reprior as tfr


def _inner_kernels(target_log_prob_fn):
  return {
    'langevin': tfr.mcmc.UnderdampedLangevin(target_log_prob_fn, 0.2, 0.1),
    'hmc': tfp.mcmc.HamiltonianMonteCarlo(target_log_prob_fn, 0.2, num_leapfrog_steps=3),
    'mala': tfp.mcmc.MetropolisAdjustedLangevinAlgorithm(target_log_prob_fn, 0.02),
    'nuts': tfp.mcmc.NoUTurnSampler(target_log_prob_fn, 0.2, max_tree_depth=3),
    'random walk': tfp.mcmc.RandomWalkMetropolis(
      target_log_prob_fn, tfp.mcmc.random_walk_normal_fn(scale=0.05)
    ),
    'adaptive': tfp.mcmc.DualAveragingStepSizeAdaptation(
      tfr.mcmc.UnderdampedLangevin(target_log_prob_fn, 0.2, 0.1), num_adaptation_steps=5
    ),
  }


@pytest.mark.parametrize(
  ('name', 'chains'),
  [
    ('hmc', (2, 3)),
    ('mala', (2,)),
    ('nuts', (2, 3)),
    ('random walk', (4,)),
    ('adaptive', (3,)),
    ('langevin', ()),
  ],
)
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


# XLA takes a minute for the tree of NUTS.
@pytest.mark.parametrize('name', ['hmc', pytest.param('nuts', marks=pytest.mark.slow)])
def test_the_composition_with_kernels_of_tfp_compiles(name):
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
    results = kernel.bootstrap_results(transformed_init_state=list(phi))
    state, results = kernel.one_step(list(phi), results, seed=tf.constant([1, 2]))
    return [*state, *results.transformed_state, *results.inner_results.momentum]

  phi = posterior.sample_prior(3, seed=1)
  plain = tf.function(run, autograph=False)(*phi)
  compiled = tf.function(run, autograph=False, jit_compile=True)(*phi)
  for a, b in zip(compiled, plain, strict=True):
    np.testing.assert_allclose(a, b, atol=1e-10)
