"""Activations by name: those of Keras, and the error function."""

import keras

from tfp_reprior import errors


@keras.saving.register_keras_serializable(package='tfp_reprior')
def erf(x):
  """The error function, elementwise."""
  return keras.ops.erf(x)


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
    return keras.activations.get(activation)
  except ValueError as e:
    raise errors.InputError(
      "`activation` must be 'erf', a name of Keras such as 'gelu', 'relu' or 'tanh', or a "
      f'function. Received: activation={activation!r}'
    ) from e
