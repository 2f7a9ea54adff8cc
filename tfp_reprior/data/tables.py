"""Tables of mixed columns as numbers: categories one-hot, missing values refused or imputed."""

import datetime
import numbers
import re
import warnings

import numpy as np

from tfp_reprior import errors
from tfp_reprior.internal import checks, parsing

MISSING = ('refuse', 'impute')

_FEW = 20  # values, that are categories for certain
_DATE = re.compile(r'\d{4}-\d{1,2}-\d{1,2}([ T].*)?|\d{1,2}[/.]\d{1,2}[/.]\d{2,4}')


class Table:
  """Columns by name, all of one length.

  Args:
    columns: Dict of vectors: float64, with NaN where a value is missing, or objects, text with None
      where it is.
  """

  def __init__(self, columns):
    self.columns = columns

  def __len__(self):
    return len(next(iter(self.columns.values())))

  def __getitem__(self, rows):
    return Table({name: values[rows] for name, values in self.columns.items()})


def as_table(x):
  """The `Table` of a DataFrame, a dict of columns, or an array of objects; None of other arrays."""
  if isinstance(x, Table):
    return x
  if hasattr(x, 'to_pandas'):
    x = x.to_pandas()
  if hasattr(x, 'columns') and hasattr(x, 'isna'):
    names = [str(name) for name in x.columns]
    if len(set(names)) < len(names):
      raise errors.InputError(f'Columns of `x` must have different names. Received: {names}')
    series = [x.iloc[:, i] for i in range(len(names))]
    is_category = [s.dtype.name == 'category' for s in series]
    columns = [
      s.astype(object).to_numpy() if c else s.to_numpy()
      for s, c in zip(series, is_category, strict=True)
    ]
    missing = [s.isna().to_numpy() for s in series]
  elif isinstance(x, dict) and not hasattr(x, 'shape'):  # as some sparse matrices
    names, columns = [str(name) for name in x], [_vector(*item) for item in x.items()]
    if len(set(map(len, columns))) > 1:
      lengths = ', '.join(f'{name!r} {len(c)}' for name, c in zip(names, columns, strict=True))
      raise errors.InputError(f'Columns of `x` must have one length. Received: {lengths}')
    missing = [np.array([v is None or v != v for v in values], bool) for values in columns]
    is_category = [False] * len(names)
  else:
    return None
  if not names:
    raise errors.InputError('`x` must have one column or more. Received: a table without columns')
  pieces = zip(names, columns, missing, is_category, strict=True)
  return Table({name: _column(name, *piece) for name, *piece in pieces})


def as_inputs(name, x):
  """A `Table`, or an array `[n, ...]` of finite numbers; anything else is refused."""
  table = as_table(x)
  if table is None:
    x = checks.finite_array(name, x)
    if x.dtype.kind == 'O' and x.ndim == 2:
      table = as_table({f'column {i}': x[:, i] for i in range(x.shape[1])})
    elif x.dtype.kind in 'UO':
      raise errors.InputError(
        f'`{name}` must hold numbers; with columns of text, give a DataFrame. Received: {name} of '
        f'dtype {x.dtype}'
      )
  x = x if table is None else table
  if len(x) == 0:
    raise errors.InputError(f'`{name}` must hold one input or more. Received: {name} without rows')
  return x


def _column(name, values, is_missing, is_category):
  """Float64 with NaN, or text with None."""
  present = values[~is_missing]
  if values.dtype.kind in 'mM' or any(
    isinstance(v, (datetime.date, datetime.time)) for v in present
  ):
    raise errors.InputError(_dates(name, present))
  are_numbers = all(isinstance(v, (numbers.Real, np.bool_)) for v in present)
  if are_numbers and not is_category:
    column = np.full(len(values), np.nan)
    try:
      column[~is_missing] = present.astype(np.float64)
    except OverflowError as e:
      raise errors.InputError(f'Column {name!r} must be finite. Received: {e}') from e
    if np.any(np.isinf(column)):
      row = int(np.flatnonzero(np.isinf(column))[0])
      raise errors.InputError(
        f'Column {name!r} must be finite. Received: {column[row]} in row {row}'
      )
    return column
  others = [v for v in present if not isinstance(v, (str, numbers.Real, np.bool_))]
  if others:
    raise errors.InputError(
      f'Column {name!r} must hold numbers or text. Received: {type(others[0]).__name__} '
      f'{others[0]!r}'
    )
  column = np.full(len(values), None, object)
  column[~is_missing] = [_text(v) for v in present]
  return column


