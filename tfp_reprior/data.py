"""Data sets that need no download, prepared as in Hron et al. (2022)."""

from typing import NamedTuple

import numpy as np

from tfp_reprior.internal import checks


class Dataset(NamedTuple):
  """Prepared data, float32.

  Attributes:
    x_train: Inputs `[n, ...]`, standardized.
    y_train: Targets `[n, k]`.
    x_test: Inputs `[m, ...]`, standardized with the figures of the training inputs.
    y_test: Targets `[m, k]`.
  """

  x_train: np.ndarray
  y_train: np.ndarray
  x_test: np.ndarray
  y_test: np.ndarray


def load(name, num_train, num_test, seed=0):
  """Loads a built-in data set.

  Args:
    name: `'digits'` (8 x 8 images, 10 classes) or `'diabetes'` (10 features, one real target).
      Both come with scikit-learn (`pip install tfp-reprior[data]`).
    num_train: Positive integer, the number of training data.
    num_test: Positive integer, the number of test data.
    seed: Integer, seeds the random choice of the data.

  Returns:
    A `Dataset`. Targets are centered one-hot vectors for classes; real targets are standardized
    with the figures of the training targets.
  """
  checks.one_of('name', name, ('digits', 'diabetes'))
  checks.positive_integer('num_train', num_train)
  checks.positive_integer('num_test', num_test)
  try:
    from sklearn import datasets  # kept out of `import tfp_reprior`
  except ImportError as e:
    raise ImportError(
      'The built-in data sets come with scikit-learn: pip install tfp-reprior[data]'
    ) from e
  bunch = datasets.load_digits() if name == 'digits' else datasets.load_diabetes()
  x = bunch.images if name == 'digits' else bunch.data
  if num_train + num_test > len(x):
    raise ValueError(
      f'`num_train + num_test` must be at most {len(x)} for {name!r}. Received: '
      f'num_train={num_train}, num_test={num_test}'
    )
  chosen = np.random.default_rng(seed).permutation(len(x))[: num_train + num_test]
  x, target = x[chosen], bunch.target[chosen]
  x_train, x_test = standardize(x[:num_train], x[num_train:])
  if name == 'digits':
    y = centered_one_hot(target, num_classes=10)
    return Dataset(x_train, y[:num_train], x_test, y[num_train:])
  y_train, y_test = standardize(target[:num_train, np.newaxis], target[num_train:, np.newaxis])
  return Dataset(x_train, y_train, x_test, y_test)


def standardize(train, test):
  """Subtracts the mean of `train` and divides by its deviation, one number each, as float32."""
  mean, std = np.mean(train), np.std(train)
  if not std > 0:
    raise ValueError(f'`train` must not be constant. Received: {np.size(train)} times {mean}')
  return tuple(((a - mean) / std).astype(np.float32) for a in (train, test))


def centered_one_hot(labels, num_classes):
  """One-hot vectors minus `1 / num_classes`, so that they sum to zero: `[n, num_classes]`."""
  labels = np.asarray(labels)
  is_vector = labels.ndim == 1 and np.issubdtype(labels.dtype, np.integer)
  if not is_vector or not np.all((labels >= 0) & (labels < num_classes)):
    raise ValueError(
      f'`labels` must be a vector of integers from 0 to {num_classes - 1}. Received: labels of '
      f'dtype {labels.dtype} and shape {labels.shape}, {labels}'
    )
  return (np.eye(num_classes)[labels] - 1 / num_classes).astype(np.float32)
