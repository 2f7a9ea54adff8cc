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
"""

import math
import numbers

import tensorflow as tf

from tfp_reprior import errors
from tfp_reprior.bijectors import factorization, gradients
from tfp_reprior.internal import parts as parts_lib
from tfp_reprior.models import dense_layers


class LayerMaps:
  """The maps of all hidden layers together.

  The methods take `targets`, what `targets_of` made of an anchor.

  Args:
    split: A `tfp_reprior.models.ReadoutSplit`.
    x: The training inputs `[n, ...]`.
    regularizer: `lam`: positive float, or one for each layer; infinity for those without a map.

  Attributes:
    names: List of the names of the layers that could have a map.
    regularizers: List of floats, one for each.
  """

  def __init__(self, split, x, regularizer):
    self._split = split
    self._network = dense_layers.DenseLayers(split, x)
    self._layers = self._network.layers
    self.names = [layer.name for layer in self._layers]
    is_one = isinstance(regularizer, numbers.Real)
    values = [regularizer] * len(self.names) if is_one else regularizer
    self.regularizers = check_regularizers('regularizer', values)
    if len(self.regularizers) != len(self.names):
      raise errors.InputError(
        f'`regularizer` must be a float, or one for each of the layers {self.names}. Received: '
        f'regularizer={regularizer}'
      )
    self._constants = [
      None
      if layer.constant_psi is None or math.isinf(lam)
      else _ConstantLayer(layer.constant_psi, lam)
      for layer, lam in zip(self._layers, self.regularizers, strict=True)
    ]

  def targets_of(self, anchor):
    """Pre-activations of an anchor: for each layer a list of tensors `[*chains, n, w]`.

    The first is v; layers with constant inputs have another one, `inv(K) @ v / sqrt(lam)`.

    Args:
      anchor: List of parts, or of hidden parts.
    """
    is_hidden = parts_lib.is_list_like(anchor) and len(anchor) == self._split.num_hidden
    anchor = self._split.check_parts(anchor, is_hidden, name='anchor')

    def product(i, psi, theta, _):
      z = tf.matmul(psi, theta)
      if math.isinf(self.regularizers[i]):
        return z, []
      constant = self._constants[i]
      return z, [z] if constant is None else [z, constant.dual(z)]

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
      layer = self._constants[i] or self._factorize(i, psi, own[0])
      theta = layer.forward(phi, *own[1:])
      return tf.matmul(psi, theta), [theta, self._log_det(layer, phi)]

    return self._move(hidden_phi, product, targets)

  def inverse(self, hidden_theta, targets):
    """As `forward`, from theta to phi; the log-determinant is that of `forward` still."""

    def product(i, psi, theta, own):
      z = tf.matmul(psi, theta)
      if not own:
        return z, []
      layer = self._constants[i] or self._factorize(i, psi, own[0])
      return z, [layer.inverse(theta, *own[1:]), self._log_det(layer, theta)]

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
      root = math.sqrt(self.regularizers[i])
      if self._constants[i] is not None:
        e, change = self._constants[i].residuals_and_change(phi, *own)
        return own[0] + root * e, [change]
      a, b = factorization.scale(psi, own[0], self.regularizers[i])
      if factorization.choose_space(psi, 'auto') == 'data':
        e, change = gradients.residuals_and_change(a, b, phi)
        return own[0] + root * e, [change]
      theta, log_det = gradients.map_and_log_det(a, b, phi, 'feature')
      change = -0.5 * tf.reduce_sum((theta - phi) * (theta + phi), axis=[-2, -1])
      return tf.matmul(psi, theta), [change + phi.shape[-1] * log_det]

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

  def _factorize(self, i, psi, v):
    return factorization.factorize(psi, v, self.regularizers[i])

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

  ```none
  theta = a.T @ dual + S @ phi,    dual = inv(K) @ b,    K = I + a @ a.T
  e     = a @ theta - b = R @ phi - dual,    R = a @ S
  ```

  S and its inverse are matrices in feature space, `I - a.T @ W` and `I + a.T @ V` in data space.

  Args:
    psi: `[n, d]`.
    lam: The regularizer.
  """

  def __init__(self, psi, lam):
    self._lam = lam
    self._a = psi / math.sqrt(lam)
    n, d = psi.shape
    self._is_data = n < d
    with tf.init_scope():  # not in a graph, which other graphs cannot see
      a, b = tf.constant(self._a), tf.zeros([n, 1], tf.float64)
      factor = factorization.make_factor(a, b, 'data' if self._is_data else 'feature')
      self._log_det = float(factor.log_det())
      self._chol = factor.chol.numpy()
      self._image = factor.root_transpose_matmul(tf.transpose(a)).numpy().T  # R
      if self._is_data:
        half = tf.linalg.triangular_solve(factor.chol_plus_identity, a)
        self._root = tf.linalg.triangular_solve(factor.chol, half, adjoint=True).numpy()  # W
        self._inverse_root = tf.linalg.triangular_solve(
          factor.chol_plus_identity, a, adjoint=True
        ).numpy()  # V
      else:
        self._root = factor.root_transpose_matmul(tf.eye(d, dtype=tf.float64)).numpy().T  # S
        self._inverse_root = self._chol.T

  def dual(self, v):
    """`inv(K) @ v / sqrt(lam)` for v `[..., n, w]`."""
    b = tf.cast(v, tf.float64) / math.sqrt(self._lam)
    chol, a = tf.constant(self._chol), tf.constant(self._a)

    def solve(rhs):
      shape = tf.concat([tf.shape(rhs)[:-2], tf.shape(chol)], axis=0)
      return tf.linalg.cholesky_solve(tf.broadcast_to(chol, shape), rhs)

    if self._is_data:
      return tf.cast(solve(b), v.dtype)
    return tf.cast(b - tf.matmul(a, solve(tf.matmul(a, b, transpose_a=True))), v.dtype)

  def forward(self, phi, dual):
    """theta `[..., d, w]`."""
    root = tf.matmul(tf.constant(self._root, phi.dtype), phi)
    if self._is_data:
      return phi + self._transpose_matmul(dual - root)
    return self._transpose_matmul(dual) + root

  def inverse(self, theta, dual):
    """phi `[..., d, w]`."""
    delta = theta - self._transpose_matmul(dual)
    root = tf.matmul(tf.constant(self._inverse_root, theta.dtype), delta)
    return delta + self._transpose_matmul(root) if self._is_data else root

  def log_det(self):
    """`log|det(S)|`, a float."""
    return self._log_det

  def residuals_and_change(self, phi, v, dual):
    """As `gradients.residuals_and_change`, in either space."""
    e = tf.matmul(tf.constant(self._image, phi.dtype), phi) - dual
    constant = tf.reduce_sum(v * dual, axis=[-2, -1]) / math.sqrt(self._lam)
    change = 0.5 * (gradients.sum_squares(e) - constant)
    return e, change + phi.shape[-1] * self._log_det

  def _transpose_matmul(self, values):
    return tf.matmul(tf.constant(self._a, values.dtype), values, transpose_a=True)


def check_regularizers(name, values):
  """A list of positive floats, or infinity."""
  try:
    values = [float(v) for v in values]
    is_right = all(v > 0 for v in values)
  except (TypeError, ValueError):
    is_right = False
  if not is_right:
    raise errors.InputError(
      f'`{name}` must be positive, for each layer; infinity for no map. Received: {name}={values!r}'
    )
  return values
