"""Moves of some parts alone, between transitions of all: exact draws stay exact.

As `stationarity_test`: false-alarm rate 1e-6, errors of a distribution function above 0.018 are
found, and mistakes are.
"""

import functools
import math

import numpy as np
import pytest
import scipy.special
import scipy.stats
import statistics_lib as stats
import tensorflow as tf
import tensorflow_probability as tfp

import tfp_reprior as tfr
from tfp_reprior.mcmc import integrators

NUM_CHAINS = 100_000
NUM_STEPS = 6


def _log_likelihood(x, z):
  # With respect to N(0, I): the logarithm of a Gamma(2) variable along one diagonal.
  s = (x + z) / math.sqrt(2.0)
  return 2.0 * s - tf.exp(s) + 0.5 * s**2


def _conditional(held):
  return functools.partial(_log_likelihood, *held)


def _cdf(s):
  return scipy.special.gammainc(2.0, np.exp(s))


def _exact_draws():
  rng = np.random.default_rng(3)
  s, t = np.log(rng.gamma(2.0, size=NUM_CHAINS)), rng.normal(size=NUM_CHAINS)
  return [tf.constant((s + t) / np.sqrt(2)), tf.constant((s - t) / np.sqrt(2))]


def _p_value(conditional_fn=_conditional):
  """Of both diagonals, their independence, and the momentum, after some transitions."""
  kernel = tfr.mcmc.ConditionalMoves(
    tfr.mcmc.RotationLangevin(_log_likelihood, 0.8, 0.4), conditional_fn, num_held=1
  )
  start = _exact_draws()

  @tf.function(autograph=False)
  def run():
    return tfp.mcmc.sample_chain(
      1,
      start,
      kernel=kernel,
      num_burnin_steps=NUM_STEPS - 1,
      trace_fn=lambda _, results: results.momentum,
      seed=11,
    )

  end, momentum = run()
  x, z = (part[0].numpy() for part in end)
  assert np.mean(z != start[1].numpy()) > 0.9, 'the chains must move'
  s, t = (x + z) / np.sqrt(2), (x - z) / np.sqrt(2)
  upper = s > np.median(s)
  return min(
    stats.cdf_p_value(s, _cdf),
    stats.cdf_p_value(t, scipy.stats.norm.cdf),
    scipy.stats.ks_2samp(t[upper], t[~upper]).pvalue,
    *(stats.cdf_p_value(m[0], scipy.stats.norm.cdf) for m in momentum),
  )


def test_exact_draws_stay_exact():
  assert stats.detectable_cdf_error(NUM_CHAINS) < 0.018
  assert _p_value() > stats.FALSE_ALARM


def _of_another_density(held):
  return lambda z: 0.9 * _log_likelihood(*held, z)


def test_a_wrong_conditional_density_is_found():
  assert _p_value(_of_another_density) < stats.FALSE_ALARM


def test_a_gradient_that_was_not_made_anew_is_found(monkeypatch):
  monkeypatch.setattr(tfr.mcmc.RotationLangevin, 'moved', lambda self, state, results: results)
  assert _p_value() < stats.FALSE_ALARM


def test_the_others_move_by_steps_of_the_same_kind(monkeypatch):
  rotation = tfr.mcmc.RotationLangevin(_log_likelihood, 0.8, 0.4, num_stages=3)
  kernel = tfr.mcmc.ConditionalMoves(rotation, _conditional, num_held=1)
  monkeypatch.setattr(integrators, 'rotations', {3: integrators.rotations[3]})
  state = [p[:3] for p in _exact_draws()]
  new, _ = kernel.one_step(state, kernel.bootstrap_results(state), seed=[1, 2])
  assert np.all(new[1] != state[1])


def _posterior(output_scale=None):
  rng = np.random.default_rng(0)
  model = tfr.models.fcn((2,), 3, width=4, depth=1, dtype='float64')
  labels = rng.integers(3, size=6)
  likelihood = tfr.likelihoods.Categorical(output_scale=output_scale)
  return tfr.Posterior(model, rng.normal(size=[6, 2]), labels, likelihood=likelihood)


DENSITIES = {
  'standard': lambda p: p,
  'composed': lambda p: tfr.ComposedPosterior(p, 'n*noise'),
  'sites': lambda p: tfr.ComposedPosterior(p, 'sites'),
  'layerwise': lambda p: tfr.LayerwisePosterior(p, p.sample_prior(seed=5), regularizer=2.0),
}


@pytest.mark.parametrize('name', DENSITIES)
@pytest.mark.parametrize('chains', [(), (4,)])
def test_that_of_the_readout_is_that_of_all_parts_up_to_a_constant(name, chains):
  posterior = _posterior()
  density, end = DENSITIES[name](posterior), posterior.split.num_hidden
  first, other = (posterior.sample_prior(chains, seed=i) for i in (1, 2))
  moved = first[:end] + other[end:]
  tempered = {'inverse_temperature': 0.7}
  expected = density.log_likelihood_fn(*moved, **tempered) - density.log_likelihood_fn(
    *first, **tempered
  )
  readout_fn = density.readout_log_likelihood_fn(first[:end])
  actual = readout_fn(*moved[end:], **tempered) - readout_fn(*first[end:], **tempered)
  np.testing.assert_allclose(actual, expected, atol=1e-10)
  assert np.all(np.abs(expected) > 1e-3)


def test_a_transition_compiles_and_is_the_same():
  posterior = _posterior()
  kernel = tfr.mcmc.ConditionalMoves(
    tfr.mcmc.RotationLangevin(posterior.log_likelihood_fn, 0.2, 0.4),
    posterior.readout_log_likelihood_fn,
    posterior.split.num_hidden,
  )
  state = posterior.sample_prior(2, seed=1)
  results = kernel.bootstrap_results(state)

  def step():
    return kernel.one_step(state, results, seed=(1, 2))

  plain, _ = step()
  compiled, _ = tf.function(step, autograph=False, jit_compile=True)()
  for a, b in zip(plain, compiled, strict=True):
    np.testing.assert_allclose(a, b, atol=1e-8)


def test_samplers_have_it_where_the_readout_is_not_integrated_out_and_no_scale_is_unknown():
  posterior = _posterior(output_scale=2.0)
  gaussian = tfr.Posterior(posterior.split.model, posterior.x, np.zeros([6, 3]))
  sampler = tfr.make_sampler(posterior)
  assert sampler.moves_readout and sampler.num_gradients(5) == 6
  assert not tfr.make_sampler(gaussian).moves_readout
  assert not tfr.make_sampler(_posterior()).moves_readout
  assert tfr.make_sampler(_posterior(), moves_readout=True).moves_readout
  assert not tfr.make_sampler(posterior, 'standard').moves_readout
  still = tfr.make_sampler(posterior, moves_readout=False)
  assert isinstance(still.kernel_fn(0.1, 0.2), tfr.mcmc.RotationLangevin)
  assert repr(sampler.kernel_fn(0.1, 0.2)).startswith('ConditionalMoves(RotationLangevin(')


def test_where_it_cannot_be_it_is_refused():
  posterior = _posterior()
  with pytest.raises(ValueError, match="moves_readout=True, a sampler of kind 'langevin'"):
    tfr.make_sampler(posterior, 'langevin', moves_readout=True)
  with pytest.raises(ValueError, match='`moves_readout` must be True or False'):
    tfr.make_sampler(posterior, moves_readout='yes')
