"""Sum of tensors with fixed scales, for skip connections."""

import math
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from tfp_reprior import errors
from tfp_reprior.internal.types import Shape


@keras.saving.register_keras_serializable(package='tfp_reprior')
class ScaledSum(keras.layers.Layer):
  """The sum of several inputs, each times a number.

  ```none
  outputs = scales[0] * inputs[0] + scales[1] * inputs[1] + ...
  ```

  If the squares of the scales add up to 1, and the inputs are uncorrelated and of equal variance,
  so is the variance of the outputs. The layer has no weights.

  Args:
    scales: List of finite floats, one for each input.
    **kwargs: Passed to `keras.layers.Layer`.

  Input shape:
    List of `len(scales)` tensors of one shape.

  Output shape:
    That of the inputs.

  #### Examples

  ```python
  import numpy as np
  import tfp_reprior as tfr

  x = np.ones([2, 3], np.float32)
  tfr.layers.ScaledSum([0.6, 0.8])([x, 2 * x])  # ==> 2.2 everywhere
  ```
  """

  def __init__(self, scales: Sequence[float], **kwargs: Any) -> None:
    super().__init__(**kwargs)
    if not isinstance(scales, (list, tuple)) or not scales or not all(map(math.isfinite, scales)):
      raise errors.InputError(
        f'`scales` must be a list of finite floats. Received: scales={scales!r}'
      )
    self.scales = [float(s) for s in scales]

  def build(self, input_shape: Sequence[Shape]) -> None:
    shapes = [tuple(s) for s in input_shape]
    if len(shapes) != len(self.scales) or len(set(shapes)) != 1:
      raise errors.InputError(
        f'The inputs must be {len(self.scales)} tensors of one shape. Received: shapes {shapes}'
      )
    self.built = True

  def call(self, inputs: Sequence[tf.Tensor]) -> tf.Tensor:
    return sum(scale * x for scale, x in zip(self.scales, inputs, strict=True))

  def compute_output_shape(self, input_shape: Sequence[Shape]) -> Shape:
    return tuple(input_shape[0])

  def get_config(self) -> dict[str, Any]:
    return {**super().get_config(), 'scales': self.scales}
