"""Pictures of predictions of real numbers. Each function returns a `pictures.Picture`."""

import numpy as np

from tfp_reprior.diagnostics import metrics
from tfp_reprior.plots import drawing, pictures

_MAX_POINTS = 300
_BLUE, _ORANGE, _GREEN, *_, _SKY = drawing.COLORS
_CALIBRATED = ('dash', drawing.MUTED, 'calibrated')


def bands(result, x, prediction, y=None):
  """Mean and bands against a one-dimensional input.

  Args:
    result: A `Result`, whose training data are shown, too.
    x: Inputs `[m, 1]` in the units of the user.
    prediction: What it predicts there.
    y: Targets `[m, k]`, or None.
  """
  k = prediction.mean.shape[1]
  [input_name] = result.preparation.input_names or ['x']
  order = np.argsort(np.ravel(x))
  order = order[:: -(-len(order) // _MAX_POINTS)]
  inputs = np.ravel(x)[order]
  quantiles = prediction.quantile([0.05, 0.25, 0.75, 0.95])[:, order, 0]

  def draw_points(ax, x, y, color, size):
    every = slice(None, None, -(-len(y) // _MAX_POINTS))
    ax.plot(np.ravel(x)[every], np.asarray(y)[every, 0], '.', color=color, markersize=size)

  def draw_fn(ax):
    ax.fill_between(inputs, quantiles[0], quantiles[3], color=_BLUE, alpha=0.16, linewidth=0)
    ax.fill_between(inputs, quantiles[1], quantiles[2], color=_BLUE, alpha=0.3, linewidth=0)
    ax.plot(inputs, prediction.mean[order, 0], color=_BLUE)
    if y is not None:
      draw_points(ax, x, y, _GREEN, 3)
    draw_points(ax, *result.training_data, _ORANGE, 6)
    ax.set(xlabel=input_name, ylabel=result.preparation.target_name or 'y')

  legend = [('line', _BLUE, 'mean'), ('band', _BLUE, '50 % and 90 %'), ('dot', _ORANGE, 'training')]
  return pictures.Picture(
    'Prediction' if k == 1 else f'Prediction of output 1 of {k}',
    draw_fn,
    legend if y is None else [*legend, ('dot', _GREEN, 'test')],
    'Bands are for an observation, noise included: about nine in ten test data should lie in the '
    'wide one. It should open where there are no training data.',
  )


def observed(prediction, y, name):
  """What was observed against what was predicted, with intervals, of the first output.

  Args:
    prediction: At m inputs.
    y: Targets `[m, k]`.
    name: What the target is called.
  """
  every = slice(None, None, -(-len(y) // _MAX_POINTS))
  low, high = prediction.quantile([0.05, 0.95])[:, every, 0]
  mean, seen = prediction.mean[every, 0], np.asarray(y)[every, 0]
  is_inside = (seen >= low) & (seen <= high)

  def draw_fn(ax):
    for part, color in ((is_inside, _BLUE), (~is_inside, _ORANGE)):
      ax.hlines(seen[part], low[part], high[part], color=color, alpha=0.25, linewidth=0.8)
      ax.plot(mean[part], seen[part], '.', color=color, markersize=5)
    ax.axline((mean[0], mean[0]), slope=1, color=drawing.MUTED, linestyle='--', linewidth=1)
    ax.set(ylim=drawing.limits(seen), xlim=drawing.limits([*low, *high]))
    ax.locator_params(nbins=6)
    ax.set(xlabel=f'{name}, predicted', ylabel='observed')

  k = prediction.mean.shape[1]
  return pictures.Picture(
    'Predicted and observed' if k == 1 else f'Predicted and observed, output 1 of {k}',
    draw_fn,
    [
      ('dot', _BLUE, 'inside the 90 % interval'),
      ('dot', _ORANGE, f'outside: {np.mean(~is_inside):.0%}'),
      ('dash', drawing.MUTED, 'predicted = observed'),
    ],
    'Dots are test data: mean prediction across, observation up. Bars are 90 % intervals; about '
    'one in ten observations should lie outside its own.',
  )


def pit(prediction, y):
  """Where observations fall in their predictive distributions: flat, if these are right."""
  levels = np.ravel(prediction.cdf(y))
  num_bins = max(2, min(10, len(levels) // 5))
  expected = len(levels) / num_bins
  error = np.sqrt(expected * (1 - 1 / num_bins))

  def draw_fn(ax):
    low, high = expected - 2 * error, expected + 2 * error
    ax.axhspan(max(low, 0), high, color=drawing.MUTED, alpha=0.15, linewidth=0)
    ax.axhline(expected, color=drawing.MUTED, linestyle='--', linewidth=1)
    bins = np.linspace(0, 1, num_bins + 1)
    ax.hist(levels, bins, color=_BLUE, alpha=0.5, rwidth=0.92)
    ax.set(xlabel='probability of a smaller value', ylabel='number of test targets', xlim=(0, 1))

  return pictures.Picture(
    'Where observations fall (PIT)',
    draw_fn,
    [('band', _BLUE, 'test data'), _CALIBRATED, ('band', drawing.MUTED, 'two standard errors')],
    'Each observation by the probability that its prediction gives to smaller values. Bars should '
    'be even: a U means intervals too narrow, a hill too wide, a slope values off to one side.',
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

  return pictures.Picture(
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

  return pictures.Picture(
    'Error against uncertainty',
    draw_fn,
    [('dot', _SKY, 'a test target'), ('line', _BLUE, 'root mean square'), _CALIBRATED],
    'In groups of test targets of like standard deviation, the root mean square of their errors '
    'should lie on the dashed line, where error equals uncertainty.',
  )
