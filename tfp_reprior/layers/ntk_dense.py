"""Fully connected layer in NTK parametrisation."""

from typing import Any

import keras
import tensorflow as tf

from tfp_reprior.internal import checks
from tfp_reprior.internal.types import Activation, Shape
from tfp_reprior.layers import ntk_layer


@keras.saving.register_keras_serializable(package='tfp_reprior')
class NTKDense(ntk_layer.NTKLayer):
  """Fully connected layer whose weights have prior N(0, 1).

  ```none
  outputs = activation(weight_std / sqrt(inputs.shape[-1]) * inputs @ kernel + bias_std * bias)
  ```

  Args:
    units: Positive integer, the number of outputs.
    weight_std: Positive float, prior standard deviation of the kernel, times `sqrt(fan_in)`.
    bias_std: Non-negative float, prior standard deviation of the bias. With 0 there is none.
    activation: As in Keras, or `'erf'`: a name, a callable, or `None` for a linear layer.
    **kwargs: Passed to `keras.layers.Layer`.

  Input shape:
    `[n, ..., inputs]`. If the weights carry chain dimensions (see
    `tfp_reprior.models.ReadoutSplit`), `[n, inputs]` or `[*chains, n, inputs]`.

  Output shape:
    `[n, ..., units]`, or `[*chains, n, units]`.

  #### Examples

  ```python
  import numpy as np
  import tfp_reprior as tfr

  layer = tfr.layers.NTKDense(512, weight_std=2**0.5, bias_std=0.1, activation='gelu')
  layer(np.ones([8, 64], np.float32)).shape  # ==> [8, 512]
  ```
  """

  def __init__(
    self,
    units: int,
    weight_std: float = 1.0,
    bias_std: float = 0.0,
    activation: Activation | None = None,
    **kwargs: Any,
  ) -> None:
    super().__init__(weight_std, bias_std, activation, **kwargs)
    self.units = checks.positive_integer('units', units)

  def build(self, input_shape: Shape) -> None:
    self.add_kernel_and_bias((input_shape[-1], self.units))
    self.input_spec = keras.layers.InputSpec(min_ndim=2, axes={-1: input_shape[-1]})
    self.built = True

  def call(self, inputs: tf.Tensor) -> tf.Tensor:
    # `.value`, because in a `keras.StatelessScope` it may have leading chain dimensions, which
    # the operators of a Keras variable do not know.
    kernel = self.kernel.value  # [*chains, inputs, units]
    bias = None if self.bias is None else self.bias.value  # [*chains, units]
    if bias is not None and len(bias.shape) > 1:
      bias = keras.ops.expand_dims(bias, -2)  # [*chains, 1, units]
    return self.affine(keras.ops.matmul(inputs, kernel), bias)

  def compute_output_shape(self, input_shape: Shape) -> Shape:
    return (*input_shape[:-1], self.units)

  def get_config(self) -> dict[str, Any]:
    return {**super().get_config(), 'units': self.units}
