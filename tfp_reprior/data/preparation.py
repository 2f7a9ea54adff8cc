"""From raw data to what a network is given, and back to the units of the raw targets."""

import dataclasses
import json
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tfp_reprior import errors
from tfp_reprior.data import logarithms, tables
from tfp_reprior.internal import checks

# Columns whose mean is this close to 0 and deviation to 1 have been standardized before.
_TOLERANCE = 1e-3


@dataclasses.dataclass(frozen=True)
class RawData:
  """Data as they come.

  Attributes:
    x: Inputs, an array `[n, ...]` or a `Table`.
    y: Real targets `[n, k]`, or labels `[n]`: integers, positions in `class_names`.
    x_test: As `x`; `None` if the set has no test data of its own.
    y_test: As `y`, of the test data.
    class_names: Tuple of strings; `None` if the targets are real.
    feature_names: Tuple of strings, the columns of `x`; `None` if they have no names.
    target_name: String, or `None`.
    by_column: Whether each column of `x` is standardized by itself, as its units are its own.
    missing: What to do about missing values, one of `tables.MISSING`.
    note: What was decided about the targets, for the user; empty if there was no choice.
  """

  x: np.ndarray | tables.Table
  y: np.ndarray
  x_test: np.ndarray | tables.Table | None = None
  y_test: np.ndarray | None = None
  class_names: tuple | None = None
  feature_names: tuple | None = None
  target_name: str | None = None
  by_column: bool = False
  missing: str = 'refuse'
  note: str = ''


