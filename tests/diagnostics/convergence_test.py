"""Effective sample size and R-hat, against NumPy, ArviZ and closed forms."""

import re

import arviz
import numpy as np
import pytest
import tensorflow as tf

import tfp_reprior as tfr
from tfp_reprior.diagnostics import convergence


def _autoregressive(rho, num_draws, num_chains, seed):
  """Stationary chains x' = rho x + sqrt(1 - rho^2) xi: `[s, c]`."""
  noise = np.random.default_rng(seed).normal(size=(num_draws, num_chains))
  chain = [noise[0]]
  for xi in noise[1:]:
    chain.append(rho * chain[-1] + np.sqrt(1 - rho**2) * xi)
  return np.stack(chain)


@pytest.mark.parametrize('rho', [0.0, 0.5, 0.9])
def test_effective_sample_size_of_an_autoregressive_chain(rho):
  # s (1 - rho) / (1 + rho). By Sokal's formula the relative error for one chain is about
  # sqrt(2 (2 m + 1) / s) for m lags, here 0.1 (m = 50 for rho = 0.9), so 1.3 % for the mean of 64
  # chains; the cut at the first negative autocorrelation keeps some noise, another 1 %.
  s = 20_000
  ess = tfr.diagnostics.effective_sample_size(_autoregressive(rho, s, 64, seed=1)).numpy()
  assert ess.shape == (64,)
  np.testing.assert_allclose(ess.mean(), s * (1 - rho) / (1 + rho), rtol=0.05)


def test_effective_sample_size_cuts_the_sum_at_the_first_negative_autocorrelation():
  draws = _autoregressive(0.7, 200, 3, seed=1)
  s = len(draws)
  expected = []
  for x in (draws - draws.mean(axis=0)).T:
    covariance = np.array([np.sum(x[: s - lag] * x[lag:]) / (s - lag) for lag in range(s)])
    rho = covariance / covariance[0]
    cut = np.argmax(rho < 0)
    assert 0 < cut < s // 2 and np.any(rho[cut:] > 0)  # else there would be nothing to see
    lags = np.arange(1, cut)
    expected.append(s / (1 + 2 * np.sum((s - lags) / s * rho[lags])))
  actual = tfr.diagnostics.effective_sample_size(tf.constant(draws))
  np.testing.assert_allclose(actual, expected, rtol=1e-10)


def test_effective_sample_size_is_that_of_each_chain_and_dimension():
  draws = _autoregressive(0.5, 100, 12, seed=1)
  single = [tfr.diagnostics.effective_sample_size(draws[:, i : i + 1])[0] for i in range(12)]
  actual = tfr.diagnostics.effective_sample_size(draws.reshape(100, 3, 4))
  np.testing.assert_allclose(actual, np.reshape(single, (3, 4)), rtol=1e-10)


@pytest.mark.parametrize('shape', [(50, 4), (50, 2, 3), (7, 3, 2, 2)])
def test_r_hat_squared_is_total_over_within(shape):
  rng = np.random.default_rng(1)
  draws = rng.normal(size=shape) + rng.normal(size=shape[1:])
  within = np.mean(np.var(draws, axis=0), axis=0)
  between = np.var(np.mean(draws, axis=0), axis=0)
  actual = tfr.diagnostics.r_hat_squared(draws)
  assert actual.shape == shape[2:]
  np.testing.assert_allclose(actual, 1 + between / within, rtol=1e-12)
  total = np.var(draws.reshape(shape[0] * shape[1], *shape[2:]), axis=0)
  np.testing.assert_allclose(actual, total / within, rtol=1e-12)


def test_r_hat_squared_is_one_for_chains_that_agree_and_more_for_those_that_do_not():
  draws = np.random.default_rng(1).normal(size=(4000, 4))
  # Between chains: variance 1 / 4000, so 1 + 3 / 4 / 4000 on average; 1.002 is far in the tail.
  assert 1.0 <= tfr.diagnostics.r_hat_squared(draws) < 1.002
  assert tfr.diagnostics.r_hat_squared(draws + np.arange(4)) > 2.0


@pytest.mark.parametrize('shape', [(), (50,), (50, 1), (50, 1, 3)])
def test_r_hat_squared_needs_two_chains(shape):
  message = (
    f'`draws` must have shape [s, c, ...] with two chains or more. Received: draws of shape {shape}'
  )
  with pytest.raises(ValueError, match=re.escape(message)):
    tfr.diagnostics.r_hat_squared(np.ones(shape))


