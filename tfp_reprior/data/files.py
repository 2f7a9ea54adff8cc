"""Raw data from .npz and .csv files, with errors that say where the mistake is."""

import csv
import math
import pathlib
import zipfile
from typing import NamedTuple

import numpy as np

from tfp_reprior import errors
from tfp_reprior.data import tables
from tfp_reprior.data.preparation import RawData
from tfp_reprior.internal import checks, parsing

_MARKS = {':class': True, ':real': False}
_MISSING = ('', 'na', 'n/a', 'nan', 'null')  # cells in small letters


def suffix(path):
  """What a path ends in, from its last dot on: `'.csv'`, for example."""
  return pathlib.PurePath(path).suffix


def read_npz(path):
  """The `RawData` of a .npz file: arrays `x` and `y`, or `x_train`, `y_train`, ... `y_test`."""
  arrays = _read_arrays(path)
  if 'x_train' in arrays:
    names = ['x_train', 'y_train']
    names += ['x_test', 'y_test'] if {'x_test', 'y_test'} & set(arrays) else []
  else:
    names = ['x', 'y']
  missing = [name for name in names if name not in arrays]
  if missing:
    raise errors.InputError(
      f'{path} must hold the arrays x and y, or x_train and y_train (and perhaps x_test and '
      f'y_test). Received: {", ".join(arrays) or "no array"}'
    )
  xs = [_inputs(path, name, arrays[name]) for name in names[0::2]]
  ys = [_targets(path, name, arrays[name], len(x)) for name, x in zip(names[1::2], xs, strict=True)]
  if len({x.shape[1:] for x in xs}) > 1 or len({(y.shape[1:], y.dtype.kind) for y in ys}) > 1:
    raise errors.InputError(
      f'Training and test data in {path} must have the same shapes and kinds. Received: '
      + ', '.join(f'{name} {arrays[name].shape} of {arrays[name].dtype}' for name in names)
    )
  class_names, note = None, ''
  if ys[0].ndim == 1:
    note = _note(f'y in {path}', ys[0], 'floats', 'text')
    if tables.class_values(np.concatenate(ys)) is None:
      ys = [y[:, np.newaxis].astype(np.float64) for y in ys]
    else:
      class_names, ys = _classes(path, ys)
  data = [a for pair in zip(xs, ys, strict=True) for a in pair]
  return RawData(*data, class_names=class_names, by_column=xs[0].ndim == 2, note=note)


def read_new_npz(path, preparation):
  """Inputs, and targets or `None`, of a .npz file with data to predict for."""
  arrays = _read_arrays(path)
  x_name, y_name = ('x', 'y') if 'x' in arrays else ('x_test', 'y_test')
  if x_name not in arrays:
    raise errors.InputError(
      f'{path} must hold an array x (or x_test). Received: {", ".join(arrays) or "no array"}'
    )
  x = _inputs(path, x_name, arrays[x_name])
  if y_name not in arrays:
    return x, None
  y = _targets(path, y_name, arrays[y_name], len(x))
  if preparation.class_names is None and y.dtype.kind in 'iu':
    y = y[:, np.newaxis].astype(np.float64)
  if (y.ndim == 1) != (preparation.class_names is not None):
    kind = 'real numbers' if preparation.class_names is None else 'classes'
    raise errors.InputError(
      f'{y_name} in {path} must be {kind}, as the training targets. Received: dtype {y.dtype}'
    )
  if preparation.class_names is not None:
    preparation.labels(y)  # unknown ones are refused
  return x, y


def _read_arrays(path):
  _check_is_file(path)
  try:
    checks.fits_memory(path, _num_bytes(path))
    with np.load(path, allow_pickle=False) as file:
      return {name: file[name] for name in file.files}
  except errors.InputError:
    raise
  except Exception as e:  # what is damaged can fail in any way
    raise errors.InputError(f'{path} must be a .npz file of arrays, as of numpy.savez: {e}') from e


def _num_bytes(path):
  """What the arrays of a .npz file take in memory, by their headers; refuses those that lie."""
  total = 0
  with zipfile.ZipFile(path) as archive:
    for member in archive.infolist():
      with archive.open(member) as file:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0
        shape, _, dtype = (read if version == (1, 0) else np.lib.format.read_array_header_2_0)(file)
        num_bytes = math.prod(shape) * dtype.itemsize
        if num_bytes != member.file_size - file.tell() and not dtype.hasobject:
          raise errors.InputError(
            f'{path} is damaged: {member.filename} should have {num_bytes} bytes of numbers. '
            f'Received: {member.file_size - file.tell()}'
          )
      total += num_bytes
  return total


