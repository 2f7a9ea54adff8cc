"""Priors of unknown parameters of a likelihood, in a coordinate that is standard normal."""

import math

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

from tfp_reprior import errors

tfd = tfp.distributions

# The prior beyond these probabilities is cut off, because there quantiles are lost to rounding.
_TAIL = 2.0**-52
_IN_UNITS = ('scale', 'loc', 'low', 'high')  # parameters that are in the units of the scale


class ParameterPrior:
  """The prior of a parameter as a function of `u ~ N(0, 1)`.

  ```none
  parameter = exp(loc + scale * u)       for tfd.LogNormal(loc, scale)
  parameter = loc + scale * u            for tfd.Normal(loc, scale)
  parameter = quantile(Phi(u))           for others, in float64
  ```

  Args:
    name: That of the parameter.
    distribution: A distribution of `tfp.distributions` over numbers, with a quantile and numbers as
      parameters; or what `to_dict` returned of one.
    is_scale: Whether the parameter is one positive number. If not, arrays of independent numbers
      are taken too.

  Attributes:
    shape: The shape of the parameter.

  Raises:
    ValueError: If it is something else, with the reason.
  """

  def __init__(self, name, distribution, is_scale=True):
    if isinstance(distribution, dict):
      settings = dict(distribution)
      distribution = getattr(tfd, settings.pop('distribution'))(**settings)
    self.name = name
    self.distribution = distribution
    self.parameters = {
      key: self._numbers(key, value, is_scale)
      for key, value in distribution.parameters.items()
      if not (value is None or isinstance(value, (bool, str)))  # options, and a name
    }
    # A copy in float64, whatever the dtype of the numbers.
    with tf.init_scope():  # of numbers, in graphs too
      self._exact = type(distribution)(
        **{name: tf.constant(value, tf.float64) for name, value in self.parameters.items()}
      )
    self.shape = tuple(self._exact.batch_shape)
    try:
      with tf.init_scope():
        lowest = float(np.min(self._exact.quantile(tf.constant(_TAIL, tf.float64)).numpy()))
    except NotImplementedError as e:
      raise errors.InputError(
        f'A prior of `{name}` needs a quantile, as those of LogNormal, HalfNormal or Gamma. '
        f'Received: {name}={self!r}'
      ) from e
    self._is_positive = lowest > 0
    if is_scale and not self._is_positive:
      raise errors.InputError(
        f'A prior of `{name}` must be one of positive numbers. Received: {name}={self!r}, with '
        f'quantile {lowest:g} at {_TAIL:.2g}'
      )

  def value(self, u):
    """The parameter for `u` `[*chains, *shape]`: `[*chains, *shape]`."""
    if self._is_positive:
      return tf.exp(self.log_value(u))
    if isinstance(self.distribution, tfd.Normal):
      return self._linear(u)
    return tf.cast(self._quantile(u), u.dtype)

  def log_value(self, u):
    """The logarithm of a positive parameter."""
    if isinstance(self.distribution, tfd.LogNormal):
      return self._linear(u)
    return tf.cast(tf.math.log(self._quantile(u)), u.dtype)

  def _linear(self, u):
    loc, scale = (tf.constant(self.parameters[name], u.dtype) for name in ('loc', 'scale'))
    return loc + scale * u

  def _quantile(self, u):
    probability = 0.5 * tf.math.erfc(-math.sqrt(0.5) * tf.cast(u, tf.float64))  # Phi(u)
    return self._exact.quantile(tf.clip_by_value(probability, _TAIL, 1 - _TAIL))

  def divided(self, unit):
    """The distribution of a scale in units of `unit`, of the same kind."""
    is_log_normal = isinstance(self.distribution, tfd.LogNormal)

    def change(name, value):
      if is_log_normal:
        return value - math.log(unit) if name == 'loc' else value
      return value * {'rate': unit}.get(name, 1 / unit if name in _IN_UNITS else 1.0)

    other = type(self.distribution)(**{k: change(k, v) for k, v in self.parameters.items()})
    probabilities = tf.constant([0.1, 0.5, 0.9])
    expected = self.distribution.quantile(probabilities) / unit
    if not np.allclose(other.quantile(probabilities), expected, rtol=1e-3):
      raise errors.InputError(
        'The noise has a prior that cannot be brought to the units of standardized targets: take a '
        f'LogNormal, or standardize=False. Received: {self.name}={self!r}'
      )
    return other

  def to_dict(self):
    """A dict for JSON."""
    parameters = {name: np.asarray(value).tolist() for name, value in self.parameters.items()}
    return {'distribution': type(self.distribution).__name__, **parameters}

  def __repr__(self):
    numbers = ', '.join(f'{name}={_text(value)}' for name, value in self.parameters.items())
    return f'{type(self.distribution).__name__}({numbers})'

  def _numbers(self, key, value, is_scale):
    try:
      numbers = np.asarray(tf.get_static_value(value) if tf.is_tensor(value) else value, np.float64)
    except (TypeError, ValueError):
      numbers = np.asarray(np.nan)
    if np.any(np.isnan(numbers)) or (is_scale and numbers.ndim):
      raise errors.InputError(
        f'A prior of `{self.name}` must be one distribution of `tfp.distributions`'
        f'{" for all outputs" if is_scale else ""}, with numbers as parameters. Received: '
        f'{type(self.distribution).__name__} with {key}={value!r}'
      )
    return numbers if numbers.ndim else float(numbers)


def is_given(value):
  """Whether a value is a prior, or what `to_dict` returned of one."""
  return isinstance(value, (tfd.Distribution, dict))


def _text(value):
  return f'{value:g}' if np.ndim(value) == 0 else str(np.asarray(value).tolist())
