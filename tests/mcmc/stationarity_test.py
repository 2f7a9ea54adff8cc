"""Exact draws stay exact: kernels on targets with a known distribution function.

Each chain starts at an independent exact draw and takes `NUM_STEPS` steps. If the kernel leaves
its target invariant, the states are independent exact draws again, and the momenta N(0, 1). The
test rejects with a false-alarm rate of 1e-6, and finds any error of the distribution function
above 0.018; that the negative controls are rejected shows that real mistakes are of that size.
"""

from typing import NamedTuple

import numpy as np
import pytest
import scipy.special
import scipy.stats
import statistics_lib as stats
import tensorflow as tf
import tensorflow_probability as tfp

import tfp_reprior as tfr
from tfp_reprior.internal import parts as parts_lib
from tfp_reprior.internal import random
from tfp_reprior.mcmc import kernel as kernel_lib
from tfp_reprior.mcmc import langevin_kernel

NUM_CHAINS = 100_000
NUM_STEPS = 25


def _quartic_cdf(x):
  # x^4 / 4 ~ Gamma(1/4) for the density exp(-x^4 / 4), x symmetric.
  return 0.5 + 0.5 * np.sign(x) * scipy.special.gammainc(0.25, np.clip(x, -99, 99) ** 4 / 4)


# Each target: log-density, distribution function, exact draws by the inverse of uniforms.
TARGETS = {
  'gaussian': (
    lambda x: -0.5 * x**2,
    scipy.stats.norm.cdf,
    scipy.stats.norm.ppf,
  ),
  'quartic': (
    lambda x: -0.25 * x**4,
    _quartic_cdf,
    lambda u: np.sign(u - 0.5) * (4 * scipy.special.gammaincinv(0.25, np.abs(2 * u - 1))) ** 0.25,
  ),
  'skewed': (  # the logarithm of a Gamma(2) variable
    lambda x: 2 * x - tf.exp(x),
    lambda x: scipy.special.gammainc(2.0, np.exp(x)),
    lambda u: np.log(scipy.special.gammaincinv(2.0, u)),
  ),
}


def _draws(name, num_chains=NUM_CHAINS):
  u = np.random.default_rng(5).uniform(size=num_chains)
  return tf.constant(TARGETS[name][2](u))


def _kernel(name, step_size=1.0, damping=0.2, num_integrator_steps=1):
  return tfr.mcmc.UnderdampedLangevin(TARGETS[name][0], step_size, damping, num_integrator_steps)


def _run(kernel, state, num_steps=NUM_STEPS, seed=11):
  @tf.function(autograph=False)
  def run():
    return tfp.mcmc.sample_chain(
      1,
      state,
      kernel=kernel,
      num_burnin_steps=num_steps - 1,
      trace_fn=lambda _, results: (
        results.momentum if hasattr(results, 'momentum') else tf.zeros_like(state),
        results.is_accepted,
      ),
      seed=seed,
    )

  states, (momenta, is_accepted) = run()
  return states[0].numpy(), momenta[0].numpy(), is_accepted[0].numpy()


def test_the_sample_is_large_enough():
  assert stats.detectable_cdf_error(NUM_CHAINS) < 0.018


@pytest.mark.parametrize('name', TARGETS)
@pytest.mark.parametrize('damping,num_integrator_steps', [(0.0, 1), (0.2, 1), (1.0, 1), (0.5, 2)])
def test_exact_draws_stay_exact(name, damping, num_integrator_steps):
  start = _draws(name)
  assert stats.cdf_p_value(start, TARGETS[name][1]) > stats.FALSE_ALARM
  end, momenta, is_accepted = _run(
    _kernel(name, damping=damping, num_integrator_steps=num_integrator_steps), start
  )
  assert np.mean(end != start) > 0.9, 'the chains must move'
  assert 0.2 < np.mean(is_accepted) < 0.99, 'both branches must be tried'
  assert stats.cdf_p_value(end, TARGETS[name][1]) > stats.FALSE_ALARM
  assert stats.cdf_p_value(momenta, scipy.stats.norm.cdf) > stats.FALSE_ALARM
  # The joint distribution factorizes: the energy of the momentum says nothing of the state.
  upper = end > np.median(end)
  assert scipy.stats.ks_2samp(momenta[upper], momenta[~upper]).pvalue > stats.FALSE_ALARM


