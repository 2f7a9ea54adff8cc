"""Writes the tables of README and docs from the files of figures in docs/results.

A table stands between two comments, the first of which says what it shows:

  <!-- results: samplers.json
  where: width = 512, n = 64
  by: sampler
  column: acceptance
  column: weights = theta ESS / 1k gradients
  -->
  | sampler | acceptance | weights |
  ...
  <!-- end -->

It has a line for each group of rows with the same values of the keys after `by`, in the order of
the file. Headings stand before `=`, if they are not the keys. A column shows of its key the mean of
numbers and, if there are several rows, their range; of whole numbers and texts all that occur.
`where` takes rows with these values; a key of a dict inside of the row is `settings.num_chains`.
`number of rows` is a key of every group.
Numbers have three digits.

With --check nothing is written, and the program fails if a page is not what it would write.
"""

import pathlib
import re
import sys

import numpy as np
from absl import app, flags

from tfp_reprior.benchmarks import results

_CHECK = flags.DEFINE_bool('check', False, 'Only say which pages differ from their results.')

ROOT = pathlib.Path(__file__).resolve().parents[1]
_TABLE = re.compile(r'(<!-- results: (?P<file>\S+)\n(?P<lines>.*?)-->\n)(.*?)(<!-- end -->)', re.S)


def pages():
  """The Markdown files of the repository that may have tables."""
  return [ROOT / 'README.md', *sorted(ROOT.glob('docs/**/*.md'))]


def render(text, folder):
  """A page with its tables made anew.

  Args:
    text: String, the page.
    folder: Of the files of figures.

  Returns:
    String.
  """
  if text.count('<!-- results:') != len(_TABLE.findall(text)):
    raise ValueError('A table of results lacks its `<!-- end -->`, or its lines.')

  def replace(match):
    rows = results.load(pathlib.Path(folder) / match['file'])
    return match[1] + _table(rows, match['lines']) + match[5]

  return _TABLE.sub(replace, text)


def _table(rows, lines):
  """The Markdown of one table."""
  wanted, keys, columns = [], [], []
  for line in filter(None, map(str.strip, lines.splitlines())):
    kind, _, rest = line.partition(': ')
    if kind == 'where':
      wanted += [pair.split(' = ') for pair in rest.split(', ')]
    elif kind == 'by':
      keys += [_heading_and_key(part) for part in rest.split(', ')]
    elif kind == 'column':
      columns.append(_heading_and_key(rest))
    else:
      raise ValueError(f'Lines of a table are where, by and column. Received: {line!r}')
  rows = [row for row in rows if all(str(_get(row, key)) == value for key, value in wanted)]
  if not rows:
    raise ValueError(f'No row of the results has {wanted}.')
  groups: dict[tuple, list] = {}
  for row in rows:
    groups.setdefault(tuple(_get(row, key) for _, key in keys), []).append(row)
  cells = [[heading for heading, _ in [*keys, *columns]]]
  cells.append(['---'] * len(cells[0]))
  for values, group in groups.items():
    group = [{**row, 'number of rows': len(group)} for row in group]
    shown = [_cell([_get(row, key) for row in group]) for _, key in columns]
    cells.append([*(_cell([value]) for value in values), *shown])
  return ''.join('| ' + ' | '.join(line) + ' |\n' for line in cells)


def _heading_and_key(text):
  heading, _, key = text.rpartition(' = ')
  return heading or key, key


def _get(row, key):
  for name in [key] if key in row else key.split('.'):
    if not isinstance(row, dict) or name not in row:
      return ''
    row = row[name]
  return row


def _cell(values):
  """What a column shows of the rows of a group."""
  values = [value for value in values if value not in ('', None) and value == value]  # nor NaN
  if not values or not all(isinstance(value, float) for value in values):
    return ', '.join(dict.fromkeys(map(_number, values)))
  mean = _number(float(np.mean(values)))
  if len(values) == 1:
    return mean
  return f'{mean} ({_number(min(values))} to {_number(max(values))})'


def _number(value):
  """A number with three digits, or more if they are whole; anything else as it is."""
  if isinstance(value, int):
    return f'{value:,}'
  if isinstance(value, float):
    return f'{value:,.0f}' if abs(value) >= 100 else f'{value:.3g}'
  return str(value)


def main(argv):
  if len(argv) > 1:
    raise app.UsageError(f'Unknown arguments: {argv[1:]}')
  stale = []
  for page in pages():
    text = page.read_text()
    rendered = render(text, ROOT / 'docs' / 'results')
    if rendered != text:
      stale.append(str(page.relative_to(ROOT)))
      if not _CHECK.value:
        page.write_text(rendered)
  print(f'Pages that {"differ" if _CHECK.value else "were written"}: {", ".join(stale) or "none"}')
  if stale and _CHECK.value:
    sys.exit(1)


if __name__ == '__main__':
  app.run(main)
