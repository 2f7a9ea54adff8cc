"""Values with closed-form gradients: the collapsed density, and the map with its log-determinant.

Back-propagation through a Cholesky factorization costs several times the factorization. These
functions need no more than the inverse of the factorized matrix, or two triangular solves
with it. Notation, and the factors, as in `tfp_reprior.bijectors.factorization`.
"""

import tensorflow as tf

from tfp_reprior import errors
from tfp_reprior.bijectors import factorization
from tfp_reprior.internal import linalg
from tfp_reprior.internal import parts as parts_lib


def marginal_log_likelihood(a, b, space):
  """`-1/2 tr(b.T @ inv(K) @ b) - k/2 log|det(K)|` with `K = I_n + a @ a.T`, per chain.

  The gradient, with `G = I_d + a.T @ a`, `mu = inv(G) @ a.T @ b`, `alpha = inv(K) @ b`:

  ```none
  feature space   d/da = b @ mu.T - a @ (mu @ mu.T + k inv(G)),   alpha = b - a @ mu
  data space      d/da = (alpha @ alpha.T - k inv(K)) @ a
  both            d/db = -alpha
  ```

  Args:
    a: Scaled features `[..., n, d]`.
    b: Scaled targets `[..., n, k]`.
    space: `'feature'` or `'data'`.

  Returns:
    `[...]`.
  """

  @tf.custom_gradient
  def value(a, b):
    factor = factorization.make_factor(a, b, space)
    k = tf.cast(tf.shape(b)[-1], b.dtype)
    if space == 'data':
      squares = sum_squares(factor.shift)  # |inv(L) @ b|^2

      def gradient():
        alpha = tf.linalg.triangular_solve(factor.chol, factor.shift, adjoint=True)
        outer = tf.matmul(alpha, alpha, transpose_b=True)
        return tf.matmul(outer - k * inverse(factor.chol), a), -alpha

    else:
      mu = factor.mean()
      # Not |b|^2 - |inv(C) @ a.T @ b|^2, which is the same but cancels. The sum below is the
      # minimum over mu: an error of mu enters squared.
      alpha = b - tf.matmul(a, mu)
      squares = sum_squares(alpha) + sum_squares(mu)

      def gradient():
        return cotangent_rows(a, b, mu, precision_matrix(factor.chol, mu)), -alpha

    def backward(upstream):
      upstream = upstream[..., tf.newaxis, tf.newaxis]
      return [upstream * once_differentiable(bar) for bar in gradient()]

    return -0.5 * squares + k * factor.log_det(), backward

  return value(a, b)


def explicit(value_and_gradients_fn, parts):
  """A density with the gradients that come with it.

  Args:
    value_and_gradients_fn: Function of `parts`; returns a density `[*chains]` and the list of its
      gradients, like `parts`; None for parts that it does not depend on.
    parts: List of tensors `[*chains, *event_shape]`.

  Returns:
    The density.
  """

  @tf.custom_gradient
  def value(*parts):
    density, grads = value_and_gradients_fn(*parts)

    def backward(upstream):
      return [
        None
        if g is None
        else parts_lib.expand_chains(tf.cast(upstream, g.dtype), g) * once_differentiable(g)
        for g in grads
      ]

    return density, backward

  return value(*parts)


def precision_matrix(chol, mu):
  """`mu @ mu.T + k inv(C @ C.T)`: `[..., d, d]`."""
  k = tf.cast(tf.shape(mu)[-1], mu.dtype)
  return tf.matmul(mu, mu, transpose_b=True) + k * inverse(chol)


def cotangent_rows(a, b, mu, matrix):
  """Rows of the gradient in feature space, `b @ mu.T - a @ matrix`, for any rows of a and b."""
  return tf.matmul(b, mu, transpose_b=True) - tf.matmul(a, matrix)


