"""Priors of an unknown noise scale, in a coordinate that is standard normal."""

import math

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

from tfp_reprior import errors

tfd = tfp.distributions

# The prior beyond these probabilities is cut off, because there quantiles are lost to rounding.
_TAIL = 2.0**-52
_IN_UNITS = ('scale', 'loc', 'low', 'high')  # parameters that are in the units of the scale


class NoisePrior:
  """The prior of a noise scale as a function of `u ~ N(0, 1)`.

  ```none
  noise_scale = exp(loc + scale * u)       for tfd.LogNormal(loc, scale)
  noise_scale = quantile(Phi(u))           for others, in float64
  ```

  Args:
    distribution: A distribution of `tfp.distributions` over positive numbers, with a quantile and
      numbers as parameters.

  Raises:
    ValueError: If it is something else, with the reason.
  """

  def __init__(self, distribution):
    self.distribution = distribution
    self.parameters = {
      name: _number(distribution, name, value)
      for name, value in distribution.parameters.items()
      if not (value is None or isinstance(value, (bool, str)))  # options, and a name
    }
    # A copy in float64, whatever the dtype of the numbers.
    self._exact = type(distribution)(
      **{name: tf.constant(value, tf.float64) for name, value in self.parameters.items()}
    )
    try:
      lowest = float(self._exact.quantile(tf.constant(_TAIL, tf.float64)))
    except NotImplementedError as e:
      raise errors.InputError(
        'A prior of the noise scale needs a quantile, as those of LogNormal, HalfNormal or Gamma. '
        f'Received: noise_scale={self!r}'
      ) from e
    if not lowest > 0:
      raise errors.InputError(
        'A prior of the noise scale must be one of positive numbers. Received: '
        f'noise_scale={self!r}, with quantile {lowest:g} at {_TAIL:.2g}'
      )

  def log_scale(self, u):
    """The logarithm of the noise scale for `u` `[*chains]`: `[*chains]`."""
    if isinstance(self.distribution, tfd.LogNormal):
      return self.parameters['loc'] + self.parameters['scale'] * u
    probability = 0.5 * tf.math.erfc(-math.sqrt(0.5) * tf.cast(u, tf.float64))  # Phi(u)
    quantile = self._exact.quantile(tf.clip_by_value(probability, _TAIL, 1 - _TAIL))
    return tf.cast(tf.math.log(quantile), u.dtype)

  def to_dict(self):
    """What `from_dict` makes the distribution from, a dict for JSON."""
    return {'distribution': type(self.distribution).__name__, **self.parameters}

  def __repr__(self):
    numbers = ', '.join(f'{name}={value:g}' for name, value in self.parameters.items())
    return f'{type(self.distribution).__name__}({numbers})'


def from_dict(values):
  """The distribution that `NoisePrior.to_dict` is about."""
  name, parameters = (
    values['distribution'],
    {k: v for k, v in values.items() if k != 'distribution'},
  )
  return getattr(tfd, name)(**parameters)


def divided(prior, unit):
  """The distribution of a scale in units of `unit`, of the same kind as that of a `NoisePrior`."""
  is_log_normal = isinstance(prior.distribution, tfd.LogNormal)

  def change(name, value):
    if is_log_normal:
      return value - math.log(unit) if name == 'loc' else value
    return value * {'rate': unit}.get(name, 1 / unit if name in _IN_UNITS else 1.0)

  other = type(prior.distribution)(**{k: change(k, v) for k, v in prior.parameters.items()})
  probabilities = tf.constant([0.1, 0.5, 0.9])
  expected = prior.distribution.quantile(probabilities) / unit
  if not np.allclose(other.quantile(probabilities), expected, rtol=1e-3):
    raise errors.InputError(
      'The noise has a prior that cannot be brought to the units of standardized targets: take a '
      f'LogNormal, or standardize=False. Received: noise_scale={prior!r}'
    )
  return other


def _number(distribution, name, value):
  try:
    number = np.asarray(tf.get_static_value(value) if tf.is_tensor(value) else value, np.float64)
  except (TypeError, ValueError):
    number = np.nan
  if np.ndim(number) or np.isnan(number):
    raise errors.InputError(
      'A prior of the noise scale must be one distribution of `tfp.distributions` for all outputs, '
      f'with numbers as parameters. Received: {type(distribution).__name__} with {name}={value!r}'
    )
  return float(number)
