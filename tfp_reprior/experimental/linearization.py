"""Derivatives of a network's outputs with respect to its state parts, chain by chain.

Parts are lists of tensors `[*chains, *event]`, functions of them return `[*chains, m]`, and chains
do not mix: so one gradient of a sum over chains is that of every chain.
"""

import tensorflow as tf


def flatten(parts, event_ndims):
  """Parts `[*chains, *event]` as vectors `[*chains, p]`."""
  vectors = []
  for part, ndims in zip(parts, event_ndims, strict=True):
    chain_ndims = part.shape.rank - ndims
    size = part.shape[chain_ndims:].num_elements()
    vectors.append(tf.reshape(part, tf.concat([tf.shape(part)[:chain_ndims], [size]], axis=0)))
  return tf.concat(vectors, axis=-1)


def unflatten(vectors, like):
  """The inverse of `flatten`: vectors as parts that have the shapes of `like`."""
  chain_ndims = vectors.shape.rank - 1
  sizes = [part.shape[chain_ndims:].num_elements() for part in like]
  pieces = tf.split(vectors, sizes, axis=-1)
  return [tf.reshape(v, tf.shape(part)) for v, part in zip(pieces, like, strict=True)]


def pull_back(function, parts, cotangents):
  """Vector-Jacobian product.

  Args:
    function: Function of a list of parts, returns `[*chains, m]`.
    parts: List of tensors `[*chains, *event]`.
    cotangents: `[*chains, m]`.

  Returns:
    `J.T @ cotangents`, a list like `parts`.
  """
  with tf.GradientTape() as tape:
    tape.watch(parts)
    outputs = function(parts)
  return tape.gradient(outputs, parts, cotangents, tf.UnconnectedGradients.ZERO)


def push_forward(function, parts, tangents):
  """Jacobian-vector product `J @ tangents`, `[*chains, m]`; `tangents` are like `parts`."""
  # The derivative of `J.T @ u`, which is linear in u: forward mode does not go through loops, in
  # which convolutions of many chains are.
  with tf.GradientTape() as outer_tape:
    with tf.GradientTape() as tape:
      tape.watch(parts)
      outputs = function(parts)
    u = tf.zeros_like(outputs)
    outer_tape.watch(u)
    rows = tape.gradient(outputs, parts, u, tf.UnconnectedGradients.ZERO)
  return outer_tape.gradient(rows, u, tangents, tf.UnconnectedGradients.ZERO)


def dense_jacobian(function, parts, event_ndims, size):
  """Dense Jacobian, of all outputs at once: each has a copy of the parts, as chains of its own.

  Args:
    function: Function of a list of parts, returns `[*chains, size]`, for any number of chains.
    parts: List of tensors `[*chains, *event]`.
    event_ndims: List of the ranks of the parts without chains.
    size: Integer, the number of outputs.

  Returns:
    `[*chains, size, p]`.
  """
  copies = repeat(parts, size)
  chain_ndims = parts[0].shape.rank - event_ndims[0]
  chains = tf.shape(parts[0])[:chain_ndims]
  units = tf.reshape(tf.eye(size, dtype=parts[0].dtype), [size, *[1] * chain_ndims, size])
  units = tf.broadcast_to(units, tf.concat([[size], chains, [size]], axis=0))
  rows = flatten(pull_back(function, copies, units), event_ndims)  # [size, *chains, p]
  return tf.transpose(rows, [*range(1, chain_ndims + 1), 0, chain_ndims + 1])


def repeat(parts, num_copies):
  """Copies of parts along a new first dimension."""
  return [tf.broadcast_to(p, tf.concat([[num_copies], tf.shape(p)], axis=0)) for p in parts]