def map_and_log_det(a, b, phi, space):
  """`theta = mu + S @ phi` and `log|det(S)|`, by one factor, with a closed-form gradient.

  A cotangent of the factor becomes that of its Gram matrix by `internal.linalg.gram_cotangent`.
  Here Lbar is a sum of outer products of vectors that `L.T` maps to ones already at hand, so that
  Q has low rank and costs nothing; what is left are two triangular solves.

  Args:
    a: Scaled features `[..., n, d]`.
    b: Scaled targets `[..., n, k]`.
    phi: `[..., d, k]`.
    space: `'feature'` or `'data'`.

  Returns:
    theta: `[..., d, k]`.
    log_det: `[...]`.
  """
  backward = _data_backward if space == 'data' else _feature_backward

  @tf.custom_gradient
  def value(a, b, phi):
    factor = factorization.make_factor(a, b, space)
    theta = factor.forward(phi)

    def gradient(theta_bar, log_det_bar):
      bars = backward(factor, a, b, phi, theta, theta_bar, log_det_bar)
      return [once_differentiable(bar) for bar in bars]

    return (theta, factor.log_det()), gradient

  return value(a, b, phi)


def _feature_backward(factor, a, b, phi, theta, theta_bar, log_det_bar):
  # theta = inv(C.T) @ phi + mu, mu = inv(G) @ a.T @ b.
  del theta
  chol = factor.chol
  u = tf.linalg.triangular_solve(chol, theta_bar)  # inv(C) @ theta_bar         [..., d, k]
  v = tf.linalg.triangular_solve(chol, u, adjoint=True)  # inv(G) @ theta_bar   [..., d, k]
  mu = factor.mean()
  av = tf.matmul(a, v)  # [..., n, k]
  # Cbar = -inv(C.T) @ phi @ u.T, so Q = -phi @ u.T.
  gram_bar = linalg.gram_cotangent(chol, -tf.matmul(phi, u, transpose_b=True), log_det_bar)
  a_bar = (
    tf.matmul(b - tf.matmul(a, mu), v, transpose_b=True)
    - tf.matmul(av, mu, transpose_b=True)
    + tf.matmul(a, gram_bar)
  )
  return a_bar, av, u


def _data_backward(factor, a, b, phi, theta, theta_bar, log_det_bar):
  # theta = phi + a.T @ dual, dual = inv(L.T) @ w, w = s - q, s = inv(L) @ b,
  # q = inv(I + L) @ a @ phi.
  del b, theta
  chol, plus = factor.chol, factor.chol_plus_identity
  s = factor.shift  # [..., n, k]
  q = tf.linalg.triangular_solve(plus, tf.matmul(a, phi))  # [..., n, k]
  w = s - q
  dual = tf.linalg.triangular_solve(chol, w, adjoint=True)
  g = tf.linalg.triangular_solve(chol, tf.matmul(a, theta_bar))  # cotangent of w
  z = -tf.linalg.triangular_solve(plus, g, adjoint=True)  # cotangent of a @ phi
  b_bar = tf.linalg.triangular_solve(chol, g, adjoint=True)
  # Lbar = -dual @ g.T - b_bar @ s.T - z @ q.T, and L.T maps dual to w, b_bar to g.
  left = tf.concat([w, g, tf.matmul(chol, z, transpose_a=True)], axis=-1)
  right = tf.concat([g, s, q], axis=-1)
  gram_bar = linalg.gram_cotangent(chol, -tf.matmul(left, right, transpose_b=True), log_det_bar)
  a_bar = (
    tf.matmul(dual, theta_bar, transpose_b=True)
    + tf.matmul(z, phi, transpose_b=True)
    + tf.matmul(gram_bar, a)
  )
  return a_bar, b_bar, theta_bar + tf.matmul(a, z, transpose_a=True)


