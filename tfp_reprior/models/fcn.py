"""Fully connected network in NTK parametrisation."""

from collections.abc import Sequence

import keras

from tfp_reprior.internal.types import Activation
from tfp_reprior.layers import ntk_dense
from tfp_reprior.models import ends


def fcn(
  input_shape: Sequence[int],
  num_outputs: int,
  width: int,
  depth: int = 3,
  activation: Activation | None = 'gelu',
  weight_std: float = 2**0.5,
  bias_std: float = 0.1,
  readout_weight_std: float = 1.0,
  readout_bias_std: float = 0.1,
  dtype: str | None = None,
  name: str = 'fcn',
) -> keras.Model:
  """A fully connected network, by default the one of Hron et al. (2022).

  ```none
  x -> flatten -> [NTKDense(width, weight_std, bias_std, activation)] * depth
    -> NTKDense(num_outputs, readout_weight_std, readout_bias_std)
  ```

  Args:
    input_shape: Tuple of integers, the shape of one input; more than one dimension is flattened.
    num_outputs: Positive integer `k`.
    width: Positive integer, the width of every hidden layer.
    depth: Positive integer, the number of hidden layers.
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

  model = tfr.models.fcn((32, 32, 3), num_outputs=10, width=512)
  ```

  #### References

  J. Hron, R. Novak, J. Pennington and J. Sohl-Dickstein. Wide Bayesian neural networks have a
  simple weight posterior: theory and accelerated sampling. ICML 2022.
  """
  ends.check_arguments(
    input_shape,
    readout_weight_std,
    readout_bias_std,
    num_outputs=num_outputs,
    width=width,
    depth=depth,
  )
  inputs = keras.Input(tuple(input_shape), dtype=dtype, name='inputs')
  h = keras.layers.Flatten(dtype=dtype)(inputs) if len(input_shape) != 1 else inputs
  for i in range(depth):
    hidden = ntk_dense.NTKDense(
      width, weight_std, bias_std, activation, dtype=dtype, name=f'hidden_{i + 1}'
    )
    h = hidden(h)
  outputs = ends.add_readout(h, num_outputs, readout_weight_std, readout_bias_std, dtype)
  return keras.Model(inputs, outputs, name=name)
