"""Attention network in NTK parametrisation."""

import math
from collections.abc import Sequence

import keras

from tfp_reprior import errors
from tfp_reprior.internal import checks
from tfp_reprior.internal.types import Activation
from tfp_reprior.layers import ntk_conv2d, ntk_dense, ntk_position, ntk_self_attention, scaled_sum
from tfp_reprior.models import ends


def attention(
  input_shape: Sequence[int],
  num_outputs: int,
  width: int,
  depth: int = 1,
  num_heads: int = 4,
  patch_size: int | None = None,
  activation: Activation | None = 'gelu',
  query_std: float = 1.0,
  position_std: float = 1.0,
  weight_std: float = 2**0.5,
  bias_std: float = 0.1,
  readout_weight_std: float = 1.0,
  readout_bias_std: float = 0.1,
  dtype: str | None = None,
  name: str = 'attention',
) -> keras.Model:
  """A network of self-attention over the patches of an image, or over a sequence.

  ```none
  x -> patches of images, or the entries of a sequence    [length, features]
    -> linear embedding, plus a vector for each position  [length, width]
    -> depth blocks                                       [length, width]
    -> average over positions -> linear readout

  block:  h = sqrt(1 / 2) * h + sqrt(1 / 2) * NTKSelfAttention(width, num_heads, query_std)(h)
          h = NTKDense(width, weight_std, bias_std, activation)(h)
  ```

  The embedding and the outputs of attention have weight_std 1 and no bias. The limit of great width
  (of every head) is that of `NTKSelfAttention`.

  Args:
    input_shape: `(height, width, channels)` of one image, or `(length, features)` of a sequence.
    num_outputs: Positive integer `k`.
    width: Positive integer, the number of features of every position, a multiple of `num_heads`.
    depth: Positive integer, the number of blocks.
    num_heads: Positive integer.
    patch_size: Positive integer that divides height and width of images; by default 4. Sequences
      have none.
    activation: `'gelu'` (the exact one), `'relu'`, `'tanh'`, `'erf'`, or another one of Keras.
    query_std: Positive float, prior scale of the query kernels; the logits grow as its square.
    position_std: Non-negative float, prior scale of the vectors that tell positions apart. With 0
      there are none, and the order of patches or entries makes no difference.
    weight_std: Positive float, prior scale of the dense kernels (before `1 / sqrt(fan_in)`).
    bias_std: Non-negative float, prior scale of the dense biases; 0 means no bias.
    readout_weight_std: As `weight_std`, of the readout.
    readout_bias_std: As `bias_std`, of the readout.
    dtype: `'float32'`, `'float64'`, or `None` for the Keras default.
    name: Name of the model.

  Returns:
    A functional `keras.Model` from `[n, *input_shape]` to `[n, num_outputs]`.

  #### Examples

  ```python
  import tfp_reprior as tfr

  images = tfr.models.attention((32, 32, 3), num_outputs=10, width=64)  # 64 patches of 4 x 4
  rows = tfr.models.attention((8, 8), num_outputs=10, width=64)  # a sequence of 8 rows
  ```

  #### References

  J. Hron, Y. Bahri, J. Sohl-Dickstein and R. Novak. Infinite attention: NNGP and NTK for deep
  attention networks. ICML 2020.
  """
  ends.check_arguments(
    input_shape,
    readout_weight_std,
    readout_bias_std,
    num_outputs=num_outputs,
    width=width,
    depth=depth,
    num_heads=num_heads,
  )
  if width % num_heads:
    raise errors.InputError(
      f'`width` must be a multiple of `num_heads`. Received: width={width}, num_heads={num_heads}'
    )
  checks.non_negative('position_std', position_std)
  inputs, h = _embedded(input_shape, width, patch_size, dtype)
  if position_std > 0:
    h = ntk_position.NTKPosition(position_std, dtype=dtype, name='position')(h)
  for i in range(1, depth + 1):
    attend = ntk_self_attention.NTKSelfAttention(
      width, num_heads, query_std, dtype=dtype, name=f'attention_{i}'
    )
    halves = scaled_sum.ScaledSum([math.sqrt(0.5)] * 2, dtype=dtype, name=f'sum_{i}')
    hidden = ntk_dense.NTKDense(
      width, weight_std, bias_std, activation, dtype=dtype, name=f'hidden_{i}'
    )
    h = hidden(halves([h, attend(h)]))
  pool = keras.layers.GlobalAveragePooling1D(
    data_format='channels_last', dtype=dtype, name='pooling'
  )
  outputs = ends.add_readout(pool(h), num_outputs, readout_weight_std, readout_bias_std, dtype)
  return keras.Model(inputs, outputs, name=name)


def _embedded(input_shape, width, patch_size, dtype):
  """The inputs, and their embedding `[n, length, width]`."""
  if len(input_shape) == 2:
    if patch_size is not None:
      raise errors.InputError(
        'Sequences have no `patch_size`; images have `input_shape` (height, width, channels). '
        f'Received: input_shape={input_shape!r}, patch_size={patch_size!r}'
      )
    inputs = keras.Input(tuple(input_shape), dtype=dtype, name='inputs')
    return inputs, ntk_dense.NTKDense(width, dtype=dtype, name='embedding')(inputs)
  if len(input_shape) != 3:
    raise errors.InputError(
      '`input_shape` must be (height, width, channels) or (length, features). Received: '
      f'input_shape={input_shape!r}'
    )
  inputs, images = ends.image_inputs(input_shape, dtype)
  patch_size = checks.positive_integer('patch_size', 4 if patch_size is None else patch_size)
  if any(size % patch_size for size in input_shape[:2]):
    raise errors.InputError(
      '`patch_size` must divide height and width of the images. Received: '
      f'patch_size={patch_size}, input_shape={input_shape!r}'
    )
  # A kernel and a stride of one patch: a dense layer of its entries.
  embed = ntk_conv2d.NTKConv2D(
    width, patch_size, patch_size, 'valid', dtype=dtype, name='embedding'
  )
  return inputs, keras.layers.Reshape((-1, width), dtype=dtype, name='patches')(embed(images))
