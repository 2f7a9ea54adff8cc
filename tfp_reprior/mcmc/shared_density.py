"""A log-density whose gradients several kernels share."""

import tensorflow as tf


class SharedDensity:
  """A log-density of state parts, whose gradients are traced once for all kernels that have it.

  A run needs them in four graphs: those of the first state and of transitions, in warm-up and in
  sampling. To trace a gradient takes longer than most of what is left of a short run.

  Args:
    log_prob_fn: Function of state parts and of an `inverse_temperature`; returns `[*chains]`. What
      else it depends on must stay as it is, or be in variables.
  """

  def __init__(self, log_prob_fn):
    self._log_prob_fn = log_prob_fn
    self._functions = {}

  def at(self, inverse_temperature):
    """The log-density at an inverse temperature, a function of state parts for kernels."""
    return _Tempered(self, inverse_temperature)

  def log_prob(self, inverse_temperature, *state_parts):
    """The log-density, `[*chains]`."""
    return self._log_prob_fn(*state_parts, inverse_temperature=inverse_temperature)

  def differentiated(self, differentiate, inverse_temperature, state_parts):
    """What `differentiate`, a function of a log-density and state parts, makes of this one."""
    if differentiate not in self._functions:
      self._functions[differentiate] = tf.function(
        lambda beta, *parts: differentiate(lambda *x: self.log_prob(beta, *x), parts),
        autograph=False,
      )
    beta = tf.convert_to_tensor(inverse_temperature, state_parts[0].dtype)
    return self._functions[differentiate](beta, *state_parts)


class _Tempered:
  """A `SharedDensity` at an inverse temperature."""

  def __init__(self, density, inverse_temperature):
    self._density = density
    self._inverse_temperature = inverse_temperature

  def __call__(self, *state_parts):
    return self._density.log_prob(self._inverse_temperature, *state_parts)

  def differentiated(self, differentiate, state_parts):
    return self._density.differentiated(differentiate, self._inverse_temperature, state_parts)
