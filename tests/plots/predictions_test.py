"""Plots of predictions, for one datum and for many."""

import numpy as np
import pytest

import tfp_reprior as tfr
from tfp_reprior.plots import predictions


@pytest.mark.parametrize('num_data', [1, 3000])
def test_predictions_are_drawn_for_one_datum_and_for_many(num_data):
  rng = np.random.default_rng(0)
  means = rng.standard_normal([5, num_data, 3])
  prediction = tfr.sampling.Prediction(means, np.zeros_like(means), 0.25)
  y = np.eye(3)[rng.integers(3, size=num_data)] - 1 / 3
  observed = prediction.class_probabilities, np.argmax(y, axis=-1)
  for plot_fn, arguments in (
    (predictions.reliability, observed),
    (predictions.accuracy_of_surest, observed),
    (predictions.true_classes, observed),
    (predictions.coverage, (prediction, y)),
    (predictions.errors, (prediction, y)),
  ):
    plot = plot_fn(*arguments)
    assert plot.title and plot.caption and '<path' in plot.content
    assert len(plot.content) < 250e3
