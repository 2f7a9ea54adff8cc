"""Rows of data, some at a time, so that memory does not grow with their number."""

import tensorflow as tf


def fold(add, sums, rows, size):
  """Runs `sums = add(sums, *chunk)` over chunks of the rows, the last one maybe smaller.

  Args:
    add: Function of `sums` and chunks of all `rows`; returns new sums.
    sums: A structure of tensors.
    rows: List of tensors `[n, ...]` with `n` known.
    size: Positive integer, the number of rows in a chunk; None for all.

  Returns:
    The sums.
  """
  n = rows[0].shape[0]
  if size is None or size >= n:
    return add(sums, *rows)
  num_whole = n // size
  # One chunk at a time: iterations that run ahead would keep their activations.
  _, sums = tf.while_loop(
    lambda i, _: i < num_whole,
    lambda i, sums: (i + 1, add(sums, *(_chunk(r, i, size) for r in rows))),
    (tf.constant(0), sums),
    parallel_iterations=1,
  )
  if n > num_whole * size:
    sums = add(sums, *(r[num_whole * size :] for r in rows))
  return sums


def apply(fn, values, x, size):
  """`fn(values, x)` for a function that treats each row of `x` by itself.

  Nothing that `fn` computes on the way is kept for the gradient, which runs it once more, again
  chunk by chunk.

  Args:
    fn: Function of a list of tensors and of rows `[m, ...]`; returns `[*chains, m, d]`.
    values: List of tensors.
    x: Tensor or array `[n, ...]`.
    size: Positive integer, the number of rows in a chunk; None for all.

  Returns:
    Tensor `[*chains, n, d]`.
  """
  n = x.shape[0]
  if size is None or n is None or size >= n:
    return fn(values, x)
  x = tf.convert_to_tensor(x)
  num_whole = n // size

  @tf.custom_gradient
  def call(*values):
    whole = tf.map_fn(
      lambda i: _rows_first(fn(values, _chunk(x, i, size))),
      tf.range(num_whole),
      fn_output_signature=values[0].dtype,
      parallel_iterations=1,
    )  # [num_whole, size, *chains, d]
    outputs = tf.reshape(whole, tf.concat([[num_whole * size], tf.shape(whole)[2:]], axis=0))
    outputs.set_shape([num_whole * size, *whole.shape[2:]])
    if n > num_whole * size:
      rest = _rows_first(fn(values, x[num_whole * size :]))
      outputs = tf.concat([outputs, rest], axis=0)

    def gradient(upstream):
      def add(sums, x, upstream):
        with tf.GradientTape() as tape:
          tape.watch(values)
          outputs = fn(values, x)
        gradients = tape.gradient(outputs, values, output_gradients=_rows_last(upstream))
        return [s + g for s, g in zip(sums, gradients, strict=True)]

      zeros = [tf.zeros_like(v) for v in values]
      return fold(add, zeros, [x, _rows_first(upstream)], size)

    return _rows_last(outputs), gradient

  return call(*values)


def _chunk(rows, i, size):
  """Chunk number `i`; not `rows[i * size : ...]`, whose size XLA does not know."""
  begin = [i * size] + [0] * (rows.shape.rank - 1)
  sizes = [-1 if s is None else s for s in rows.shape[1:]]
  return tf.slice(rows, begin, [size, *sizes])


def _rows_first(outputs):
  """From `[*chains, m, d]` to `[m, *chains, d]`."""
  rank = outputs.shape.rank
  return tf.transpose(outputs, [rank - 2, *range(rank - 2), rank - 1])


def _rows_last(outputs):
  """From `[m, *chains, d]` to `[*chains, m, d]`."""
  rank = outputs.shape.rank
  return tf.transpose(outputs, [*range(1, rank - 1), 0, rank - 1])
