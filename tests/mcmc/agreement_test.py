"""Different samplers, the same posterior: long runs on a small network."""

import numpy as np
import pytest
import scipy.stats
import statistics_lib as stats
import tensorflow as tf
import tensorflow_probability as tfp
import toys

import tfp_reprior as tfr
from tfp_reprior.internal import random
from tfp_reprior.mcmc import runner

NUM_CHAINS = 64
KERNELS = {  # sampler whose coordinates are used, and settings
  'standard': ('standard', 0.1, 0.1),
  'langevin': ('langevin', 0.2, 0.1),
  'rotation': ('rotation', 0.25, 0.1),
  'crank_nicolson': ('crank_nicolson', 0.15, None),
  'elliptical_slice': ('langevin', None, None),
  'nuts': ('standard', 0.1, None),
}


def _chain_moments(name):
  """Mean of outputs and of their squares for each chain, `[c, 6]`; chains are independent."""
  posterior = toys.tiny_posterior(n=6, width=8, outputs=1)
  coordinates, step_size, damping = KERNELS[name]
  sampler = tfr.mcmc.make_sampler(posterior, coordinates)
  if name == 'elliptical_slice':
    shapes = [(NUM_CHAINS, *s) for s in posterior.split.event_shapes]
    kernel = tfp.experimental.mcmc.EllipticalSliceSampler(
      normal_sampler_fn=lambda seed: random.normal_parts(shapes, tf.float64, seed),
      log_likelihood_fn=tfr.CollapsedPosterior(posterior).log_likelihood_fn,
    )
  elif name == 'nuts':
    kernel = tfp.mcmc.NoUTurnSampler(posterior.target_log_prob_fn, step_size, max_tree_depth=5)
  else:
    kernel = sampler.kernel_fn(step_size, damping)
  x_new = np.random.default_rng(9).normal(size=(3, 3))

  def trace_fn(state, _):
    return {'f': posterior.split.apply(sampler.theta_fn(state), x_new)[..., 0]}

  trace, _ = runner.run_chains(
    kernel,
    sampler.start_fn(NUM_CHAINS, seed=1),
    trace_fn,
    num_draws=600 if name == 'nuts' else 2500,
    thinning=1 if name == 'nuts' else 4,
    seed=2,
  )
  outputs = trace['f'][len(trace['f']) // 5 :]  # [s, c, 3]
  return np.concatenate([outputs.mean(axis=0), (outputs**2).mean(axis=0)], axis=-1)


@pytest.fixture(scope='module')
def reference():
  return _chain_moments('langevin')


@pytest.mark.slow
@pytest.mark.parametrize('name', [name for name in KERNELS if name != 'langevin'])
def test_posterior_moments_of_predictions_agree(name, reference):
  # A two-sample z-test of six moments, Bonferroni, false-alarm rate 1e-6; it sees differences of
  # ten standard errors, which must be small against the moments' own size of about one.
  moments = _chain_moments(name)
  error = np.sqrt((moments.var(0, ddof=1) + reference.var(0, ddof=1)) / NUM_CHAINS)
  z = np.abs(moments.mean(0) - reference.mean(0)) / error
  assert np.all(10 * error < 0.5), 'the chains must be long enough to see a difference'
  assert 6 * 2 * scipy.stats.norm.sf(np.max(z)) > stats.FALSE_ALARM
