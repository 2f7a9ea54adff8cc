"""Checks of arguments, with errors that name the argument and the value received."""

import contextlib
import numbers
import os
import pathlib

import numpy as np
import tensorflow as tf

from tfp_reprior import errors
from tfp_reprior.internal import backend  # noqa: F401

_MOST = 2**31 - 1  # tensors count in int32
_MOST_SEED = 2**63 - 1


def static_value(value):
  """The NumPy value of `value` if it is known now, else `None` (a symbolic tensor)."""
  return tf.get_static_value(tf.convert_to_tensor(value))


def _known_number(name, value):
  """The NumPy value of `value` if it is known now, else `None`; refuses what is no number."""
  try:
    tensor = tf.convert_to_tensor(value)
    is_number = tensor.dtype.is_floating or tensor.dtype.is_integer
  except (TypeError, ValueError, OverflowError):
    is_number = False
  if not is_number:
    raise errors.InputError(f'`{name}` must be a number. Received: {name}={value!r}')
  return tf.get_static_value(tensor)


def positive(name, value):
  """Refuses a `value` that is known to be anything but positive and finite."""
  known = _known_number(name, value)
  if known is not None and not (np.all(known > 0) and np.all(np.isfinite(known))):
    raise errors.InputError(f'`{name}` must be positive. Received: {name}={value}')
  return value


def non_negative(name, value):
  """Refuses a `value` that is known to be negative or not finite."""
  known = _known_number(name, value)
  if known is not None and not (np.all(known >= 0) and np.all(np.isfinite(known))):
    raise errors.InputError(f'`{name}` must not be negative. Received: {name}={value}')
  return value


def unit_interval(name, value):
  """Refuses a `value` that is known to lie outside [0, 1]."""
  known = _known_number(name, value)
  if known is not None and not np.all((known >= 0) & (known <= 1)):
    raise errors.InputError(f'`{name}` must lie in [0, 1]. Received: {name}={value}')
  return value


def scalar(name, value):
  """Refuses a `value` that is no single number."""
  if np.ndim(value) or _known_number(name, value) is None:
    raise errors.InputError(f'`{name}` must be a number. Received: {name}={value!r}')
  return value


def positive_integer(name, value, most=_MOST):
  """Refuses a `value` that is not a positive Python (or NumPy) integer, or above `most`."""
  return _integer(name, value, 1, most, 'a positive integer')


def natural_number(name, value):
  """Refuses a `value` that is neither 0 nor a positive integer."""
  return _integer(name, value, 0, _MOST, '0 or a positive integer')


def seed(name, value):
  """Refuses a `value` that is no integer, negative, or of more than 63 bits."""
  return _integer(name, value, 0, _MOST_SEED, 'an integer from 0 on')


def random_state(value):
  """The seed that a `random_state` of scikit-learn stands for: an integer, or drawn from it."""
  if value is None or isinstance(value, np.random.RandomState):
    return int((value or np.random).randint(2**31))
  return seed('random_state', value)


def _integer(name, value, least, most, kind):
  if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < least:
    raise errors.InputError(f'`{name}` must be {kind}. Received: {name}={value!r}')
  if value > most:
    raise errors.InputError(f'`{name}` must be at most {most}. Received: {name}={value!r}')
  return int(value)


def index(name, value, length):
  """Refuses a `value` that is no place in a list, counted from its beginning or end."""
  is_integer = isinstance(value, numbers.Integral) and not isinstance(value, bool)
  if not is_integer or not -length <= value < length:
    raise errors.InputError(
      f'`{name}` must be an integer from {-length} to {length - 1}. Received: {name}={value!r}'
    )
  return int(value)


def fits_memory(what, num_bytes):
  """Refuses what would take more memory than there is, before the memory is asked for.

  Args:
    what: Text: the argument, and its value.
    num_bytes: How many bytes it takes, at least.
  """
  free = _free_memory()
  if num_bytes > free:
    raise errors.InputError(
      f'There must be memory for what is asked for: it takes {num_bytes / 2**30:.4g} GiB, and '
      f'{free / 2**30:.4g} GiB are free. Received: {what}'
    )


