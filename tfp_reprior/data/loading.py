"""Data sets by name or path, prepared."""

import dataclasses
import os
from typing import Any, NamedTuple

import numpy as np

from tfp_reprior import errors
from tfp_reprior.data import files, logarithms, sources, subsets, tables
from tfp_reprior.data.preparation import Preparation, refuse_constants
from tfp_reprior.internal import checks

BUILT_IN = ('digits', 'diabetes', 'toy')


class Dataset(NamedTuple):
  """Prepared data, float32.

  Attributes:
    x_train: Inputs `[n, ...]`, standardized.
    y_train: Targets `[n, k]`.
    x_test: Inputs `[m, ...]`, standardized with the figures of the training inputs.
    y_test: Targets `[m, k]`.
    preparation: The `Preparation` that made them from the raw data.
    note: What was decided about the targets, and how to say otherwise; empty if nothing was.

  #### Examples

  ```python
  import tfp_reprior as tfr

  data = tfr.data.load('digits', num_train=100, num_test=20)
  data.x_train.shape, data.y_train.shape  # ==> (100, 8, 8), (100, 10)
  data.labels_train[:3]  # integers from 0 to 9, for a categorical likelihood
  ```
  """

  x_train: np.ndarray
  y_train: np.ndarray
  x_test: np.ndarray
  y_test: np.ndarray
  preparation: Preparation = Preparation()
  note: str = ''

  @property
  def num_classes(self) -> int | None:
    """The number of classes; `None` if the targets are real."""
    return self.preparation.num_classes

  @property
  def labels_train(self) -> np.ndarray:
    """The classes of the training data, integers `[n]`, for likelihoods of classes."""
    return self.preparation.restore_labels(self.y_train)

  @property
  def labels_test(self) -> np.ndarray:
    """The classes of the test data, integers `[m]`."""
    return self.preparation.restore_labels(self.y_test)

  def __repr__(self):
    names = ('x_train', 'y_train', 'x_test', 'y_test')
    shapes = ', '.join(f'{name}={list(np.shape(getattr(self, name)))}' for name in names)
    return f'Dataset({shapes}, num_classes={self.num_classes})'