def _hard(num_draws=301, num_chains=4):
  """Chains that are skewed, slow, shifted, tied, or of different scales: `[s, c, 6]`."""
  rng = np.random.default_rng(3)
  slow = _autoregressive(0.9, num_draws, num_chains, seed=4)
  return np.stack(
    [
      rng.normal(size=(num_draws, num_chains)),
      np.exp(2 * slow),
      slow + np.arange(num_chains),
      np.round(2 * slow),
      slow * (1 + np.arange(num_chains)),
      slow + np.linspace(0, 3, num_draws)[:, np.newaxis],
    ],
    axis=-1,
  )


@pytest.mark.parametrize('num_chains', [2, 4])  # ArviZ refuses one
def test_r_hat_is_that_of_arviz(num_chains):
  draws = _hard(num_chains=num_chains)
  expected = [arviz.rhat(draws[..., i].T, method='rank') for i in range(6)]
  # One that spreads 1, 2, 3 and 4 times as far is seen by the folded one alone.
  np.testing.assert_allclose(tfr.diagnostics.r_hat(draws), expected, rtol=1e-10)


@pytest.mark.parametrize('num_chains', [1, 4])
@pytest.mark.parametrize(
  ('kind', 'num_draws'), [('bulk', 8), ('bulk', 12), ('bulk', 13), ('bulk', 300), ('tail', 300)]
)
def test_effective_sample_sizes_are_those_of_arviz(kind, num_draws, num_chains):
  draws = _hard(num_draws, num_chains)
  draws = np.concatenate([draws, -(draws[::-1] ** 3)], axis=-1)
  prob = {'prob': (0.05, 0.95)} if kind == 'tail' else {}
  expected = np.array([arviz.ess(draws[..., i].T, method=kind, **prob) for i in range(12)])
  actual = getattr(tfr.diagnostics, f'{kind}_effective_sample_size')(draws)
  np.testing.assert_allclose(actual, expected, rtol=1e-8)


@pytest.mark.parametrize('rho', [0.0, 0.8])
def test_bulk_effective_sample_size_of_autoregressive_chains(rho):
  # 16 groups of four chains: as above, about 3 % for the mean.
  draws = _autoregressive(rho, 5000, 64, seed=2).reshape(5000, 4, 16)
  sizes = tfr.diagnostics.bulk_effective_sample_size(draws)
  np.testing.assert_allclose(np.mean(sizes), 20_000 * (1 - rho) / (1 + rho), rtol=0.1)


def _frozen(num_draws=400):
  draws = np.random.default_rng(5).normal(size=(num_draws, 4))
  draws[:, 1] = 1.5
  return draws


def test_a_frozen_chain_shows_where_single_chains_added_up_hide_it():
  draws = _frozen()
  sizes = tfr.diagnostics.effective_sample_size(draws)
  assert np.nansum(sizes) > 900, 'what hides it'
  assert tfr.diagnostics.bulk_effective_sample_size(draws) < 100, 'of 1,600'
  assert tfr.diagnostics.r_hat(draws) > 1.05


def test_what_does_not_move_at_all_has_no_size_and_what_is_not_finite_neither():
  draws = np.stack([np.full((20, 3), 2.0), np.full((20, 3), np.nan)], axis=-1)
  for name in ('bulk_effective_sample_size', 'tail_effective_sample_size', 'r_hat'):
    assert np.all(np.isnan(getattr(tfr.diagnostics, name)(draws)))
  apart = np.tile(np.arange(3.0), (20, 1))  # each chain at its own place
  assert tfr.diagnostics.r_hat(apart) == np.inf


def test_diagnostics_need_four_draws():
  for name in ('bulk_effective_sample_size', 'tail_effective_sample_size', 'r_hat'):
    with pytest.raises(ValueError, match=r'with 4 draws or more. Received: .* shape \(3, 2\)'):
      getattr(tfr.diagnostics, name)(np.zeros((3, 2)))


