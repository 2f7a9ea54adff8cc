"""Kernels of networks: in the limit of infinite width, of one network, and averaged over draws."""

from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import ArrayLike

from tfp_reprior import errors
from tfp_reprior.internal import checks
from tfp_reprior.internal.types import Parts, Seed
from tfp_reprior.layers import ntk_dense
from tfp_reprior.models import readout_split
from tfp_reprior.theory import activation_kernels, prior_draws


class KernelEstimate(NamedTuple):
  """A kernel estimated from draws.

  Attributes:
    mean: `[n, m]`, float64.
    standard_error: Of each entry of the mean, `[n, m]`.

  #### Examples

  ```python
  import numpy as np
  import tfp_reprior as tfr

  x = np.linspace(-1, 1, 4, dtype=np.float32)[:, np.newaxis]
  model = tfr.models.fcn((1,), num_outputs=1, width=64)
  estimate = tfr.theory.monte_carlo_kernel(model, x, num_draws=50)
  exact = tfr.theory.nngp_kernel(model, x)
  np.abs(estimate.mean - exact) / estimate.standard_error  # ==> of the order of one
  ```
  """

  mean: np.ndarray
  standard_error: np.ndarray

  def __repr__(self):
    n, m = np.shape(self.mean)
    return f'KernelEstimate(n={n}, m={m}, max_standard_error={np.max(self.standard_error):.3g})'


def nngp_kernel(
  model: keras.Model | readout_split.ReadoutSplit, x1: ArrayLike, x2: ArrayLike | None = None
) -> np.ndarray:
  """The kernel of a fully connected network of infinite width, in closed form.

  In the limit of wide hidden layers the outputs of a network with weights drawn from the prior are
  Gaussian processes, independent of each other, with a covariance that passes from layer to layer:

  ```none
  K(x, x')   <- x . x' / len(x)                                                        inputs
  q(x, x')    = weight_std**2 K(x, x') + bias_std**2                                   each layer
  K(x, x')   <- E[f(u) f(v)],   (u, v) ~ N(0, [[q(x, x), q(x, x')], [q(x', x), q(x', x')]])
  ```

  The settings are read from the layers of the model itself, widths aside. Closed forms for linear
  layers, ReLU, erf and the exact GELU; tanh, sigmoid, SiLU and softplus by quadrature, to 1e-9 for
  variances `q` up to 10.

  Args:
    model: A `keras.Model` in which `NTKDense` (or `keras.layers.Dense`), `Activation` and `Flatten`
      layers follow one another; or a `ReadoutSplit` of one, for prior scales of plain layers.
    x1: Inputs `[n, ...]`.
    x2: Inputs `[m, ...]`; by default `x1`.

  Returns:
    The covariance of one output, `[n, m]`, float64.

  Raises:
    ValueError: If the model is of another kind; `monte_carlo_kernel` takes any.

  #### Examples

  ```python
  import numpy as np
  import tfp_reprior as tfr

  model = tfr.models.fcn((1,), num_outputs=1, width=8)  # the width does not matter
  x = np.linspace(-1, 1, 5)[:, np.newaxis]
  tfr.theory.nngp_kernel(model, x).shape  # ==> [5, 5]
  ```

  #### References

  Y. Cho and L. Saul. Kernel methods for deep learning. NeurIPS 2009 (ReLU).
  C. Williams. Computing with infinite networks. NeurIPS 1997 (erf).
  J. Lee, Y. Bahri, R. Novak, S. Schoenholz, J. Pennington and J. Sohl-Dickstein. Deep neural
  networks as Gaussian processes. ICLR 2018.
  """
  split = _as_split(model)
  layers = _chain(split)
  x1 = _rows('x1', x1, split)
  x2 = x1 if x2 is None else _rows('x2', x2, split)
  size = x1.shape[1]
  a = np.sum(x1**2, axis=1)[:, np.newaxis] / size  # [n, 1]
  b = np.sum(x2**2, axis=1)[np.newaxis] / size  # [1, m]
  c = x1 @ x2.T / size  # [n, m]
  for activation, weight_std, bias_std in layers:
    a, b, c = (weight_std**2 * moment + bias_std**2 for moment in (a, b, c))
    a, b, c = (
      activation_kernels.second_moment(activation, *moments)
      for moments in ((a, a, a), (b, b, b), (a, b, c))
    )
  return c


