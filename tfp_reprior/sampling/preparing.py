"""From arrays and tables as a user has them to what a posterior is about."""

import dataclasses
import logging
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tfp_reprior import errors, likelihoods
from tfp_reprior.data import preparation as preparation_lib
from tfp_reprior.data import tables
from tfp_reprior.diagnostics import metrics

_log = logging.getLogger('tfp_reprior')


class Prepared(NamedTuple):
  """What `prepare` returns.

  Attributes:
    x, y, x_test, y_test: Data as a `Posterior` takes them; the last two may be None.
    likelihood: A `Likelihood` in the units of `y`, or None for the default of real targets.
    preparation: The `tfp_reprior.data.Preparation` that made them.
  """

  x: Any
  y: Any
  x_test: Any
  y_test: Any
  likelihood: likelihoods.Likelihood | None
  preparation: preparation_lib.Preparation


def prepare(split, x, y, x_test, y_test, noise_scale, likelihood, standardize):
  """Standardizes inputs and real targets, and finds the classes of others.

  Args:
    split: The `ReadoutSplit` of the model.
    x, y, x_test, y_test: As of `tfp_reprior.sample_posterior`, as the next three.
    noise_scale: Of Gaussian noise in the units of `y`, or None.
    likelihood: In the units of `y`, or None.
    standardize: Whether to standardize, or the `Preparation` that the data have been through.

  Returns:
    A `Prepared`.
  """
  if noise_scale is not None:
    if likelihood is not None:
      raise errors.InputError(
        '`noise_scale` is that of a Gaussian likelihood: give it, or a `likelihood`. Received: '
        f'noise_scale={noise_scale!r}, likelihood={likelihood!r}'
      )
    likelihood = likelihoods.Gaussian(noise_scale)
  if isinstance(standardize, preparation_lib.Preparation):
    return Prepared(x, y, x_test, y_test, likelihood, standardize)
  if x is None or y is None:
    return Prepared(x, y, x_test, y_test, likelihood, preparation_lib.Preparation())  # refused soon
  x, y = _inputs('x', x), _array('y', y)
  y = y.astype(int) if y.dtype.kind == 'b' else y
  k = split.num_outputs
  likelihood, class_names = _classes(y, k, likelihood)
  # Others are taken as they are, and refused, if need be, by the likelihood.
  is_real = class_names is None and (likelihood is None or likelihood.has_units)
  is_real = is_real and y.ndim in (1, 2) and y.size == len(y) * k and y.dtype.kind in 'fiu'
  matrix = y.reshape([len(y), k]).astype(np.float64) if is_real else np.zeros([1, 1])
  raw = preparation_lib.RawData(x, matrix, class_names=class_names, by_column=np.ndim(x) == 2)
  preparation = preparation_lib.Preparation.of(raw, x, matrix)
  changes = {}
  if not (standardize and tf.as_dtype(split.model.inputs[0].dtype).is_floating):
    changes |= {'x_mean': 0.0, 'x_std': 1.0}
  if not (standardize and is_real) or metrics.is_one_hot(matrix):
    changes |= {'y_mean': 0.0, 'y_std': 1.0}
  elif likelihood is not None:
    if likelihood.is_conjugate:  # for all outputs, as they have one noise
      changes['y_std'] = [float(np.sqrt(np.mean(np.square(preparation.y_std))))] * k
    likelihood = likelihood.in_units_of(np.array(changes.get('y_std', preparation.y_std)))
  preparation = dataclasses.replace(preparation, **changes)
  dtype = split.dtype.as_numpy_dtype

  def prepared_targets(values):
    if class_names is not None:
      return preparation.labels(values.ravel())
    if not is_real or values.dtype.kind not in 'fiu':
      return values
    return preparation.targets(values.astype(np.float64), dtype)

  return Prepared(
    preparation.inputs(x, dtype),
    prepared_targets(y),
    None if x_test is None else preparation.inputs(_inputs('x_test', x_test), dtype),
    None if y_test is None else prepared_targets(_array('y_test', y_test)),
    likelihood,
    preparation,
  )


def _inputs(name, x):
  """A table, or an array of finite numbers."""
  x = tables.as_table(x) or _array(name, x)
  if isinstance(x, np.ndarray) and x.dtype.kind == 'O' and x.ndim == 2:
    x = tables.as_table({f'column {i}': x[:, i] for i in range(x.shape[1])})
  return x


def _array(name, a):
  if isinstance(a, np.ma.MaskedArray):
    raise errors.InputError(
      f'`{name}` must not be masked: leave masked data out, or fill them in. Received: {name} of '
      f'shape {a.shape} with {np.ma.count_masked(a)} masked entries'
    )
  a = np.asarray(a)
  if a.dtype.kind == 'f' and not np.all(np.isfinite(a)):
    raise errors.InputError(
      f'`{name}` must be finite. Received: {name} of shape {a.shape} with '
      f'{np.count_nonzero(~np.isfinite(a))} entries that are NaN or infinite'
    )
  return a


def _classes(y, num_outputs, likelihood):
  """The likelihood of classes, and their names, if `y` holds any; else what was given, and None."""
  given = likelihood
  if given is not None and (y.dtype.kind not in 'UO' or not isinstance(given, likelihoods.CLASSES)):
    return given, None
  if not (y.ndim == 1 or (y.ndim == 2 and y.shape[1] == 1)):
    return given, None
  values = tables.class_values(y.ravel())
  if values is None:
    if num_outputs > 1:
      raise errors.InputError(
        f'`y` holds real numbers, one for each input, and the model has {num_outputs} outputs: it '
        f'needs one, or `y` classes, integers or text. Received: y of dtype {y.dtype}'
      )
    return given, None
  num_classes = max(num_outputs, 2)
  is_numbered = y.dtype.kind in 'iu' and 0 <= values[0] and values[-1] < num_classes
  if num_outputs == 1 and len(values) > 2 and y.dtype.kind in 'iu' and given is None:
    _log.info('y: integers of %d values, and one output: regression.', len(values))
    return None, None
  if not is_numbered and len(values) != num_classes:
    shown = ', '.join(str(v) for v in values[:5]) + (', ...' if len(values) > 5 else '')
    raise errors.InputError(
      f'`y` holds {len(values)} classes ({shown}), and the model has {num_outputs} output(s): it '
      'needs one for each class, or a single one for two classes. Received: '
      f'y of dtype {y.dtype}'
    )
  names = tuple(str(i) for i in range(num_classes)) if is_numbered else tuple(map(str, values))
  if given is None:
    given = likelihoods.Bernoulli() if num_outputs == 1 else likelihoods.Categorical()
    _log.info('y: %d classes, likelihood %r.', num_classes, given)
  return given, names
