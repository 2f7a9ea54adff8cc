"""Activations by name: those of Keras, the error function, and a faster GELU."""

import math

import keras
import tensorflow as tf

from tfp_reprior import errors


@keras.saving.register_keras_serializable(package='tfp_reprior')
def erf(x):
  """The error function, elementwise."""
  return keras.ops.erf(x)


@keras.saving.register_keras_serializable(package='tfp_reprior')
def gelu(x):
  """The exact GELU: x times the normal distribution function Phi at x, elementwise.

  What `keras.activations.gelu` is, but for rounding (TensorFlow's rounds a constant to float32), in
  fewer passes. It has no custom gradient, which would keep every graph it is traced in alive.
  """
  return x * (0.5 + 0.5 * tf.math.erf(math.sqrt(0.5) * tf.convert_to_tensor(x)))


def get(activation):
  """The activation of a layer as a function.

  Args:
    activation: `'erf'`, a name of Keras such as `'gelu'` (the exact one), `'relu'` or `'tanh'`, a
      function, what `keras.activations.serialize` made of it, or `None` for the identity.

  Returns:
    A function of a tensor.

  Raises:
    ValueError: If there is no activation of that name.
  """
  if activation == 'erf':
    return erf
  try:
    found = keras.activations.get(activation)
  except ValueError as e:
    raise errors.InputError(
      "`activation` must be 'erf', a name of Keras such as 'gelu', 'relu' or 'tanh', or a "
      f'function. Received: activation={activation!r}'
    ) from e
  return gelu if found is keras.activations.gelu else found