def _check_is_file(path):
  if not pathlib.Path(path).is_file():
    raise errors.InputError(f'There is no file {path}')


def _inputs(path, name, x):
  """Numbers `[n, ...]`."""
  if x.dtype.kind not in 'biuf' or x.ndim == 0 or x.size == 0:
    raise errors.InputError(
      f'{name} in {path} must hold numbers, a row for each input. Received: dtype {x.dtype}, '
      f'shape {x.shape}'
    )
  _check_finite(path, name, x)
  return x[:, np.newaxis] if x.ndim == 1 else x


def _targets(path, name, y, length):
  """Real targets `[n, k]`, or labels `[n]` of any kind."""
  if y.ndim == 0 or len(y) != length:
    raise errors.InputError(
      f'{name} in {path} must have a target for each of {length} inputs. Received: shape {y.shape}'
    )
  if y.dtype.kind == 'f' and y.ndim <= 2:
    _check_finite(path, name, y)
    return y.reshape([length, -1])
  if y.dtype.kind in 'biuU' and y.size == length:
    return y.reshape([-1])
  raise errors.InputError(
    f'{name} in {path} must be floats [n] or [n, k], or labels [n], integers or text. Received: '
    f'dtype {y.dtype}, shape {y.shape}'
  )


def _check_finite(path, name, a):
  if not np.all(np.isfinite(a)):
    first = tuple(int(i) for i in np.argwhere(~np.isfinite(a))[0])
    raise errors.InputError(
      f'{name} in {path} must be finite. Received: {a[first]} at index {first}'
    )


def _classes(path, labels):
  """Names of the classes, and for each vector of labels their positions."""
  values, positions = np.unique(np.concatenate(labels), return_inverse=True)
  if len(values) < 2:
    raise errors.InputError(
      f'Targets in {path} must have two classes or more. Received: {values[0]} only'
    )
  ends = np.cumsum([len(vector) for vector in labels])
  return tuple(str(v) for v in values), np.split(positions, ends[:-1])


class _Table(NamedTuple):
  """Cells of a .csv file as text, with the number of the line of each row."""

  path: str
  names: list
  rows: list
  lines: list

  def column(self, name, is_complete=True):
    """Cells of a column, with None for those that are missing, if they may be."""
    index = self.names.index(name)
    cells = [row[index].strip() for row in self.rows]
    cells = [None if cell.lower() in _MISSING else cell for cell in cells]
    if is_complete and None in cells:
      raise self.error(
        cells.index(None), name, 'the value is missing; imputed only in inputs, and by asking'
      )
    return cells

  def numbers(self, name, is_complete=True):
    """A column as float64, with NaN for missing values, if there may be any."""
    cells = self.column(name, is_complete)
    for i, cell in enumerate(cells):
      if cell is not None and not parsing.is_finite_number(cell):
        raise self.error(i, name, f'must be a finite number. Received: {cell!r}')
    return np.array([np.nan if cell is None else cell for cell in cells], np.float64)

  def inputs(self, name, is_complete, is_text=None):
    """Numbers, or text with None; by default numbers, if half of the cells or more are."""
    cells = self.column(name, is_complete)
    if is_text is None:
      present = [cell for cell in cells if cell is not None]
      is_text = sum(map(parsing.is_finite_number, present)) < len(present) / 2
    return np.array(cells, object) if is_text else self.numbers(name, is_complete)

  def error(self, i, name, problem):
    return errors.InputError(f'{self.path}, line {self.lines[i]}, column {name!r}: {problem}')


def read_csv(path, target=None, missing='refuse'):
  """The `RawData` of a .csv file; see `tfp_reprior.data.load` for `target` and `missing`."""
  table = _read_table(path)
  if len(table.names) < 2:
    raise errors.InputError(
      f'{path} must have two columns or more, with commas between them. Received: {table.names}'
    )
  target, is_class = _find_target(table, target)
  features = [name for name in table.names if name != target]
  x = tables.Table({name: table.inputs(name, missing == 'refuse') for name in features})
  class_names, note, cells = None, '', table.column(target)
  if is_class:
    cells = list(map(_label, cells))
  labels = np.array(cells)
  if all(map(_is_integer, cells)):
    labels = labels.astype(int)  # so that 10 comes after 9
    if is_class is None:
      note = _note(f'{target!r}', labels, f'target {target}:real', f'target {target}:class')
      is_class = tables.class_values(labels) is not None
  if is_class or (is_class is None and not any(map(parsing.is_finite_number, cells))):
    class_names, [y] = _classes(path, [labels])
  else:
    y = table.numbers(target)[:, np.newaxis]
  return RawData(
    x, y, class_names=class_names, target_name=target, by_column=True, missing=missing, note=note
  )


