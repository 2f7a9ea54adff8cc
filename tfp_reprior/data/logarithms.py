"""Logarithms of targets such as prices, whose noise grows with them, and the way back."""

from typing import Any

import numpy as np

from tfp_reprior import errors

CHOICES = ('auto', True, False)
_LEAST_GAIN = 5.0
_MOST_ROWS = 500  # to decide by
_NOISE_VARIANCES = np.geomspace(1e-4, 10.0, 31)  # relative to the function


def check(value: Any) -> bool | str:
  """One of `CHOICES`; others are refused."""
  if not (isinstance(value, (bool, np.bool_)) or (isinstance(value, str) and value == 'auto')):
    raise errors.InputError(
      f"`log_targets` must be 'auto', True or False. Received: log_targets={value!r}"
    )
  return value if isinstance(value, str) else bool(value)


def take(y: Any, largest: Any) -> np.ndarray:
  """Logarithms of positive `y` `[..., k]` up to `largest` `[k]`, and beyond it their tangent.

  ```none
  t = log(y)                                     y <= largest
  t = log(largest) + (y - largest) / largest     y > largest
  ```

  So what a network extrapolates grows as it does without logarithms, and not exponentially.
  """
  y, largest = np.asarray(y, np.float64), np.asarray(largest)
  if not np.all(y > 0):
    raise errors.InputError(
      'Logarithms are of positive targets: give log_targets=False. Received: targets down to '
      f'{np.min(y):g}'
    )
  return np.log(np.minimum(y, largest)) + np.maximum(y / largest - 1, 0)


def undo(t: Any, largest: Any) -> np.ndarray:
  """The inverse of `take`."""
  largest = np.asarray(largest)
  beyond = np.asarray(t, np.float64) - np.log(largest)
  return largest * (np.exp(np.minimum(beyond, 0)) + np.maximum(beyond, 0))


def log_slope(y: Any, largest: Any) -> np.ndarray:
  """The logarithm of the derivative of `take`."""
  return -np.log(np.minimum(y, largest))


def gain(x: np.ndarray, y: np.ndarray) -> float:
  """How much better logarithms of positive targets `[n, k]` are explained by inputs `[n, ...]`.

  As Box and Cox do, this compares densities of y, for `y` and `log(y)` with those of Gaussian
  processes

  ```none
  N(y; mean, a (K + v I)),     K = (1 + x @ x.T / d)**2     of standardized x [n, d]
  ```

  at the best mean, scale a and noise v for each: the logarithm of their ratio. Of more than 500
  rows it looks at 500.
  """
  rows = np.random.default_rng(0).permutation(len(y))[:_MOST_ROWS]
  x = np.asarray(x, np.float64).reshape([len(y), -1])[rows]
  y = np.asarray(y, np.float64)[rows]
  x = x - np.mean(x, axis=0)
  deviations = np.std(x, axis=0)
  x /= np.where(deviations > 0, deviations, 1.0)
  values, vectors = np.linalg.eigh((1 + x @ x.T / x.shape[1]) ** 2)
  spectra = np.maximum(values, 0) + _NOISE_VARIANCES[:, np.newaxis]  # [v, n]
  log_dets = np.sum(np.log(spectra), axis=1, keepdims=True)  # [v, 1]

  def evidence(targets):  # [k], at the best a and v
    squares = np.square(vectors.T @ (targets - np.mean(targets, axis=0)))  # [n, k]
    scales = np.mean(squares / spectra[..., np.newaxis], axis=1)  # [v, k]
    log_scales = np.log(np.maximum(scales, np.finfo(np.float64).tiny))
    return np.max(-0.5 * (len(y) * log_scales + log_dets), axis=0)

  logs = np.log(y)
  return float(np.sum(evidence(logs) - np.sum(logs, axis=0) - evidence(y)))


def choose(choice: bool | str, x: np.ndarray, y: np.ndarray, others: Any = ()) -> list | None:
  """The largest of each target `[n, k]`, for `take`; None, if logarithms are not to be taken.

  Args:
    choice: One of `CHOICES`; `'auto'` for logarithms if all targets are positive, and their `gain`
      is above five: a ratio of 150.
    x: Inputs `[n, ...]`.
    y: Targets.
    others: Sequence of further targets, of tests, which must be positive as well.
  """
  if choice == 'auto':
    is_positive = all(np.all(np.asarray(v) > 0) for v in (y, *others))
    varies = bool(np.all(np.ptp(y, axis=0) > 0))
    choice = is_positive and varies and gain(x, y) > _LEAST_GAIN
  return np.max(np.asarray(y, np.float64), axis=0).tolist() if choice else None
