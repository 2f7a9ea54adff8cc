"""The fully connected layers of a network, and the network with other products in them."""

import contextlib
import copy
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tfp_reprior import errors
from tfp_reprior.internal import checks
from tfp_reprior.internal import parts as parts_lib
from tfp_reprior.internal.types import Parts
from tfp_reprior.layers import data_space_dense, ntk_dense
from tfp_reprior.models import data_space_layers, extended_split, readout_split, stateless

_KINDS = (keras.layers.Dense, ntk_dense.NTKDense, data_space_dense.DataSpaceDense)


class DenseLayer(NamedTuple):
  """A fully connected layer `z = psi @ theta`, with scaled inputs psi and stacked parts theta.

  Attributes:
    layer: The Keras layer.
    indices: List of its hidden parts: kernel and, if there is one, bias; stacked they are theta.
    scales: What multiplies inputs, and the constant column for the bias (0 without).
    constant_psi: psi `[n, d]` in float64, if it does not depend on weights; else None.
    eigenvalues: Those of `psi @ psi.T` at a draw of the prior, `[min(n, d)]`.
  """

  layer: Any
  indices: list[int]
  scales: tuple[float, float]
  constant_psi: np.ndarray | None = None
  eigenvalues: np.ndarray | None = None

  @property
  def name(self) -> str:
    """Of the layer."""
    return self.layer.name

  def features(self, inputs):
    """psi `[..., n, d]` of the inputs of the layer."""
    if self.constant_psi is not None:
      return tf.constant(self.constant_psi, self.layer.compute_dtype)
    scale, bias_scale = self.scales
    psi = scale * inputs
    if len(self.indices) > 1:
      column = tf.fill(tf.shape(psi[..., :1]), tf.constant(bias_scale, psi.dtype))
      psi = tf.concat([psi, column], axis=-1)
    return psi


