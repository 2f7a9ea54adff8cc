"""Multi-head self-attention in NTK parametrisation."""

import math
from typing import Any

import keras
import tensorflow as tf

from tfp_reprior import errors
from tfp_reprior.internal import checks
from tfp_reprior.internal.types import Activation, Shape
from tfp_reprior.layers import ntk_layer


@keras.saving.register_keras_serializable(package='tfp_reprior')
class NTKSelfAttention(ntk_layer.NTKLayer):
  """Multi-head self-attention whose weights have prior N(0, 1).

  ```none
  queries = query_std / sqrt(features) * inputs @ query_kernel   [n, length, head_size] a head
  values  = 1 / sqrt(features) * inputs @ value_kernel           [n, length, head_size] a head
  mixed   = softmax(queries @ queries.T / head_size) @ values    [n, length, head_size] a head
  outputs = activation(weight_std / sqrt(units) * concat(mixed) @ kernel + bias_std * bias)
  ```

  with `head_size = units / num_heads`. The logits are divided by `head_size`, not by its square
  root, because then they converge as the heads grow wide, to `query_std**2 * K` with
  `K = inputs @ inputs.T / features`, and the outputs to a Gaussian process for any number of heads,
  of covariance `weight_std**2 * A @ K @ A.T + bias_std**2` with `A = softmax(query_std**2 * K)`
  (Hron et al., 2020). The queries are the keys for the same reason: with independent kernels the
  logits would converge to zero, and attention to an average. Cost: `length**2 * units` and four
  products with kernels.

  Args:
    units: Positive integer, the number of output features, a multiple of `num_heads`.
    num_heads: Positive integer.
    query_std: Positive float, prior standard deviation of the query kernel, times `sqrt(features)`.
    weight_std: Positive float, prior standard deviation of the output kernel, times `sqrt(units)`.
    bias_std: Non-negative float, prior standard deviation of the bias. With 0 there is none.
    activation: As in Keras, or `'erf'`: a name, a callable, or `None` for a linear layer.
    **kwargs: Passed to `keras.layers.Layer`.

  Input shape:
    `[n, length, features]`.

  Output shape:
    `[n, length, units]`.

  #### Examples

  ```python
  import numpy as np
  import tfp_reprior as tfr

  layer = tfr.layers.NTKSelfAttention(64, num_heads=4)
  layer(np.ones([8, 10, 3], np.float32)).shape  # ==> [8, 10, 64]
  ```

  #### References

  J. Hron, Y. Bahri, J. Sohl-Dickstein and R. Novak. Infinite attention: NNGP and NTK for deep
  attention networks. ICML 2020.
  """

  def __init__(
    self,
    units: int,
    num_heads: int = 1,
    query_std: float = 1.0,
    weight_std: float = 1.0,
    bias_std: float = 0.0,
    activation: Activation | None = None,
    **kwargs: Any,
  ) -> None:
    super().__init__(weight_std, bias_std, activation, **kwargs)
    self.units = checks.positive_integer('units', units)
    self.num_heads = checks.positive_integer('num_heads', num_heads)
    self.query_std = checks.positive('query_std', query_std)
    if self.units % self.num_heads:
      raise errors.InputError(
        f'`units` must be a multiple of `num_heads`. Received: units={units}, num_heads={num_heads}'
      )

  def build(self, input_shape: Shape) -> None:
    features = input_shape[-1]
    self.query_kernel = self.add_standard_normal((features, self.units), name='query_kernel')
    self.value_kernel = self.add_standard_normal((features, self.units), name='value_kernel')
    self.add_kernel_and_bias((self.units, self.units))
    self.input_spec = keras.layers.InputSpec(ndim=3, axes={-1: features})
    self.built = True

  def call(self, inputs: tf.Tensor) -> tf.Tensor:
    queries = self._project(inputs, self.query_kernel, self.query_std)
    values = self._project(inputs, self.value_kernel, 1.0)
    logits = keras.ops.matmul(queries, keras.ops.swapaxes(queries, -1, -2))
    weights = keras.ops.softmax(logits * (self.num_heads / self.units), axis=-1)
    mixed = keras.ops.matmul(weights, values)  # [n, num_heads, length, head_size]
    mixed = keras.ops.swapaxes(mixed, 1, 2)
    mixed = keras.ops.reshape(mixed, (-1, keras.ops.shape(inputs)[1], self.units))
    outputs = keras.ops.matmul(mixed, self.kernel.value)
    return self.affine(outputs, None if self.bias is None else self.bias.value)

  def _project(self, inputs, kernel, std):
    """`std / sqrt(features) * inputs @ kernel`: `[n, num_heads, length, head_size]`."""
    projected = std / math.sqrt(kernel.shape[0]) * keras.ops.matmul(inputs, kernel.value)
    heads = (-1, keras.ops.shape(inputs)[1], self.num_heads, self.units // self.num_heads)
    return keras.ops.swapaxes(keras.ops.reshape(projected, heads), 1, 2)

  def compute_output_shape(self, input_shape: Shape) -> Shape:
    return (*input_shape[:-1], self.units)

  def get_config(self) -> dict[str, Any]:
    return {
      **super().get_config(),
      'units': self.units,
      'num_heads': self.num_heads,
      'query_std': self.query_std,
    }
