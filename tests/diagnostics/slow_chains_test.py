"""Effective sample size by a known variance, against closed forms of autoregressive chains."""

import re

import numpy as np
import pytest

import tfp_reprior as tfr


def _autoregressive(rho, num_draws, shape, seed):
  """Stationary chains x' = rho x + sqrt(1 - rho^2) xi: `[s, *shape]`."""
  noise = np.random.default_rng(seed).normal(size=(num_draws, *shape))
  chain = [noise[0]]
  for xi in noise[1:]:
    chain.append(rho * chain[-1] + np.sqrt(1 - rho**2) * xi)
  return np.stack(chain)


def _tau(rho, num_lags):
  """1 + 2 sum_{t = 1}^{num_lags} rho^t."""
  return 1 + 2 * rho * (1 - rho**num_lags) / (1 - rho)


def test_size_of_a_long_chain_is_that_of_its_own_variance():
  draws = 3.0 * _autoregressive(0.8, 4000, (2, 50), seed=1)
  ess = tfr.diagnostics.slow_effective_sample_size(draws, np.full(50, 9.0))
  np.testing.assert_allclose(ess, 4000 / _tau(0.8, np.inf), rtol=0.05)
  own = np.mean(tfr.diagnostics.effective_sample_size(draws))
  np.testing.assert_allclose(ess, own, rtol=0.1)


def test_size_of_a_chain_of_half_its_correlation_time():
  # 2 / (1 - rho) = 400 transitions for a sample, 200 of them are run: half of one. What is cut off
  # leaves it too large, by a factor known here; the chain's own variance shows ten times as many.
  draws = _autoregressive(0.995, 200, (2, 100), seed=1)
  ess = tfr.diagnostics.slow_effective_sample_size(draws, 1.0)
  np.testing.assert_allclose(ess, 200 / _tau(0.995, 100), rtol=0.1)
  assert ess < 200 / _tau(0.995, np.inf) * 3
  assert np.mean(tfr.diagnostics.effective_sample_size(draws)) > 4 * ess


def test_sum_is_cut_at_the_first_negative_correlation():
  draws = np.tile([[[1.0]], [[-1.0]]], (50, 1, 1))  # rho_1 = -1, rho_2 = 1
  assert tfr.diagnostics.slow_effective_sample_size(draws, 1.0) == 100


def test_sum_ends_at_five_times_itself():
  # A variance that is one part in a hundred too large leaves rho_t = 0.01 at any lag.
  draws = np.random.default_rng(1).normal(size=[4000, 2, 100])
  ess = tfr.diagnostics.slow_effective_sample_size(draws, 1.01)
  np.testing.assert_allclose(ess, 4000, rtol=0.15)  # 4000 / 41, if the sum went on


@pytest.mark.parametrize(
  'draws, variance, message',
  [
    (np.zeros([5, 2]), 1.0, '`draws` must have shape [s, c, r], with s at least 2. Received: '),
    (np.zeros([5, 2, 3]), 0.0, '`variance` must be positive. Received: variance=0.0'),
  ],
)
def test_refuses_what_has_no_size(draws, variance, message):
  with pytest.raises(tfr.errors.InputError, match=re.escape(message)):
    tfr.diagnostics.slow_effective_sample_size(draws, variance)
