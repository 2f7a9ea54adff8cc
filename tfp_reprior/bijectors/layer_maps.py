"""The repriorisation of hidden layers, by pseudo-targets.

For a fully connected layer `z = psi @ theta`, psi `[n, d]`, theta `[d, w]`, and any constants v
`[n, w]` and `lam > 0`, the map of the readout (`tfp_reprior.bijectors.factorization`) takes
`phi ~ N(0, I)` to the posterior of theta if v were observations of z with noise of variance lam:

```none
theta = mu + S @ phi,    S @ S.T = inv(I + psi.T @ psi / lam),    mu = S @ S.T @ psi.T @ v / lam
```

psi depends on the layers below alone. So over all layers the Jacobian is block triangular, and its
log-determinant the sum of those of the layers, `w log|det(S)|`. With respect to N(0, I) a density
p(theta) N(theta; 0, I) becomes p(theta) times, for each layer,

```none
N(v; 0, lam I + psi @ psi.T) / N(v; psi @ theta, lam I)
```

whatever v and lam are.

Most of what features do to data is done in few directions: of n = 256 images a layer of width 256
has 20 eigenvalues of `psi @ psi.T` above 3 and 60 above 1. In the others `S` is close to the
identity for lam of that size, and the map costs time and does nothing. So it is made by
pseudo-observations of m directions alone,

```none
Omega @ v = Omega @ psi @ theta + noise,    Omega [m, n], constant
```

which is the same map with `Omega @ psi` in place of psi and `Omega @ v` in place of v, exact for
any Omega. Omega has the leading eigenvectors of `psi @ psi.T` at the anchor. A layer then costs
little more than its product, and its factor is of size m.
"""

import math
import numbers

import numpy as np
import tensorflow as tf

from tfp_reprior import errors
from tfp_reprior.bijectors import factorization, gradients
from tfp_reprior.internal import checks
from tfp_reprior.internal import parts as parts_lib
from tfp_reprior.models import dense_layers

# Directions with eigenvalues below this part of lam are left out: S is at least 0.87 there. Their
# number is rounded up, as posterior draws differ from the prior draw that it is counted at.
_LEAST_EIGENVALUE = 1 / 3
_MULTIPLE = 8
_LEAST_ROOT = 1 / 3  # of S
_NEGLIGIBLE = 1e-12  # an eigenvalue, relative to the largest


