"""A map on every layer keeps exact draws exact; mistakes are found."""

import numpy as np
import pytest
import statistics_lib as stats
import tensorflow as tf

import tfp_reprior as tfr
from tfp_reprior.bijectors import factorization, gradients

NUM_DRAWS = 2000
NUM_STEPS = 24
REGULARIZER = 1.0


def _forget_a_log_det(monkeypatch):
  """That of the second layer, the one whose inputs are not constant."""

  def without(fn):
    def call(a, b, phi, *space):
      found, change = fn(a, b, phi, *space)
      factor = factorization.make_factor(a, b, *(space or ['data']))
      log_det = tf.stop_gradient(factor.log_det())
      return found, change - (log_det if space else phi.shape[-1] * log_det)

    return call

  for name in ('map_and_log_det', 'residuals_and_change'):
    monkeypatch.setattr(gradients, name, without(getattr(gradients, name)))


def _stationarity_p_value(n, step_size=0.5, follows=False):
  """Of weights that have their prior, after steps on a posterior that is the prior.

  Noise so large that the data say nothing: what is left of the density is what the maps change.

  Args:
    n: The number of data: below the weights a unit data space, above feature space.
    step_size: Of the kernel.
    follows: Whether the anchor is where the chain is, before each step, in place of any constant.
  """
  x = np.random.default_rng(1).normal(size=[n, 1])
  split = tfr.models.ReadoutSplit(tfr.models.fcn((1,), 1, width=3, depth=2, dtype='float64'))
  posterior = tfr.Posterior(split, x, np.zeros([n, 1]), noise_scale=1e6)
  start = split.sample_prior(NUM_DRAWS, seed=1)[: split.num_hidden]
  anchor = split.sample_prior(NUM_DRAWS, seed=2)

  @tf.function(autograph=False)
  def step(hidden, seed):
    density = tfr.LayerwisePosterior(posterior, hidden if follows else anchor, REGULARIZER)
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


@pytest.mark.parametrize('n', [3, 5])
def test_prior_draws_stay_prior_draws(n):
  assert _stationarity_p_value(n) > stats.FALSE_ALARM


@pytest.mark.parametrize('n', [3, 5])
def test_prior_draws_do_not_stay_without_the_log_det_of_a_layer(n, monkeypatch):
  _forget_a_log_det(monkeypatch)
  assert _stationarity_p_value(n) < stats.FALSE_ALARM


def test_prior_draws_do_not_stay_with_an_anchor_that_follows_the_chain():
  assert _stationarity_p_value(5, step_size=1.4, follows=True) < stats.FALSE_ALARM
