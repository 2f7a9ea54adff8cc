"""Checks of arguments, with errors that name the argument and the value received."""

import numbers

import numpy as np
import tensorflow as tf

from tfp_reprior import errors


def static_value(value):
  """The NumPy value of `value` if it is known now, else `None` (a symbolic tensor)."""
  return tf.get_static_value(tf.convert_to_tensor(value))


def positive(name, value):
  """Refuses a `value` that is known to be anything but positive and finite."""
  known = static_value(value)
  if known is not None and not (np.all(known > 0) and np.all(np.isfinite(known))):
    raise errors.InputError(f'`{name}` must be positive. Received: {name}={value}')
  return value


def non_negative(name, value):
  """Refuses a `value` that is known to be negative or not finite."""
  known = static_value(value)
  if known is not None and not (np.all(known >= 0) and np.all(np.isfinite(known))):
    raise errors.InputError(f'`{name}` must not be negative. Received: {name}={value}')
  return value


def unit_interval(name, value):
  """Refuses a `value` that is known to lie outside [0, 1]."""
  known = static_value(value)
  if known is not None and not np.all((known >= 0) & (known <= 1)):
    raise errors.InputError(f'`{name}` must lie in [0, 1]. Received: {name}={value}')
  return value


def positive_integer(name, value):
  """Refuses a `value` that is not a positive Python (or NumPy) integer."""
  if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < 1:
    raise errors.InputError(f'`{name}` must be a positive integer. Received: {name}={value!r}')
  return int(value)


def one_of(name, value, choices):
  """Refuses a `value` that is not among `choices`."""
  if value not in choices:
    listed = ', '.join(repr(c) for c in choices)
    raise errors.InputError(f'`{name}` must be one of {listed}. Received: {name}={value!r}')
  return value


def finite_floats(name, value, dtype):
  """Converts data to a float tensor of `dtype`; refuses integers and values that are not finite.

  Integers are refused, not cast, because they are labels or raw pixels far more often than
  they are meant as real numbers.
  """
  if not tf.is_tensor(value):
    value = np.asarray(value)
  source = tf.as_dtype(value.dtype)
  if not source.is_floating:
    raise errors.InputError(
      f'`{name}` must hold floating point numbers: standardize inputs, center one-hot targets '
      f'(see `tfp_reprior.data`). Received: {name} of dtype {source.name}'
    )
  value = tf.cast(value, dtype)
  known = static_value(value)
  if known is not None and not np.all(np.isfinite(known)):
    bad = int(np.size(known) - np.count_nonzero(np.isfinite(known)))
    raise errors.InputError(
      f'`{name}` must be finite. Received: {name} of shape {known.shape} with {bad} entries that '
      f'are NaN, infinite, or too large for {tf.as_dtype(dtype).name}'
    )
  return value
