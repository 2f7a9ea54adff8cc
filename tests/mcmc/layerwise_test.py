"""A map on every layer against NUTS on the weights, and from exact draws; with mistakes."""

import functools

import numpy as np
import pytest
import scipy.stats
import statistics_lib as stats
import tensorflow as tf
import tensorflow_probability as tfp
import toys

import tfp_reprior as tfr
from tfp_reprior.bijectors import factorization, gradients
from tfp_reprior.sampling import runner

NUM_CHAINS = 64
NUM_DRAWS = 2000
NUM_STEPS = 24
REGULARIZER = 1.0


def _forget_a_log_det(monkeypatch):
  """That of the second layer, the one whose inputs are not constant."""
  map_and_change = gradients.map_and_change

  def without(a, b, phi):
    theta, change = map_and_change(a, b, phi)
    log_det = tf.stop_gradient(factorization.DataFactor(a, b).log_det())
    return theta, change - phi.shape[-1] * log_det

  monkeypatch.setattr(gradients, 'map_and_change', without)


@functools.cache
def _posterior():
  return toys.tiny_posterior(n=6, inputs=2, width=3, outputs=1, depth=2, noise_scale=1.5)


def _chain_moments(is_nuts):
  """Means and mean squares of weights of all layers and of outputs by chain, `[c, 30]`."""
  posterior = _posterior()
  x = tf.concat([posterior.x, np.random.default_rng(9).normal(size=(2, 2))], axis=0)
  if is_nuts:
    sampler = tfr.make_sampler(posterior, 'standard')
    kernel = tfp.mcmc.NoUTurnSampler(posterior.target_log_prob_fn, 0.15, max_tree_depth=5)
  else:  # anchors are the starts: random, and each chain has its own
    sampler = tfr.make_sampler(posterior, 'rotation', layer_regularizer=REGULARIZER)
    kernel = sampler.kernel_fn(0.25, 0.2)

  def trace_fn(state, _):
    theta = sampler.theta_fn(state)
    outputs = posterior.split.apply(theta, x)[..., 0]  # [c, 8]
    weights = [theta[0][:, :, 0], theta[1][:, :1], theta[2][:, :2, 0], theta[3][:, :1]]
    return {'values': tf.concat([outputs, *weights, theta[4][:, :1, 0]], axis=-1)}

  trace, _ = runner.run_chains(
    kernel,
    sampler.start_fn(NUM_CHAINS, seed=1),
    trace_fn,
    num_draws=800 if is_nuts else 2000,
    thinning=1 if is_nuts else 5,
    seed=2,
  )
  values = trace['values'][len(trace['values']) // 5 :]  # [s, c, 15]
  return np.concatenate([values.mean(axis=0), (values**2).mean(axis=0)], axis=-1)


def _p_value(moments, reference, size=0.5):
  """Two-sample z-test, Bonferroni: sees differences of ten standard errors, at most `size`."""
  error = np.sqrt((moments.var(0, ddof=1) + reference.var(0, ddof=1)) / NUM_CHAINS)
  assert np.all(10 * error < size), 'the chains must be long enough to see a difference'
  z = np.abs(moments.mean(0) - reference.mean(0)) / error
  return len(z) * 2 * scipy.stats.norm.sf(np.max(z))


@pytest.fixture(scope='module')
def nuts():
  return _chain_moments(is_nuts=True)


@pytest.mark.slow
def test_posterior_moments_are_those_of_nuts_on_the_weights(nuts):
  assert _p_value(_chain_moments(is_nuts=False), nuts) > stats.FALSE_ALARM


@pytest.mark.slow
def test_posterior_moments_are_others_without_the_log_det_of_a_layer(nuts, monkeypatch):
  _forget_a_log_det(monkeypatch)
  assert _p_value(_chain_moments(is_nuts=False), nuts) < stats.FALSE_ALARM


def _stationarity_p_value(n, step_size=0.5, num_directions=None, follows=False):
  """Of weights that have their prior, after steps on a posterior that is the prior.

  Noise so large that the data say nothing: what is left of the density is what the maps change.

  Args:
    n: The number of data: below the weights a unit, or above.
    step_size: Of the kernel.
    num_directions: That layers follow.
    follows: Whether the anchor is where the chain is, before each step, in place of any constant.
  """
  x = np.random.default_rng(1).normal(size=[n, 1])
  split = tfr.models.ReadoutSplit(tfr.models.fcn((1,), 1, width=3, depth=2, dtype='float64'))
  posterior = tfr.Posterior(split, x, np.zeros([n, 1]), noise_scale=1e6)
  start = split.sample_prior(NUM_DRAWS, seed=1)[: split.num_hidden]
  anchor = split.sample_prior(NUM_DRAWS, seed=2)

  @tf.function(autograph=False)
  def step(hidden, seed):
    density = tfr.LayerwisePosterior(
      posterior, hidden if follows else anchor, REGULARIZER, num_directions=num_directions
    )
    kernel = tfr.mcmc.RotationLangevin(density.log_likelihood_fn, step_size, 1.0)
    phi = density.from_theta(hidden)
    phi, _ = kernel.one_step(phi, kernel.bootstrap_results(phi), seed=seed)
    return density.to_hidden(phi)[0]

  end = start
  for i in range(NUM_STEPS):
    end = step(end, tf.constant([3, i]))
  flat = np.concatenate([np.reshape(p, (NUM_DRAWS, -1)) for p in end], axis=1)
  assert 0.5 < np.mean(end[0] != start[0]), 'the chains must move'
  pairs = flat[:, :-1] * flat[:, 1:]  # independence between neighbours
  return stats.mean_p_value(np.concatenate([flat, flat**2 - 1, pairs], axis=1), 0.0)


# With 2,000 draws errors of 0.25 in a moment are seen; the false-alarm rate is 1e-6.


@pytest.mark.parametrize('n, num_directions', [(3, None), (5, 2)])
def test_prior_draws_stay_prior_draws(n, num_directions):
  assert _stationarity_p_value(n, num_directions=num_directions) > stats.FALSE_ALARM


@pytest.mark.parametrize('n', [3, 5])
def test_prior_draws_do_not_stay_without_the_log_det_of_a_layer(n, monkeypatch):
  _forget_a_log_det(monkeypatch)
  assert _stationarity_p_value(n) < stats.FALSE_ALARM


def test_prior_draws_do_not_stay_with_an_anchor_that_follows_the_chain():
  assert _stationarity_p_value(5, step_size=1.4, follows=True) < stats.FALSE_ALARM
