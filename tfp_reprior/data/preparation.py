"""From raw data to what a network is given, and back to the units of the raw targets."""

import dataclasses
import json
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tfp_reprior import errors


@dataclasses.dataclass(frozen=True)
class RawData:
  """Data as they come.

  Attributes:
    x: Inputs `[n, ...]`.
    y: Real targets `[n, k]`, or labels `[n]`: integers, positions in `class_names`.
    x_test: Inputs `[m, ...]`; `None` if the set has no test data of its own.
    y_test: As `y`, of the test data.
    class_names: Tuple of strings; `None` if the targets are real.
    feature_names: Tuple of strings, the columns of `x`; `None` if they have no names.
    target_name: String, or `None`.
    by_column: Whether each column of `x` is standardized by itself, as its units are its own.
  """

  x: np.ndarray
  y: np.ndarray
  x_test: np.ndarray | None = None
  y_test: np.ndarray | None = None
  class_names: tuple | None = None
  feature_names: tuple | None = None
  target_name: str | None = None
  by_column: bool = False


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

  @classmethod
  def of(cls, raw: RawData, x_train: np.ndarray, y_train: np.ndarray) -> 'Preparation':
    """The preparation with the figures of the training data, which were chosen from `raw`."""
    x_mean, x_std = _figures(x_train, by_column=raw.by_column)
    y_mean, y_std = 0.0, 1.0
    if raw.class_names is None:
      _refuse_constants(y_train)
      y_mean, y_std = _figures(y_train, by_column=True)
    names = raw.class_names, raw.feature_names, raw.target_name
    return cls(x_mean, x_std, y_mean, y_std, *names)

  @property
  def num_classes(self) -> int | None:
    """The number of classes; `None` if the targets are real."""
    return None if self.class_names is None else len(self.class_names)

  def inputs(self, x: ArrayLike) -> np.ndarray:
    """Standardizes inputs `[m, ...]`, as float32."""
    return _scale(x, self.x_mean, self.x_std)

  def targets(self, y: ArrayLike) -> np.ndarray:
    """Centered one-hot vectors of labels `[m]`, or standardized real targets `[m, k]`."""
    if self.class_names is None:
      return _scale(y, self.y_mean, self.y_std)
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
    """Targets `[..., k]` (or predictions of them) in the units of the raw ones."""
    return np.asarray(y) * self.y_std + self.y_mean

  def restore_scale(self, stddev: ArrayLike) -> np.ndarray:
    """Standard deviations `[..., k]` of targets in the units of the raw ones."""
    return np.asarray(stddev) * self.y_std

  def to_json(self) -> str:
    """Everything, as text."""
    return json.dumps(dataclasses.asdict(self), indent=1)

  @classmethod
  def from_json(cls, text: str) -> 'Preparation':
    """The inverse of `to_json`."""
    fields = json.loads(text)
    for name in ('class_names', 'feature_names'):
      if fields[name] is not None:
        fields[name] = tuple(fields[name])
    return cls(**fields)

  def __repr__(self):
    names = ('x_mean', 'x_std', 'y_mean', 'y_std')
    figures = ', '.join(f'{name}={_shown(getattr(self, name))}' for name in names)
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
  figures = _figures(train, by_column=False)
  return tuple(_scale(a, *figures) for a in (train, test))


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


def _figures(train, by_column):
  """Mean and standard deviation, of everything or of each column; floats, or lists of them."""
  if not by_column:
    mean, std = np.mean(train), np.std(train)
    if not std > 0:
      raise errors.InputError(
        f'`train` must not be constant. Received: {np.size(train)} times {mean}'
      )
    return float(mean), float(std)
  # A column that is constant tells nothing; in a small subset that is no mistake.
  std = np.where(np.ptp(train, axis=0) > 0, np.std(train, axis=0), 1.0)
  return np.mean(train, axis=0).tolist(), std.tolist()


def _refuse_constants(y):
  if np.any(np.ptp(y, axis=0) == 0):
    raise errors.InputError(
      f'Training targets must not be constant. Received: {len(y)} targets, the first is {y[0]}'
    )


def _shown(figure):
  """A float, or a list of them, as text."""
  values = np.ravel(figure)
  return f'{values[0]:.3g}' if len(values) == 1 else f'[{len(values)} numbers]'


def _scale(a, mean, std):
  return ((a - np.asarray(mean)) / np.asarray(std)).astype(np.float32)