def _note(name, y, for_reals, for_classes):
  """What is made of targets that are integers, for the user."""
  if y.dtype.kind not in 'iu':
    return ''
  values = tables.class_values(y)
  if values is None:
    return f'{name}: integers of many values, taken as real numbers; for classes: {for_classes}'
  return f'{name}: integers of {len(values)} values, taken as classes; for regression: {for_reals}'


def read_new_csv(path, preparation):
  """Inputs, and targets or `None`, of a .csv file with data to predict for."""
  if preparation.feature_names is None:
    raise errors.InputError(
      'New inputs must come in a .npz file, as the training inputs have no names of columns. '
      f'Received: {path}'
    )
  table = _read_table(path)
  missing = [name for name in preparation.feature_names if name not in table.names]
  if missing:
    raise errors.InputError(
      f'{path} must have all columns of the training inputs; it has no {missing}. Received: '
      f'{table.names}'
    )
  specs = preparation.columns
  if specs is None:
    x = np.stack([table.numbers(name) for name in preparation.feature_names], axis=1)
  else:
    columns = {
      s['name']: table.inputs(s['name'], s['fill'] is None, s['values'] is not None) for s in specs
    }
    x = tables.Table(columns)
  if preparation.target_name not in table.names:
    return x, None
  if preparation.class_names is None:
    return x, table.numbers(preparation.target_name)[:, np.newaxis]
  names = [
    name if name in preparation.class_names else _label(name)
    for name in table.column(preparation.target_name)
  ]
  preparation.labels(names)  # unknown ones are refused
  return x, np.array(names)


def _read_table(path):
  _check_is_file(path)
  # Spreadsheet programs begin files with a byte order mark, which utf-8-sig leaves out.
  with open(path, newline='', encoding='utf-8-sig') as file:
    # Commas alone: `csv.Sniffer` guesses, and misreads doubled quotes if the lines that it saw have
    # none.
    reader = csv.reader(file, strict=True)
    try:
      numbered = [(reader.line_num, row) for row in reader if row]
    except UnicodeDecodeError as e:
      raise errors.InputError(f'{path} must be text in UTF-8: {e}') from e
    except csv.Error as e:
      raise errors.InputError(f'{path}, line {reader.line_num}: {e}') from e
  if len(numbered) < 2:
    raise errors.InputError(f'{path} must have a line of names and a line of data at least.')
  names = [name.strip() for name in numbered[0][1]]
  _check_names(path, names)
  for line, row in numbered[1:]:
    if len(row) != len(names):
      raise errors.InputError(
        f'{path}, line {line}: must have {len(names)} values, as line {numbered[0][0]}. '
        f'Received: {len(row)}'
      )
  lines, rows = zip(*numbered[1:], strict=True)
  table = _Table(str(path), names, list(rows), list(lines))
  _check_first_line(table)
  return table


def _check_names(path, names):
  if len(set(names)) < len(names) or '' in names:
    raise errors.InputError(f'Columns of {path} must have names, all different. Received: {names}')


def _check_first_line(table):
  """Refuses data where names of columns should be: numbers above numbers, text above text."""
  is_counted = table.names == [str(i) for i in range(len(table.names))]
  is_number = [parsing.is_finite_number(name) for name in table.names]
  pairs = [
    (parsing.is_finite_number(name), parsing.is_finite_number(cell.strip()))
    for name, cell in zip(table.names, table.rows[0], strict=True)
    if not {name.lower(), cell.strip().lower()} & set(_MISSING)  # which could be either
  ]
  is_alike = any(is_number) and all(above == below for above, below in pairs)
  looks_like_data = all(is_number) or is_alike
  if looks_like_data and not is_counted:
    raise errors.InputError(
      f'{table.path} must begin with a line of names of the columns, with letters where numbers '
      f'follow. Received: {",".join(table.names)}'
    )


def _find_target(table, target):
  """Name of the column, and whether it holds classes; None if that was not said."""
  if target is None:
    return table.names[-1], None
  if target in table.names:
    return target, None
  name, mark, kind = target.rpartition(':')
  if name not in table.names or mark + kind not in _MARKS:
    raise errors.InputError(
      f'`target` must be a column of {table.path}, which are {", ".join(table.names)}. Received: '
      f'target={target!r}'
    )
  return name, _MARKS[mark + kind]


def _label(cell):
  """A class by its name; numbers that are equal are one class, however they are written."""
  if not parsing.is_finite_number(cell):
    return cell
  value = parsing.number(cell)
  return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)


def _is_integer(cell):
  try:
    return str(int(cell)) == cell
  except ValueError:
    return False
