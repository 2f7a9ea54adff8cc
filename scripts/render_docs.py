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
`where` takes rows with these values, such as `n = 64 or 256`; a key of a dict inside of the row is
`settings.num_chains`. `number of rows` is a key of every group. Numbers have three digits. With

  baseline: sampler = standard by width, n, seed

`theta ESS / 1k gradients / baseline` is a key, too: that of a row, over the mean of the baseline's
rows with the same width, n and seed. A single number in a text has file, `where`, key and, if
need be, baseline in a comment of one line:

  <!-- value: samplers.json; n = 64, width = 512; acceptance -->0.8<!-- end value -->

which shows the mean of several rows, and their range too if `; range` ends the comment.

A table whose file does not exist says so; `scripts/reproduce.sh` runs the command that writes it.
Tables of figures that are not made so are refused: `typed_tables`.

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
_BASELINE = ' / baseline'
_NOT_MEASURED = '*Not measured yet: the command above writes the figures of this table.*\n'
_VALUE = re.compile(r'(<!-- value: (?P<spec>[^\n]*?) -->)([^\n]*?)(<!-- end value -->)')
_FIGURE = re.compile(
  r'[-~(<]{0,2}\d[\d.,]*(e[-+]?\d+)?( ?(%|ms|s|\+-.*|to .*))?\)?( \(.*\))?(, \d.*)?'
)
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

  def load(name):
    return results.load(pathlib.Path(folder) / name)

  def replace(match):
    if not (pathlib.Path(folder) / match['file']).exists():
      return match[1] + _NOT_MEASURED + match[5]
    return match[1] + _table(load(match['file']), match['lines']) + match[5]

  def replace_value(match):
    name, where, key, *more = match['spec'].split('; ')
    has_range = more[-1:] == ['range']
    baseline = [text for text in more if text != 'range']
    rows = _select(load(name), _pairs(where), baseline[0] if baseline else None)
    values = [_get(row, key) for row in rows]
    return match[1] + (_cell if has_range else _mean)(values) + match[4]

  return _VALUE.sub(replace_value, _TABLE.sub(replace, text))


def typed_tables(text):
  """Headings of tables outside of results whose cells are numbers, most of them."""
  text = _TABLE.sub('', text)
  tables = re.findall(r'((?:^\|.*\n)+)', text, re.M)
  typed = []
  for lines in map(str.splitlines, tables):
    cells = [cell.strip(' *`') for line in lines[2:] for cell in line.strip('|').split('|')]
    if 2 * sum(bool(_FIGURE.fullmatch(cell)) for cell in cells) > len(cells):
      typed.append(lines[0])
  return typed


def _table(rows, lines):
  """The Markdown of one table."""
  wanted, keys, columns, baseline = [], [], [], None
  for line in filter(None, map(str.strip, lines.splitlines())):
    kind, _, rest = line.partition(': ')
    if kind == 'where':
      wanted += _pairs(rest)
    elif kind == 'by':
      keys += [_heading_and_key(part) for part in rest.split(', ')]
    elif kind == 'column':
      columns.append(_heading_and_key(rest))
    elif kind == 'baseline':
      baseline = rest
    else:
      raise ValueError(f'Lines of a table are where, by, column and baseline. Received: {line!r}')
  groups: dict[tuple, list] = {}
  for row in _select(rows, wanted, baseline):
    groups.setdefault(tuple(_get(row, key) for _, key in keys), []).append(row)
  cells = [[heading for heading, _ in [*keys, *columns]]]
  cells.append(['---'] * len(cells[0]))
  for values, group in groups.items():
    group = [{**row, 'number of rows': len(group)} for row in group]
    shown = [_cell([_get(row, key) for row in group]) for _, key in columns]
    cells.append([*(_cell([value]) for value in values), *shown])
  return ''.join('| ' + ' | '.join(line) + ' |\n' for line in cells)


def _pairs(text):
  return [pair.split(' = ') for pair in text.split(', ')]


def _select(rows, wanted, baseline):
  """Rows with the values of `wanted`, with their ratios to the baseline if there is one."""
  chosen = [row for row in rows if all(str(_get(row, key)) in v.split(' or ') for key, v in wanted)]
  if not chosen:
    raise ValueError(f'No row of the results has {wanted}.')
  if baseline is None:
    return chosen
  of, _, by = baseline.partition(' by ')
  bases = _select(rows, _pairs(of), None)
  by = by.split(', ')

  def alike(row):
    return [base for base in bases if all(_get(base, key) == _get(row, key) for key in by)]

  return [{**row, _BASELINE: alike(row)} for row in chosen]


def _heading_and_key(text):
  heading, _, key = text.rpartition(' = ')
  return heading or key, key


def _get(row, key):
  """The value of a key; empty if there is none."""
  if key.endswith(_BASELINE):
    key = key.removesuffix(_BASELINE)
    values = [_get(base, key) for base in row[_BASELINE]]
    below = [value for value in values if isinstance(value, float)]
    value = _get(row, key)
    return float(value / np.mean(below)) if below and isinstance(value, float) else ''
  for name in [key] if key in row else key.split('.'):
    if isinstance(row, list) and name.lstrip('-').isdigit():
      row = row[int(name)]
    elif isinstance(row, dict) and name in row:
      row = row[name]
    else:
      return ''
  return row


def _cell(values):
  """What a column shows of the rows of a group."""
  values = [value for value in values if value not in ('', None) and value == value]  # nor NaN
  if not values or not all(isinstance(value, float) for value in values):
    return ', '.join(dict.fromkeys(map(_number, values)))
  mean = _mean(values)
  if len(values) == 1:
    return mean
  return f'{mean} ({_number(min(values))} to {_number(max(values))})'


def _mean(values):
  """The mean of numbers, as text."""
  return _number(float(np.mean(values)))


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
