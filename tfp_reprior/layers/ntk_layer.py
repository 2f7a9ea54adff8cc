"""Base of the layers in NTK parametrisation."""

import math
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from tfp_reprior.internal import checks
from tfp_reprior.internal.types import Activation
from tfp_reprior.layers import activations


class NTKLayer(keras.layers.Layer):
  """A layer whose weights have prior N(0, 1), with their scale in the forward pass.

  ```none
  outputs = activation(weight_std / sqrt(fan_in) * linear(inputs, kernel) + bias_std * bias)
  ```

  A subclass calls `add_kernel_and_bias` in `build` and `affine` in `call`, and makes any further
  weights by `add_standard_normal`. All its trainable weights must have prior N(0, 1): this is what
  `tfp_reprior.models.ReadoutSplit` assumes of every subclass.

  Args:
    weight_std: Positive float, prior standard deviation of the kernel, times `sqrt(fan_in)`.
    bias_std: Non-negative float, prior standard deviation of the bias. With 0 there is none.
    activation: As in Keras, or `'erf'`: a name, a callable, or `None` for a linear layer.
    **kwargs: Passed to `keras.layers.Layer`.

  #### Examples

  ```python
  import keras
  import numpy as np
  import tfp_reprior as tfr

  class Pairwise(tfr.layers.NTKLayer):  # products of neighbouring features, then a dense layer
    def build(self, input_shape):
      self.add_kernel_and_bias((input_shape[-1] - 1, 4))

    def call(self, x):
      return self.affine(keras.ops.matmul(x[:, 1:] * x[:, :-1], self.kernel.value), self.bias)

  Pairwise()(np.ones([2, 5], np.float32)).shape  # ==> [2, 4]
  ```
  """

  def __init__(
    self,
    weight_std: float = 1.0,
    bias_std: float = 0.0,
    activation: Activation | None = None,
    **kwargs: Any,
  ) -> None:
    super().__init__(**kwargs)
    self.weight_std = checks.positive('weight_std', weight_std)
    self.bias_std = checks.non_negative('bias_std', bias_std)
    self.activation = activations.get(activation)
    self.kernel: keras.Variable | None = None
    self.bias: keras.Variable | None = None

  def add_standard_normal(self, shape: Sequence[int], name: str) -> keras.Variable:
    """Creates a trainable weight that starts as a draw from its prior N(0, 1)."""
    checks.fits_memory(
      f'a {name} of shape {list(shape)} in the layer {self.name!r}',
      math.prod(shape) * tf.as_dtype(self.variable_dtype).size,
    )
    # A new initializer each time: one draws the same numbers whenever it is called.
    seed = keras.initializers.RandomNormal().seed
    return self.add_weight(
      shape=tuple(shape),
      initializer=lambda shape, dtype: _standard_normal(shape, dtype, seed),
      name=name,
    )

  def add_kernel_and_bias(self, kernel_shape: Sequence[int]) -> None:
    """Creates `kernel` with the outputs as its last dimension, and `bias` if there is one."""
    self.kernel = self.add_standard_normal(kernel_shape, name='kernel')
    if self.bias_std > 0:
      self.bias = self.add_standard_normal(kernel_shape[-1:], name='bias')

  @property
  def kernel_scale(self) -> float:
    """What multiplies the kernel in the forward pass: `weight_std / sqrt(fan_in)`."""
    return self.weight_std / math.sqrt(math.prod(self.kernel.shape[:-1]))

  def affine(self, linear_outputs: tf.Tensor, bias: tf.Tensor | None) -> tf.Tensor:
    """Scales `linear_outputs`, adds the scaled `bias` (or `None`), applies the activation."""
    outputs = self.kernel_scale * linear_outputs
    if bias is not None:
      outputs = outputs + self.bias_std * bias
    return self.activation(outputs)

  def get_config(self) -> dict[str, Any]:
    return {
      **super().get_config(),
      'weight_std': self.weight_std,
      'bias_std': self.bias_std,
      'activation': keras.activations.serialize(self.activation),
    }


def _standard_normal(shape, dtype, seed):
  """What `keras.initializers.RandomNormal(stddev=1, seed=seed)` draws.

  That one multiplies by the deviation and adds the mean, with a copy for each: in wide networks a
  layer has a gigabyte.
  """
  key, counter = tf.raw_ops.StatelessRandomGetKeyCounter(seed=[seed, 0])
  alg = tf.raw_ops.StatelessRandomGetAlg()
  return tf.raw_ops.StatelessRandomNormalV2(
    shape=shape, key=key, counter=counter, alg=alg, dtype=tf.as_dtype(dtype)
  )
