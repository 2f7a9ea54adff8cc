"""Running mean and variance, updated draw by draw.

`tfp.experimental.stats.RunningVariance` has such a recursion, but for one tensor, and is a leaf to
`tf.nest`: states here are lists of parts, and checkpoints hold flat tensors.
"""

from typing import Any, NamedTuple

import tensorflow as tf


class Moments(NamedTuple):
  """Mean and variance of what was counted so far.

  Attributes:
    count: How many were counted, a float scalar.
    mean: A tensor, or a list of tensors.
    squares: Likewise, the sum of squared deviations from the mean.
  """

  count: tf.Tensor
  mean: Any
  squares: Any


class MeanAndVariance(NamedTuple):
  """Final moments, as arrays or lists of arrays."""

  mean: Any
  variance: Any


def zeros_like(values):
  """`Moments` of nothing, for tensors like `values`."""
  zeros = tf.nest.map_structure(tf.zeros_like, values)
  return Moments(tf.zeros([], tf.nest.flatten(values)[0].dtype), zeros, zeros)


def update(moments, values):
  """Counts `values` in, by Welford's recursion."""
  count = moments.count + 1.0
  before = tf.nest.map_structure(lambda v, m: v - m, values, moments.mean)
  mean = tf.nest.map_structure(lambda m, b: m + b / count, moments.mean, before)
  squares = tf.nest.map_structure(
    lambda s, b, v, m: s + b * (v - m), moments.squares, before, values, mean
  )
  return Moments(count, mean, squares)


def finish(moments):
  """The `MeanAndVariance`, with `count` in the denominator."""
  variance = tf.nest.map_structure(lambda s: (s / moments.count).numpy(), moments.squares)
  return MeanAndVariance(tf.nest.map_structure(lambda m: m.numpy(), moments.mean), variance)
