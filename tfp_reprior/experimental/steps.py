"""One step towards the data, of the weights of a network: what the linearised map consists of.

A step adds a combination of the gradients of the outputs, `theta = phi + J.T @ a`, with J `[m, p]`
the Jacobian of all `m = n k` outputs `f(phi)` and coefficients a `[m]`.
"""

from typing import NamedTuple

import tensorflow as tf

from tfp_reprior.experimental import linearization, tangent_kernel


class Step(NamedTuple):
  """A step, and what its log-determinant needs.

  Attributes:
    begin: The parts before it, a list of tensors `[*chains, *event]`.
    end: The parts after it, likewise.
    coefficients: a, `[*chains, m]`.
    gram_log_det: The part of the log-determinant that depends on J only, `[*chains]`.
  """

  begin: list
  end: list
  coefficients: tf.Tensor
  gram_log_det: tf.Tensor


class LevenbergMarquardt:
  """A step of Levenberg and Marquardt for `|y - f|^2`: `a = inv(lam I + J @ J.T) @ (y - f)`.

  With `G = lam I + J @ J.T`, H the Hessian of `a . f` for fixed a, and T `[m, p]` the derivative of
  `J @ v` for fixed `v = J.T @ a`, its Jacobian is

  ```none
  D = I + H - J.T @ inv(G) @ (J @ (I + H) + T)
    = (I - J.T @ inv(G) @ J) @ (I + H - J.T @ T / lam)
  log|det(D)| = m log(lam) - log det(G) + log|det(I + H - J.T @ T / lam)|
  ```

  Args:
    split: A `tfp_reprior.models.ReadoutSplit`.
    x: Inputs `[n, ...]`.
    y: Targets `[n, k]`.
    regularizer: Positive scalar tensor `lam`.
    kernel: A `tangent_kernel.TangentKernel`.
  """

  def __init__(self, split, x, y, regularizer, kernel):
    self._event_ndims = split.event_ndims
    self._outputs_fn = tangent_kernel.flat_outputs(split, x)
    self._kernel_fn = lambda parts: kernel(parts, x)
    self._targets = tf.reshape(y, [-1])
    self._lam = regularizer

  def __call__(self, parts):
    """The `Step` from parts `[*chains, *event]`."""
    chol, a = self._solve(self._kernel_fn(parts), self._outputs_fn(parts))
    m = tf.cast(self._targets.shape[0], a.dtype)
    log_diagonal = tf.math.log(tf.linalg.diag_part(chol))
    gram_log_det = m * tf.math.log(self._lam) - 2.0 * tf.reduce_sum(log_diagonal, axis=-1)
    return Step(parts, _move(self._outputs_fn, parts, a), a, gram_log_det)

  def potential(self, parts, coefficients):
    """The function `[*chains]` of parts, for fixed a, that has the Hessian H."""
    return tf.reduce_sum(coefficients * self._outputs_fn(parts), axis=-1)

  def jacobian(self, parts):
    """The dense D, `[*chains, p, p]`."""
    m = self._targets.shape[0]
    j = linearization.dense_jacobian(self._outputs_fn, parts, self._event_ndims, m)
    chol, a = self._solve(tf.matmul(j, j, transpose_b=True), self._outputs_fn(parts))
    v = linearization.unflatten(tf.linalg.matvec(j, a, transpose_a=True), parts)  # J.T @ a

    def along_v(copies):  # J @ v
      return linearization.push_forward(self._outputs_fn, copies, linearization.repeat(v, m))

    h = hessian(lambda copies: self.potential(copies, a), parts, self._event_ndims)
    t = linearization.dense_jacobian(along_v, parts, self._event_ndims, m)  # [*chains, m, p]
    i_plus_h = tf.eye(h.shape[-1], dtype=h.dtype) + h
    solved = tf.linalg.cholesky_solve(chol, tf.matmul(j, i_plus_h) + t)
    return i_plus_h - tf.matmul(j, solved, transpose_a=True)

  def guess_begin(self, parts):
    """Where a step to `parts` begins, if the network is linear: `parts - J.T @ (y - f) / lam`."""
    return _move(self._outputs_fn, parts, (self._outputs_fn(parts) - self._targets) / self._lam)

  def _solve(self, kernel, outputs):
    """The Cholesky factor of G, and a."""
    m = self._targets.shape[0]
    chol = tf.linalg.cholesky(kernel + self._lam * tf.eye(m, dtype=kernel.dtype))
    residuals = (self._targets - outputs)[..., tf.newaxis]
    return chol, tf.linalg.cholesky_solve(chol, residuals)[..., 0]


class GradientDescent:
  """A step of gradient descent for `|y - f|^2 / 2`: `a = step_size * (y - f)`.

  Its Jacobian is the identity and a Hessian, that of `-step_size / 2 |y - f|^2`.

  Args:
    split: A `tfp_reprior.models.ReadoutSplit`.
    x: Inputs `[n, ...]`.
    y: Targets `[n, k]`.
    step_size: Positive scalar tensor.
  """

  def __init__(self, split, x, y, step_size):
    self._event_ndims = split.event_ndims
    self._outputs_fn = tangent_kernel.flat_outputs(split, x)
    self._targets = tf.reshape(y, [-1])
    self._step_size = step_size

  def __call__(self, parts):
    """The `Step` from parts `[*chains, *event]`."""
    a = self._step_size * (self._targets - self._outputs_fn(parts))
    return Step(parts, _move(self._outputs_fn, parts, a), a, tf.zeros_like(a[..., 0]))

  def potential(self, parts, coefficients):
    """The function `[*chains]` of parts whose gradient the step is."""
    del coefficients  # a function of the parts here
    squares = tf.square(self._targets - self._outputs_fn(parts))
    return -0.5 * self._step_size * tf.reduce_sum(squares, axis=-1)

  def jacobian(self, parts):
    """The dense Jacobian, `[*chains, p, p]`."""
    h = hessian(lambda q: self.potential(q, None), parts, self._event_ndims)
    return tf.eye(h.shape[-1], dtype=h.dtype) + h

  def guess_begin(self, parts):
    """Where a step to `parts` begins, roughly."""
    return parts


def hessian(function, parts, event_ndims):
  """The dense Hessian `[*chains, p, p]` of a function of parts that returns `[*chains]`."""

  def gradient(copies):
    with tf.GradientTape() as tape:
      tape.watch(copies)
      value = function(copies)
    grads = tape.gradient(value, copies, unconnected_gradients=tf.UnconnectedGradients.ZERO)
    return linearization.flatten(grads, event_ndims)

  chain_ndims = parts[0].shape.rank - event_ndims[0]
  size = sum(part.shape[chain_ndims:].num_elements() for part in parts)
  return linearization.dense_jacobian(gradient, parts, event_ndims, size)


def _move(outputs_fn, parts, coefficients):
  shifts = linearization.pull_back(outputs_fn, parts, coefficients)
  return [p + s for p, s in zip(parts, shifts, strict=True)]
