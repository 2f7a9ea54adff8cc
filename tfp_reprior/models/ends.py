"""The two ends that all models share, inputs and linear readout, and checks of their arguments."""

import numbers

import keras

from tfp_reprior import errors
from tfp_reprior.internal import checks
from tfp_reprior.layers import ntk_dense

_MOST_LAYERS = 10_000


def check_arguments(input_shape, readout_weight_std, readout_bias_std, **sizes):
  """Refuses arguments that the layers would not refuse by the name that the caller knows.

  Args:
    input_shape: Must be a tuple or list of positive integers.
    readout_weight_std: Must be positive.
    readout_bias_std: Must not be negative.
    **sizes: Must be positive integers.
  """
  if not isinstance(input_shape, (list, tuple)):
    raise errors.InputError(f'`input_shape` must be a tuple. Received: input_shape={input_shape!r}')
  if not all(isinstance(size, numbers.Integral) and size > 0 for size in input_shape):
    raise errors.InputError(
      f'`input_shape` must hold positive integers. Received: input_shape={input_shape!r}'
    )
  for argument, value in sizes.items():
    checks.positive_integer(argument, value)
  if sizes.get('depth', 1) > _MOST_LAYERS:
    raise errors.InputError(
      f'`depth` must be at most {_MOST_LAYERS}. Received: depth={sizes["depth"]}'
    )
  # Before the first layer takes its memory: between two hidden layers there are width**2 weights.
  width, num_between = sizes.get('width', 1), sizes.get('depth', 1) - 1
  checks.fits_memory(f'width={width}, depth={num_between + 1}', 4 * num_between * width**2)
  checks.positive('readout_weight_std', readout_weight_std)
  checks.non_negative('readout_bias_std', readout_bias_std)


def image_inputs(input_shape, dtype):
  """The inputs of a model of images.

  Args:
    input_shape: `(height, width, channels)`, or `(height, width)` for one channel.
    dtype: Of the model.

  Returns:
    inputs: `keras.Input` `[n, *input_shape]`.
    images: The same as `[n, height, width, channels]`.
  """
  if len(input_shape) not in (2, 3):
    raise errors.InputError(
      '`input_shape` must be (height, width, channels), or (height, width) for one channel. '
      f'Received: input_shape={input_shape!r}'
    )
  inputs = keras.Input(tuple(input_shape), dtype=dtype, name='inputs')
  if len(input_shape) == 3:
    return inputs, inputs
  return inputs, keras.layers.Reshape((*input_shape, 1), dtype=dtype, name='channel')(inputs)


def add_readout(features, num_outputs, weight_std, bias_std, dtype):
  """The outputs `[n, num_outputs]` of a linear `NTKDense` of the features `[n, width]`."""
  return ntk_dense.NTKDense(num_outputs, weight_std, bias_std, dtype=dtype, name='readout')(
    features
  )
