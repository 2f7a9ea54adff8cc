"""Pictures before they are drawn: on a page as SVG, or on axes of matplotlib."""

from collections.abc import Callable
from typing import Any, NamedTuple

from tfp_reprior import errors
from tfp_reprior.plots import drawing

SIZE = (4.2, 2.7)  # inches


class Picture(NamedTuple):
  """What to draw, and the text around it.

  Attributes:
    title: Text.
    draw_fn: Function of `num_rows` axes of matplotlib, which share their x-axis.
    legend: List of triples: `'line'`, `'dash'`, `'dot'` or `'band'`; a color of `drawing`; text.
    caption: How to read it.
    num_rows: Positive integer.
    size: Pair, width and height in inches.
  """

  title: str
  draw_fn: Callable[..., None]
  legend: list
  caption: str
  num_rows: int = 1
  size: tuple[float, float] = SIZE


def line_key(i, text):
  """The entry in a legend of the line with `drawing.line_style(i)`."""
  colors = drawing.COLORS
  return 'line' if i < len(colors) else 'dash', colors[i % len(colors)], text


def show(picture, ax=None) -> Any:
  """Draws a picture of one row on axes of matplotlib, with its title and legend.

  Args:
    picture: A `Picture`.
    ax: The axes; by default those of a new figure of pyplot, in the style of the package.

  Returns:
    The axes.
  """
  if picture.num_rows != 1:
    raise errors.InputError(f'A picture on one pair of axes has one row. Received: {picture.title}')
  if ax is not None:
    return _draw(picture, ax)
  with drawing.style():
    from matplotlib import pyplot

    width, height = picture.size
    _, ax = pyplot.subplots(figsize=(1.5 * width, 1.5 * height), layout='constrained')
    return _draw(picture, ax)


def _draw(picture, ax):
  from matplotlib import lines, patches

  picture.draw_fn(ax)
  keys = []
  for kind, color, text in picture.legend:
    if kind == 'band':
      keys.append(patches.Patch(color=color, alpha=0.3, label=text))
    else:
      style = {'dash': {'linestyle': '--'}, 'dot': {'marker': 'o', 'linestyle': 'none'}}
      keys.append(lines.Line2D([], [], color=color, label=text, **style.get(kind, {})))
  ax.set_title(picture.title)
  if keys:
    ax.legend(handles=keys, fontsize='small')
  return ax
