"""Plots of predictions, for one datum and for many."""

import numpy as np
import pytest
import scipy.stats

import tfp_reprior as tfr
from tfp_reprior.diagnostics import metrics
from tfp_reprior.plots import classes, predictions, svg


@pytest.mark.parametrize('num_data', [1, 3000])
def test_predictions_are_drawn_for_one_datum_and_for_many(num_data):
  rng = np.random.default_rng(0)
  means = rng.standard_normal([5, num_data, 3])
  prediction = tfr.sampling.Prediction(means, np.zeros_like(means), 0.25)
  y = np.eye(3)[rng.integers(3, size=num_data)] - 1 / 3
  observed = prediction.class_probabilities, np.argmax(y, axis=-1)
  for plot_fn, arguments in (
    (classes.reliability, observed),
    (classes.accuracy_of_surest, observed),
    (classes.true_classes, observed),
    (classes.confusion, (*observed, ['a', 'a rather long name', 'c'])),
    (predictions.observed, (prediction, y, 'price')),
    (predictions.pit, (prediction, y)),
    (predictions.coverage, (prediction, y)),
    (predictions.errors, (prediction, y)),
  ):
    plot = svg.plot(plot_fn(*arguments))
    assert plot.title and plot.caption and '<path' in plot.content
    assert len(plot.content) < 250e3


def test_confusion_counts_what_is_taken_for_what(tick_labels):
  probabilities = np.eye(3)[[0, 0, 1, 1, 1, 2]]
  plot = svg.plot(classes.confusion(probabilities, np.array([0, 0, 0, 1, 1, 1]), ['a', 'b', 'c']))
  texts = tick_labels(plot)
  assert texts.count('2') == 2 and texts.count('1') == 2 and '0' not in texts
  assert texts.count('a') == 2 and 'predicted' in texts


def test_images_are_in_the_drawing_itself(tick_labels):
  images = np.random.default_rng(0).uniform(size=[5, 4, 4, 1])
  probabilities = np.full([5, 2], 0.5)
  picture = classes.uncertain_images(images, probabilities, np.zeros(5, int), ['x', 'y'], [3, 1])
  plot = svg.plot(picture)
  assert plot.content.count('href="data:image/png') == 2
  assert tick_labels(plot).count('true: x') == 2


def test_wilson_intervals_are_those_of_scipy():
  for right, count in ((0, 5), (3, 7), (40, 40)):
    expected = scipy.stats.binomtest(right, count).proportion_ci(0.95, method='wilson')
    np.testing.assert_allclose(metrics.wilson(right / count, count), expected, atol=1e-4)