def _choose_without_turning(is_accepted, new, old, kicked_parts, kicks):
  chosen = _CHOOSE(is_accepted, new, old, kicked_parts, kicks)
  old_momentum = [-m for m in langevin_kernel.turn(kicked_parts, old[2], kicks)]
  momentum = parts_lib.select(is_accepted, new[1], old_momentum)
  return chosen[0], momentum, *chosen[2:]


_CHOOSE = langevin_kernel.choose
_ACCEPT = kernel_lib.accept
_NORMAL = random.bits_to_normal

CONTROLS = {
  'no flip': (langevin_kernel, 'choose', _choose_without_turning),
  'wrong sign': (kernel_lib, 'accept', lambda ratio, seed: _ACCEPT(-ratio, seed)),
  'always accept': (kernel_lib, 'accept', lambda ratio, seed: tf.ones_like(ratio, tf.bool)),
  'noise too small': (random, 'bits_to_normal', lambda bits, dtype: 0.9 * _NORMAL(bits, dtype)),
}


@pytest.mark.parametrize('control', CONTROLS)
def test_mistakes_are_found(control, monkeypatch, compilation_policy):
  compilation_policy('never')  # a compiled update would not see what is patched
  monkeypatch.setattr(*CONTROLS[control])
  end, _, _ = _run(_kernel('quartic'), _draws('quartic'))
  assert stats.cdf_p_value(end, TARGETS['quartic'][1]) < stats.FALSE_ALARM


class _ProposalResults(NamedTuple):
  inner: tfr.mcmc.LangevinResults
  target_log_prob: tf.Tensor
  log_acceptance_correction: tf.Tensor


class _Proposal(tfp.mcmc.TransitionKernel):
  """The uncalibrated kernel in the form that `tfp.mcmc.MetropolisHastings` wraps."""

  def __init__(self, inner):
    self.inner = inner

  @property
  def is_calibrated(self):
    return False

  def bootstrap_results(self, state):
    results = self.inner.bootstrap_results(state)
    return _ProposalResults(results, results.target_log_prob, results.log_accept_ratio)

  def one_step(self, state, previous, seed=None):
    new_state, results = self.inner.one_step(state, previous.inner, seed)
    change = results.target_log_prob - previous.target_log_prob
    correction = results.log_accept_ratio - change
    return new_state, _ProposalResults(results, results.target_log_prob, correction)


def test_metropolis_hastings_of_tfp_around_it_is_wrong():
  # On rejection it restores the momentum from before the refreshment, and does not flip it: the
  # reason why accept / reject is inside the kernel.
  ones = tf.ones([NUM_CHAINS], tf.float64)  # settings for each chain: MetropolisHastings mixes them
  inner = tfr.mcmc.UncalibratedUnderdampedLangevin(TARGETS['quartic'][0], ones, 0.2 * ones)
  kernel = tfp.mcmc.MetropolisHastings(_Proposal(inner))
  end, _, _ = _run(kernel, _draws('quartic'))
  assert stats.cdf_p_value(end, TARGETS['quartic'][1]) < stats.FALSE_ALARM


def test_the_mean_of_exp_log_accept_ratio_is_one():
  # E[exp(H - H')] = 1 for exact draws and a map that preserves volume.
  start = _draws('skewed')
  kernel = _kernel('skewed', step_size=0.3)
  _, results = kernel.one_step(start, kernel.bootstrap_results(start), seed=[1, 2])
  ratios = results.log_accept_ratio.numpy()
  assert np.std(ratios) > 0.03
  assert stats.mean_p_value(np.exp(ratios), 1.0) > stats.FALSE_ALARM
  assert stats.mean_p_value(np.exp(-ratios), 1.0) < stats.FALSE_ALARM  # the wrong sign


def test_uncalibrated_kernel_has_the_same_proposals():
  start = _draws('skewed', 100)
  seed = [3, 4]
  ends = []
  for kernel_class in (
    tfr.mcmc.UnderdampedLangevin,
    tfr.mcmc.UncalibratedUnderdampedLangevin,
  ):
    kernel = kernel_class(TARGETS['skewed'][0], 0.7, 0.3)
    ends.append(kernel.one_step(start, kernel.bootstrap_results(start), seed=seed))
  (corrected, results), (proposed, uncorrected_results) = ends
  is_accepted = results.is_accepted.numpy()
  assert 0 < is_accepted.sum() < 100
  np.testing.assert_array_equal(corrected[is_accepted], proposed[is_accepted])
  np.testing.assert_array_equal(corrected[~is_accepted], start[~is_accepted])
  np.testing.assert_array_equal(results.log_accept_ratio, uncorrected_results.log_accept_ratio)
  assert np.all(uncorrected_results.is_accepted)