def _vector(name, values):
  values = checks.array(f'x[{name!r}]', values)
  if values.ndim != 1:
    raise errors.InputError(
      f'Columns of `x` must be vectors. Received: {name!r} of shape {values.shape}'
    )
  return values


def _text(value):
  """A category as text, 2.0 and 2 alike."""
  is_whole = isinstance(value, numbers.Real) and float(value).is_integer()
  return str(int(value) if is_whole and not isinstance(value, bool) else value)


def _dates(name, values):
  return (
    f'Column {name!r} holds dates, which have no scale of their own: give numbers instead, such as '
    f'days since a date, the month or the hour. Received: {values[0]}'
  )


def fit(table, missing='refuse'):
  """How columns become numbers, by their training values.

  Args:
    table: A `Table`.
    missing: `'refuse'`, or `'impute'`: the median, or the most frequent category.

  Returns:
    Tuple of dicts for JSON, one for each column: its `name`; `values`, the categories, None for
    numbers; `fill`, what stands for a missing value, None if that is refused.
  """
  checks.one_of('missing', missing, MISSING)
  specs = []
  for name, column in table.columns.items():
    is_missing = _is_missing(column)
    if np.all(is_missing):
      raise errors.InputError(f'Column {name!r} has no value at all: leave it out')
    if missing == 'refuse':
      _refuse_missing(name, is_missing)
    values = None
    if column.dtype == object:
      values = _sklearn('preprocessing').OneHotEncoder().fit(column[~is_missing, np.newaxis])
      values = values.categories_[0].tolist()
      _check_categories(name, values, len(column))
    fill = None
    if missing == 'impute':
      strategy, mark = ('median', np.nan) if values is None else ('most_frequent', None)
      imputer = _sklearn('impute').SimpleImputer(strategy=strategy, missing_values=mark)
      fill = imputer.fit(column[:, np.newaxis]).statistics_.tolist()[0]
    specs.append({'name': name, 'values': values, 'fill': fill})
  return tuple(specs)


def encode(specs, table):
  """The columns that `fit` saw, as numbers `[m, d]`; each category has a column of its own."""
  absent = [spec['name'] for spec in specs if spec['name'] not in table.columns]
  if absent:
    raise errors.InputError(
      f'Inputs must have all columns of the training inputs; there is no {absent}. Received: '
      f'{list(table.columns)}'
    )
  return np.concatenate([_encode(spec, table.columns[spec['name']]) for spec in specs], axis=1)


def _encode(spec, column):
  name, values = spec['name'], spec['values']
  is_missing = _is_missing(column)
  if spec['fill'] is None:
    _refuse_missing(name, is_missing)
  if values is None:
    if column.dtype == object:
      first = column[~is_missing][0]
      raise errors.InputError(
        f'Column {name!r} must hold numbers, as in training. Received: {first!r}'
      )
    return np.where(is_missing, spec['fill'], column).astype(np.float64)[:, np.newaxis]
  cells = np.array(
    [spec['fill'] if m else _text(v) for v, m in zip(column, is_missing, strict=True)], object
  )
  unknown = sorted(set(cells) - set(values))
  if unknown and column.dtype != object and not any(map(parsing.is_finite_number, values)):
    raise errors.InputError(
      f'Column {name!r} must hold categories as in training, such as {values[0]!r}. Received: '
      f'{unknown[0]}'
    )
  if unknown:
    warnings.warn(
      f'Column {name!r} has values that the training data do not have, and which count as none of '
      f'those: {", ".join(unknown[:5])}',
      stacklevel=2,
    )
  encoder = _sklearn('preprocessing').OneHotEncoder(
    categories=[np.array(values, object)], handle_unknown='ignore', sparse_output=False
  )
  return encoder.fit([[values[0]]]).transform(cells[:, np.newaxis])


