"""Predictions of classes, against NumPy, SciPy and exact frequencies."""

import numpy as np
import pytest
import scipy.stats
import statistics_lib

import tfp_reprior as tfr
from tfp_reprior.diagnostics import metrics


def _probabilities(draws=5, inputs=4, classes=3, seed=0):
  return np.random.default_rng(seed).dirichlet(np.ones(classes), size=(draws, inputs))


@pytest.fixture
def categorical():
  return tfr.sampling.CategoricalPrediction(_probabilities())


@pytest.fixture
def bernoulli():
  return tfr.sampling.BernoulliPrediction(_probabilities(classes=2, seed=1))


@pytest.mark.parametrize('name', ['categorical', 'bernoulli'])
def test_deviations_follow_the_law_of_total_variance(name, request):
  prediction = request.getfixturevalue(name)
  p = prediction.probabilities
  np.testing.assert_allclose(prediction.mean, p.sum(axis=0) / 5)
  np.testing.assert_allclose(prediction.function_stddev, p.std(axis=0))
  unexplained = (p * (1 - p)).mean(axis=0)
  np.testing.assert_allclose(prediction.stddev**2, p.var(axis=0) + unexplained)


def test_moments_over_more_draws_replace_those_of_the_kept_ones():
  moments = np.full([4, 3], 1 / 3), np.full([4, 3], 0.01)
  prediction = tfr.sampling.CategoricalPrediction(_probabilities(), moments)
  np.testing.assert_array_equal(prediction.class_probabilities, moments[0])
  np.testing.assert_allclose(prediction.function_stddev, 0.1)
  np.testing.assert_allclose(prediction.log_prob([0, 1, 2, 0]), np.log(1 / 3))


def test_log_prob_of_a_label_is_that_of_the_averaged_probabilities(categorical):
  labels = [2, 0, 1, 1]
  expected = [
    np.log(np.mean([draw[i, label] for draw in categorical.probabilities]))
    for i, label in enumerate(labels)
  ]
  np.testing.assert_allclose(categorical.log_prob(labels), expected)


def test_log_prob_of_zeros_and_ones_is_that_of_scipy(bernoulli):
  y = np.array([[0, 1], [1, 1], [0, 0], [1, 0]])
  expected = scipy.stats.bernoulli.logpmf(y, bernoulli.probabilities.mean(axis=0))
  np.testing.assert_allclose(bernoulli.log_prob(y), expected)
  rows = bernoulli.class_probabilities[np.arange(8), bernoulli.labels(y)]
  np.testing.assert_allclose(rows.reshape(4, 2), np.exp(expected))


def test_being_sure_and_wrong_is_bad_but_finite():
  prediction = tfr.sampling.BernoulliPrediction(np.array([[[1.0], [0.0]]]))
  np.testing.assert_allclose(prediction.log_prob([0, 1]), -24 * np.log(2))
  np.testing.assert_allclose(prediction.log_prob([1, 0]), 0, atol=1e-7)


@pytest.mark.parametrize('name', ['categorical', 'bernoulli'])
def test_samples_have_the_averaged_probabilities(name, request):
  prediction = request.getfixturevalue(name)
  draws = prediction.sample(3000, seed=1)
  np.testing.assert_array_equal(draws, prediction.sample(3000, seed=1))
  assert np.any(draws != prediction.sample(3000, seed=2))
  observed = np.eye(3)[draws] if name == 'categorical' else draws
  assert statistics_lib.mean_p_value(observed, prediction.mean) > statistics_lib.FALSE_ALARM
  # A single draw's probabilities would not do.
  wrong = prediction.probabilities[0]
  assert statistics_lib.mean_p_value(observed, wrong) < statistics_lib.FALSE_ALARM


def test_rounding_makes_no_other_class():
  prediction = tfr.sampling.CategoricalPrediction(np.full([1, 4, 3], 0.3))  # sums to 0.9
  assert set(prediction.sample(100, seed=0).ravel()) == {0, 1, 2}


