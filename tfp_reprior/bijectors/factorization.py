"""The linear algebra of the repriorisation, all of it.

Given the hidden layers, the readout of a network with features psi `[n, d]`, prior N(0, I) and
Gaussian noise of variance `lam` has the posterior N(mu, Sigma) in each of its k columns. With
`a = psi / sqrt(lam)` and `b = y / sqrt(lam)`

```none
Sigma = inv(I_d + a.T @ a)                                     [d, d]
mu    = Sigma @ a.T @ b                                        [d, k]
```

A factor holds a square root `S @ S.T = Sigma` and maps `phi ~ N(0, I)` to a draw of the readout:

```none
forward   theta = mu + S @ phi
inverse   phi   = inv(S) @ (theta - mu)
log_det   log|det(S)|
```

There are two, the same distribution but not the same root (they differ by a rotation of phi):

```none
feature space   C @ C.T = I_d + a.T @ a      S = inv(C.T)                          n d^2 + d^3/3
data space      L @ L.T = I_n + a @ a.T      S = I - a.T @ inv(L.T) @ inv(I + L) @ a   n^2 d + n^3/3
```

The second is a root without the eigendecomposition that the symmetric one needs. With
`K = L @ L.T`, `W = inv(L.T) @ inv(I + L)` and `a @ a.T = K - I`

```none
S @ S.T = I - a.T @ [W + W.T - W @ (K - I) @ W.T] @ a
inv(W) @ [...] @ inv(W.T) = L @ (I + L.T) + (I + L) @ L.T - (L @ L.T - I) = (I + L) @ (I + L.T)
[...] = W @ (I + L) @ (I + L.T) @ W.T = inv(L.T) @ inv(L) = inv(K)
```

so that `S @ S.T = I - a.T @ inv(K) @ a`, which is Sigma by the Woodbury identity. In the same
way `inv(S) = I + a.T @ inv(I + L.T) @ a` and `det(S) = 1 / det(L)`.
"""

import tensorflow as tf

from tfp_reprior import errors
from tfp_reprior.internal import checks

SPACES = ('auto', 'feature', 'data')


def factorize(psi, targets, regularizer, space='auto'):
  """Factorizes the conditional posterior of the readout.

  Args:
    psi: Features `[..., n, d]`.
    targets: y `[n, k]`.
    regularizer: Positive `lam`, as of `scale`.
    space: `'feature'`, `'data'`, or `'auto'` for the smaller of the two factors.

  Returns:
    A `FeatureFactor` or a `DataFactor`.
  """
  a, b = scale(psi, targets, regularizer)
  return make_factor(a, b, choose_space(psi, space))


def scale(psi, targets, regularizer):
  """`a = psi / sqrt(lam)` `[..., n, d]`, `b = y / sqrt(lam)` `[..., n, k]`.

  `lam` is a scalar, or `[...]`, one for each chain.
  """
  factor = tf.math.rsqrt(tf.convert_to_tensor(regularizer, psi.dtype))
  if factor.shape.rank:
    factor = factor[..., tf.newaxis, tf.newaxis]
  a, b = factor * psi, factor * targets
  if a.shape.rank > 2:
    b = tf.broadcast_to(b, tf.concat([tf.shape(a)[:-2], tf.shape(targets)[-2:]], axis=0))
  return a, b


def choose_space(psi, space):
  """Resolves `'auto'`: data space if there are fewer data than features."""
  checks.one_of('space', space, SPACES)
  if space != 'auto':
    return space
  n, d = psi.shape[-2:]
  if n is None or d is None:
    raise errors.InputError(
      "`space='auto'` needs a static number of data and features; name the space. Received: "
      f'psi of shape {tuple(psi.shape)}'
    )
  return 'data' if n < d else 'feature'


def make_factor(a, b, space):
  """The factor of scaled features `a` and targets `b` in the named `space`."""
  if space == 'data':
    return DataFactor(a, b)
  gram = tf.matmul(a, a, transpose_a=True)  # [..., d, d]
  return FeatureFactor(gram, tf.matmul(a, b, transpose_a=True))