class LayerMaps:
  """The maps of all hidden layers together.

  The methods take `targets`, what `targets_of` made of an anchor.

  Args:
    split: A `tfp_reprior.models.ReadoutSplit`.
    x: The training inputs `[n, ...]`.
    regularizer: `lam`: positive float, or one for each layer; infinity for those without a map.
    num_directions: m: positive integer, at most; by default by the eigenvalues of each layer.

  Attributes:
    names: List of the names of the layers that could have a map.
    regularizers: List of floats, one for each.
    nums_directions: List of m, one for each.
  """

  def __init__(self, split, x, regularizer, num_directions=None):
    self._split = split
    self._network = dense_layers.DenseLayers(split, x)
    self._layers = self._network.layers
    self.names = [layer.name for layer in self._layers]
    is_one = isinstance(regularizer, numbers.Real)
    values = [regularizer] * len(self.names) if is_one else regularizer
    self.regularizers = check_regularizers('regularizer', values)
    if len(self.regularizers) != len(self.names):
      raise errors.InputError(
        '`regularizer` (`layer_regularizer` of runs) must be a float, or one for each of the '
        f'layers {self.names}. Received: regularizer={regularizer}'
      )
    if num_directions is not None:
      checks.positive_integer('num_directions', num_directions)
    self.nums_directions = [
      _num_directions(layer, lam, num_directions)
      for layer, lam in zip(self._layers, self.regularizers, strict=True)
    ]
    self._constants = [
      None
      if layer.constant_psi is None or math.isinf(lam)
      else _ConstantLayer(layer.constant_psi, lam, num)
      for layer, lam, num in zip(self._layers, self.regularizers, self.nums_directions, strict=True)
    ]

  def targets_of(self, anchor):
    """What maps need of an anchor: for each layer a list of tensors `[*chains, ...]`.

    `Omega @ v` `[m, w]` and Omega `[m, n]`; of layers with constant inputs, which have their Omega
    already, what `_ConstantLayer.targets` returns.

    Args:
      anchor: List of parts, or of hidden parts.
    """
    is_hidden = parts_lib.is_list_like(anchor) and len(anchor) == self._split.num_hidden
    anchor = self._split.check_parts(anchor, is_hidden, name='anchor')

    def product(i, psi, theta, _):
      z = tf.matmul(psi, theta)
      if math.isinf(self.regularizers[i]):
        return z, []
      if self._constants[i] is not None:
        return z, self._constants[i].targets(z)
      omega = _leading_directions(psi, self.nums_directions[i], self.regularizers[i])
      return z, [tf.matmul(omega, z), omega]

    _, found = self._evaluate(anchor[: self._split.num_hidden], product)
    return found

  def forward(self, hidden_phi, targets):
    """theta of the hidden parts.

    Returns:
      psi: Readout features `[*chains, n, d]`.
      theta: List of hidden parts.
      log_det: Of the Jacobian, `[*chains]`.
    """

    def product(i, psi, phi, own):
      if not own:
        return tf.matmul(psi, phi), []
      layer, own = self._layer(i, psi, own)
      theta = layer.forward(phi, *own)
      return tf.matmul(psi, theta), [theta, self._log_det(layer, phi)]

    return self._move(hidden_phi, product, targets)

  def inverse(self, hidden_theta, targets):
    """As `forward`, from theta to phi; the log-determinant is that of `forward` still."""

    def product(i, psi, theta, own):
      z = tf.matmul(psi, theta)
      if not own:
        return z, []
      layer, own = self._layer(i, psi, own)
      return z, [layer.inverse(theta, *own), self._log_det(layer, theta)]

    return self._move(hidden_theta, product, targets)

  def features_and_change(self, hidden_phi, targets):
    """What a density in phi needs, with closed-form gradients.

    Returns:
      psi: Readout features `[*chains, n, d]`.
      change: `log N(theta; 0, I) + log|det(d theta / d phi)| - log N(phi; 0, I)` of the hidden
        parts, `[*chains]`.
    """

    def product(i, psi, phi, own):
      if not own:
        return tf.matmul(psi, phi), []
      if self._constants[i] is not None:
        return self._constants[i].outputs_and_change(phi, *own)
      theta, change = gradients.map_and_change(*self._scaled(i, psi, *own), phi)
      return tf.matmul(psi, theta), [change]

    psi, found = self._evaluate(hidden_phi, product, targets)
    return psi, self._add_up([some[0] for some in found if some], psi)

  def _evaluate(self, hidden_parts, product, targets=None):
    targets = targets or [[] for _ in self._layers]
    psi, found = self._network.evaluate(hidden_parts, product, targets)
    return self._split.scale_features(hidden_parts, psi), found

  def _move(self, hidden_parts, product, targets):
    psi, found = self._evaluate(hidden_parts, product, targets)
    # Identities, because new parts depend on those of other layers: see `ReadoutReprior`.
    moved = [tf.identity(p) for p in hidden_parts]
    for layer, some in zip(self._layers, found, strict=True):
      if some:
        new = parts_lib.unstack_readout(some[0], len(layer.indices) > 1)
        for j, part in zip(layer.indices, new, strict=True):
          moved[j] = part
    return psi, moved, self._add_up([some[1] for some in found if some], psi)

  def _layer(self, i, psi, own):
    """Something with the methods of a factor, and the arguments besides a part that these need."""
    if self._constants[i] is not None:
      return self._constants[i], own[1:2]
    return factorization.DataFactor(*self._scaled(i, psi, *own)), []

  def _scaled(self, i, psi, targets, omega):
    """Scaled features `[..., m, d]` and pseudo-targets `[..., m, w]` of the directions."""
    return factorization.scale(tf.matmul(omega, psi), targets, self.regularizers[i])

  @staticmethod
  def _log_det(layer, part):
    """Of all units of a layer, `[*chains]`."""
    zeros = tf.zeros(tf.shape(part)[:-2], part.dtype)
    return zeros + part.shape[-1] * layer.log_det()

  @staticmethod
  def _add_up(values, psi):
    return parts_lib.add_up(values) if values else tf.zeros(tf.shape(psi)[:-2], psi.dtype)


