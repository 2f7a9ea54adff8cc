"""Wide ResNet without normalisers in NTK parametrisation."""

import functools
import math
from collections.abc import Sequence

import keras

from tfp_reprior import errors
from tfp_reprior.internal import checks
from tfp_reprior.internal.types import Activation
from tfp_reprior.layers import activations, ntk_conv2d, scaled_sum
from tfp_reprior.models import ends

SKIP_WEIGHTINGS = ('progressive', 'uniform')


def wide_resnet(
  input_shape: Sequence[int],
  num_outputs: int,
  width: int = 128,
  depth: int = 20,
  activation: Activation | None = 'gelu',
  skip_offset: float = 1.0,
  skip_weighting: str = 'progressive',
  weight_std: float = 2.2**0.5,
  bias_std: float = 0.0,
  readout_weight_std: float = 1.0,
  readout_bias_std: float = 0.1,
  dtype: str | None = None,
  name: str = 'wide_resnet',
) -> keras.Model:
  """A Wide ResNet without normalisers, by default that of Hron et al. (2022).

  ```none
  x -> convolution(width) -> stage(width) -> stage(2 width) -> stage(4 width)
    -> activation -> average over all positions -> linear readout

  stage:  (depth - 2) / 6 blocks; the first one of the second and third has stride 2
  block:  residual = convolution(activation(convolution(activation(skip))))
          outputs  = skip_scale * skip + residual_scale * residual
  ```

  All convolutions are 3 x 3 and pad with zeros. The k-th sum of `(depth - 2) / 2`, with `c` the
  `skip_offset`, has the scales

  ```none
  progressive   skip_scale = sqrt((k - 1 + c) / (k + c))   residual_scale = sqrt(1 / (k + c))
  uniform       skip_scale = sqrt(c / (1 + c))             residual_scale = sqrt(1 / (1 + c))
  ```

  Their squares add up to 1, so that a sum has the variance of its terms if they have the same.
  Progressive scales give all residuals the same share of the last sum, and the first convolution
  `c` times that share (Shao et al., 2020); uniform ones halve what came before, for `c = 1`.

  Where a block changes the shape, a linear convolution of the same stride brings `skip` to the new
  one. Like the first convolution it sees no activations, and has weight_std 1 for that.

  Args:
    input_shape: `(height, width, channels)` of one image, or `(height, width)` for one channel;
      height and width must be multiples of 4.
    num_outputs: Positive integer `k`.
    width: Positive integer, the number of channels of the first stage.
    depth: Integer of the form 6 m + 2 with positive m: the number of layers with weights, not
      counting the convolutions of skips.
    activation: `'gelu'` (the exact one), `'relu'`, `'tanh'`, `'erf'`, or another one of Keras.
    skip_offset: Positive float `c`.
    skip_weighting: `'progressive'` or `'uniform'`.
    weight_std: Positive float, prior scale of the kernels in residuals (before `1 / sqrt(fan_in)`).
    bias_std: Non-negative float, prior scale of all biases before the readout; 0 means none.
    readout_weight_std: As `weight_std`, of the readout.
    readout_bias_std: As `bias_std`, of the readout.
    dtype: `'float32'`, `'float64'`, or `None` for the Keras default.
    name: Name of the model.

  Returns:
    A functional `keras.Model` from `[n, *input_shape]` to `[n, num_outputs]`.

  #### Examples

  ```python
  import tfp_reprior as tfr

  model = tfr.models.wide_resnet((8, 8), num_outputs=10, width=8, depth=8)
  ```

  #### References

  J. Hron, R. Novak, J. Pennington and J. Sohl-Dickstein. Wide Bayesian neural networks have a
  simple weight posterior: theory and accelerated sampling. ICML 2022.

  J. Shao, K. Hu, C. Wang, X. Xue and B. Raj. Is normalization indispensable for training deep
  neural networks? NeurIPS 2020.
  """
  ends.check_arguments(
    input_shape,
    readout_weight_std,
    readout_bias_std,
    num_outputs=num_outputs,
    width=width,
    depth=depth,
  )
  if depth < 8 or depth % 6 != 2:
    raise errors.InputError(
      f'`depth` must be 6 m + 2 with positive m: 8, 14, 20, ... Received: depth={depth}'
    )
  checks.positive('skip_offset', skip_offset)
  checks.one_of('skip_weighting', skip_weighting, SKIP_WEIGHTINGS)
  inputs, images = ends.image_inputs(input_shape, dtype)
  if any(size % 4 for size in input_shape[:2]):
    raise errors.InputError(
      'Height and width of `input_shape` must be multiples of 4, because two stages halve them. '
      f'Received: input_shape={input_shape!r}'
    )
  conv = functools.partial(ntk_conv2d.NTKConv2D, kernel_size=3, bias_std=bias_std, dtype=dtype)
  activate = functools.partial(keras.layers.Activation, activations.get(activation), dtype=dtype)

  def residual(h, filters, strides, name):
    h = activate(name=f'{name}_activation')(h)
    for i, s, a in ((1, strides, activation), (2, 1, None)):
      h = conv(filters, strides=s, weight_std=weight_std, activation=a, name=f'{name}_conv_{i}')(h)
    return h

  h = conv(width, name='stem')(images)
  num_blocks = (depth - 2) // 6
  for k in range(1, 3 * num_blocks + 1):
    stage, block = divmod(k - 1, num_blocks)
    name_of_block = f'stage_{stage + 1}_block_{block + 1}'
    filters = 2**stage * width
    changes_shape = stage > 0 and block == 0
    strides = 2 if changes_shape else 1
    r = residual(h, filters, strides, name_of_block)
    if changes_shape:
      h = conv(filters, strides=strides, name=f'{name_of_block}_skip')(h)
    scales = skip_scales(k, skip_offset, skip_weighting)
    h = scaled_sum.ScaledSum(scales, dtype=dtype, name=f'{name_of_block}_sum')([h, r])
  h = activate(name='activation')(h)
  pool = keras.layers.GlobalAveragePooling2D(
    data_format='channels_last', dtype=dtype, name='pooling'
  )
  outputs = ends.add_readout(pool(h), num_outputs, readout_weight_std, readout_bias_std, dtype)
  return keras.Model(inputs, outputs, name=name)


def skip_scales(k, offset, weighting):
  """The scales of skip and residual in the k-th sum, from 1 on: see `wide_resnet`."""
  if weighting == 'uniform':
    k = 1
  return [math.sqrt((k - 1 + offset) / (k + offset)), math.sqrt(1 / (k + offset))]
