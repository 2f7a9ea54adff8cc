"""Convolutional network in NTK parametrisation."""

from collections.abc import Sequence

import keras

from tfp_reprior.internal import checks
from tfp_reprior.internal.types import Activation
from tfp_reprior.layers import ntk_conv2d
from tfp_reprior.models import ends

POOLINGS = ('flatten', 'average')


def cnn(
  input_shape: Sequence[int],
  num_outputs: int,
  width: int,
  depth: int = 3,
  kernel_size: int | Sequence[int] = 3,
  strides: int | Sequence[int] = 1,
  pooling: str = 'flatten',
  activation: Activation | None = 'gelu',
  weight_std: float = 2**0.5,
  bias_std: float = 0.1,
  readout_weight_std: float = 1.0,
  readout_bias_std: float = 0.1,
  dtype: str | None = None,
  name: str = 'cnn',
) -> keras.Model:
  """A plain convolutional network.

  ```none
  x -> [NTKConv2D(width, kernel_size, strides, 'same', weight_std, bias_std, activation)] * depth
    -> flatten, or the average over all positions
    -> NTKDense(num_outputs, readout_weight_std, readout_bias_std)
  ```

  With `'flatten'` the readout has as many features as there are positions times `width`. As width
  grows, such a network has the limit of one that shares no weights between positions; with
  `'average'` it has not (Novak et al., 2019).

  Args:
    input_shape: `(height, width, channels)` of one image, or `(height, width)` for one channel.
    num_outputs: Positive integer `k`.
    width: Positive integer, the number of channels of every hidden layer.
    depth: Positive integer, the number of hidden layers.
    kernel_size: Positive integer, or a pair of them.
    strides: Positive integer, or a pair of them, of every hidden layer.
    pooling: `'flatten'` or `'average'`.
    activation: `'gelu'` (the exact one), `'relu'`, `'tanh'`, `'erf'`, or another one of Keras.
    weight_std: Positive float, prior scale of the hidden kernels (before `1 / sqrt(fan_in)`).
    bias_std: Non-negative float, prior scale of the hidden biases; 0 means no bias.
    readout_weight_std: As `weight_std`, of the readout.
    readout_bias_std: As `bias_std`, of the readout.
    dtype: `'float32'`, `'float64'`, or `None` for the Keras default.
    name: Name of the model.

  Returns:
    A functional `keras.Model` from `[n, *input_shape]` to `[n, num_outputs]`.

  #### Examples

  ```python
  import tfp_reprior as tfr

  model = tfr.models.cnn((8, 8), num_outputs=10, width=64, pooling='average')
  ```

  #### References

  R. Novak et al. Bayesian deep convolutional networks with many channels are Gaussian processes.
  ICLR 2019.
  """
  ends.check_arguments(
    input_shape,
    readout_weight_std,
    readout_bias_std,
    num_outputs=num_outputs,
    width=width,
    depth=depth,
  )
  checks.one_of('pooling', pooling, POOLINGS)
  inputs, h = ends.image_inputs(input_shape, dtype)
  for i in range(depth):
    hidden = ntk_conv2d.NTKConv2D(
      width,
      kernel_size,
      strides,
      'same',
      weight_std,
      bias_std,
      activation,
      dtype=dtype,
      name=f'hidden_{i + 1}',
    )
    h = hidden(h)
  pool = keras.layers.Flatten if pooling == 'flatten' else keras.layers.GlobalAveragePooling2D
  h = pool(data_format='channels_last', dtype=dtype, name='pooling')(h)
  outputs = ends.add_readout(h, num_outputs, readout_weight_std, readout_bias_std, dtype)
  return keras.Model(inputs, outputs, name=name)
