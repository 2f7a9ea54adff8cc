"""Which of the data are taken, and which of them to train on."""

import numpy as np

from tfp_reprior import errors

NAMES = ('random', 'balanced', 'first')

_TEST_FRACTION = 0.2


def split(raw, num_train, num_test, subset, rng):
  """Chooses training and test data.

  Args:
    raw: A `RawData`.
    num_train: Positive integer, or `None`; see `tfp_reprior.data.load`, as for the next two.
    num_test: Positive integer, or `None`.
    subset: One of `NAMES`.
    rng: A `numpy.random.Generator`.

  Returns:
    train: Pair of inputs `[n, ...]` and targets.
    test: Pair of inputs `[m, ...]` and targets.
  """
  if subset == 'balanced':
    _check_can_be_balanced(raw, num_train)
  if raw.x_test is not None:
    train = _choose('num_train', num_train, raw.x, raw.y, raw.class_names, subset, rng)
    test = _choose('num_test', num_test, raw.x_test, raw.y_test, raw.class_names, subset, rng)
    return train, test
  n = len(raw.x)
  if subset == 'balanced' and num_test is None:  # the test data are the others, balanced or not
    _check_balance('num_train', num_train, raw.y, raw.class_names)
  elif subset == 'balanced':
    _check_balance('num_train + num_test', num_train + num_test, raw.y, raw.class_names)
  if num_train is None:
    num_test = max(1, round(_TEST_FRACTION * n)) if num_test is None else num_test
    num_train = max(1, n - num_test)
  elif num_test is None:
    num_test = max(1, n - num_train)
  _check_size('num_train + num_test', num_train + num_test, n)
  is_in_proportion = subset == 'random' and raw.class_names is not None
  order = _order(raw.y, 'proportional' if is_in_proportion else subset, rng)
  train, test = order[:num_train], order[num_train : num_train + num_test]
  return (raw.x[train], raw.y[train]), (raw.x[test], raw.y[test])


def _choose(argument, size, x, y, class_names, subset, rng):
  """A subset of one of the two; all of the data, in their order, if `size` is `None`."""
  if size is None:
    return x, y
  _check_size(argument, size, len(x))
  if subset == 'balanced':
    _check_balance(argument, size, y, class_names)
  chosen = _order(y, subset, rng)[:size]
  return x[chosen], y[chosen]


def _order(y, subset, rng):
  """All indices of the data, those to take first."""
  if subset == 'first':
    return np.arange(len(y))
  order = rng.permutation(len(y))
  if subset == 'random':
    return order
  # Deal the classes out in turn, always in the same order of them: then any piece of the result
  # has as many of each, up to one, until a class is used up. Or at the pace of their sizes: then it
  # has them in proportion.
  labels = y[order]
  turn = np.empty(len(y))
  for label in np.unique(labels):
    members = np.flatnonzero(labels == label)
    pace = 1 / len(members) if subset == 'proportional' else 1
    turn[members] = pace * (np.arange(len(members)) + 0.5)
  place_of_class = rng.permutation(labels.max() + 1)
  return order[np.lexsort([place_of_class[labels], turn])]


def _check_can_be_balanced(raw, num_train):
  if raw.class_names is None:
    raise errors.InputError(
      "`subset` must be 'random' or 'first' for real targets. Received: subset='balanced'"
    )
  if num_train is None:
    raise errors.InputError("`subset='balanced'` needs `num_train`. Received: num_train=None")


def _check_size(argument, size, n):
  if size > n:
    raise errors.InputError(f'`{argument}` must be at most {n} here. Received: {argument}={size}')


def _check_balance(argument, size, y, class_names):
  counts = np.bincount(y, minlength=len(class_names))
  needed, rarest = -(-size // len(counts)), np.argmin(counts)
  if counts[rarest] < needed:
    raise errors.InputError(
      f"`subset='balanced'` needs {needed} of each class for {argument}={size}. Received: "
      f'{counts[rarest]} of class {class_names[rarest]!r}'
    )
