"""Figures of merit, recomputed naively and by hand."""

import numpy as np
import pytest
import scipy.stats
import statistics_lib

import tfp_reprior as tfr
from tfp_reprior.diagnostics import metrics


def _prediction(inputs=40, outputs=2, components=3, seed=0):
  rng = np.random.default_rng(seed)
  means = rng.normal(size=(components, inputs, outputs))
  return tfr.sampling.Prediction(means, rng.uniform(0.1, 1.0, size=means.shape), 0.2**2)


def test_figures_of_real_targets_are_those_of_a_naive_computation():
  prediction = _prediction()
  y = np.random.default_rng(1).normal(size=(40, 2))
  figures = metrics.evaluate(prediction, y)
  components = scipy.stats.norm(prediction.means, np.sqrt(prediction.variances + 0.2**2))
  level = components.cdf(y).mean(axis=0)
  expected = {
    'rmse': np.sqrt(((prediction.means.mean(axis=0) - y) ** 2).mean()),
    'negative_log_likelihood': -np.log(components.pdf(y).mean(axis=0)).mean(),
    'coverage_90': np.mean([0.05 < p < 0.95 for p in level.ravel()]),
  }
  assert figures == pytest.approx(expected, rel=1e-10)
  assert all(type(value) is float for value in figures.values())


def test_a_single_output_may_come_without_its_dimension():
  prediction = _prediction(outputs=1)
  y = np.linspace(-1, 1, 40)
  assert metrics.evaluate(prediction, y) == metrics.evaluate(prediction, y[:, np.newaxis])


def test_targets_of_another_shape_are_refused():
  with pytest.raises(ValueError, match=r'shape of the prediction, \(40, 2\).*y of shape \(40, 3\)'):
    metrics.evaluate(_prediction(), np.zeros([40, 3]))


def _coverage_p_value(prediction, y):
  coverage = metrics.evaluate(prediction, y)['coverage_90']
  return scipy.stats.binomtest(round(coverage * y.size), y.size, 0.9).pvalue


def test_coverage_is_that_of_a_calibrated_prediction():
  rng = np.random.default_rng(0)
  means = rng.normal(size=(1, 1500, 1))
  noise = rng.normal(size=(1500, 1))
  calibrated = tfr.sampling.Prediction(means, np.full_like(means, 0.4), 0.6)
  assert _coverage_p_value(calibrated, means[0] + noise) > statistics_lib.FALSE_ALARM
  # Half the variance is half the truth, and the same test sees it.
  overconfident = tfr.sampling.Prediction(means, np.full_like(means, 0.2), 0.3)
  assert _coverage_p_value(overconfident, means[0] + noise) < statistics_lib.FALSE_ALARM


def test_centered_one_hot_targets_are_told_from_others():
  one_hot = np.eye(3)[[0, 2, 1]] - 1 / 3
  assert metrics.is_one_hot(one_hot)
  assert metrics.is_one_hot(one_hot.astype(np.float32))
  assert not metrics.is_one_hot(one_hot + 0.01)
  assert not metrics.is_one_hot(np.eye(3))
  assert not metrics.is_one_hot(np.zeros([3, 1]))


def test_figures_of_classes_are_those_of_a_naive_computation():
  rng = np.random.default_rng(2)
  means = rng.normal(size=(7, 30, 4))
  prediction = tfr.sampling.Prediction(means, np.zeros_like(means), 0.1)
  labels = rng.integers(4, size=30)
  figures = metrics.evaluate(prediction, np.eye(4)[labels] - 1 / 4)
  right, log_probs = [], []
  for i, label in enumerate(labels):
    votes = [int(np.argmax(component[i])) for component in means]
    counts = [votes.count(j) for j in range(4)]
    right.append(counts.index(max(counts)) == label)
    log_probs.append(np.log((counts[label] + 1) / (7 + 4)))
  assert figures['accuracy'] == pytest.approx(np.mean(right))
  assert figures['class_negative_log_likelihood'] == pytest.approx(-np.mean(log_probs))
  assert 'accuracy' not in metrics.evaluate(prediction, np.eye(4)[labels])


def test_reliability_by_hand():
  probabilities = np.array([[0.95, 0.05], [0.08, 0.92], [0.65, 0.35], [0.62, 0.38], [1.0, 0.0]])
  labels = np.array([0, 0, 0, 1, 0])
  centers, confidence, accuracy, share = metrics.reliability(probabilities, labels)
  np.testing.assert_allclose(centers, [0.65, 0.95])
  np.testing.assert_allclose(confidence, [0.635, (0.95 + 0.92 + 1.0) / 3])
  np.testing.assert_allclose(accuracy, [1 / 2, 2 / 3])
  np.testing.assert_allclose(share, [2 / 5, 3 / 5])


def test_expected_calibration_error_by_hand():
  # Votes of five components without variance, for three inputs of class 0: 5, 4 and 2 for it.
  votes = np.array([[0, 0, 0], [0, 0, 0], [0, 0, 1], [0, 0, 1], [0, 1, 1]])
  means = np.eye(2)[votes]
  prediction = tfr.sampling.Prediction(means, np.zeros_like(means), 0.1)
  figures = metrics.evaluate(prediction, np.eye(2)[[0, 0, 0]] - 1 / 2)
  # Confidence 1 and right; 0.8 and right; 0.6 and wrong: three bins with a third each.
  assert figures['expected_calibration_error'] == pytest.approx((0.0 + 0.2 + 0.6) / 3)
  assert figures['accuracy'] == pytest.approx(2 / 3)


def test_accuracy_of_the_surest_by_hand():
  probabilities = np.array([[0.6, 0.4], [0.1, 0.9], [0.8, 0.2], [0.3, 0.7]])
  # By confidence these are inputs 1, 2, 3 and 0, of which the second is wrong.
  actual = metrics.accuracy_of_surest(probabilities, np.array([0, 1, 1, 1]))
  np.testing.assert_allclose(actual, [1, 1 / 2, 2 / 3, 3 / 4])


def test_coverage_counts_targets_in_central_intervals():
  prediction = tfr.sampling.Prediction(np.zeros([1, 4, 1]), np.zeros([1, 4, 1]), 1.0)
  # Of a normal distribution the interval of 68.3 % ends at 1, that of 95.4 % at 2.
  y = np.array([[0.1], [-0.9], [1.5], [-3.0]])
  actual = metrics.coverage(prediction, y, [0.01, 0.683, 0.954, 0.99])
  np.testing.assert_allclose(actual, [0, 0.5, 0.75, 0.75])


def test_errors_are_grouped_by_standard_deviation():
  stddev = np.array([2.0, 1.0] * 5)
  errors = np.array([4.0, 3.0] * 5)
  np.testing.assert_allclose(metrics.binned_errors(stddev, errors), [[1, 3], [2, 4]])
  assert metrics.binned_errors(stddev[:3], errors[:3]).shape == (1, 2)
