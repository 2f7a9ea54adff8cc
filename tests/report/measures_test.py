"""Figures of the report against naive ones, and against those of the verdict."""

import numpy as np
import pytest

from tfp_reprior.report import measures
from tfp_reprior.sampling import prediction as prediction_lib


def test_r_hat_of_beginnings_is_that_of_shorter_chains(noise):
  draws = noise(200, 3, 4) + np.arange(3)[:, np.newaxis]
  lengths, values = measures.r_hat_curve(draws)
  assert lengths[0] == 4 and lengths[-1] == 200 and np.all(np.diff(lengths) > 0)
  for length, actual in zip(lengths, values, strict=True):
    first = draws[:length].astype(np.float64)
    expected = first.mean(axis=0).var(axis=0) / first.var(axis=0).mean(axis=0)
    np.testing.assert_allclose(actual, expected, rtol=1e-3)


def test_autocorrelation_is_the_mean_product_of_draws_apart():
  rng = np.random.default_rng(0)
  draws = np.zeros([400, 2])
  for t in range(1, 400):
    draws[t] = 0.8 * draws[t - 1] + rng.standard_normal(2)
  actual = measures.autocorrelation(draws)
  centered = draws - draws.mean(axis=0)
  products = [np.mean(centered[t:] * centered[: 400 - t]) for t in range(len(actual))]
  np.testing.assert_allclose(actual, np.array(products) / products[0], atol=1e-10)
  assert 10 < len(actual) <= 200 and np.any(actual < 0.05)


def test_chains_that_stay_where_they_are_correlate_fully():
  np.testing.assert_array_equal(measures.autocorrelation(np.ones([10, 2])), np.ones(5))


def test_accuracy_of_the_surest_by_hand():
  probabilities = np.array([[0.6, 0.4], [0.1, 0.9], [0.8, 0.2], [0.3, 0.7]])
  # By confidence these are inputs 1, 2, 3 and 0, of which the second is wrong.
  actual = measures.accuracy_of_surest(probabilities, np.array([0, 1, 1, 1]))
  np.testing.assert_allclose(actual, [1, 1 / 2, 2 / 3, 3 / 4])


def test_coverage_counts_targets_in_central_intervals():
  prediction = prediction_lib.Prediction(np.zeros([1, 4, 1]), np.zeros([1, 4, 1]), 1.0)
  # Of a normal distribution the interval of 68.3 % ends at 1, that of 95.4 % at 2.
  y = np.array([[0.1], [-0.9], [1.5], [-3.0]])
  actual = measures.coverage(prediction, y, [0.01, 0.683, 0.954, 0.99])
  np.testing.assert_allclose(actual, [0, 0.5, 0.75, 0.75])


def test_errors_are_grouped_by_standard_deviation():
  stddev = np.array([2.0, 1.0] * 5)
  errors = np.array([4.0, 3.0] * 5)
  np.testing.assert_allclose(measures.binned_errors(stddev, errors), [[1, 3], [2, 4]])
  assert measures.binned_errors(stddev[:3], errors[:3]).shape == (1, 2)


def test_figures_are_those_of_the_run(pretend, noise):
  result = pretend(noise(100, 2, 3), settings={'thinning': 5}, seconds={'sampling': 2.0})
  run = measures.Run(result, 'a')
  ess = result.effective_sample_size('theta')
  np.testing.assert_allclose(run.ess_per('step')['theta'], ess / (100 * 2 * 5))
  np.testing.assert_allclose(run.ess_per('second')['theta'], ess / 2.0)
  assert run.figures['ESS per second, weights, smallest'] == pytest.approx(np.min(ess) / 2)
  assert run.figures['milliseconds per step of all chains'] == pytest.approx(1000 * 2 / 500)
  assert run.figures['acceptance, mean'] == pytest.approx(0.9)


def test_mixing_is_that_of_the_verdict(pretend, noise):
  result = pretend(noise(100, 1, 3), noise(100, 1, 3))
  run = measures.Run(result, 'a')
  assert run.verdict is result.verdict and not run.is_failed
  assert run.names == ['theta', 'f', 'log_likelihood'] == list(run.r_hat)
  for name in run.names:  # also of one chain, which is split
    assert run.r_hat[name] == result.verdict.mixing[name].r_hat >= 1 - 1e-2
    assert np.min(run.ess[name]) == pytest.approx(result.verdict.mixing[name].bulk_ess)


def test_hidden_weights_are_drawn_in_place_of_all(regression):
  run = measures.Run(regression, 'a')
  assert run.names == ['hidden', 'f', 'log_likelihood']
  assert run.draws('log_likelihood').shape == (20, 2, 1)
  assert run.draws('hidden').shape == run.draws('f').shape == (20, 2, 100)


def test_chains_that_do_not_move_have_no_effective_samples(pretend):
  run = measures.Run(pretend(np.ones([200, 4, 5], np.float32)), 'a')
  assert np.all(np.isnan(run.ess['theta']))
  assert 'ESS per second, weights, median' not in run.figures
