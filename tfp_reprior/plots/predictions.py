"""Plots of predictions against test data. Each function returns a `svg.Plot`."""

import numpy as np

from tfp_reprior.diagnostics import metrics
from tfp_reprior.plots import drawing, svg

_MAX_POINTS = 300
_BLUE, _ORANGE, _GREEN, *_, _SKY = drawing.COLORS
_CALIBRATED = ('dash', drawing.MUTED, 'calibrated')


def bands(result, prediction):
  """Mean and bands against a one-dimensional input, of a `Result` and its test prediction."""
  k = prediction.mean.shape[1]
  [input_name] = result.preparation.input_names or ['x']
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
    if result.y_test is not None:
      draw_points(ax, result.x_test, result.y_test, _GREEN, 3)
    draw_points(ax, *result.training_data, _ORANGE, 6)
    ax.set(xlabel=input_name, ylabel=result.preparation.target_name or 'y')

  legend = [('line', _BLUE, 'mean'), ('band', _BLUE, '50 % and 90 %'), ('dot', _ORANGE, 'training')]
  return svg.plot(
    'Prediction' if k == 1 else f'Prediction of output 1 of {k}',
    draw_fn,
    legend if result.y_test is None else [*legend, ('dot', _GREEN, 'test')],
    'Bands are for an observation, noise included: about nine in ten test data should lie in the '
    'wide one. It should open where there are no training data.',
  )


