"""Drawings as inline SVG, with colors that are variables of the page's style sheet."""

import contextlib
import hashlib
import html
import io
import re

import numpy as np

# The palette of Okabe and Ito, which the color-blind can tell apart.
COLORS = ('#0072b2', '#d55e00', '#009e73', '#cc79a7', '#e69f00', '#56b4e9')
MUTED = '#56606e'
INK, LINE = '#1b2430', '#dfe3e8'
_VARIABLES = {INK: 'ink', MUTED: 'muted', LINE: 'line'}
_VARIABLES |= {color: f'c{i}' for i, color in enumerate(COLORS)}
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
def canvas(width, height):
  """A context with an empty matplotlib figure in our style, of a size in inches."""
  try:
    from matplotlib import figure, style  # kept out of `import tfp_reprior`
  except ImportError as e:
    raise ImportError('Drawing needs matplotlib: pip install tfp-reprior[plot]') from e
  with style.context(['default', _STYLE]):  # whatever the settings of the user
    yield figure.Figure(figsize=(width, height), layout='constrained')


def plot(title, draw_fn, legend, caption, num_rows=1):
  """A plot with title, legend and caption.

  Args:
    title: Text.
    draw_fn: Function of `num_rows` matplotlib axes, which share their x-axis.
    legend: List of triples: `'line'`, `'dash'`, `'dot'` or `'band'`; a color; text.
    caption: How to read it, text.
    num_rows: Positive integer.

  Returns:
    HTML.
  """
  buffer = io.StringIO()
  with canvas(4.2, 2.7) as drawing:
    axes = drawing.subplots(num_rows, sharex=True, squeeze=False)[:, 0]
    draw_fn(*axes)
    no_metadata = dict.fromkeys(('Creator', 'Date', 'Format', 'Type'))
    drawing.savefig(buffer, format='svg', transparent=True, metadata=no_metadata)
  shown = '; '.join(text for _, _, text in legend)
  label = f'{title}: {axes[0].get_ylabel()} against {axes[-1].get_xlabel()}. Shown: {shown}'
  keys = ''.join(
    f'<span><i class="{kind}" style="--key: var(--{_VARIABLES[color]})"></i>'
    f'{html.escape(text)}</span>'
    for kind, color, text in legend
  )
  return (
    f'<figure class="card"><h4>{html.escape(title)}</h4><div class="legend">{keys}</div>'
    f'{_inline(buffer.getvalue(), label)}<figcaption>{html.escape(caption)}</figcaption></figure>'
  )


def _inline(svg, label):
  box = re.search(r'viewBox="[^"]*"', svg).group()
  svg = svg[svg.index('>', svg.index('<svg')) + 1 :]
  # In paths tenths of a point will do.
  svg = re.sub(r' d="[^"]*"', lambda path: re.sub(r'(\.\d)\d+', r'\1', path.group()), svg)
  # Names are unique in a drawing, and have to be so in a page.
  prefix = f'p{hashlib.sha256((label + svg).encode()).hexdigest()[:12]}-'
  svg = re.sub(r'(\bid="|url\(#|href="#)', lambda match: match.group() + prefix, svg)
  for color, variable in _VARIABLES.items():
    svg = svg.replace(color, f'var(--{variable})')
  return f'<svg role="img" aria-label="{html.escape(label)}" {box}>{svg}'


def line_style(i):
  """Color and dashes of the i-th of several lines, as arguments of matplotlib."""
  return {'color': COLORS[i % len(COLORS)], 'linestyle': '-' if i < len(COLORS) else '--'}


def line_key(i, text):
  """The entry of that line in a legend."""
  return 'line' if i < len(COLORS) else 'dash', COLORS[i % len(COLORS)], text


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