@dataclasses.dataclass(frozen=True)
class Preparation:
  """How raw data become inputs and targets, so that new data can be treated alike.

  The default changes nothing.

  Attributes:
    x_mean: Float, or a list of them, one for each column of the inputs.
    x_std: As `x_mean`.
    y_mean: List of `k` floats, or a float; of no meaning for classes.
    y_std: As `y_mean`.
    class_names: Tuple of strings; `None` if the targets are real.
    feature_names: Tuple of strings, the columns of the inputs; `None` if they have no names.
    target_name: String, or `None`.
    columns: Tuple of dicts, how the columns of a table become numbers: `name`; `values`, the
      categories, which have a column of zeros and ones each, or `None`; and `fill`, what stands for
      a missing value, or `None`. `None` if the inputs are no table.
    data_name: String, what the data set is called, or `None`.
    log_below: List of `k` floats, the largest training targets, if the targets are in logarithms:
      up to there, and beyond in their tangents; else `None`. `y_mean` and `y_std` are of these.

  #### Examples

  ```python
  import tfp_reprior as tfr

  data = tfr.data.load('toy')
  y = data.preparation.restore(data.y_train)  # in the units of the raw targets
  ```
  """

  x_mean: float | list = 0.0
  x_std: float | list = 1.0
  y_mean: float | list = 0.0
  y_std: float | list = 1.0
  class_names: tuple | None = None
  feature_names: tuple | None = None
  target_name: str | None = None
  columns: tuple | None = None
  data_name: str | None = None
  log_below: list | None = None

  @classmethod
  def of(
    cls,
    raw: RawData,
    x_train: np.ndarray | tables.Table,
    y_train: np.ndarray,
    log_targets: bool | str = False,
    others: Sequence[ArrayLike] = (),
  ) -> 'Preparation':
    """The preparation with the figures of the training data, which were chosen from `raw`.

    Real targets are in logarithms if `log_targets`, or, for `'auto'`, if all of them and those of
    `others` are positive, and their logarithms are far easier to explain.
    """
    columns, names, blocks = None, raw.feature_names, []
    if isinstance(x_train, tables.Table):
      columns, names = tables.fit(x_train, raw.missing), tuple(x_train.columns)
      x_train, blocks = tables.encode(columns, x_train), tables.groups(columns)
    figures = _figures(x_train, raw.by_column or columns is not None, blocks)
    x_mean, x_std = _unless_done(*figures)
    y_mean, y_std, log_below = 0.0, 1.0, None
    if raw.class_names is None:
      log_below = logarithms.choose(log_targets, x_train, y_train, others)
      if log_below is not None:
        y_train = logarithms.take(y_train, log_below)
      y_mean, y_std = _unless_done(*_figures(y_train, by_column=True))
    return cls(
      x_mean,
      x_std,
      y_mean,
      y_std,
      raw.class_names,
      names,
      raw.target_name,
      columns,
      log_below=log_below,
    )

  @property
  def num_classes(self) -> int | None:
    """The number of classes; `None` if the targets are real."""
    return None if self.class_names is None else len(self.class_names)

  @property
  def input_names(self) -> tuple | None:
    """Names of the inputs of the network: those of columns, and `'color=red'` for categories."""
    return self.feature_names if self.columns is None else tables.encoded_names(self.columns)

  def inputs(self, x: Any, dtype: Any = np.float32, name: str = 'x') -> np.ndarray:
    """Standardizes inputs: an array `[m, ...]`, or a table (a DataFrame) by names of columns.

    The `name` is what errors call them.
    """
    table = tables.as_table(x)
    if self.columns is not None:
      table = self._by_position(name, checks.array(name, x)) if table is None else table
      x = tables.encode(self.columns, table)
    else:
      x = tables.as_inputs(name, x if table is None else table)
      x = tables.as_numbers(x) if isinstance(x, tables.Table) else x
    if isinstance(self.x_mean, list) and np.shape(x)[1:] != (len(self.x_mean),):
      raise errors.InputError(
        f'`{name}` must have shape [n, {len(self.x_mean)}], the columns of the training inputs. '
        f'Received: {name} of shape {np.shape(x)}'
      )
    return _scale(x, self.x_mean, self.x_std, dtype)

  def _by_position(self, name, x):
    """A table of an array `[m, d]` whose columns come in the order of those of training."""
    if x.ndim != 2 or x.shape[1] != len(self.columns):
      raise errors.InputError(
        f'`{name}` must have shape [n, {len(self.columns)}], the columns of the training inputs. '
        f'Received: {name} of shape {x.shape}'
      )
    return tables.as_table({spec['name']: x[:, i] for i, spec in enumerate(self.columns)})

  def restore_inputs(self, x: ArrayLike) -> np.ndarray:
    """Inputs of the network `[m, ...]` in the units of the raw ones."""
    return _unscale(x, self.x_mean, self.x_std)

  def targets(self, y: ArrayLike, dtype: Any = np.float32) -> np.ndarray:
    """Centered one-hot vectors of labels `[m]`, or standardized real targets `[m, k]`."""
    if self.class_names is None:
      y = y if self.log_below is None else logarithms.take(y, self.log_below)
      return _scale(y, self.y_mean, self.y_std, dtype)
    return centered_one_hot(y, self.num_classes)

  def labels(self, names: Iterable[Any]) -> np.ndarray:
    """Labels `[m]`, positions in `class_names`, of classes that are given by name."""
    positions = {name: i for i, name in enumerate(self.class_names)}
    names = [str(name) for name in names]
    unknown = sorted(set(names) - set(positions))
    if unknown:
      raise errors.InputError(
        f'Labels must be among the classes {", ".join(self.class_names)}. Received: '
        + ', '.join(unknown)
      )
    return np.array([positions[name] for name in names], int)

  def restore_labels(self, y: ArrayLike) -> np.ndarray:
    """Labels `[m]` of centered one-hot vectors `[m, k]`, for likelihoods of classes."""
    if self.class_names is None:
      raise errors.InputError('Labels are of classes. Received: data with real targets')
    return np.argmax(y, axis=-1)

  def restore(self, y: ArrayLike) -> np.ndarray:
    """Targets `[..., k]` in the units of the raw ones."""
    y = _unscale(y, self.y_mean, self.y_std)
    return y if self.log_below is None else logarithms.undo(y, self.log_below)

  def restore_scale(self, stddev: ArrayLike) -> np.ndarray:
    """Standard deviations `[..., k]` in the units of the raw targets, or of their logarithms."""
    return np.asarray(stddev) * self.y_std

  def names(self) -> dict[str, str]:
    """What there are names of, for a page: data set, target, inputs of the network, classes."""
    listed = {'inputs': self.input_names, 'classes': self.class_names}
    found = {name: ', '.join(values) for name, values in listed.items() if values}
    single = {'data': self.data_name, 'target': self.target_name}
    return {name: value for name, value in single.items() if value is not None} | found

  def to_json(self) -> str:
    """Everything, as text."""
    return json.dumps(dataclasses.asdict(self), indent=1)

  @classmethod
  def from_json(cls, text: str) -> 'Preparation':
    """The inverse of `to_json`."""
    try:
      fields = {'log_below': None, **json.loads(text)}  # which older files leave out
      for name in ('x_mean', 'x_std', 'y_mean', 'y_std'):
        np.asarray(fields[name], np.float64)
      known = {field.name for field in dataclasses.fields(cls)}
      is_right = set(fields) == known
    except (ValueError, TypeError, KeyError):
      is_right = False
    if not is_right:
      raise errors.InputError(
        f'`text` must be what `Preparation.to_json` gives. Received: text={text[:100]!r}'
      )
    for name in ('class_names', 'feature_names', 'columns'):
      if fields.get(name) is not None:
        fields[name] = tuple(fields[name])
    return cls(**fields)

  def __repr__(self):
    names = ('x_mean', 'x_std', 'y_mean', 'y_std')
    figures = ', '.join(f'{name}={_shown(getattr(self, name))}' for name in names)
    if self.log_below is not None:
      figures += ', in logarithms'
    return f'Preparation({figures}, num_classes={self.num_classes})'


