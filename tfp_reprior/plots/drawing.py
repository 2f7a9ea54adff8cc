"""The style of all plots, and what they are drawn with."""

import contextlib
import math

import numpy as np

from tfp_reprior import errors

# The palette of Okabe and Ito, which the color-blind can tell apart.
COLORS = ('#0072b2', '#d55e00', '#009e73', '#cc79a7', '#e69f00', '#56b4e9')
MUTED = '#56606e'
INK, LINE = '#1b2430', '#dfe3e8'
# Of a chain that is at fault, and of nothing else.
FAULT = '#c4161c'
# The same style for the same sampler in all figures.
STANDARD = {'color': COLORS[1], 'marker': 'o', 'label': 'standard'}
REPRIORISED = {'color': COLORS[0], 'marker': 's', 'label': 'repriorised'}
DATA_SPACE = {'color': COLORS[2], 'marker': '^', 'label': 'in data space'}
EVERY_LAYER = {'color': COLORS[3], 'marker': 'D', 'label': 'every layer'}
# Between numbers at an axis, in parts of its length.
_LEAST_GAP = 0.09
# Of quantities of one sampler, which are not to be taken for samplers.
QUANTITY_COLORS = (INK, COLORS[3], COLORS[4], COLORS[5], MUTED, '#8c6d31')


def sampler_style(name):
  """Color, marker and label of a sampler: where it moves, whatever its kernel and its length."""
  if name.endswith('standard'):
    return STANDARD
  if '+' in name:
    return EVERY_LAYER
  return DATA_SPACE if name.startswith('auto') else REPRIORISED


def shades(number):
  """Colors from light to dark, for sizes, which are not to be taken for samplers."""
  return [str(level) for level in np.linspace(0.72, 0.1, number)]  # of grey


_STYLE = {
  'svg.fonttype': 'none',  # text stays text, in the font of the page
  'svg.hashsalt': 'tfp_reprior',  # the same plot is the same text
  'font.size': 9,
  'text.color': INK,
  'axes.labelsize': 9,
  'axes.labelcolor': INK,
  'axes.edgecolor': MUTED,
  'axes.linewidth': 0.7,
  'axes.grid': True,
  'axes.axisbelow': True,
  'axes.spines.top': False,
  'axes.spines.right': False,
  'grid.color': LINE,
  'grid.linewidth': 0.7,
  'xtick.color': MUTED,
  'ytick.color': MUTED,
  'xtick.labelcolor': INK,
  'ytick.labelcolor': INK,
  'lines.linewidth': 1.4,
}


@contextlib.contextmanager
def style():
  """A context in which matplotlib draws in our style, whatever the settings of the user."""
  try:
    from matplotlib import style as style_lib  # kept out of `import tfp_reprior`
  except ImportError as e:
    raise errors.MissingPackageError(
      'Drawing needs matplotlib: pip install tfp-reprior[plot]'
    ) from e
  with style_lib.context(['default', _STYLE]):
    yield


@contextlib.contextmanager
def canvas(width, height):
  """A context with an empty matplotlib figure in our style, of a size in inches."""
  with style():
    from matplotlib import figure

    yield figure.Figure(figsize=(width, height), layout='constrained')


def line_style(i):
  """Color and dashes of the i-th of several lines, as arguments of matplotlib."""
  return {'color': COLORS[i % len(COLORS)], 'linestyle': '-' if i < len(COLORS) else '--'}


def limits(values):
  """Smallest and largest finite value, with a margin."""
  values = np.asarray(values)[np.isfinite(values)]
  low, high = (float(np.min(values)), float(np.max(values))) if len(values) else (0.0, 1.0)
  margin = 0.02 * (high - low) or 0.02 * abs(low) or 0.02
  return low - margin, high + margin


def log_scale(ax, name, values):
  """Makes the axis `name` logarithmic, with plain numbers that suit the range of `values`."""
  from matplotlib import ticker

  values = np.asarray(values)[np.isfinite(values) & (np.asarray(values) > 0)]
  if not len(values):
    return
  is_wide = np.max(values) > 300 * np.min(values)
  ax.set(**{f'{name}scale': 'log'})
  axis = getattr(ax, f'{name}axis')
  axis.set_major_locator(ticker.LogLocator(subs=(1,) if is_wide else (1, 2, 5)))
  axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f'{value:g}'))
  axis.set_minor_formatter(ticker.NullFormatter())


def log_log(ax, x, y):
  """Makes both axes logarithmic, with ticks at the values of x, numbered where there is room."""
  from matplotlib import ticker

  ticks = sorted(set(x))
  gap = _LEAST_GAP * math.log(ticks[-1] / ticks[0])
  numbered = ticks[-1:]
  for value in reversed(ticks[:-1]):
    if math.log(numbered[-1] / value) >= gap:
      numbered.append(value)
  log_scale(ax, 'y', y)
  ax.set_xscale('log')
  ax.xaxis.set_major_locator(ticker.FixedLocator(ticks))
  texts = [f'{value:g}' if value in numbered else '' for value in ticks]
  ax.xaxis.set_major_formatter(ticker.FixedFormatter(texts))
  ax.xaxis.set_minor_locator(ticker.NullLocator())


def stacked(figure, number, height=2.3):
  """Panels one below the other, which are large enough on a phone."""
  figure.set_size_inches(4.6, 0.8 + height * number)
  return figure.subplots(number, 1, sharex=True)


def curve_with_band(ax, x, means, lows, highs, **style):
  """A line with markers, and a band from `lows` to `highs` around it."""
  ax.plot(x, means, markersize=3.5, **style)
  ax.fill_between(x, lows, highs, color=style['color'], alpha=0.15, linewidth=0)


def legend(figure):
  """One legend for all panels, above them, in lines of three if there are more than four."""
  entries = {}
  for ax in figure.axes:
    handles, labels = ax.get_legend_handles_labels()
    entries |= dict(zip(labels, handles, strict=True))
  ncols = len(entries) if len(entries) <= 4 else 3
  figure.legend(
    entries.values(), entries.keys(), loc='outside upper center', ncols=ncols, frameon=False
  )
