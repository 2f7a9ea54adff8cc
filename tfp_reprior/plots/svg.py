"""Plots for a page: inline SVG, in colors that are variables of its style sheet, with its text."""

import hashlib
import io
import re
from typing import NamedTuple

from tfp_reprior.plots import drawing

_VARIABLES = {drawing.INK: 'ink', drawing.MUTED: 'muted', drawing.LINE: 'line'}
_VARIABLES[drawing.FAULT] = 'fault'
_VARIABLES |= {color: f'c{i}' for i, color in enumerate(drawing.COLORS)}


class Plot(NamedTuple):
  """A drawing with the text around it.

  Attributes:
    title: Text.
    legend: List of triples: `'line'`, `'dash'`, `'dot'` or `'band'`; a variable of the style sheet;
      text.
    label: What is drawn, for those who do not see it.
    view_box, content: Of an `<svg>` element; the content is markup, all else is plain text.
    caption: How to read it.
  """

  title: str
  legend: list
  label: str
  view_box: str
  content: str
  caption: str


def plot(picture):
  """The `Plot` of a `pictures.Picture`."""
  title, legend = picture.title, picture.legend
  buffer = io.StringIO()
  with drawing.canvas(*picture.size) as figure:
    axes = figure.subplots(picture.num_rows, sharex=True, squeeze=False)[:, 0]
    picture.draw_fn(*axes)
    no_metadata = dict.fromkeys(('Creator', 'Date', 'Format', 'Type'))
    figure.savefig(buffer, format='svg', transparent=True, metadata=no_metadata)
  shown = '; '.join(text for _, _, text in legend)
  label = f'{title}: {axes[0].get_ylabel()} against {axes[-1].get_xlabel()}. Shown: {shown}'
  legend = [(kind, _VARIABLES[color], text) for kind, color, text in legend]
  return Plot(title, legend, label, *_inline(buffer.getvalue(), label), picture.caption)


def _inline(svg, label):
  """View box and content of an SVG file, fit to stand in a page."""
  view_box, content = re.search(
    r'<svg [^>]*viewBox="([^"]*)"[^>]*>(.*)</svg>\s*', svg, re.DOTALL
  ).groups()
  # The page has one style sheet, which has this rule.
  content = re.sub(r'<style.*?</style>', '', content, flags=re.DOTALL)
  # In paths tenths of a point will do.
  content = re.sub(r' d="[^"]*"', lambda path: re.sub(r'(\.\d)\d+', r'\1', path.group()), content)
  # Names are unique in a drawing, and have to be so in a page.
  prefix = f'p{hashlib.sha256((label + content).encode()).hexdigest()[:12]}-'
  content = re.sub(r'(\bid="|url\(#|href="#)', lambda match: match.group() + prefix, content)
  for color, variable in _VARIABLES.items():
    content = content.replace(color, f'var(--{variable})')
  return view_box, content