def test_a_sample_is_of_one_draw_for_all_inputs():
  sure = np.array([[1.0, 0.0], [0.0, 1.0]])[:, np.newaxis, :] * np.ones([2, 4, 1])
  for kind in (tfr.sampling.CategoricalPrediction, tfr.sampling.BernoulliPrediction):
    draws = kind(sure).sample(50, seed=0)
    assert np.all(draws == draws[:, :1]) and set(draws.ravel()) == {0, 1}


@pytest.mark.parametrize(
  ('y', 'message'),
  [
    ([0, 1, -1, 2], r'labels from 0 to 2. Received: y\[2\]=-1, and 1 such'),
    ([0, 3, 1, 4], r'labels from 0 to 2. Received: y\[1\]=3, and 2 such'),
    ([0.0, 1.0, 2.0, 0.0], 'integer labels. Received: y of dtype float64'),
    ([0, 1, 2], r'a target for each of the 4 inputs. Received: y of shape \(3,\)'),
    ([[0], [1], [2], [0]], r'vector of integer labels.*shape \(4, 1\)'),
  ],
)
def test_bad_labels_are_refused(categorical, y, message):
  for function in (categorical.log_prob, lambda y: metrics.evaluate(categorical, y)):
    with pytest.raises(ValueError, match=message):
      function(np.array(y))


@pytest.mark.parametrize(
  ('y', 'message'),
  [
    (np.full([4, 2], 0.5), 'zeros and ones. Received: an entry'),
    (np.zeros([4, 3]), r'shape \[n, 2\].*shape \(4, 3\)'),
    (np.zeros([3, 2]), 'each of the 4 inputs'),
  ],
)
def test_bad_zeros_and_ones_are_refused(bernoulli, y, message):
  with pytest.raises(ValueError, match=message):
    metrics.evaluate(bernoulli, y)


def test_figures_of_classes_are_those_of_scikit_learn():
  sklearn_metrics = pytest.importorskip('sklearn.metrics')
  prediction = tfr.sampling.CategoricalPrediction(_probabilities(inputs=60))
  labels = np.random.default_rng(2).integers(3, size=60)
  p = prediction.probabilities.mean(axis=0)
  figures = metrics.evaluate(prediction, labels)
  assert set(figures) == {
    'accuracy',
    'class_negative_log_likelihood',
    'expected_calibration_error',
  }
  assert figures['accuracy'] == sklearn_metrics.accuracy_score(labels, p.argmax(axis=1))
  loss = sklearn_metrics.log_loss(labels, p, labels=[0, 1, 2])
  assert figures['class_negative_log_likelihood'] == pytest.approx(loss)


def test_figures_of_zeros_and_ones_are_those_of_scikit_learn():
  sklearn_metrics = pytest.importorskip('sklearn.metrics')
  prediction = tfr.sampling.BernoulliPrediction(_probabilities(inputs=60, classes=2))
  y = np.random.default_rng(2).integers(2, size=(60, 2))
  p = prediction.probabilities.mean(axis=0)
  figures = metrics.evaluate(prediction, y)
  expected = sklearn_metrics.accuracy_score(y.ravel(), p.ravel() > 0.5)
  assert figures['accuracy'] == pytest.approx(expected)
  loss = sklearn_metrics.log_loss(y.ravel(), p.ravel(), labels=[0, 1])
  assert figures['class_negative_log_likelihood'] == pytest.approx(loss)


def test_calibration_error_by_hand():
  p = np.array([[0.95, 0.05], [0.08, 0.92], [0.65, 0.35], [0.62, 0.38], [1.0, 0.0]])
  labels = np.array([0, 0, 0, 1, 0])
  prediction = tfr.sampling.CategoricalPrediction(p[np.newaxis])
  # Bins from 0.6 with two inputs, of which one is right, and from 0.9 with two right of three.
  expected = 2 / 5 * abs(0.635 - 1 / 2) + 3 / 5 * abs(2.87 / 3 - 2 / 3)
  figures = metrics.evaluate(prediction, labels)
  assert figures['expected_calibration_error'] == pytest.approx(expected)
  # The same of a single output, yes or no.
  prediction = tfr.sampling.BernoulliPrediction(p[np.newaxis, :, 1:])
  assert metrics.evaluate(prediction, labels) == pytest.approx(figures)
