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


BUILT_IN = ('digits', 'diabetes')


def load(name, num_train, num_test, seed=0, data_dir=None):
  """Loads a data set. Nothing is ever downloaded.

  Args:
    name: `'digits'` (8 x 8 images, 10 classes) or `'diabetes'` (10 features, one real target),
      which come with scikit-learn (`pip install tfp-reprior[data]`), or `'cifar10'`, prepared by
      TensorFlow Datasets in `data_dir`.
    num_train: Positive integer, the number of training data.
    num_test: Positive integer, the number of test data.
    seed: Integer, seeds the random choice of the data.
    data_dir: Folder of TensorFlow Datasets.

  Returns:
    A `Dataset`. Targets are centered one-hot vectors for classes; real targets are standardized
    with the figures of the training targets.
  """
  checks.one_of('name', name, (*BUILT_IN, 'cifar10'))
  checks.positive_integer('num_train', num_train)
  checks.positive_integer('num_test', num_test)
  rng = np.random.default_rng(seed)
  if name == 'cifar10':
    train = _choose(rng, 'num_train', num_train, *_load_tfds(name, 'train', data_dir))
    test = _choose(rng, 'num_test', num_test, *_load_tfds(name, 'test', data_dir))
  else:
    bunch = _load_sklearn(name)
    x = bunch.images if name == 'digits' else bunch.data
    both = _choose(rng, 'num_train + num_test', num_train + num_test, x, bunch.target)
    train, test = [a[:num_train] for a in both], [a[num_train:] for a in both]
  x_train, x_test = standardize(train[0], test[0])
  if name == 'diabetes':
    y_train, y_test = standardize(train[1][:, np.newaxis], test[1][:, np.newaxis])
  else:
    y_train, y_test = (centered_one_hot(labels, num_classes=10) for labels in (train[1], test[1]))
  return Dataset(x_train, y_train, x_test, y_test)


def _choose(rng, argument, size, x, target):
  if size > len(x):
    raise ValueError(f'`{argument}` must be at most {len(x)} here. Received: {argument}={size}')
  chosen = rng.permutation(len(x))[:size]
  return x[chosen], target[chosen]


def _load_sklearn(name):
  try:
    from sklearn import datasets  # kept out of `import tfp_reprior`
  except ImportError as e:
    raise ImportError(
      'The built-in data sets come with scikit-learn: pip install tfp-reprior[data]'
    ) from e
  return datasets.load_digits() if name == 'digits' else datasets.load_diabetes()


def _load_tfds(name, split, data_dir):
  import tensorflow_datasets as tfds  # kept out of `import tfp_reprior`

  try:
    # Without `download=False` a machine without network waits for minutes.
    return tfds.as_numpy(
      tfds.load(
        name, split=split, data_dir=data_dir, download=False, batch_size=-1, as_supervised=True
      )
    )
  except (AssertionError, FileNotFoundError) as e:
    raise ValueError(
      f'`data_dir` must hold {name!r} as prepared by TensorFlow Datasets; to prepare it, run on a '
      f"machine with network: python -c \"import tensorflow_datasets as tfds; tfds.load('{name}', "
      f'data_dir=...)". Received: data_dir={data_dir!r}'
    ) from e


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