def test_many_quantities_are_those_one_by_one(monkeypatch):
  draws = _hard(50)
  expected = tfr.diagnostics.r_hat(draws), tfr.diagnostics.bulk_effective_sample_size(draws)
  monkeypatch.setattr('tfp_reprior.diagnostics.convergence._MOST_NUMBERS', 2 * 200)
  np.testing.assert_array_equal(tfr.diagnostics.r_hat(draws), expected[0])
  np.testing.assert_allclose(
    tfr.diagnostics.bulk_effective_sample_size(draws), expected[1], rtol=1e-12
  )


@pytest.mark.parametrize('pieces', [(1000,), (1, 2, 997), (300, 400, 300), (1,) * 1000])
def test_running_diagnostics_do_not_depend_on_the_pieces(pieces):
  draws = 100.0 + _autoregressive(0.5, 1000, 6, seed=6).reshape(1000, 2, 3)
  whole = tfr.diagnostics.RunningDiagnostics()
  whole.update(draws)
  running = tfr.diagnostics.RunningDiagnostics()
  for piece in np.split(draws, np.cumsum(pieces)[:-1]):
    running.update(piece)
  assert running.num_draws == 1000
  np.testing.assert_allclose(running.r_hat(), whole.r_hat(), rtol=1e-9)
  np.testing.assert_allclose(
    running.effective_sample_size(), whole.effective_sample_size(), rtol=1e-9
  )


@pytest.mark.parametrize('rho', [0.0, 0.9])
def test_running_diagnostics_of_autoregressive_chains(rho):
  # 10 batches of four chains at least: a relative deviation of sqrt(2 / 40) = 22 %, 7 % for ten.
  draws = _autoregressive(rho, 30_000, 40, seed=7).reshape(30_000, 4, 10)
  running = tfr.diagnostics.RunningDiagnostics()
  running.update(draws)
  expected = 120_000 * (1 - rho) / (1 + rho)
  np.testing.assert_allclose(np.mean(running.effective_sample_size()), expected, rtol=0.3)
  assert np.all(running.r_hat() < 1.01)


def test_running_diagnostics_see_frozen_chains_and_drift():
  running = tfr.diagnostics.RunningDiagnostics()
  drifting = np.random.default_rng(5).normal(size=(400, 4)) + np.linspace(0, 3, 400)[:, np.newaxis]
  running.update(np.stack([_frozen(), drifting], axis=-1))
  assert np.all(running.effective_sample_size() < 300), 'of 1,600'
  assert np.all(running.r_hat() > 1.05)


def test_running_diagnostics_do_not_grow():
  running = tfr.diagnostics.RunningDiagnostics(num_batches=8)
  rng = np.random.default_rng(8)
  for _ in range(50):
    running.update(rng.normal(size=(100, 2)))
    assert len(running._sums) <= 16
  assert running.num_draws == 5000


def test_running_diagnostics_begin_without_figures():
  running = tfr.diagnostics.RunningDiagnostics()
  running.update(np.zeros((2, 3)))
  assert np.isnan(running.effective_sample_size()) and np.isnan(running.r_hat())


def test_r_hat_of_beginnings_is_that_of_shorter_chains():
  noise = np.random.default_rng(3).normal(size=(200, 3, 4))
  draws = noise + np.arange(3)[:, np.newaxis]
  lengths, values = convergence.r_hat_curve(draws)
  assert lengths[0] == 4 and lengths[-1] == 200 and np.all(np.diff(lengths) > 0)
  for length, actual in zip(lengths, values, strict=True):
    first = draws[:length]
    expected = first.mean(axis=0).var(axis=0) / first.var(axis=0).mean(axis=0)
    np.testing.assert_allclose(actual, expected, rtol=1e-10)


def test_autocorrelation_is_the_mean_product_of_draws_apart():
  rng = np.random.default_rng(0)
  draws = np.zeros([400, 2])
  for t in range(1, 400):
    draws[t] = 0.8 * draws[t - 1] + rng.standard_normal(2)
  actual = convergence.autocorrelation(draws)
  centered = draws - draws.mean(axis=0)
  products = [np.mean(centered[t:] * centered[: 400 - t]) for t in range(len(actual))]
  np.testing.assert_allclose(actual, np.array(products) / products[0], atol=1e-10)
  assert 10 < len(actual) <= 200 and np.any(actual < 0.05)


def test_chains_that_stay_where_they_are_correlate_fully():
  np.testing.assert_array_equal(convergence.autocorrelation(np.ones([10, 2])), np.ones(5))
