"""Two-dimensional convolution in NTK parametrisation."""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from tfp_reprior import errors
from tfp_reprior.internal import checks
from tfp_reprior.internal.types import Activation, Shape
from tfp_reprior.layers import ntk_layer


@keras.saving.register_keras_serializable(package='tfp_reprior')
class NTKConv2D(ntk_layer.NTKLayer):
  """Two-dimensional convolution whose weights have prior N(0, 1).

  ```none
  outputs = activation(weight_std / sqrt(fan_in) * conv2d(inputs, kernel) + bias_std * bias)
  fan_in  = kernel height * kernel width * input channels
  ```

  The fan-in counts every tap, at the border too, where `padding='same'` multiplies some by zero.

  Args:
    filters: Positive integer, the number of output channels.
    kernel_size: Positive integer, or a pair of them.
    strides: Positive integer, or a pair of them.
    padding: `'same'` (zeros) or `'valid'`.
    weight_std: Positive float, prior standard deviation of the kernel, times `sqrt(fan_in)`.
    bias_std: Non-negative float, prior standard deviation of the bias. With 0 there is none.
    activation: As in Keras, or `'erf'`: a name, a callable, or `None` for a linear layer.
    **kwargs: Passed to `keras.layers.Layer`.

  Input shape:
    `[n, height, width, channels]`.

  Output shape:
    `[n, new_height, new_width, filters]`.

  #### Examples

  ```python
  import numpy as np
  import tfp_reprior as tfr

  layer = tfr.layers.NTKConv2D(16, kernel_size=3, strides=2, activation='relu')
  layer(np.ones([2, 8, 8, 3], np.float32)).shape  # ==> [2, 4, 4, 16]
  ```
  """

  def __init__(
    self,
    filters: int,
    kernel_size: int | Sequence[int],
    strides: int | Sequence[int] = 1,
    padding: str = 'same',
    weight_std: float = 1.0,
    bias_std: float = 0.0,
    activation: Activation | None = None,
    **kwargs: Any,
  ) -> None:
    super().__init__(weight_std, bias_std, activation, **kwargs)
    self.filters = checks.positive_integer('filters', filters)
    self.kernel_size = _pair('kernel_size', kernel_size)
    self.strides = _pair('strides', strides)
    self.padding = checks.one_of('padding', padding, ('same', 'valid'))

  def build(self, input_shape: Shape) -> None:
    self.add_kernel_and_bias((*self.kernel_size, input_shape[-1], self.filters))
    self.input_spec = keras.layers.InputSpec(ndim=4, axes={-1: input_shape[-1]})
    self.built = True

  def call(self, inputs: tf.Tensor) -> tf.Tensor:
    outputs = keras.ops.conv(
      inputs, self.kernel.value, self.strides, self.padding, data_format='channels_last'
    )
    return self.affine(outputs, None if self.bias is None else self.bias.value)

  def compute_output_shape(self, input_shape: Shape) -> Shape:
    batch, height, width, channels = input_shape
    return keras.ops.conv(
      keras.KerasTensor((batch, height, width, channels)),
      keras.KerasTensor((*self.kernel_size, channels, self.filters)),
      self.strides,
      self.padding,
      data_format='channels_last',
    ).shape

  def get_config(self) -> dict[str, Any]:
    return {
      **super().get_config(),
      'filters': self.filters,
      'kernel_size': self.kernel_size,
      'strides': self.strides,
      'padding': self.padding,
    }


def _pair(name, value):
  pair = (value, value) if not isinstance(value, (list, tuple)) else tuple(value)
  if len(pair) != 2:
    raise errors.InputError(f'`{name}` must be one integer or two. Received: {name}={value!r}')
  return tuple(checks.positive_integer(name, v) for v in pair)
