"""Positions of a sequence in NTK parametrisation."""

from typing import Any

import keras
import tensorflow as tf

from tfp_reprior.internal import checks
from tfp_reprior.internal.types import Shape
from tfp_reprior.layers import ntk_layer


@keras.saving.register_keras_serializable(package='tfp_reprior')
class NTKPosition(ntk_layer.NTKLayer):
  """Adds a vector to each position of a sequence, whose entries have prior N(0, 1).

  ```none
  outputs = activation(inputs + bias_std * bias)
  ```

  Without it a network of attention and averages does not see the order of its inputs.

  Args:
    bias_std: Positive float, prior standard deviation of what is added.
    **kwargs: Passed to `NTKLayer`.

  Input shape:
    `[n, length, features]`, with a known `length`.

  Output shape:
    `[n, length, features]`.

  #### Examples

  ```python
  import numpy as np
  import tfp_reprior as tfr

  layer = tfr.layers.NTKPosition(bias_std=0.5)
  layer(np.zeros([2, 10, 3], np.float32))[0, 4]  # the vector of the fifth position
  ```
  """

  def __init__(self, bias_std: float = 1.0, **kwargs: Any) -> None:
    super().__init__(bias_std=checks.positive('bias_std', bias_std), **kwargs)

  def build(self, input_shape: Shape) -> None:
    self.bias = self.add_standard_normal(input_shape[1:], name='bias')
    self.input_spec = keras.layers.InputSpec(shape=(None, *input_shape[1:]))
    self.built = True

  def call(self, inputs: tf.Tensor) -> tf.Tensor:
    return self.activation(inputs + self.bias_std * self.bias.value)

  def compute_output_shape(self, input_shape: Shape) -> Shape:
    return tuple(input_shape)
