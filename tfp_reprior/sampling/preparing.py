"""From arrays and tables as a user has them to what a posterior is about."""

import dataclasses
import logging
import numbers
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tfp_reprior import errors, likelihoods
from tfp_reprior.data import logarithms, tables
from tfp_reprior.data import preparation as preparation_lib
from tfp_reprior.diagnostics import metrics
from tfp_reprior.internal import checks

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


def prepare(split, x, y, x_test, y_test, noise_scale, likelihood, standardize, log_targets='auto'):
  """Standardizes inputs and real targets, and finds the classes of others.

  Args:
    split: The `ReadoutSplit` of the model.
    x, y, x_test, y_test: As of `tfp_reprior.sample_posterior`, as the next three.
    noise_scale: Of Gaussian noise in the units of `y`, or None.
    likelihood: In the units of `y`, or None.
    standardize: Whether to standardize, or the `Preparation` that the data have been through.
    log_targets: As of `tfp_reprior.sample_posterior`.

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
    _log_targets(log_targets, likelihood, is_touched=False)
    return Prepared(x, y, x_test, y_test, likelihood, standardize)
  checks.boolean('standardize', standardize)
  is_known = likelihood is None or isinstance(likelihood, likelihoods.Likelihood)
  if x is None or y is None or not is_known:
    return Prepared(x, y, x_test, y_test, likelihood, preparation_lib.Preparation())  # refused soon
  x, y = tables.as_inputs('x', x), as_targets('y', y)
  likelihood, class_names = _classes(y, split.num_outputs, likelihood)
  # Other targets are taken as they are, and refused, if need be, by the likelihood.
  is_real = class_names is None and (likelihood is None or likelihood.has_units)
  is_real = is_real and y.ndim in (1, 2) and y.size == len(y) * _num_targets(likelihood, split)
  is_real = is_real and y.dtype.kind in 'fiu'
  reals = y.reshape([len(y), -1]) if standardize and is_real else None
  y_test = None if y_test is None else as_targets('y_test', y_test)
  others = [] if y_test is None or y_test.dtype.kind not in 'fiu' else [y_test]
  preparation, likelihood = fit(x, reals, likelihood, class_names, log_targets, others)
  if not (standardize and tf.as_dtype(split.model.inputs[0].dtype).is_floating):
    preparation = dataclasses.replace(preparation, x_mean=0.0, x_std=1.0)
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
    None if x_test is None else preparation.inputs(x_test, dtype, 'x_test'),
    None if y_test is None else prepared_targets(y_test),
    likelihood,
    preparation,
  )


def fit(x, y, likelihood, class_names=None, log_targets='auto', others=(), missing='refuse'):
  """The preparation of data, and the likelihood of prepared targets.

  Args:
    x: Inputs, what `tables.as_inputs` returns.
    y: Real targets `[n, k]`, to be standardized; None for others.
    likelihood: In the units of `y`; None for a default that has none.
    class_names: Tuple of strings, or None.
    log_targets: As of `tfp_reprior.sample_posterior`.
    others: Sequence of further targets, of tests.
    missing: What to do about missing values, `'refuse'` or `'impute'`.

  Returns:
    preparation: A `tfp_reprior.data.Preparation`.
    likelihood: The likelihood in the units of prepared targets.
  """
  is_touched = y is not None and not metrics.is_one_hot(y)
  raw = preparation_lib.RawData(
    x, y, class_names=class_names, by_column=np.ndim(x) == 2, missing=missing
  )
  log_targets = _log_targets(log_targets, likelihood, is_touched)
  targets = y if is_touched else np.zeros([1, 1])
  preparation = preparation_lib.Preparation.of(raw, x, targets, log_targets, others)
  if not is_touched:
    return dataclasses.replace(preparation, y_mean=0.0, y_std=1.0), likelihood
  if likelihood is None:
    return preparation, None
  if likelihood.is_conjugate or isinstance(
    likelihood, likelihoods.FromDistribution
  ):  # one unit for all outputs, as they have one noise
    common = float(np.sqrt(np.mean(np.square(preparation.y_std))))
    preparation = dataclasses.replace(preparation, y_std=[common] * y.shape[1])
  return preparation, likelihood.in_units_of(np.array(preparation.y_std))


def _log_targets(choice, likelihood, is_touched):
  """Whether to take logarithms; by default not where anything is said about the noise."""
  is_gaussian = likelihood is None or isinstance(likelihood, likelihoods.Gaussian)
  if logarithms.check(choice) is True and not (is_touched and is_gaussian):
    raise errors.InputError(
      'Logarithms are taken of real targets with Gaussian noise, where these are standardized. '
      f'Received: log_targets=True, likelihood={likelihood!r}'
    )
  is_default = likelihood is None or (is_gaussian and likelihood.has_default_noise)
  return choice if is_touched and (choice != 'auto' or is_default) else False


def _num_targets(likelihood, split):
  return split.num_outputs if likelihood is None else likelihood.num_targets(split.num_outputs)


def as_targets(name, y):
  """An array of finite numbers, or of text or objects that may be classes."""
  y = checks.finite_array(name, y)
  if y.size == 0:
    raise errors.InputError(f'`{name}` must hold targets. Received: {name} of shape {y.shape}')
  if y.dtype.kind == 'O' and all(isinstance(v, numbers.Real) for v in y.ravel()):
    y = checks.finite_array(name, y.tolist())  # numbers that came as objects
  return y


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
