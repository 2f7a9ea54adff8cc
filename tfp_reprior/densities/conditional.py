"""The readout given the hidden parts, for Gaussian noise: known exactly."""

import tensorflow as tf

from tfp_reprior.internal import parts as parts_lib
from tfp_reprior.internal import random


class ReadoutConditional:
  """The posterior N(mu, Sigma) of the readout given the hidden parts, by one factor.

  What `CollapsedPosterior.given` returns. Everything here shares the pass of the training data
  and the factor that it was made from.

  Args:
    split: A `tfp_reprior.models.ReadoutSplit`.
    hidden_parts: List of tensors `[*chains, *event_shape]`.
    factor: A factor of `tfp_reprior.bijectors.factorization`.
    map_rows_fn: Function of a function of inputs, a list of inputs, and the axis of its results
      that these are; calls it on all of them, wherever they are.
  """

  def __init__(self, split, hidden_parts, factor, map_rows_fn):
    self._split = split
    self._hidden_parts = hidden_parts
    self._factor = factor
    self._map_rows_fn = map_rows_fn
    self._dtype = factor.shift.dtype  # of the linear algebra

  def mean(self):
    """The mean of the readout: its parts, a list."""
    return self._unstack(self._factor.mean())

  def forward(self, phi_parts):
    """The readout for coordinates `phi_out` of prior N(0, I), as parts: `mu + S @ phi_out`."""
    phi_out = tf.cast(parts_lib.stack_readout(phi_parts), self._dtype)
    return self._unstack(self._factor.forward(phi_out))

  def sample(self, seed=None):
    """Draws the readout: its parts, a list."""
    mean = self._factor.mean()
    [phi_out] = random.normal_parts([tf.shape(mean)], mean.dtype, seed)
    return self._unstack(self._factor.forward(phi_out))

  def predict(self, x, readout_parts=None, seed=None):
    """Mean and variance of the outputs f(x) over the readout, and outputs of a readout.

    Args:
      x: Inputs `[m, ...]`.
      readout_parts: A readout, or None.
      seed: A seed of TFP, for hidden parts that leave new inputs open (see
        `tfp_reprior.models.DataSpaceSplit`).

    Returns:
      mean: `[*chains, m, k]`.
      variance: `[*chains, m, k]`, of f, without the noise; the same for all outputs.
      outputs: `[*chains, m, k]`, those of `readout_parts`; left out if there are none.
    """
    dtype = self._split.dtype
    readout = None if readout_parts is None else parts_lib.stack_readout(readout_parts)

    def predict_rows(x):
      psi = self._split.embed_new(self._hidden_parts, x, seed)  # [*chains, m, d]
      exact_psi = tf.cast(psi, self._dtype)
      mean = tf.matmul(exact_psi, self._factor.mean())
      root = self._factor.root_transpose_matmul(tf.linalg.matrix_transpose(exact_psi))
      variance = tf.reduce_sum(tf.square(root), axis=-2)[..., tf.newaxis]  # diag(psi Sigma psi.T)
      variance = tf.broadcast_to(variance, tf.shape(mean))
      moments = tf.cast(mean, dtype), tf.cast(variance, dtype)
      return moments if readout is None else (*moments, tf.matmul(psi, readout))

    chain_ndims = self._hidden_parts[0].shape.rank - self._split.event_ndims[0]
    return self._map_rows_fn(predict_rows, [x], axis=chain_ndims)

  def _unstack(self, readout):
    return parts_lib.unstack_readout(tf.cast(readout, self._split.dtype), self._split.has_bias)