def as_numbers(table):
  """The columns of a table `[m, d]` that must all be numbers, without missing ones."""
  specs = [{'name': name, 'values': None, 'fill': None} for name in table.columns]
  return encode(specs, table)


def encoded_names(specs):
  """Names of the columns of `encode`: `'age'`, `'color=red'`, `'color=blue'`."""
  return tuple(
    name
    for spec in specs
    for name in (
      [spec['name']] if spec['values'] is None else [f'{spec["name"]}={v}' for v in spec['values']]
    )
  )


def groups(specs):
  """Slices of the columns of `encode` that belong to one category each."""
  ends = np.cumsum([len(spec['values'] or [0]) for spec in specs])
  return [
    slice(int(end) - len(spec['values']), int(end))
    for spec, end in zip(specs, ends, strict=True)
    if spec['values'] is not None
  ]


def decode(specs, x):
  """The columns that `encode` made `x` `[m, d]` of: arrays `[m]` by name, of text for categories.

  A category that training data did not have is `'?'`.
  """
  columns, start = {}, 0
  for spec in specs:
    size = len(spec['values'] or [0])
    block = x[:, start : start + size]
    start += size
    if spec['values'] is None:
      columns[spec['name']] = block[:, 0]
    else:
      values, is_known = np.array(spec['values'], object), np.max(block, axis=1) > 0.5
      columns[spec['name']] = np.where(is_known, values[np.argmax(block, axis=1)], '?')
  return columns


def class_values(y):
  """The classes that targets `y` `[n]` hold by their type; None for real numbers.

  Text and booleans are classes. So are integers of few values: 20 at most, each 1.5 times on
  average, or 0 to k - 1 with five data or more for each.
  """
  if y.dtype.kind not in 'biuUO':
    return None
  kinds = {str if isinstance(v, str) else type(v) for v in y} if y.dtype.kind == 'O' else set()
  if kinds and kinds not in ({str}, {bool}):
    raise errors.InputError(
      '`y` must hold numbers, or classes by text. Received: y with objects of type '
      + ', '.join(sorted(kind.__name__ for kind in kinds))
    )
  values = np.unique(y)
  if y.dtype.kind in 'iu':
    is_counted = values[0] == 0 and values[-1] == len(values) - 1 and 5 * len(values) <= len(y)
    if not (is_counted or (len(values) <= _FEW and 1.5 * len(values) <= len(y))):
      return None
  return values


def _is_missing(column):
  return np.array([v is None for v in column]) if column.dtype == object else np.isnan(column)


def _refuse_missing(name, is_missing):
  if np.any(is_missing):
    raise errors.InputError(
      f'Column {name!r} must have no missing values: leave the rows out, or ask for '
      f"missing='impute'. Received: {np.sum(is_missing)} missing, the first in row "
      f'{int(np.flatnonzero(is_missing)[0])}'
    )


def _check_categories(name, values, length):
  if all(_DATE.fullmatch(value) for value in values):
    raise errors.InputError(_dates(name, values))
  if len(values) > max(_FEW, length // 2):
    raise errors.InputError(
      f'Column {name!r} must hold numbers, or few different categories: if it names rows, leave it '
      f'out. Received: {len(values)} values in {length} rows, such as {values[0]!r}'
    )


def _sklearn(module):
  import importlib

  try:
    return importlib.import_module(f'sklearn.{module}')  # kept out of `import tfp_reprior`
  except ImportError as e:
    raise errors.MissingPackageError(
      'Categories and missing values need scikit-learn: pip install tfp-reprior[data]'
    ) from e