def standardize(train: ArrayLike, test: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
  """Subtracts the mean of `train` and divides by its deviation, one number each, as float32.

  #### Examples

  ```python
  import numpy as np
  import tfp_reprior as tfr

  x = np.random.default_rng(0).uniform(0, 255, size=[50, 8, 8])
  x_train, x_test = tfr.data.standardize(x[:40], x[40:])
  x_train.mean(), x_train.std()  # ==> 0 and 1; those of x_test are close
  ```
  """
  mean, std = _figures(train, by_column=False)
  return _scale(train, mean, std, np.float32), _scale(test, mean, std, np.float32)


def centered_one_hot(labels: ArrayLike, num_classes: int) -> np.ndarray:
  """One-hot vectors minus `1 / num_classes`, so that they sum to zero: `[n, num_classes]`.

  #### Examples

  ```python
  import tfp_reprior as tfr

  tfr.data.centered_one_hot([0, 1], num_classes=2)  # ==> [[0.5, -0.5], [-0.5, 0.5]]
  ```
  """
  labels = np.asarray(labels)
  is_vector = labels.ndim == 1 and np.issubdtype(labels.dtype, np.integer)
  if not is_vector or not np.all((labels >= 0) & (labels < num_classes)):
    raise errors.InputError(
      f'`labels` must be a vector of integers from 0 to {num_classes - 1}. Received: labels of '
      f'dtype {labels.dtype} and shape {labels.shape}, {labels}'
    )
  return (np.eye(num_classes)[labels] - 1 / num_classes).astype(np.float32)


def _figures(train, by_column, blocks=()):
  """Mean and standard deviation, of everything or of each column; floats, or lists of them.

  The columns of one category, a slice of `blocks`, share a deviation, that of their vector: then a
  category weighs as much as a number, and a rare one no more than others.
  """
  train = np.asarray(train, np.float64)
  axis = 0 if by_column else None
  # A power of two, which changes no digit, so that squares of large numbers do not overflow.
  _, exponent = np.frexp(np.max(np.abs(train), axis=axis))
  unit = np.ldexp(1.0, np.maximum(exponent - 1, -1000))
  mean, std = np.mean(train / unit, axis=axis) * unit, np.std(train / unit, axis=axis) * unit
  if not by_column:
    if not std > 0:
      raise errors.InputError(
        f'`train` must not be constant. Received: {np.size(train)} times {mean}'
      )
    return float(mean), float(std)
  # A column that is constant tells nothing; in a small subset that is no mistake.
  is_constant = np.min(train, axis=0) == np.max(train, axis=0)
  mean, std = np.where(is_constant, train[0], mean), np.where(is_constant, 0.0, std)
  for block in blocks:
    std[block] = np.sqrt(np.sum(std[block] ** 2))
  return mean.tolist(), np.where(std > 0, std, 1.0).tolist()


def _unless_done(mean, std):
  """The same figures, but 0 and 1 where data have been standardized before, which then stay."""
  is_done = (np.abs(mean) < _TOLERANCE) & (np.abs(np.subtract(std, 1)) < _TOLERANCE)
  return np.where(is_done, 0.0, mean).tolist(), np.where(is_done, 1.0, std).tolist()


def refuse_constants(y, name='y'):
  """Refuses real targets `[n, k]` that do not vary."""
  if np.any(np.min(y, axis=0) == np.max(y, axis=0)):
    raise errors.InputError(
      f'Training targets must not be constant. Received: {len(y)} targets, the first is {y[0]}, '
      f'of {name}'
    )


def _shown(figure):
  """A float, or a list of them, as text."""
  values = np.ravel(figure)
  return f'{values[0]:.3g}' if len(values) == 1 else f'[{len(values)} numbers]'


def _is_untouched(mean, std):
  return isinstance(mean, float) and (mean, std) == (0.0, 1.0)


def _unscale(a, mean, std):
  a = np.asarray(a)
  return a if _is_untouched(mean, std) else a * std + mean


def _scale(a, mean, std, dtype):
  a = np.asarray(a)
  if _is_untouched(mean, std):
    return a.astype(dtype) if a.dtype.kind == 'f' else a  # tokens stay integers
  return ((a - np.asarray(mean)) / np.asarray(std)).astype(dtype)