class FeatureFactor:
  """The factor in feature space, `C @ C.T = I_d + a.T @ a`.

  It needs the data only through two sums over rows.

  Args:
    gram: `a.T @ a` `[..., d, d]`.
    rhs: `a.T @ b` `[..., d, k]`.
  """

  def __init__(self, gram, rhs):
    self.chol = tf.linalg.cholesky(_add_identity(gram))  # C
    self.shift = tf.linalg.triangular_solve(self.chol, rhs)  # inv(C) @ a.T @ b

  def forward(self, phi):
    """`theta = inv(C.T) @ (inv(C) @ a.T @ b + phi)`: `[..., d, k]`."""
    return tf.linalg.triangular_solve(self.chol, self.shift + phi, adjoint=True)

  def inverse(self, theta):
    """`phi = C.T @ theta - inv(C) @ a.T @ b`: `[..., d, k]`."""
    return tf.matmul(self.chol, theta, transpose_a=True) - self.shift

  def log_det(self):
    """`log|det(S)| = -sum(log(diag(C)))`: `[...]`."""
    return -_sum_log_diag(self.chol)

  def mean(self):
    """`mu = inv(C.T) @ inv(C) @ a.T @ b`: `[..., d, k]`."""
    return tf.linalg.triangular_solve(self.chol, self.shift, adjoint=True)

  def root_transpose_matmul(self, vectors):
    """`S.T @ vectors = inv(C) @ vectors`: `[..., d, m]`."""
    return tf.linalg.triangular_solve(self.chol, vectors)


class DataFactor:
  """The factor in data space, `L @ L.T = I_n + a @ a.T`.

  Args:
    a: Scaled features `[..., n, d]`.
    b: Scaled targets `[..., n, k]`.
  """

  def __init__(self, a, b):
    self.a = a
    gram = tf.matmul(a, a, transpose_b=True)  # [..., n, n]
    self.chol = tf.linalg.cholesky(_add_identity(gram))  # L
    self.chol_plus_identity = _add_identity(self.chol)  # I + L
    self.shift = tf.linalg.triangular_solve(self.chol, b)  # inv(L) @ b

  def forward(self, phi):
    """`theta = phi + a.T @ inv(L.T) @ (inv(L) @ b - inv(I + L) @ a @ phi)`: `[..., d, k]`."""
    projected = tf.linalg.triangular_solve(self.chol_plus_identity, tf.matmul(self.a, phi))
    dual = tf.linalg.triangular_solve(self.chol, self.shift - projected, adjoint=True)
    return phi + tf.matmul(self.a, dual, transpose_a=True)

  def inverse(self, theta):
    """`phi = delta + a.T @ inv(I + L.T) @ a @ delta` with `delta = theta - mu`: `[..., d, k]`."""
    delta = theta - self.mean()
    projected = tf.linalg.triangular_solve(
      self.chol_plus_identity, tf.matmul(self.a, delta), adjoint=True
    )
    return delta + tf.matmul(self.a, projected, transpose_a=True)

  def log_det(self):
    """`log|det(S)| = -sum(log(diag(L)))`: `[...]`."""
    return -_sum_log_diag(self.chol)

  def mean(self):
    """`mu = a.T @ inv(L.T) @ inv(L) @ b`: `[..., d, k]`."""
    dual = tf.linalg.triangular_solve(self.chol, self.shift, adjoint=True)  # inv(K) @ b
    return tf.matmul(self.a, dual, transpose_a=True)

  def root_transpose_matmul(self, vectors):
    """`S.T @ vectors = vectors - a.T @ inv(I + L.T) @ inv(L) @ a @ vectors`: `[..., d, m]`."""
    projected = tf.linalg.triangular_solve(self.chol, tf.matmul(self.a, vectors))
    projected = tf.linalg.triangular_solve(self.chol_plus_identity, projected, adjoint=True)
    return vectors - tf.matmul(self.a, projected, transpose_a=True)


def _add_identity(matrix):
  return tf.linalg.set_diag(matrix, tf.linalg.diag_part(matrix) + 1.0)


def _sum_log_diag(chol):
  return tf.reduce_sum(tf.math.log(tf.linalg.diag_part(chol)), axis=-1)