def _free_memory():
  """Bytes that this process may still take, about."""
  limits = [os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES')]
  try:  # on Linux
    lines = pathlib.Path('/proc/meminfo').read_text().splitlines()
    limits += [1024 * int(line.split()[1]) for line in lines if line.startswith('MemAvailable:')]
    limits.append(int(pathlib.Path('/sys/fs/cgroup/memory.max').read_text()))
  except (OSError, ValueError):
    pass  # no such file, or no limit
  return min(limits)


def one_of(name, value, choices):
  """Refuses a `value` that is not among `choices`."""
  if value not in choices:
    listed = ', '.join(repr(c) for c in choices)
    raise errors.InputError(f'`{name}` must be one of {listed}. Received: {name}={value!r}')
  return value


def boolean(name, value):
  """Refuses a `value` that is neither True nor False."""
  if not isinstance(value, (bool, np.bool_)):
    raise errors.InputError(f'`{name}` must be True or False. Received: {name}={value!r}')
  return bool(value)


def path(name, value):
  """Refuses a `value` that is no name of a file or folder; of an empty one, the folder is here."""
  is_path = isinstance(value, (str, os.PathLike)) and str(value).strip() and '\0' not in str(value)
  if not is_path:
    raise errors.InputError(f'`{name}` must be a path. Received: {name}={value!r}')
  return pathlib.Path(value)


@contextlib.contextmanager
def like_training(name):
  """A context for checks of test data by those of training data: errors name the former."""
  try:
    yield
  except errors.InputError as e:
    raise errors.InputError(f'`{name}` must be as the training data: {e}') from e


def array(name, value):
  """Data as an array `[n, ...]` of numbers, text or objects; what is no such data is refused."""
  if isinstance(value, np.ma.MaskedArray):
    raise errors.InputError(
      f'`{name}` must not be masked: leave masked data out, or fill them in. Received: {name} of '
      f'shape {value.shape} with {np.ma.count_masked(value)} masked entries'
    )
  problem = f'`{name}` must be an array of numbers, a row for each datum. Received: {name} '
  if hasattr(value, 'toarray') or isinstance(value, (tf.SparseTensor, tf.RaggedTensor)):
    raise errors.InputError(f'{problem}of type {type(value).__name__}, which is not dense')
  try:
    made = np.asarray(value)
  except Exception as e:  # what is no array can fail in any way
    raise errors.InputError(f'{problem}of type {type(value).__name__} ({e})') from e
  if made.ndim == 0 or made.dtype.kind not in 'biufUO':
    raise errors.InputError(
      f'{problem}of type {type(value).__name__}, shape {made.shape}, dtype {made.dtype}'
    )
  return made


def finite_array(name, value):
  """As `array`, with numbers that are finite, and booleans as integers."""
  made = array(name, value)
  if made.dtype.kind == 'f' and not np.all(np.isfinite(made)):
    raise errors.InputError(
      f'`{name}` must be finite. Received: {name} of shape {made.shape} with '
      f'{np.count_nonzero(~np.isfinite(made))} entries that are NaN or infinite'
    )
  return made.astype(int) if made.dtype.kind == 'b' else made


def reals(name, value):
  """Numbers as float64; NaN and anything else is refused."""
  made = array(name, value)
  if made.dtype.kind in 'UO' or np.any(np.isnan(made)):
    raise errors.InputError(f'`{name}` must hold numbers. Received: {name} of dtype {made.dtype}')
  return made.astype(np.float64)


def finite_floats(name, value, dtype):
  """Converts data to a float tensor of `dtype`; refuses integers and values that are not finite.

  Integers are refused, not cast, because they are labels or raw pixels far more often than
  they are meant as real numbers.
  """
  if not tf.is_tensor(value) or isinstance(value, (tf.SparseTensor, tf.RaggedTensor)):
    value = array(name, value)
  if not tf.is_tensor(value) and value.dtype.kind in 'UO':
    raise errors.InputError(f'`{name}` must hold numbers. Received: {name} of dtype {value.dtype}')
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