def map_and_change(a, b, phi):
  """theta of a layer, and what its map changes of a density; in data space.

  ```none
  theta  = mu + S @ phi = phi + a.T @ dual,   dual = inv(L.T) @ (s - q),   q = inv(I + L) @ a @ phi
  change = -1/2 sum(theta**2 - phi**2) + w log|det(S)| = 1/2 sum(e**2 - s**2) + w log|det(S)|
  ```

  with `s = inv(L) @ b` and `e = a @ theta - b = q - dual`, because
  `a @ theta = a @ phi + (L @ L.T - I) @ dual` and `L @ L.T @ dual = b - L @ q = b - a @ phi + q`.
  The change is the logarithm of `N(b; 0, K) / N(b; a @ theta, I)`.

  Args:
    a: Scaled features `[..., m, d]`.
    b: Scaled targets `[..., m, w]`.
    phi: `[..., d, w]`.

  Returns:
    theta: `[..., d, w]`.
    change: `[...]`.
  """

  @tf.custom_gradient
  def value(a, b, phi):
    factor = factorization.DataFactor(a, b)
    chol, plus, s = factor.chol, factor.chol_plus_identity, factor.shift
    q = tf.linalg.triangular_solve(plus, tf.matmul(a, phi))
    dual = tf.linalg.triangular_solve(chol, s - q, adjoint=True)
    theta = phi + tf.matmul(a, dual, transpose_a=True)
    e = q - dual
    width = tf.cast(tf.shape(b)[-1], b.dtype)
    change = 0.5 * tf.reduce_sum((e - s) * (e + s), axis=[-2, -1]) + width * factor.log_det()

    def gradient(theta_bar, change_bar):
      scale = change_bar[..., tf.newaxis, tf.newaxis]
      e_bar = scale * e
      dual_bar = tf.matmul(a, theta_bar) - e_bar
      g = tf.linalg.triangular_solve(chol, dual_bar)  # cotangent of s - q
      s_bar = g - scale * s
      q_bar = e_bar - g
      p_bar = tf.linalg.triangular_solve(plus, q_bar, adjoint=True)  # of a @ phi
      b_bar = tf.linalg.triangular_solve(chol, s_bar, adjoint=True)
      # Lbar = -dual @ g.T - b_bar @ s.T - p_bar @ q.T, and L.T maps dual to s - q, b_bar to s_bar,
      # p_bar to q_bar - p_bar.
      left = tf.concat([s - q, s_bar, q_bar - p_bar], axis=-1)
      right = tf.concat([g, s, q], axis=-1)
      product = -tf.matmul(left, right, transpose_b=True)
      gram_bar = linalg.gram_cotangent(chol, product, width * change_bar)
      # Two products in one: dual @ theta_bar.T + p_bar @ phi.T.
      outer = tf.matmul(
        tf.concat([dual, p_bar], axis=-1), tf.concat([theta_bar, phi], axis=-1), transpose_b=True
      )
      a_bar = outer + tf.matmul(gram_bar, a)
      bars = a_bar, b_bar, theta_bar + tf.matmul(a, p_bar, transpose_a=True)
      return [once_differentiable(bar) for bar in bars]

    return (theta, change), gradient

  return value(a, b, phi)


def inverse(chol):
  """`inv(L @ L.T)`: `[..., m, m]`."""
  identity = tf.eye(tf.shape(chol)[-1], batch_shape=tf.shape(chol)[:-2], dtype=chol.dtype)
  return tf.linalg.cholesky_solve(chol, identity)


def sum_squares(x):
  """The sum of squares of each matrix: `[...]`."""
  return tf.reduce_sum(tf.square(x), axis=[-2, -1])


@tf.custom_gradient
def once_differentiable(gradient):
  """Refuses to be differentiated: what is kept from the first pass is taken as constant."""

  def refuse(_):
    raise errors.InputError(
      'This density has a closed-form gradient, and no second derivatives. For those, '
      'differentiate `Posterior.target_log_prob_fn` and `ReadoutReprior`.'
    )

  return tf.identity(gradient), refuse
