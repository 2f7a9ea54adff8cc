"""The collapsed density by sums over rows of the data, wherever the rows are."""

import tensorflow as tf

from tfp_reprior.bijectors import factorization, gradients
from tfp_reprior.internal import chunks


class RowSums:
  """The density of `gradients.marginal_log_likelihood`, down to the hidden parts, in two passes.

  The rows of the data go through the network twice: once to add up `a.T @ a` and `a.T @ b`, once
  more to send each row its part of the gradient and add up residuals and gradients. So chunks of
  rows can go one after the other, and shards on several devices, with two exchanges.

  Args:
    split: A `tfp_reprior.models.ReadoutSplit`.
    scaled_fn: Function of hidden parts and rows; returns scaled features `[*chains, m, d]` and
      targets `[*chains, m, k]`.
    dtype: Of what it returns.
    chunk_size: Positive integer, the number of rows that go through the network at once, or None.
  """

  def __init__(self, split, scaled_fn, dtype, chunk_size=None):
    self._split = split
    self._scaled_fn = scaled_fn
    self._dtype = dtype
    self._chunk_size = chunk_size

  def gram_and_rhs(self, shard, *hidden_parts):
    """`a.T @ a` `[*chains, d, d]` and `a.T @ b` `[*chains, d, k]`.

    Args:
      shard: A `Shard` of the data.
      *hidden_parts: Tensors `[*chains, *event_shape]`.
    """

    def add(sums, *rows):
      a, b = self._scaled_fn(hidden_parts, *rows)
      return (
        sums[0] + tf.matmul(a, a, transpose_a=True),
        sums[1] + tf.matmul(a, b, transpose_a=True),
      )

    d, k = self._split.num_features, self._split.num_outputs
    zeros = self._zeros(hidden_parts, [d, d]), self._zeros(hidden_parts, [d, k])
    return shard.all_sum(list(chunks.fold(add, zeros, shard.rows, self._chunk_size)))

  def value_and_gradients(self, shard, *hidden_parts):
    """The density `[*chains]`, and the list of its gradients, like `hidden_parts`."""
    factor = factorization.FeatureFactor(*self.gram_and_rhs(shard, *hidden_parts))
    mu = factor.mean()
    matrix = gradients.precision_matrix(factor.chol, mu)

    def add(sums, *rows):
      residual_squares, *grads = sums
      with tf.GradientTape() as tape:
        tape.watch(hidden_parts)
        a, b = self._scaled_fn(hidden_parts, *rows)
      alpha = b - tf.matmul(a, mu)
      residual_squares += gradients.sum_squares(alpha)
      cotangents = [gradients.cotangent_rows(a, b, mu, matrix), -alpha]
      row_grads = tape.gradient([a, b], hidden_parts, output_gradients=cotangents)
      return residual_squares, *(g + r for g, r in zip(grads, row_grads, strict=True))

    zeros = (self._zeros(hidden_parts, []), *(tf.zeros_like(h) for h in hidden_parts))
    residual_squares, *grads = shard.all_sum(
      list(chunks.fold(add, zeros, shard.rows, self._chunk_size))
    )
    squares = residual_squares + gradients.sum_squares(mu)
    return -0.5 * squares + self._split.num_outputs * factor.log_det(), grads

  def _zeros(self, hidden_parts, shape):
    """Zeros `[*chains, *shape]`."""
    chain_ndims = hidden_parts[0].shape.rank - self._split.event_ndims[0]
    chains = tf.shape(hidden_parts[0])[:chain_ndims]
    return tf.zeros(tf.concat([chains, tf.constant(shape, tf.int32)], axis=0), self._dtype)
