"""Effective samples of samplers, from the rows of a benchmark."""

import itertools

import numpy as np

from tfp_reprior.plots import drawing

QUANTITIES = {
  'theta': 'weights',
  'f': 'outputs',
  'log_likelihood': 'log-likelihood',
  'norms': 'norms of weights',
  'state': 'hidden layers (u)',
  'state norms': 'norms of u',
}
_BY_VARIANCE = ', by variance'  # a key with this is the better one, where rows have it
_STATE = {'state': 'hidden layers', 'f': 'outputs', 'log_likelihood': 'log-likelihood'}


def draw(figure, rows):
  """Draws what the rows have several of: numbers of data, widths, or samplers.

  Args:
    figure: A matplotlib figure.
    rows: List of dicts with `sampler`, `width`, `n`, and `... ESS / 1k gradients` of `QUANTITIES`.
  """
  nums = {key: len({row[key] for row in rows}) for key in ('sampler', 'width', 'n')}
  if nums['width'] == 1 and nums['n'] >= 3:
    _draw_over_data(figure, rows)
  elif nums['width'] >= 3:
    (_draw_over_widths if nums['sampler'] == 1 else _draw_samplers_over_widths)(figure, rows)
  else:
    _draw_samplers(figure, rows)


def _draw_over_data(figure, rows):
  """Effective samples against data for each unit, a panel for each quantity, a curve a sampler.

  Samplers that choose (`tuned`) are left out: they are on the curve of what they chose.
  """
  rows = [row for row in rows if not row['sampler'].endswith('tuned')]
  axes = drawing.stacked(figure, len(_STATE), height=1.9)
  ratios = sorted({row['n'] / row['width'] for row in rows})
  for ax, (key, title) in zip(axes, _STATE.items(), strict=True):
    ess = f'{key} ESS / 1k gradients'
    for name in dict.fromkeys(row['sampler'] for row in rows):
      own = [r for r in rows if r['sampler'] == name]
      style = {**drawing.sampler_style(name), 'label': name}
      _curve(ax, own, lambda row: row['n'] / row['width'], ess, 1.0, **style)
    drawing.log_log(ax, ratios, [row[ess] for row in rows])
    ax.set_xticks(ratios, [f'{r:.2g}' for r in ratios])
    ax.set_title(title, fontsize=9)
  figure.supxlabel(f'data for each unit of a layer (width {rows[0]["width"]})', fontsize=9)
  figure.supylabel('effective samples per 1,000 gradients', fontsize=9)
  drawing.legend(figure)


def _draw_samplers(figure, rows):
  """Effective samples per gradient, a dot for each sampler and width."""
  names = list(dict.fromkeys(row['sampler'] for row in rows))
  nums_data, widths = (sorted({row[key] for row in rows}) for key in ('n', 'width'))
  figure.set_size_inches(7.2, 0.8 + (0.5 + 0.2 * len(names)) * len(nums_data))
  axes = figure.subplots(len(nums_data), 2, sharex='col', sharey=True, squeeze=False)
  for (i, num_data), j in itertools.product(enumerate(nums_data), range(2)):
    ax, key = axes[i, j], ('theta', 'f')[j] + ' ESS / 1k gradients'
    for width, color in zip(widths, drawing.shades(len(widths)), strict=True):
      chosen = [row for row in rows if (row['n'], row['width']) == (num_data, width)]
      y = [names.index(row['sampler']) for row in chosen]
      ax.plot([r[key] for r in chosen], y, 'o', color=color, ms=4, label=f'width {width}')
    drawing.log_scale(ax, 'x', [row[key] for row in rows])
    ax.set_title(f'{("weights", "outputs")[j]}, n = {num_data}', fontsize=9)
  axes[0, 0].set_yticks(range(len(names)), [name.replace('_', ' ') for name in names])
  axes[0, 0].set_ylim(len(names) - 0.5, -0.5)
  figure.supxlabel('effective samples per 1,000 gradients', fontsize=9)
  drawing.legend(figure)


def _draw_samplers_over_widths(figure, rows):
  """Effective samples per gradient against the width, of samplers that have several widths.

  Means over seeds, and their range. Dashed: one step a transition.
  """
  rows = [{**row, 'sampler': _kind(row['sampler'])} for row in rows]
  rows = [row for row in rows if len(_widths(rows, row)) > 1]
  nums_data = sorted({row['n'] for row in rows})
  figure.set_size_inches(5.2, 0.9 + 2.3 * len(nums_data))
  axes = figure.subplots(len(nums_data), 2, sharex=True, sharey=True, squeeze=False)
  everything = []
  for (i, num_data), (j, key) in itertools.product(enumerate(nums_data), enumerate(('theta', 'f'))):
    ax, ess = axes[i, j], f'{key} ESS / 1k gradients'
    if all(ess + _BY_VARIANCE in row for row in rows if ess in row):
      ess += _BY_VARIANCE
    for name in dict.fromkeys(row['sampler'] for row in rows if row['n'] == num_data):
      style = dict(drawing.sampler_style(name))
      if '@' in name:
        style |= {'linestyle': '--', 'label': 'one step'}
      chosen = [r for r in rows if (r['n'], r['sampler']) == (num_data, name)]
      _curve(ax, chosen, lambda row: row['width'], ess, 1.0, **style)
      everything += [row[ess] for row in chosen if ess in row]
    ax.set_title(f'{QUANTITIES[key]}, {num_data} images', fontsize=9)
  for ax in axes.flat:
    drawing.log_log(ax, [r['width'] for r in rows], everything)
  figure.supxlabel('width', fontsize=9)
  figure.supylabel('effective samples per 1,000 gradients', fontsize=9)
  drawing.legend(figure)


def _kind(name):
  """The name of a sampler, without steps that were chosen to suit a width."""
  return name if name.endswith('@1') else name.partition('@')[0]


def _widths(rows, like):
  """Those that there are of a row's sampler and number of data."""
  return {row['width'] for row in rows if all(row[k] == like[k] for k in ('sampler', 'n'))}


def _draw_over_widths(figure, rows):
  """Effective samples per gradient against the width, a curve for each quantity and panel for n.

  Means over seeds, and their range.
  """
  nums_data = sorted({row['n'] for row in rows})
  axes = np.atleast_1d(drawing.stacked(figure, len(nums_data), height=3.0))
  for ax, num_data in zip(axes, nums_data, strict=True):
    chosen = sorted((r for r in rows if r['n'] == num_data), key=lambda row: row['width'])
    for (key, label), color in zip(QUANTITIES.items(), drawing.QUANTITY_COLORS, strict=True):
      ess = f'{key} ESS / 1k gradients'
      _curve(ax, chosen, lambda row: row['width'], ess, 1000, color=color, label=label)
    drawing.log_log(ax, [r['width'] for r in chosen], [0.01, 1.0])
    ax.set_title(f'{chosen[0]["sampler"]}, n = {num_data}', fontsize=9)
  figure.supxlabel('width', fontsize=9)
  figure.supylabel('effective samples per gradient', fontsize=9)
  drawing.legend(figure)


def _curve(ax, rows, x_fn, key, unit, **style):
  """Means over rows with the same x, and a band over their range."""
  rows = [row for row in rows if key in row]
  xs = sorted({x_fn(row) for row in rows})
  sizes = [[row[key] / unit for row in rows if x_fn(row) == x] for x in xs]
  spread = [[function(s) for s in sizes] for function in (np.mean, min, max)]
  drawing.curve_with_band(ax, xs, *spread, **{'marker': 'o', **style})
