"""Cholesky factors as functions of Gram matrices, and their derivatives."""

import tensorflow as tf


def gram_cotangent(chol, q, log_det_bar=None):
  """The cotangent of a Gram matrix, from that of its Cholesky factor.

  For a factor `L @ L.T` of a Gram matrix, perhaps plus a constant, a cotangent `Lbar` of L becomes

  ```none
  grambar + grambar.T = inv(L.T) @ (tril(Q) + tril(Q, -1).T) @ inv(L),   Q = L.T @ Lbar
  ```

  It is enough to know Q on and below its diagonal, and there it is the same for any matrix that
  agrees with Lbar on and below its own.

  Args:
    chol: L `[..., m, m]`.
    q: Q `[..., m, m]`; what is above its diagonal is not used.
    log_det_bar: Cotangent of `-sum(log(diag(L)))`, `[...]`, to add; or None.

  Returns:
    `grambar + grambar.T` `[..., m, m]`. For a Gram matrix `a @ a.T` this times a is the cotangent
    of a.
  """
  lower = tf.linalg.band_part(q, -1, 0)
  middle = lower + tf.linalg.matrix_transpose(lower)
  diagonal = tf.linalg.diag_part(q)
  if log_det_bar is not None:
    diagonal -= log_det_bar[..., tf.newaxis]
  middle = tf.linalg.set_diag(middle, diagonal)
  half = tf.linalg.triangular_solve(chol, middle, adjoint=True)  # inv(L.T) @ middle
  return tf.linalg.triangular_solve(chol, tf.linalg.matrix_transpose(half), adjoint=True)


@tf.custom_gradient
def root_matmul(a, u):
  """`L @ u` with the Cholesky factor `L @ L.T = a @ a.T`.

  The gradient needs no more than L and two triangular solves: with `Lbar = tril(zbar @ u.T)`,
  `Q = L.T @ Lbar` is `(L.T @ zbar) @ u.T = ubar @ u.T` on and below its diagonal.

  Args:
    a: `[..., n, d]`, of rank n.
    u: `[..., n, w]`, with the same leading dimensions.

  Returns:
    `[..., n, w]`.
  """
  chol = tf.linalg.cholesky(tf.matmul(a, a, transpose_b=True))

  def backward(z_bar):
    u_bar = tf.matmul(chol, z_bar, transpose_a=True)
    gram_bar = gram_cotangent(chol, tf.matmul(u_bar, u, transpose_b=True))
    return tf.matmul(gram_bar, a), u_bar

  return tf.matmul(chol, u), backward
