"""Plots of predictions against test data. Each function returns HTML."""

import numpy as np

from tfp_reprior.report import drawing, measures
from tfp_reprior.sampling import metrics

_MAX_POINTS = 300
_BLUE, _ORANGE, _GREEN, *_, _SKY = drawing.COLORS
_CALIBRATED = ('dash', drawing.MUTED, 'calibrated')


def bands(run):
  """Mean and bands against a one-dimensional input."""
  prediction, result = run.prediction, run.result
  k = prediction.mean.shape[1]
  order = np.argsort(np.ravel(result.x_test))
  order = order[:: -(-len(order) // _MAX_POINTS)]
  inputs = np.ravel(result.x_test)[order]
  quantiles = prediction.quantile([0.05, 0.25, 0.75, 0.95])[:, order, 0]

  def draw_points(ax, x, y, color, size):
    every = slice(None, None, -(-len(y) // _MAX_POINTS))
    ax.plot(np.ravel(x)[every], np.asarray(y)[every, 0], '.', color=color, markersize=size)

  def draw_fn(ax):
    ax.fill_between(inputs, quantiles[0], quantiles[3], color=_BLUE, alpha=0.16, linewidth=0)
    ax.fill_between(inputs, quantiles[1], quantiles[2], color=_BLUE, alpha=0.3, linewidth=0)
    ax.plot(inputs, prediction.mean[order, 0], color=_BLUE)
    if run.y_test is not None:
      draw_points(ax, result.x_test, run.y_test, _GREEN, 3)
    draw_points(ax, result.posterior.x, result.posterior.y, _ORANGE, 6)
    ax.set(xlabel='x', ylabel='y')

  legend = [('line', _BLUE, 'mean'), ('band', _BLUE, '50 % and 90 %'), ('dot', _ORANGE, 'training')]
  return drawing.plot(
    'Prediction' if k == 1 else f'Prediction of output 1 of {k}',
    draw_fn,
    legend if run.y_test is None else [*legend, ('dot', _GREEN, 'test')],
    'Bands are for an observation, noise included: about nine in ten test data should lie in the '
    'wide one. It should open where there are no training data.',
  )


def reliability(prediction, y):
  """Accuracy against confidence, for classes."""
  _, confidence, accuracy, share = metrics.reliability(
    prediction.class_probabilities, np.argmax(y, axis=-1)
  )
  error = np.sqrt(accuracy * (1 - accuracy) / (share * len(y)))

  def draw_fn(ax):
    ax.plot([0, 1], [0, 1], color=drawing.MUTED, linestyle='--', linewidth=1)
    ax.errorbar(confidence, accuracy, 2 * error, color=_BLUE, linewidth=1.2)
    ax.scatter(confidence, accuracy, 12 + 100 * share, color=_BLUE, zorder=3)
    ax.set(xlabel='confidence', ylabel='accuracy', xlim=(0, 1.03), ylim=(0, 1.05))

  return drawing.plot(
    'Reliability of class probabilities',
    draw_fn,
    [('dot', _BLUE, 'test data by confidence'), _CALIBRATED],
    'Larger dots hold more data; bars are two standard errors. Below the diagonal the predictions '
    'are too sure of themselves, above it not sure enough.',
  )


def coverage(prediction, y):
  """Observed against nominal coverage of intervals, for real targets."""
  levels = np.linspace(0, 0.98, 50)  # of 1 it would be 1, whatever the prediction
  observed = measures.coverage(prediction, y, levels)
  error = np.sqrt(levels * (1 - levels) / len(y))

  def draw_fn(ax):
    low, high = levels - 2 * error, levels + 2 * error
    ax.fill_between(levels, low, high, color=drawing.MUTED, alpha=0.15, linewidth=0)
    ax.plot(levels, levels, color=drawing.MUTED, linestyle='--', linewidth=1)
    ax.plot(levels, observed, color=_BLUE)
    ax.set(xlabel='nominal coverage', ylabel='observed coverage', xlim=(0, 1), ylim=(0, 1.02))

  return drawing.plot(
    'Coverage of predictive intervals',
    draw_fn,
    [('line', _BLUE, 'test data'), _CALIBRATED, ('band', drawing.MUTED, 'two standard errors')],
    'The share of test targets within the central interval of a given probability. Below the '
    'diagonal the intervals are too narrow, above it too wide.',
  )


def errors(prediction, y):
  """Error against uncertainty, of every output."""
  stddev, error = np.ravel(prediction.stddev), np.ravel(np.abs(y - prediction.mean))
  every = slice(None, None, -(-len(error) // _MAX_POINTS))

  def draw_fn(ax):
    ax.plot(stddev[every], error[every], '.', color=_SKY, markersize=3, alpha=0.6)
    ax.axline((0, 0), slope=1, color=drawing.MUTED, linestyle='--', linewidth=1)
    ax.plot(*measures.binned_errors(stddev, error).T, 'o-', color=_BLUE, markersize=4)
    ax.set(xlim=drawing.limits(stddev), ylim=(0, None))
    ax.set(xlabel='predictive standard deviation', ylabel='absolute error')

  return drawing.plot(
    'Error against uncertainty',
    draw_fn,
    [('dot', _SKY, 'a test target'), ('line', _BLUE, 'root mean square'), _CALIBRATED],
    'In groups of test targets of like standard deviation, the root mean square of their errors '
    'should lie on the dashed line, where error equals uncertainty.',
  )