def empirical_kernel(
  split: readout_split.ReadoutSplit, hidden_parts: Parts, x1: ArrayLike, x2: ArrayLike | None = None
) -> tf.Tensor:
  """The kernel of one network, or of one for each chain: `psi(x1) @ psi(x2).T`.

  It is the covariance of an output over the weights of the readout, given those before.

  Args:
    split: A `tfp_reprior.models.ReadoutSplit`.
    hidden_parts: List of tensors `[*chains, *event_shape]`.
    x1: Inputs `[n, ...]`.
    x2: Inputs `[m, ...]`; by default `x1`.

  Returns:
    Tensor `[*chains, n, m]`.

  #### Examples

  ```python
  import numpy as np
  import tfp_reprior as tfr

  split = tfr.models.ReadoutSplit(tfr.models.fcn((1,), num_outputs=1, width=64))
  hidden = split.sample_prior(4, seed=1)[: split.num_hidden]
  tfr.theory.empirical_kernel(split, hidden, np.ones([5, 1], np.float32)).shape  # ==> [4, 5, 5]
  ```
  """
  psi1 = split.embed(hidden_parts, x1)
  psi2 = psi1 if x2 is None else split.embed(hidden_parts, x2)
  return tf.matmul(psi1, psi2, transpose_b=True)


def monte_carlo_kernel(
  model: keras.Model | readout_split.ReadoutSplit,
  x1: ArrayLike,
  x2: ArrayLike | None = None,
  num_draws: int = 1000,
  seed: Seed = 0,
) -> KernelEstimate:
  """The mean of `empirical_kernel` over draws from the prior, for any model.

  This is the covariance of an output under the prior, of the network as wide as it is. From that
  of infinite width it differs by O(1 / width); with one hidden layer it does not.

  Args:
    model: A `keras.Model` that ends in a linear readout, or a `tfp_reprior.models.ReadoutSplit`.
    x1: Inputs `[n, ...]`.
    x2: Inputs `[m, ...]`; by default `x1`.
    num_draws: Integer, at least 2.
    seed: A seed of TFP.

  Returns:
    A `KernelEstimate`.

  #### Examples

  ```python
  import numpy as np
  import tfp_reprior as tfr

  model = tfr.models.cnn((8, 8, 1), num_outputs=2, width=16)
  x = np.random.default_rng(0).normal(size=(3, 8, 8, 1)).astype(np.float32)
  kernel = tfr.theory.monte_carlo_kernel(model, x, num_draws=20)
  kernel.mean, kernel.standard_error  # [3, 3] each
  ```
  """
  split = _as_split(model)
  if checks.positive_integer('num_draws', num_draws) < 2:
    raise errors.InputError(f'`num_draws` must be at least 2. Received: num_draws={num_draws}')
  x1, x2 = (None if x is None else tf.convert_to_tensor(x, split.dtype) for x in (x1, x2))

  def kernels(parts):
    return empirical_kernel(split, parts[: split.num_hidden], x1, x2)

  mean, squares, count = 0.0, 0.0, 0
  for batch in prior_draws.map_prior(kernels, split, num_draws, seed):
    # Means and sums of squares around them, of batches put together: no large sums cancel.
    batch = np.asarray(batch, np.float64)
    batch_mean, total = batch.mean(axis=0), count + len(batch)
    difference = batch_mean - mean
    squares += np.sum((batch - batch_mean) ** 2, axis=0)
    squares += difference**2 * count * len(batch) / total
    mean, count = mean + difference * len(batch) / total, total
  return KernelEstimate(np.asarray(mean), np.sqrt(squares / (count * (count - 1))))


