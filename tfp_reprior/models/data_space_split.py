"""A split whose hidden layers are given by what they do to the training inputs."""

import warnings

import numpy as np
import tensorflow as tf
from numpy.typing import ArrayLike

from tfp_reprior import errors
from tfp_reprior.internal import checks, random
from tfp_reprior.internal.types import Parts, Seed
from tfp_reprior.layers import data_space_dense
from tfp_reprior.models import data_space_layers, graphs, readout_split

# So many new inputs are drawn jointly, and this much of their variance is added to it.
_MOST_NEW_ROWS = 128
_SMALLEST_VARIANCE = 1e-12
_LARGEST_COMPARED = 2**24  # weights of a network that is compared with its copy
# The smallest eigenvalue of a kernel relative to its largest, by dtype.
_SMALLEST_EIGENVALUE = {tf.float32: 1e-5, tf.float64: 1e-11}


class _IllConditionedError(Exception):
  """Ends a pass of the network at a layer whose kernel is ill-conditioned."""


class DataSpaceSplit(readout_split.ReadoutSplit):
  """A `ReadoutSplit` in which fully connected layers have parts `[n, units]` for n given inputs.

  A layer with scaled inputs psi `[n, d]`, n < d, acts on them by `z = psi @ Theta` alone. In place
  of its weights Theta `[d, units]` the state has u `[n, units]`:

  ```none
  L @ L.T = psi @ psi.T,      z = L @ u,      u = inv(L) @ psi @ Theta
  Theta   = xi + psi.T @ inv(L @ L.T) @ (L @ u - psi @ xi),    xi ~ N(0, 1) [d, units]
  ```

  `[u; v] = Q.T @ Theta` for an orthogonal matrix Q that depends on the layers below alone. So over
  all layers the map from Theta to all (u, v) has unit Jacobian, u has prior N(0, 1), and so has v,
  which no density depends on: under the posterior v is N(0, 1) still, and independent of all else.
  What xi adds is v. Layers that don't qualify keep their weights.

  A density of this split is one of the network: `tfp_reprior.Posterior` takes it for `model`.

  Args:
    split: A `ReadoutSplit`, not changed.
    x: The training inputs `[n, ...]`, a tensor. Rows that are the same count once.
    hidden_space: `'data'` for all layers with more weights a unit than there are distinct inputs;
      `'auto'` for those with twice as many or more.


  #### Examples

  ```python
  import numpy as np
  import tensorflow as tf
  import tfp_reprior as tfr

  rng = np.random.default_rng(1)
  x = tf.constant(rng.normal(size=[6, 20]), tf.float32)
  split = tfr.models.ReadoutSplit(tfr.models.fcn((20,), num_outputs=1, width=32))
  space = tfr.models.DataSpaceSplit(split, x)
  u = space.sample_prior(4, seed=1)  # four chains
  theta = space.to_weights(u, seed=2)  # parts of `split`: the weights
  new = tf.constant(rng.normal(size=[1, 20]), tf.float32)
  space.embed_new(u[: space.num_hidden], new, seed=3).shape  # ==> [4, 1, 33]
  ```

  #### References

  S. Ober and L. Aitchison. Global inducing point variational posteriors for Bayesian neural
  networks and deep Gaussian processes. ICML 2021. They use the same conditional as a variational
  family.
  """

  def __init__(
    self, split: readout_split.ReadoutSplit, x: tf.Tensor, hidden_space: str = 'auto'
  ) -> None:
    checks.one_of('hidden_space', hidden_space, data_space_layers.HIDDEN_SPACES)
    data_space_layers.check_no_chunks(split.chunk_size)
    split = split.network  # wherever its layers are
    self._x, self._rows = x, checks.static_value(x)
    if self._rows is None:
      raise errors.InputError(f'`x` must be known when the graph is made. Received: x={x}')
    self._distinct, self._index = data_space_layers.distinct_rows(self._rows)
    num_rows = self._distinct.shape[0]
    self._layer_spaces = data_space_layers.choose(split, num_rows, hidden_space)
    self._network, self.hidden_space = split, hidden_space
    while True:  # until all layers that are left can be in data space
      names = self.names_in_data_space
      with tf.init_scope():  # a layer has variables, which graphs should not make
        reasons = self._move(names, num_rows)
      if not reasons:
        break
      self._layer_spaces = [
        s._replace(space='weights', reason=reasons[s.name]) if s.name in reasons else s
        for s in self._layer_spaces
      ]
    self._pairs = data_space_layers.pair(split, self)

  @property
  def network(self) -> readout_split.ReadoutSplit:
    """The split that this one was made from."""
    return self._network

  @property
  def layer_spaces(self) -> list[data_space_layers.LayerSpace]:
    """List of a `LayerSpace` for each fully connected layer before the readout."""
    return self._layer_spaces

  def in_chunks(self, chunk_size: int | None) -> 'DataSpaceSplit':
    data_space_layers.check_no_chunks(chunk_size)
    return self

  def embed(self, hidden_parts: Parts, x: ArrayLike) -> tf.Tensor:
    """The readout features psi `[*chains, n, d]` of the training inputs, which x must be."""
    self._check_training_inputs(x)
    psi = super().embed(hidden_parts, self._distinct)
    return psi if self._index is None else tf.gather(psi, self._index, axis=-2)

  def embed_new(self, hidden_parts: Parts, x: ArrayLike, seed: Seed = None) -> tf.Tensor:
    """The readout features of new inputs: a draw given what the layers do to the training inputs.

    Layer by layer, jointly over the rows of x:

    ```none
    z_new given z ~ N(A.T @ u, psi_new @ psi_new.T - A.T @ A),   A = inv(L) @ psi @ psi_new.T
    ```

    in float64. It has the law of the features of `to_weights(...)`, but needs no matrix of the size
    of a layer. Beyond 128 rows, each batch of 128 is a draw of its own.

    Args:
      hidden_parts: List of tensors `[*chains, *event_shape]`.
      x: Inputs `[m, ...]`.
      seed: A seed of TFP.

    Returns:
      psi: `[*chains, m, d]`.
    """
    if x is self._x:
      return self.embed(hidden_parts, x)
    hidden_parts = self.check_parts(hidden_parts, hidden=True)
    x = tf.cast(x, self._distinct.dtype)
    num_batches = -(-x.shape[0] // _MOST_NEW_ROWS)
    seeds = random.split_seed(seed, n=num_batches)
    batches = [x[_MOST_NEW_ROWS * i : _MOST_NEW_ROWS * (i + 1)] for i in range(num_batches)]
    psi = [self._embed_batch(hidden_parts, b, s) for b, s in zip(batches, seeds, strict=True)]
    return tf.concat(psi, axis=-2)

  def _embed_batch(self, hidden_parts, x, seed):
    num_rows = self._distinct.shape[0]
    noise = self._noise(hidden_parts, lambda layer: [x.shape[0], layer.units], seed)

    def transform(layer, psi, u, pick):
      old, new = (tf.cast(p, tf.float64) for p in (psi[..., :num_rows, :], psi[..., num_rows:, :]))
      chol = layer.exact_chol(old)
      a = tf.linalg.triangular_solve(chol, tf.matmul(old, new, transpose_b=True))  # [..., n, m]
      covariance = tf.matmul(new, new, transpose_b=True) - tf.matmul(a, a, transpose_a=True)
      # Inputs that were seen before have none: a multiple of the identity that is lost in the
      # rounding of z makes it one that has a factor.
      scale = tf.reduce_max(tf.reduce_sum(tf.square(new), axis=-1), axis=-1)
      diagonal = tf.linalg.diag_part(covariance) + _SMALLEST_VARIANCE * scale[..., tf.newaxis]
      root = tf.linalg.cholesky(tf.linalg.set_diag(covariance, diagonal))
      exact_u, eps = tf.cast(u, tf.float64), tf.cast(pick(noise[layer.name]), tf.float64)
      z = tf.matmul(chol, exact_u)
      new_z = tf.matmul(a, exact_u, transpose_a=True) + tf.matmul(root, eps)
      return tf.cast(tf.concat([z, new_z], axis=-2), u.dtype)

    rows = tf.concat([self._distinct, x], axis=0)
    return self.to_features(self._evaluate(hidden_parts, rows, transform)[..., num_rows:, :])

  def to_weights(self, parts: Parts, seed: Seed = None) -> list[tf.Tensor]:
    """The parts of `network` for parts of this split, with fresh draws of what data don't see.

    Args:
      parts: List of tensors `[*chains, *event_shape]`; all parts, or the hidden ones.
      seed: A seed of TFP.

    Returns:
      List of as many parts of `network`.
    """
    parts = self.check_parts(parts, hidden=len(parts) == self.num_hidden)
    hidden, readout = parts[: self.num_hidden], parts[self.num_hidden :]
    xi = self._noise(hidden, lambda layer: [layer.fan_in, layer.units], seed)
    found: dict[str, list[tf.Tensor]] = {layer.name: [] for layer in self._data_layers}

    def transform(layer, psi, u, pick):
      z, chol = layer.multiply(psi, u), layer.exact_chol(tf.cast(psi, tf.float64))
      fresh = pick(xi[layer.name])
      residual = tf.cast(z - tf.matmul(psi, fresh), tf.float64)
      dual = tf.linalg.cholesky_solve(_like(chol, residual), residual)  # [..., n, units]
      found[layer.name].append(fresh + tf.matmul(psi, tf.cast(dual, u.dtype), transpose_a=True))
      return z

    self._evaluate(hidden, self._distinct, transform)
    theta = [None] * self._network.num_hidden
    for own, others, layer in self._pairs:
      if layer is None:
        values = [hidden[j] for j in own]
      else:
        value = self._unflatten(found[layer.name], hidden[own[0]])
        values = [value] if len(others) == 1 else [value[..., :-1, :], value[..., -1, :]]
      for i, value in zip(others, values, strict=True):
        theta[i] = value
    return theta + readout

  def from_weights(self, parts: Parts) -> list[tf.Tensor]:
    """The parts of this split that do what parts of `network` do: the inverse of `to_weights`."""
    count = self._network.num_hidden
    parts = self._network.check_parts(parts)
    parts, readout = parts[:count], parts[count:]
    theta: dict[str, tf.Tensor] = {}
    hidden = [None] * self.num_hidden
    found: dict[str, list[tf.Tensor]] = {}
    chains = parts[0].shape[: parts[0].shape.rank - self._network.event_ndims[0]] if parts else []
    for own, others, layer in self._pairs:
      if layer is None:
        for j, i in zip(own, others, strict=True):
          hidden[j] = parts[i]
        continue
      [*kernel] = [
        parts[i] if parts[i].shape.rank > len(chains) + 1 else parts[i][..., tf.newaxis, :]
        for i in others
      ]
      theta[layer.name] = self._flatten(tf.concat(kernel, axis=-2), 2)
      found[layer.name] = []
      hidden[own[0]] = tf.zeros([*chains, *self.event_shapes[own[0]]], self.dtype)

    def transform(layer, psi, u, pick):
      del u
      z = tf.matmul(psi, pick(theta[layer.name]))
      exact_z = tf.cast(z, tf.float64)
      chol = layer.exact_chol(tf.cast(psi, tf.float64))
      u = tf.linalg.triangular_solve(_like(chol, exact_z), exact_z)
      found[layer.name].append(tf.cast(u, z.dtype))
      return z

    self._evaluate(hidden, self._distinct, transform)
    for own, _, layer in self._pairs:
      if layer is not None:
        hidden[own[0]] = self._unflatten(found[layer.name], hidden[own[0]])
    return hidden + readout

  def _move(self, names, num_rows):
    """Moves layers to data space. Returns a dict of reasons why some must not, by name."""
    self._data_layers = []
    if not names:
      vars(self).update(vars(self._network))
      return {}
    try:
      model = data_space_layers.clone_model(self._network, names, num_rows)
      super().__init__(model, **self._network.prior_stds)
    except data_space_layers.NoCloneError as e:
      warnings.warn(f'All layers keep their weights: {e} ({e.__cause__}).', stacklevel=3)
      return dict.fromkeys(names, str(e))
    # Random inputs could have a kernel that is ill-conditioned, and look as if chains were refused.
    self.embedding.example = self._distinct
    self._data_layers = [
      layer
      for layer in graphs.layers(self.embedding.model)
      if isinstance(layer, data_space_dense.DataSpaceDense)
    ]
    return self._find_obstacles(names)

  def _find_obstacles(self, names):
    """Looks at the layers, and at their inputs for two draws of the prior.

    Layers whose inputs do not depend on weights get their factor, once for all.

    Args:
      names: List of the names of layers that should be in data space.

    Returns:
      Dict of reasons why layers must keep their weights, by name.
    """
    found = {layer.name: layer for layer in self._data_layers}
    reasons = {n: 'it is inside of another layer' for n in names if n not in found}
    no_vectors = [layer.name for layer in self._data_layers if layer.input_rank != 2]
    reasons |= dict.fromkeys(no_vectors, 'its inputs are no vectors')
    if reasons or not found:
      return reasons
    seen = {name: [] for name in found}
    bad = []

    def transform(layer, psi, u, pick):
      del pick
      psi = psi.numpy().astype(np.float64)
      gram = psi @ psi.T
      values = np.linalg.eigvalsh(gram)
      if not values[0] > _SMALLEST_EIGENVALUE[self.dtype] * values[-1]:
        bad.append((layer.name, values))
        raise _IllConditionedError  # without them: Keras would make a text of what it carries
      seen[layer.name].append((psi, np.linalg.cholesky(gram)))
      return tf.matmul(tf.constant(seen[layer.name][-1][1], u.dtype), u)

    try:
      for seed in ([0, 1], [0, 2]):
        self._evaluate(self.sample_prior(seed=seed)[: self.num_hidden], self._distinct, transform)
    except _IllConditionedError:
      [(name, values)] = bad
      reason = f'the kernel of its {len(values)} distinct inputs is ill-conditioned, with '
      reason += f'eigenvalues from {values[0]:.2g} to {values[-1]:.2g}'
      if self.hidden_space == 'data':  # as was asked for
        warnings.warn(f'Layer {name!r} keeps its weights: {reason}.', stacklevel=4)
      return {name: reason}
    for name, layer in found.items():
      if len(seen[name]) != 2:
        return {name: 'it is called more than once'}
      (first, chol), (second, _) = seen[name]
      if np.array_equal(first, second):
        layer.constant_chol = chol
    return self._find_differences(names)

  def _find_differences(self, names):
    """Compares with the network at a draw of its weights: layers may not survive being copied."""
    if self._network.num_parameters > _LARGEST_COMPARED:
      return {}
    theta = self._network.sample_prior(seed=[0, 3])
    self._pairs = data_space_layers.pair(self._network, self)
    expected = self._network.embed(theta[: self._network.num_hidden], self._x).numpy()
    actual = self.embed(self.from_weights(theta)[: self.num_hidden], self._x).numpy()
    if np.allclose(actual, expected, rtol=0, atol=1e-2 * np.max(np.abs(expected))):
      return {}
    reason = 'a copy of the model computes something else; is `get_config` of its layers complete?'
    warnings.warn(f'All layers keep their weights: {reason}', stacklevel=5)
    return dict.fromkeys(names, reason)

  def _check_training_inputs(self, x):
    if x is self._x:
      return
    known = checks.static_value(x)
    if known is None or not np.array_equal(known, self._rows):
      raise errors.InputError(
        'This split is for the training inputs that it was made with; new ones take `embed_new`. '
        f'Received: x of shape {tuple(x.shape)}'
      )

  def _evaluate(self, hidden_parts, x, transform):
    """What goes into the readout, `[*chains, m, width]`, with z in data space by a function.

    Args:
      hidden_parts: List of tensors `[*chains, *event_shape]`.
      x: Inputs `[m, ...]`.
      transform: Function of a layer, its psi, its u, and `pick`, which gives the entries of
        something `[c, ...]` that belong to the chains of u; returns z.
    """
    values = readout_split.multiply(self._scales[: self.num_hidden], hidden_parts)
    ndims = self.event_ndims[: self.num_hidden]
    chain_ndims = values[0].shape.rank - ndims[0]

    def call(values, pick):
      with data_space_dense.transformed(
        self._data_layers, lambda *arguments: transform(*arguments, pick)
      ):
        return self.embedding.call_at_once(values, x)

    if chain_ndims == 0:
      return call(values, lambda noise: noise)
    chains = values[0].shape[:chain_ndims]
    flat = [self._flatten(v, ndim) for v, ndim in zip(values, ndims, strict=True)]
    if self.embedding.accepts_chains:
      h = call(flat, lambda noise: noise)
    else:
      h = tf.stack(
        [
          call([v[c] for v in flat], lambda noise, c=c: noise[c])
          for c in range(chains.num_elements())
        ]
      )
    return tf.reshape(h, [*chains, *h.shape[1:]])

  def _noise(self, hidden_parts, shape_fn, seed):
    """N(0, 1) for each layer in data space, by name: `[c, *shape]`; without c for no chains."""
    chain_ndims = hidden_parts[0].shape.rank - self.event_ndims[0]
    chains = [hidden_parts[0].shape[:chain_ndims].num_elements()] if chain_ndims else []
    shapes = [[*chains, *shape_fn(layer)] for layer in self._data_layers]
    draws = random.normal_parts(shapes, self.dtype, seed)
    return {layer.name: d for layer, d in zip(self._data_layers, draws, strict=True)}

  @staticmethod
  def _flatten(part, event_ndims):
    """`[*chains, *event]` as `[c, *event]`."""
    shape = part.shape[part.shape.rank - event_ndims :]
    return tf.reshape(part, [-1, *shape]) if part.shape.rank > event_ndims else part

  @staticmethod
  def _unflatten(found, like):
    """What was found for all chains, or one by one, with the chain dimensions of a part `like`."""
    value = tf.stack(found) if len(found) > 1 else found[0]
    return tf.reshape(value, [*like.shape[:-2], *value.shape[-2:]])

  def __repr__(self):
    spaces = ', '.join(f'{s.name}: {s.space}' for s in self._layer_spaces)
    return f'DataSpaceSplit({self._network!r}, n={self._distinct.shape[0]}, {{{spaces}}})'


def _like(chol, values):
  """A factor with the leading dimensions of values, which solvers ask for."""
  return tf.broadcast_to(chol, tf.concat([tf.shape(values)[:-2], tf.shape(chol)[-2:]], axis=0))
