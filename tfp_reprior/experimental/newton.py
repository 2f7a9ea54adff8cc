"""Newton's iteration for many small systems at once."""

import tensorflow as tf

_SHORTEST_STEP = 2.0**-10


def solve(function, jacobian_fn, targets, start, tolerance, max_iterations):
  """Solves `function(x) = targets` by Newton steps, halved until they bring x closer.

  Args:
    function: Function of `[*chains, p]`, returns the same shape.
    jacobian_fn: Function of `[*chains, p]`, returns its Jacobians `[*chains, p, p]`.
    targets: `[*chains, p]`.
    start: `[*chains, p]`.
    tolerance: Positive float: x is a solution if no component is off by more.
    max_iterations: Positive integer.

  Returns:
    x: `[*chains, p]`. NaN for chains that have no solution after `max_iterations`, or that 10
      halvings of a step bring no closer to one.
  """

  def is_solved(errors):
    return tf.reduce_max(tf.abs(errors), axis=-1) <= tolerance

  def goes_on(i, x, errors, lengths):
    del x
    is_active = ~is_solved(errors) & (lengths[..., 0] >= _SHORTEST_STEP)
    return (i < max_iterations) & tf.reduce_any(is_active)

  def step(i, x, errors, lengths):
    proposal = x - lengths * _newton_direction(jacobian_fn(x), errors)
    new_errors = function(proposal) - targets
    # False for NaN, so that what is not finite is not taken.
    is_closer = _norm(new_errors) < _norm(errors)  # [*chains, 1]
    return (
      i + 1,
      tf.where(is_closer, proposal, x),
      tf.where(is_closer, new_errors, errors),
      tf.where(is_closer, tf.minimum(2.0 * lengths, 1.0), 0.5 * lengths),
    )

  errors = function(start) - targets
  _, x, errors, _ = tf.while_loop(
    goes_on, step, (tf.constant(0), start, errors, tf.ones_like(errors[..., :1]))
  )
  nan = tf.constant(float('nan'), x.dtype)
  return tf.where(is_solved(errors)[..., tf.newaxis], x, nan)


def _newton_direction(jacobians, errors):
  # TensorFlow raises an error for a matrix that has no inverse, and with it for all chains.
  is_finite = tf.reduce_all(tf.math.is_finite(jacobians), axis=[-2, -1], keepdims=True)
  identity = tf.eye(jacobians.shape[-1], dtype=jacobians.dtype)
  jacobians = tf.where(is_finite, jacobians, identity)
  sign, _ = tf.linalg.slogdet(jacobians)
  jacobians = tf.where(sign[..., tf.newaxis, tf.newaxis] == 0, identity, jacobians)
  return tf.linalg.solve(jacobians, errors[..., tf.newaxis])[..., 0]


def _norm(errors):
  return tf.linalg.norm(errors, axis=-1, keepdims=True)