def probabilities(result, prediction):
  """Probabilities against a one-dimensional input, with their bands over draws, for classes."""
  k = prediction.mean.shape[1]
  # Of many, those that are likely anywhere.
  shown = np.sort(np.argsort(-np.max(prediction.mean, axis=0))[: len(drawing.COLORS)])
  inputs = np.ravel(result.x_test)
  [input_name] = result.preparation.input_names or ['x']
  order = np.argsort(inputs)
  order = order[:: -(-len(order) // _MAX_POINTS)]
  low, high = np.quantile(prediction.probabilities[:, order], [0.05, 0.95], axis=0)
  x_train, y_train = result.training_data
  x_train = np.ravel(x_train)
  is_categorical = y_train.ndim == 1
  observed = np.eye(k)[y_train] if is_categorical else y_train  # [n, k]

  def draw_fn(ax):
    for i, j in enumerate(shown):
      color = drawing.COLORS[i]
      ax.fill_between(inputs[order], low[:, j], high[:, j], color=color, alpha=0.16, linewidth=0)
      ax.plot(inputs[order], prediction.mean[order, j], color=color)
      for value, level in ((1, 1.04), (0, -0.04)):
        if value == 1 or not is_categorical:
          x = x_train[observed[:, j] == value]
          ax.plot(x, np.full(len(x), level), '|', color=color, markersize=6)
    ax.set(xlabel=input_name, ylabel='probability', ylim=(-0.08, 1.08))

  what = 'class' if is_categorical else 'output'
  names = result.preparation.class_names if is_categorical else None
  names = names or [f'{what} {j}' for j in range(k)]
  legend = [('line', drawing.COLORS[i], names[j]) for i, j in enumerate(shown)]
  return svg.plot(
    'Probabilities' if len(shown) == k else f'Probabilities, {len(shown)} of {k}',
    draw_fn,
    [*legend, ('band', drawing.MUTED, '90 % of draws')],
    'Marks at the top are training data of the class'
    + ('. ' if is_categorical else ' (1), and at the bottom of the other (0). ')
    + 'Away from them the draws should differ, and bands open.',
  )


def reliability(probabilities, labels):
  """Accuracy against confidence, for classes."""
  _, confidence, accuracy, share = metrics.reliability(probabilities, labels)
  error = np.sqrt(accuracy * (1 - accuracy) / (share * len(labels)))

  def draw_fn(ax):
    ax.plot([0, 1], [0, 1], color=drawing.MUTED, linestyle='--', linewidth=1)
    ax.errorbar(confidence, accuracy, 2 * error, color=_BLUE, linewidth=1.2)
    ax.scatter(confidence, accuracy, 12 + 100 * share, color=_BLUE, zorder=3)
    ax.set(xlabel='confidence', ylabel='accuracy', xlim=(0, 1.03), ylim=(0, 1.05))

  return svg.plot(
    'Reliability of class probabilities',
    draw_fn,
    [('dot', _BLUE, 'test data by confidence'), _CALIBRATED],
    'Larger dots hold more data; bars are two standard errors. Below the diagonal the predictions '
    'are too sure of themselves, above it not sure enough.',
  )


def accuracy_of_surest(probabilities, labels):
  """Accuracy where the least sure predictions are left out, for classes."""
  accuracy = metrics.accuracy_of_surest(probabilities, labels)
  share = np.arange(1, len(labels) + 1) / len(labels)
  error = np.sqrt(accuracy * (1 - accuracy) / np.arange(1, len(labels) + 1))

  def draw_fn(ax):
    low, high = accuracy - 2 * error, np.minimum(accuracy + 2 * error, 1)
    ax.fill_between(share, low, high, color=_BLUE, alpha=0.16, linewidth=0)
    ax.axhline(accuracy[-1], color=drawing.MUTED, linestyle='--', linewidth=1)
    ax.plot(share, accuracy, color=_BLUE)
    ax.set(xlabel='share of test data, the surest first', ylabel='accuracy', xlim=(0, 1))
    ax.set(ylim=drawing.limits([accuracy[-1], *low[len(low) // 20 :], 1.0]))

  return svg.plot(
    'Accuracy of the surest',
    draw_fn,
    [
      ('line', _BLUE, 'accuracy'),
      ('band', _BLUE, 'two standard errors'),
      ('dash', drawing.MUTED, 'of all'),
    ],
    'If confidence means anything, the surest predictions are right most often, and the curve '
    'falls from left to right.',
  )


def true_classes(probabilities, labels):
  """Histogram of the probability of the class that is true."""
  chosen = probabilities[np.arange(len(labels)), labels]
  is_right = np.argmax(probabilities, axis=-1) == labels
  bins = np.linspace(0, 1, 21)

  def draw_fn(ax):
    ax.hist([chosen[is_right], chosen[~is_right]], bins, stacked=True, color=[_BLUE, _ORANGE])
    ax.set(xlabel='probability of the true class', ylabel='number of test data', xlim=(0, 1))

  return svg.plot(
    'Probability of the true class',
    draw_fn,
    [('band', _BLUE, 'right'), ('band', _ORANGE, 'wrong')],
    'What was wrong should lie in the middle, where the prediction was unsure, rather than at the '
    'left, where it was sure of another class.',
  )


def coverage(prediction, y):
  """Observed against nominal coverage of intervals, for real targets."""
  levels = np.linspace(0, 0.98, 50)  # of 1 it would be 1, whatever the prediction
  observed = metrics.coverage(prediction, y, levels)
  error = np.sqrt(levels * (1 - levels) / len(y))

  def draw_fn(ax):
    low, high = levels - 2 * error, levels + 2 * error
    ax.fill_between(levels, low, high, color=drawing.MUTED, alpha=0.15, linewidth=0)
    ax.plot(levels, levels, color=drawing.MUTED, linestyle='--', linewidth=1)
    ax.plot(levels, observed, color=_BLUE)
    ax.set(xlabel='nominal coverage', ylabel='observed coverage', xlim=(0, 1), ylim=(0, 1.02))

  return svg.plot(
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
    ax.plot(*metrics.binned_errors(stddev, error).T, 'o-', color=_BLUE, markersize=4)
    ax.set(xlim=drawing.limits(stddev), ylim=(0, None))
    ax.set(xlabel='predictive standard deviation', ylabel='absolute error')

  return svg.plot(
    'Error against uncertainty',
    draw_fn,
    [('dot', _SKY, 'a test target'), ('line', _BLUE, 'root mean square'), _CALIBRATED],
    'In groups of test targets of like standard deviation, the root mean square of their errors '
    'should lie on the dashed line, where error equals uncertainty.',
  )