class DenseLayers:
  """The fully connected layers of a split that act once, on one vector for each input.

  They are found by trying. Layers in data space are among them if their inputs are constant: then
  their psi is the factor L `[n, n]`, and theta their part u. Other layers are left alone.

  Args:
    split: A `ReadoutSplit`, not changed.
    x: The training inputs `[n, ...]`.

  Attributes:
    layers: List of `DenseLayer`, in the order in which they act.
  """

  def __init__(self, split: readout_split.ReadoutSplit, x: tf.Tensor) -> None:
    data_space_layers.check_no_chunks(split.chunk_size)
    inner = split.inner if isinstance(split, extended_split.ExtendedSplit) else split
    self._x = x
    self._split = copy.copy(inner)
    # With products of ours, layers may take chains that they would not take otherwise.
    self._split.embedding = stateless.StatelessModel(inner.embedding.model)
    self._split.embedding.example = inner.embedding.example
    self.layers: list[DenseLayer] = []
    with tf.init_scope():
      self.layers = self._find(inner)
      with self._intercepted(self.layers, self._plain_product):
        self._accepts_chains = bool(inner.num_hidden) and self._split.embedding.accepts_chains

  def evaluate(
    self,
    hidden_parts: Parts,
    product_fn: Callable[..., tuple[tf.Tensor, list[tf.Tensor]]],
    constants: Sequence[Sequence[tf.Tensor]],
  ) -> tuple[tf.Tensor, list[list[tf.Tensor]]]:
    """The readout features, with the products of the layers by a function.

    Args:
      hidden_parts: List of tensors `[*chains, *event_shape]`.
      product_fn: Function of the number of a layer, its psi, its theta and its constants; returns
        z, and a list of tensors. All have the same leading dimensions: none, or one for chains.
      constants: For each layer a list of tensors `[*chains, ...]`, or without chain dimensions, of
        rank two then.

    Returns:
      psi: Readout features of the training inputs, `[*chains, n, d]`.
      found: What `product_fn` returned besides z, for each layer: tensors `[*chains, ...]`.
    """
    hidden = list(hidden_parts[: self._split.num_hidden])
    chain_ndims = hidden[0].shape.rank - self._split.event_ndims[0] if hidden else 0
    if chain_ndims == 0:
      return self._run(hidden, product_fn, constants)
    chains = hidden[0].shape[:chain_ndims]
    flat = [_flatten(p, chain_ndims) for p in hidden]
    num_chains = tf.shape(flat[0])[:1]
    flat_constants = [
      [
        _flatten(t, chain_ndims)
        if t.shape.rank > 2
        else tf.broadcast_to(t, tf.concat([num_chains, t.shape], axis=0))
        for t in some
      ]
      for some in constants
    ]
    if self._accepts_chains:
      psi, found = self._run(flat, product_fn, flat_constants)
    else:
      runs = []
      for c in range(chains.num_elements()):
        own = [[t[c] for t in some] for some in flat_constants]
        runs.append(self._run([p[c] for p in flat], product_fn, own))
      psi, found = tf.nest.map_structure(lambda *values: tf.stack(values), *runs)
    if chain_ndims == 1:
      return psi, found
    return tf.nest.map_structure(lambda t: tf.reshape(t, [*chains, *t.shape[1:]]), (psi, found))

  def _run(self, hidden, product_fn, constants):
    found = [None] * len(self.layers)

    def multiply(i, inputs):
      layer = self.layers[i]
      theta = parts_lib.stack_readout([hidden[j] for j in layer.indices])
      z, found[i] = product_fn(i, layer.features(inputs), theta, constants[i])
      return z

    with self._intercepted(self.layers, multiply):
      psi = self._split.embed(hidden, self._x)
    return psi, found

  def _plain_product(self, i, inputs):
    """The product of a layer with the values that its variables have."""
    layer = self.layers[i].layer
    kernel = layer.kernel.value
    if isinstance(layer, data_space_dense.DataSpaceDense):
      return layer.multiply(layer.features(inputs), kernel)
    scales = [layer.kernel_scale, layer.bias_std] if hasattr(layer, 'kernel_scale') else [1.0, 1.0]
    z = scales[0] * tf.matmul(inputs, kernel)
    return z if layer.bias is None else z + scales[1] * layer.bias.value[..., tf.newaxis, :]

  def _find(self, inner):
    """The layers, by two passes of the network with draws of the prior."""
    rows = checks.static_value(self._x)
    if rows is None:
      raise errors.InputError(f'`x` must be known when the graph is made. Received: x={self._x}')
    candidates = [
      DenseLayer(layer, indices, _scales(inner, layer))
      for layer, indices in inner.hidden_owners()
      if type(layer) in _KINDS and len(indices) == len(layer.trainable_variables)
    ]
    seen: list[list[Any]] = [[] for _ in candidates]
    order: list[int] = []

    def record(i, inputs):
      layer = candidates[i]
      psi = layer.features(inputs)
      if getattr(layer.layer, 'constant_chol', None) is not None:
        psi = tf.constant(layer.layer.constant_chol, psi.dtype)
      order.append(i)
      seen[i].append(psi.numpy())
      return self._plain_product(i, inputs)

    self.layers = candidates
    with self._intercepted(candidates, record):
      for seed in ([0, 1], [0, 2]):
        inner.embed(inner.sample_prior(seed=seed)[: inner.num_hidden], tf.constant(rows))
    found = []
    for i in dict.fromkeys(order):
      layer, calls = candidates[i], seen[i]
      if len(calls) != 2 or calls[0].ndim != 2:
        continue
      is_constant = np.array_equal(*calls)
      if isinstance(layer.layer, data_space_dense.DataSpaceDense):
        if layer.layer.constant_chol is None:
          continue  # what data do not see of it is left out already
        psi = layer.layer.constant_chol
      else:
        psi = calls[0].astype(np.float64)
      found.append(
        layer._replace(
          constant_psi=psi if is_constant else None, eigenvalues=_eigenvalues(calls[0])
        )
      )
    return found

  @contextlib.contextmanager
  def _intercepted(self, layers, product_fn):
    """A context in which layers get z by a function of their number and inputs."""
    with contextlib.ExitStack() as stack:
      for i, layer in enumerate(layers):

        def call(inputs, *args, i=i, activation=layer.layer.activation, **kwargs):
          del args, kwargs
          return activation(product_fn(i, inputs))

        layer.layer.call = call
        stack.callback(delattr, layer.layer, 'call')
      yield


def _flatten(part, chain_ndims):
  """`[*chains, ...]` as `[c, ...]`."""
  return part if chain_ndims == 1 else tf.reshape(part, [-1, *part.shape[chain_ndims:]])


def _eigenvalues(psi):
  """Of the smaller one of `psi @ psi.T` and `psi.T @ psi`."""
  psi = psi.astype(np.float64)
  n, d = psi.shape
  return np.linalg.eigvalsh(psi @ psi.T if n < d else psi.T @ psi)


def _scales(split, layer):
  if isinstance(layer, data_space_dense.DataSpaceDense):
    return layer.feature_scale, layer.bias_scale
  return split.layer_scales(layer)