class _ConstantLayer:
  """A layer whose inputs do not depend on weights: everything is made once, in float64.

  With `a = Omega @ psi / sqrt(lam)` and `b = Omega @ v / sqrt(lam)`

  ```none
  theta = phi + a.T @ (dual - W @ phi)        dual = inv(K) @ b,  K = I + a @ a.T,  S = I - a.T @ W
  z     = psi @ theta = offset + R @ phi      offset = psi @ a.T @ dual,  R = psi @ S
  phi   = delta + a.T @ V @ delta             delta = theta - a.T @ dual,  inv(S) = I + a.T @ V
  ```

  Args:
    psi: `[n, d]`.
    lam: The regularizer.
    num_directions: m.
  """

  def __init__(self, psi, lam, num_directions):
    with tf.init_scope():  # not in a graph, which other graphs cannot see
      omega = _leading_directions(tf.constant(psi), num_directions, lam)
      self._omega = omega.numpy() / math.sqrt(lam)
      self._a = a = self._omega @ psi
      factor = factorization.DataFactor(tf.constant(a), tf.zeros([num_directions, 1], tf.float64))
      self._log_det = float(factor.log_det())
      self._chol = factor.chol.numpy()
      half = tf.linalg.triangular_solve(factor.chol_plus_identity, a)
      self._root = tf.linalg.triangular_solve(factor.chol, half, adjoint=True).numpy()  # W
      self._inverse_root = tf.linalg.triangular_solve(
        factor.chol_plus_identity, a, adjoint=True
      ).numpy()  # V
      self._back = psi @ a.T
      self._image = psi - self._back @ self._root  # R

  def targets(self, v):
    """`b`, `dual` and `offset`, a list, of v `[..., n, w]`."""
    b = tf.matmul(tf.constant(self._omega), tf.cast(v, tf.float64))
    chol = tf.constant(self._chol)
    shape = tf.concat([tf.shape(b)[:-2], tf.shape(chol)], axis=0)
    dual = tf.linalg.cholesky_solve(tf.broadcast_to(chol, shape), b)
    offset = tf.matmul(tf.constant(self._back), dual)
    return [tf.cast(t, v.dtype) for t in (b, dual, offset)]

  def forward(self, phi, dual):
    """theta `[..., d, w]`."""
    return phi + self._transpose_matmul(dual - self._matmul(self._root, phi))

  def inverse(self, theta, dual):
    """phi `[..., d, w]`."""
    delta = theta - self._transpose_matmul(dual)
    return delta + self._transpose_matmul(self._matmul(self._inverse_root, delta))

  def log_det(self):
    """`log|det(S)|`, a float."""
    return self._log_det

  def outputs_and_change(self, phi, b, dual, offset):
    """`z = psi @ theta` `[..., n, w]`, and a list of the change of `gradients.map_and_change`."""
    z = offset + self._matmul(self._image, phi)
    e = self._matmul(self._omega, z) - b
    change = 0.5 * (gradients.sum_squares(e) - tf.reduce_sum(b * dual, axis=[-2, -1]))
    return z, [change + phi.shape[-1] * self._log_det]

  def _transpose_matmul(self, values):
    return self._matmul(self._a.T, values)

  @staticmethod
  def _matmul(matrix, values):
    return tf.matmul(tf.constant(matrix, values.dtype), values)


def _num_directions(layer, lam, most):
  """How many directions of the data a layer follows: those with eigenvalues above a part of lam."""
  if most is None:
    num_seen = int(np.sum(layer.eigenvalues > _LEAST_EIGENVALUE * lam))
    most = _MULTIPLE * max(1, -(-num_seen // _MULTIPLE))
  return min(most, len(layer.eigenvalues))


def _leading_directions(psi, num_directions, lam):
  """Omega: eigenvectors of `psi @ psi.T` with the largest eigenvalues as rows, `[..., m, n]`.

  Rows are shortened where otherwise S would be below `_LEAST_ROOT`.
  """
  values = tf.cast(psi, tf.float64)
  n, d = psi.shape[-2:]
  gram = tf.matmul(values, values, transpose_a=n > d, transpose_b=n <= d)
  squares, vectors = tf.linalg.eigh(gram)  # ascending
  squares, vectors = squares[..., -num_directions:], vectors[..., -num_directions:]
  # S is 1 / sqrt(1 + scale**2 * square / lam).
  scales = tf.minimum(tf.sqrt((_LEAST_ROOT**-2 - 1) * lam / tf.maximum(squares, 1e-300)), 1.0)
  if n > d:  # those of psi.T @ psi; where psi has no such direction, its row is zero
    is_seen = squares > _NEGLIGIBLE * squares[..., -1:]
    scales *= tf.where(is_seen, tf.math.rsqrt(tf.maximum(squares, 1e-300)), 0.0)
    vectors = tf.matmul(values, vectors)
  omega = tf.linalg.matrix_transpose(vectors * scales[..., tf.newaxis, :])
  return tf.cast(omega, psi.dtype)


def check_regularizers(name, values):
  """A list of positive floats, or infinity."""
  try:
    is_right = all(float(v) > 0 and not isinstance(v, (bool, str)) for v in values)
    values = [float(v) for v in values]
  except (TypeError, ValueError):
    is_right = False
  if not is_right:
    raise errors.InputError(
      f'`{name}` must be positive, for each layer; infinity for no map. Received: {name}={values!r}'
    )
  return values
