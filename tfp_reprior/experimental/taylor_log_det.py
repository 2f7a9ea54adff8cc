"""Log-determinants from random probes: a truncated Taylor series, by Hutchinson's estimator."""

from typing import NamedTuple

import keras
import tensorflow as tf

from tfp_reprior import errors
from tfp_reprior.experimental import linearization, tangent_kernel
from tfp_reprior.internal import checks, random
from tfp_reprior.internal import parts as parts_lib

# Weightless layers that are linear, and activations that are linear piece by piece.
_LINEAR_LAYERS = (keras.layers.InputLayer, keras.layers.Flatten, keras.layers.Reshape)
_PIECEWISE_LINEAR = (
  keras.activations.linear,
  keras.activations.relu,
  keras.activations.leaky_relu,
)


class TaylorSeries(NamedTuple):
  """How `LinearizedReprior` approximates its log-determinant.

  ```none
  log|det(I + H)| ~ sum over m = 1 ... order of (-1)^(m + 1) / m * mean over z of z . H^m z
  ```

  with probes z of random signs. The series converges if all eigenvalues of H lie in (-1, 1]. The
  probes are the same at every phi, so that the density is a function of phi, whose gradient is
  computed with it; second derivatives are not available.

  Attributes:
    order: Positive integer, the number of terms. A probe takes order / 2 Hessian-vector products.
    num_probes: Positive integer.
    batch_size: Positive integer that divides it: how many probes are in memory at a time.
    skips_first_order: Whether to leave out the first term, which is zero in exact arithmetic if
      the network is linear in each layer's weights piece by piece; None to find out, for dense
      networks with activations `'relu'`, `'leaky_relu'` or none.
    seed: A seed of TFP.

  #### Examples

  ```python
  import numpy as np
  import tfp_reprior as tfr

  x = np.linspace(-1, 1, 5)[:, np.newaxis]
  posterior = tfr.Posterior(
    tfr.models.fcn((1,), 1, width=16, depth=1, dtype='float64'), x, np.sin(3 * x)
  )
  series = tfr.experimental.TaylorSeries(order=2, num_probes=4)
  linearized = tfr.experimental.LinearizedReprior(posterior, regularizer=1.0, log_det=series)
  ```
  """

  order: int = 4
  num_probes: int = 8
  batch_size: int = 1
  skips_first_order: bool | None = None
  seed: int = 0

  def checked(self) -> 'TaylorSeries':
    """The same; refuses values that make no sense."""
    for name in ('order', 'num_probes', 'batch_size'):
      checks.positive_integer(name, getattr(self, name))
    if self.num_probes % self.batch_size:
      raise errors.InputError(
        '`batch_size` must divide `num_probes`. Received: '
        f'batch_size={self.batch_size}, num_probes={self.num_probes}'
      )
    return self


def is_piecewise_linear(split):
  """Whether a network is known to be linear, piece by piece, in the weights of each layer."""
  layers = tangent_kernel.dense_layers(split)
  if layers is None:
    return False
  others = [layer for layer in split.embedding.model.layers if not layer.weights]
  return all(isinstance(layer, _LINEAR_LAYERS) for layer in others) and all(
    layer.activation in _PIECEWISE_LINEAR for layer in layers
  )


def taylor_log_det(potential, parts, coefficients, event_ndims, series):
  """Approximates `log|det(I + H)|`, with H the Hessian of a function of the parts.

  Value and gradient are computed together, batch of probes by batch of probes: memory does not grow
  with their number.

  Args:
    potential: Function of parts and coefficients, returns `[*chains]`.
    parts: List of tensors `[*chains, *event]`.
    coefficients: Tensor `[*chains, m]`, of which the Hessian depends, too.
    event_ndims: List of the ranks of the parts without chains.
    series: A `TaylorSeries`, with `skips_first_order` decided.

  Returns:
    `[*chains]`, with gradients for parts and coefficients.
  """
  chain_ndims = parts[0].shape.rank - event_ndims[0]
  seed_fn = random.fold_fn(*random.split_seed(series.seed, n=1))

  def batch_sum(i, coefficients, parts):
    """The sum over the i-th batch of probes, `[*chains]`."""
    copies = linearization.repeat(parts, series.batch_size)
    shapes = [
      (series.batch_size, *[1] * chain_ndims, *p.shape[chain_ndims:]) for p in parts
    ]  # the same for all chains
    signs = random.sign_parts(shapes, parts[0].dtype, seed_fn(i))
    probes = [tf.broadcast_to(z, tf.shape(c)) for z, c in zip(signs, copies, strict=True)]
    with tf.GradientTape(persistent=True) as tape:
      tape.watch(copies)
      with tf.GradientTape() as inner_tape:
        inner_tape.watch(copies)
        value = potential(copies, coefficients)
      grads = inner_tape.gradient(value, copies, None, tf.UnconnectedGradients.ZERO)
    powers = [probes]  # H^0 z, H^1 z, ...
    for _ in range((series.order + 1) // 2):
      product = tape.gradient(grads, copies, powers[-1], tf.UnconnectedGradients.ZERO)
      powers.append(product)
    total = tf.zeros_like(value)  # [batch_size, *chains]
    for m in range(2 if series.skips_first_order else 1, series.order + 1):
      left, right = powers[m // 2], powers[m - m // 2]  # H is symmetric
      dots = [
        parts_lib.sum_events(u * v, 1 + chain_ndims) for u, v in zip(left, right, strict=True)
      ]
      total += (-1) ** (m + 1) / m * tf.add_n(dots)
    return tf.reduce_sum(total, axis=0)

  @tf.custom_gradient
  def estimate(*sources):
    def add(i, total, grads):
      with tf.GradientTape() as tape:
        tape.watch(sources)
        value = batch_sum(i, sources[0], list(sources[1:]))
      new = tape.gradient(value, sources, None, tf.UnconnectedGradients.ZERO)
      return i + 1, total + value, [g + h for g, h in zip(grads, new, strict=True)]

    num_batches = series.num_probes // series.batch_size
    start = (
      tf.constant(0),
      tf.zeros_like(coefficients[..., 0]),
      [tf.zeros_like(s) for s in sources],
    )
    _, total, grads = tf.while_loop(
      lambda i, *_: i < num_batches, add, start, parallel_iterations=1
    )

    def gradient(upstream):
      weights = upstream / series.num_probes
      return [parts_lib.expand_chains(weights, g) * g for g in grads]

    return total / series.num_probes, gradient

  return estimate(coefficients, *parts)
