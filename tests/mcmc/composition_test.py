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

  # Eagerly: three draws take less than to trace one.
  theta, phi = tfp.mcmc.sample_chain(
    num_results=3,
    current_state=start,
    kernel=kernel,
    trace_fn=lambda _, results: results.transformed_state,
    seed=2,
  )
  assert [p.shape for p in theta] == [[3, *chains, *s] for s in posterior.split.event_shapes]
  assert all(np.all(np.isfinite(p)) for p in theta)
  assert np.any(theta[0][-1] != start[0])
  for part, expected in zip(theta, reprior.forward(phi), strict=True):
    np.testing.assert_allclose(part, expected, atol=1e-9)


def _steps(name):
  """A function of a state that takes a step, and a state."""
  posterior = toys.tiny_posterior()
  kernel = tfp.mcmc.TransformedTransitionKernel(
    _inner_kernels(posterior.target_log_prob_fn)[name], posterior.reprior()
  )

  def step(*phi):
    results = kernel.bootstrap_results(transformed_init_state=list(phi))
    state, results = kernel.one_step(list(phi), results, seed=tf.constant([1, 2]))
    return [*state, *results.transformed_state, *tf.nest.flatten(results.inner_results)]

  return step, posterior.sample_prior(3, seed=1)


def test_compiled_steps_equal_plain_ones():
  step, phi = _steps('langevin')
  compiled = tf.function(step, autograph=False, jit_compile=True)(*phi)
  for a, b in zip(compiled, step(*phi), strict=True):
    np.testing.assert_allclose(a, b, atol=1e-10)


# Random numbers of TFP are others where XLA makes them. The slow ones take up to a minute.
@pytest.mark.parametrize(
  'name', ['random walk', *(pytest.param(name, marks=pytest.mark.slow) for name in ('hmc', 'nuts'))]
)
def test_the_composition_with_kernels_of_tfp_compiles(name):
  step, phi = _steps(name)
  ends = tf.function(step, autograph=False, jit_compile=True)(*phi)
  assert all(np.all(np.isfinite(p)) for p in ends[: len(phi)])
  assert np.any(ends[len(phi)] != phi[0])
