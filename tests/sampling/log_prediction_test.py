"""Predictions of targets in logarithms, against integrals of their density."""

import numpy as np
import pytest
import scipy.integrate
import scipy.stats

import tfp_reprior as tfr

# Two components, three inputs: far below the largest target, across it, far beyond.
MEANS = np.array([[[-1.0], [0.9], [6.0]], [[-1.5], [1.4], [5.0]]])
VARIANCES = np.array([[[0.1], [0.4], [0.3]], [[0.2], [0.1], [2.0]]])
NOISE = np.array([[[0.05]], [[0.3]]])
LARGEST = 3.0


def _prediction():
  functions = MEANS + 0.1
  of_logs = tfr.sampling.Prediction(MEANS, VARIANCES, NOISE, functions=functions)
  return tfr.sampling.LogPrediction(of_logs, [LARGEST])


def _density(y, i):
  """By the change of variables, from the definition."""
  t = np.log(y) if y <= LARGEST else np.log(LARGEST) + (y - LARGEST) / LARGEST
  scales = np.sqrt(VARIANCES + NOISE)[:, i, 0]
  return scipy.stats.norm(MEANS[:, i, 0], scales).pdf(t).mean() / min(y, LARGEST)


def _integral(fn, i, high=60.0):
  points = [LARGEST] if high > LARGEST else None
  return scipy.integrate.quad(
    lambda y: fn(y) * _density(y, i), 1e-12, high, points=points, limit=400
  )[0]


@pytest.mark.parametrize('i', range(3))
def test_moments_and_probabilities_are_integrals_of_the_density(i):
  prediction = _prediction()
  assert _integral(lambda y: 1.0, i) == pytest.approx(1, rel=1e-7)
  mean = _integral(lambda y: y, i)
  assert prediction.mean[i, 0] == pytest.approx(mean, rel=1e-6)
  variance = _integral(lambda y: (y - mean) ** 2, i)
  assert prediction.stddev[i, 0] == pytest.approx(np.sqrt(variance), rel=1e-6)
  for y in (0.2, 2.9, 3.1, 20.0):
    points = np.full([3, 1], y)
    assert prediction.cdf(points)[i, 0] == pytest.approx(
      _integral(lambda y: 1.0, i, y), rel=1e-6, abs=1e-9
    )
    expected = np.log(_density(y, i))
    assert prediction.log_prob(points)[i, 0] == pytest.approx(expected, rel=1e-8)
    each = prediction.log_prob_each(points)
    assert np.log(np.exp(each).mean(axis=0))[i, 0] == pytest.approx(expected, rel=1e-8)


def test_quantiles_invert_the_distribution_function():
  prediction = _prediction()
  quantiles = prediction.quantile([0.05, 0.5, 0.95])
  assert quantiles.shape == (3, 3, 1) and np.all(quantiles > 0)
  for level, quantile in zip([0.05, 0.5, 0.95], quantiles, strict=True):
    np.testing.assert_allclose(prediction.cdf(quantile), level, atol=1e-6)


def test_nothing_is_at_zero_or_below():
  prediction = _prediction()
  np.testing.assert_array_equal(prediction.cdf(np.array([[0.0], [-1.0], [0.0]])), 0)
  np.testing.assert_array_equal(prediction.log_prob(np.zeros([3, 1])), -np.inf)


def test_samples_are_of_the_functions_plus_noise():
  prediction = _prediction()
  samples = prediction.sample(4000, seed=1)  # each component as often as the other
  for i in range(3):
    y = samples[:, i, 0]
    t = np.where(y <= LARGEST, np.log(y), np.log(LARGEST) + (y - LARGEST) / LARGEST)

    def mixture(t, shift, i=i):
      components = scipy.stats.norm(MEANS[:, i, 0] + shift, np.sqrt(NOISE[:, 0, 0]))
      return components.cdf(np.ravel(t)[:, np.newaxis]).mean(axis=1)

    p_values = [scipy.stats.kstest(t, mixture, args=(shift,)).pvalue for shift in (0.1, 0.3)]
    assert p_values[0] > 1e-6 > p_values[1]
  assert prediction.sample_each(seed=2).shape == (2, 3, 1)


def test_functions_without_noise_are_means_given_the_weights():
  prediction = _prediction()
  found = np.sort(prediction.sample(2, noise=False), axis=0)
  given = tfr.sampling.Prediction(MEANS + 0.1, np.zeros_like(MEANS), NOISE)
  expected = tfr.sampling.LogPrediction(given, [LARGEST]).means
  np.testing.assert_allclose(found, np.sort(expected, axis=0), rtol=1e-12)
  np.testing.assert_allclose(prediction.function_stddev, np.std(expected, axis=0), rtol=1e-12)