def nngp_posterior(
  train_kernel: ArrayLike,
  cross_kernel: ArrayLike,
  test_kernel: ArrayLike,
  y: ArrayLike,
  noise_scale: float,
) -> tuple[np.ndarray, np.ndarray]:
  """Mean and covariance of a Gaussian process given noisy values of it.

  ```none
  mean       = cross_kernel @ inv(train_kernel + noise_scale**2 I_n) @ y
  covariance = test_kernel - cross_kernel @ inv(train_kernel + noise_scale**2 I_n) @ cross_kernel.T
  ```

  Args:
    train_kernel: Covariance of the values at the training inputs, `[n, n]`.
    cross_kernel: Of those at the test inputs with those at the training inputs, `[m, n]`.
    test_kernel: Of those at the test inputs, `[m, m]`.
    y: Targets `[n, k]`.
    noise_scale: Positive float.

  Returns:
    mean: `[m, k]`.
    covariance: `[m, m]`, that of the function without noise, the same for all outputs.

  #### Examples

  ```python
  import numpy as np
  import tfp_reprior as tfr

  model = tfr.models.fcn((1,), num_outputs=1, width=8)
  x, x_test = np.array([[-1.0], [0.5]]), np.linspace(-2, 2, 9)[:, np.newaxis]
  pairs = [(x, x), (x_test, x), (x_test, x_test)]
  kernels = [tfr.theory.nngp_kernel(model, *pair) for pair in pairs]
  mean, covariance = tfr.theory.nngp_posterior(*kernels, y=np.sin(x), noise_scale=0.1)
  ```
  """
  checks.positive('noise_scale', noise_scale)
  train_kernel, cross_kernel, y = (
    np.asarray(values, np.float64) for values in (train_kernel, cross_kernel, y)
  )
  chol = np.linalg.cholesky(train_kernel + noise_scale**2 * np.eye(len(y)))
  whitened = np.linalg.solve(chol, cross_kernel.T)  # inv(L) @ K(x, x_test): [n, m]
  return whitened.T @ np.linalg.solve(chol, y), test_kernel - whitened.T @ whitened


def _as_split(model):
  is_split = isinstance(model, readout_split.ReadoutSplit)
  return model if is_split else readout_split.ReadoutSplit(model)


def _rows(name, x, split):
  """Inputs as float64 rows `[n, size]`."""
  x = np.asarray(x, np.float64)
  expected = split.model.input_shape
  if x.ndim != len(expected) or x.shape[1:] != expected[1:]:
    raise errors.InputError(
      f'`{name}` must have shape [n, {", ".join(map(str, expected[1:]))}] for the model '
      f'{split.model.name!r}. Received: {name} of shape {x.shape}'
    )
  return x.reshape(len(x), -1)


def _chain(split):
  """Activation, weight_std and bias_std of each layer, from the inputs to the outputs."""
  tensor, layers, seen = split.model.outputs[0], [], set()
  while True:
    layer, node_index, _ = tensor._keras_history
    if isinstance(layer, keras.layers.InputLayer):
      return layers[::-1]
    inputs = layer._inbound_nodes[node_index].input_tensors
    if layer in seen or len(inputs) != 1:
      raise errors.InputError(_refusal(split, layer))
    seen.add(layer)
    layers += _moment_map(split, layer, inputs[0], is_readout=len(seen) == 1)
    [tensor] = inputs


def _moment_map(split, layer, inputs, is_readout):
  """What a layer does to second moments: a list of at most one entry of `_chain`."""
  if isinstance(layer, keras.layers.Flatten):
    return []
  if isinstance(layer, keras.layers.Activation):
    return [(layer.activation, 1.0, 0.0)]
  if type(layer) not in (ntk_dense.NTKDense, keras.layers.Dense) or len(inputs.shape) != 2:
    raise errors.InputError(_refusal(split, layer))
  if isinstance(layer, ntk_dense.NTKDense):
    return [(layer.activation, layer.weight_std, layer.bias_std)]
  prefix = 'readout_' if is_readout else ''
  bias_std = split.prior_stds[f'{prefix}bias_std'] if layer.use_bias else 0.0
  return [(layer.activation, split.prior_stds[f'{prefix}weight_std'], bias_std)]


def _refusal(split, layer):
  return (
    'The kernel has a closed form for dense layers that follow one another; for other models there '
    f'is `monte_carlo_kernel`. Received: {split.model.name!r} with layer {layer.name!r} of type '
    f'{type(layer).__name__}'
  )