def load(
  name: str | os.PathLike[str],
  num_train: int | None = None,
  num_test: int | None = None,
  seed: int = 0,
  data_dir: str | os.PathLike[str] | None = None,
  target: str | None = None,
  subset: str = 'random',
  missing: str = 'refuse',
  log_targets: bool | str = False,
) -> Dataset:
  """Loads a data set. Nothing is ever downloaded.

  Args:
    name: One of

      - `'digits'` (8 x 8 images, 10 classes) or `'diabetes'` (10 features, one real target), which
        come with scikit-learn (`pip install tfp-reprior[data]`);
      - `'toy'`, noisy values of a function of one input, with a gap in the inputs;
      - a set of images and labels that TensorFlow Datasets prepared in `data_dir`, such as
        `'cifar10'`, `'mnist'` or `'fashion_mnist'`;
      - the path of a `.npz` file with arrays `x` and `y`, or `x_train`, `y_train`, `x_test` and
        `y_test`. Text in `y` and integers of few values are classes, the rest real targets;
      - the path of a `.csv` file: a line with the names of the columns, then numbers or text.
        Columns of text are categories, each of which becomes a column of zeros and ones.
    num_train: Positive integer, the number of training data. By default all; if the set has no
      test data of its own, those that `num_test` leaves.
    num_test: Positive integer, the number of test data. By default all; if the set has no test
      data of its own, those that `num_train` leaves, and a fifth if that is not given either.
    seed: Integer, seeds the random choice of the data.
    data_dir: Folder of TensorFlow Datasets.
    target: Name of the column of targets of a `.csv` file, by default the last. Text in it and
      integers of few values are classes, other numbers are real; `'name:class'` and `'name:real'`
      say otherwise.
    subset: Which of the data are taken, where not all are: `'random'` ones, with classes in
      proportion if the set has no test data of its own; `'first'`, in their
      order, training data before test data if they come together; or `'balanced'`, at random with
      as many of each class. If the number of classes does not divide `num_train` (or `num_test`),
      some classes, chosen at random, have one more than the others.
    missing: `'refuse'` missing values in a `.csv` file, or `'impute'` the median of the column, or
      its most frequent category.
    log_targets: Whether to take logarithms of real targets; `'auto'` if all are positive, and these
      are far easier to explain.

  Returns:
    A `Dataset`. Targets are centered one-hot vectors for classes; real targets are standardized
    with the figures of the training targets. So are the inputs: column by column for `.csv` files
    and for `x` of shape `[n, d]` in `.npz` files, and else by one mean and one deviation.

  #### Examples

  ```python
  import tfp_reprior as tfr

  digits = tfr.data.load('digits', num_train=500, num_test=100, subset='balanced')
  diabetes = tfr.data.load('diabetes')  # 353 patients to train on, 89 to test
  ```
  """
  for argument, value in [('num_train', num_train), ('num_test', num_test)]:
    if value is not None:
      checks.positive_integer(argument, value)
  if target is not None and not str(name).endswith('.csv'):
    raise errors.InputError(
      f'`target` must be `None` unless `name` is a .csv file. Received: target={target!r} for '
      f'name={str(name)!r}'
    )
  checks.one_of('subset', subset, subsets.NAMES)
  checks.one_of('missing', missing, tables.MISSING)
  logarithms.check(log_targets)
  rng = np.random.default_rng(checks.seed('seed', seed))
  if name == 'toy':
    raw = sources.toy(num_train, num_test, rng)
    num_train = num_test = None
  else:
    raw = _read(name, data_dir, target, missing)
  train, test = subsets.split(raw, num_train, num_test, subset, rng)
  if raw.class_names is None:
    refuse_constants(train[1], str(name))
  elif log_targets is True:
    raise errors.InputError(
      f'`log_targets` is for real targets. Received: log_targets=True for classes, of {name}'
    )
  preparation = Preparation.of(raw, train[0], train[1], log_targets, [test[1]])
  preparation = dataclasses.replace(preparation, data_name=os.path.basename(name))
  return Dataset(
    x_train=preparation.inputs(train[0]),
    y_train=preparation.targets(train[1]),
    x_test=preparation.inputs(test[0]),
    y_test=preparation.targets(test[1]),
    preparation=preparation,
    note=raw.note,
  )


def load_new(path: str | os.PathLike[str], preparation: Preparation) -> tuple[Any, Any]:
  """Loads data to predict for, as `Result.predict` takes them: in the units of the file.

  Args:
    path: A `.npz` file with an array `x` `[m, ...]` (or `x_test`) and, if known, `y` (or `y_test`);
      or a `.csv` file with the columns of the training data, in any order, with or without that
      of the targets.
    preparation: The `Preparation` of the training data.

  Returns:
    x: Inputs, an array `[m, ...]`, or a table of the columns of the training inputs.
    y: Real targets `[m, k]`, or classes `[m]` by their names; `None` if the file has none.

  #### Examples

  ```python
  import numpy as np
  import tfp_reprior as tfr

  data = tfr.data.load('toy')
  np.savez('new.npz', x=[[0.5], [2.0]])  # in the units of the raw inputs
  x, y = tfr.data.load_new('new.npz', data.preparation)  # y is None: the file has no targets
  data.preparation.inputs(x)  # as the network takes them
  ```
  """
  read = {'.npz': files.read_new_npz, '.csv': files.read_new_csv}.get(files.suffix(path))
  if read is None:
    raise errors.InputError(f'`path` must end in .npz or .csv. Received: path={str(path)!r}')
  return read(path, preparation)


def _read(name, data_dir, target, missing):
  suffix = files.suffix(name)
  if suffix == '.npz':
    return files.read_npz(name)
  if suffix == '.csv':
    return files.read_csv(name, target, missing)
  if name == 'digits':
    return sources.digits()
  if name == 'diabetes':
    return sources.diabetes()
  others = ', '.join(repr(n) for n in BUILT_IN) + ', a path that ends in .npz or .csv'
  return sources.tensorflow_dataset(name, data_dir, others)
