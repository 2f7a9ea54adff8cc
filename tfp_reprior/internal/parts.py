"""Lists of state parts: what is a list, what is a chain dimension, what is the readout.

The state of a chain is a list of tensors, `[*hidden, kernel]` or `[*hidden, kernel, bias]`,
each with the same leading chain dimensions. Stacked, the readout is one matrix
`theta_out = [kernel; bias]` of shape `[..., d, k]`, which multiplies the features `psi`.
"""

import tensorflow as tf

_NUM_SLABS = 8
# Elements from which on a single pass over memory is worth a compilation.
_LARGE = 2**17


def are_large(tensors):
  """Whether a structure of tensors is known to hold so many numbers that updates are fused."""
  sizes = [t.shape.num_elements() or 0 for t in tf.nest.flatten(tensors)]
  return sum(sizes) >= _LARGE


def is_list_like(state):
  """Whether `state` is a list or tuple of parts (and not a named tuple of something else)."""
  return isinstance(state, (list, tuple)) and not hasattr(state, '_fields')


def to_list(state):
  """The parts of `state`, which is a single tensor or a list of tensors."""
  return list(state) if is_list_like(state) else [state]


def like(state, parts):
  """The list `parts` in the form of `state`: a list, a tuple, or its only tensor."""
  return type(state)(parts) if is_list_like(state) else parts[0]


def sum_events(part, chain_ndims):
  """Sums a part `[*chains, *event]` over its event dimensions."""
  return tf.reduce_sum(part, axis=list(range(chain_ndims, part.shape.rank)))


def add_up(values):
  """Adds up a list of tensors of one shape, in their order.

  A chain of additions would not do: TensorFlow makes it one operation, which begins with whatever
  buffer happens to be free, and so rounds in one way or another from run to run.
  """
  return tf.reduce_sum(tf.stack(values), axis=0)


def sum_slabs(part, chain_ndims):
  """Sums a part over some of its elements, each chain apart: the first half of `sum_events`.

  A fused function should end in this, and leave the other half to its caller. On a CPU XLA adds
  all elements in one thread, one after the other, which is slow, and inaccurate in float32, and
  writes what it is going to add to memory first. A sum of few slabs is an elementwise operation.
  """
  if part.shape.rank == chain_ndims:
    return part
  if (part.shape[chain_ndims] or 1) % _NUM_SLABS:
    return tf.reduce_sum(part, axis=-1)
  return sum(tf.split(part, _NUM_SLABS, axis=chain_ndims))


def expand_chains(value, part):
  """Adds trailing dimensions, so that `value` `[*chains]` broadcasts with a `part`."""
  shape = tf.shape(value)
  ones = tf.ones([part.shape.rank - value.shape.rank], shape.dtype)
  expanded = tf.reshape(value, tf.concat([shape, ones], axis=0))
  expanded.set_shape(value.shape.as_list() + [1] * (part.shape.rank - value.shape.rank))
  return expanded


def select(is_accepted, accepted_parts, rejected_parts):
  """Chooses, chain by chain, between two lists of parts."""
  return [
    tf.where(expand_chains(is_accepted, a), a, r)
    for a, r in zip(accepted_parts, rejected_parts, strict=True)
  ]


def stack_readout(readout_parts):
  """`[kernel]` or `[kernel, bias]` as one matrix `theta_out` `[..., d, k]`."""
  if len(readout_parts) == 1:
    return readout_parts[0]
  kernel, bias = readout_parts
  return tf.concat([kernel, bias[..., tf.newaxis, :]], axis=-2)


def unstack_readout(theta_out, has_bias):
  """The inverse of `stack_readout`."""
  if not has_bias:
    return [theta_out]
  return [theta_out[..., :-1, :], theta_out[..., -1, :]]
