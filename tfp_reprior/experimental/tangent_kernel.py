"""The empirical neural tangent kernel, in three ways."""

import keras
import tensorflow as tf
from numpy.typing import ArrayLike

from tfp_reprior import errors
from tfp_reprior.densities import posterior as posterior_lib
from tfp_reprior.experimental import linearization
from tfp_reprior.internal import checks
from tfp_reprior.internal import parts as parts_lib
from tfp_reprior.internal.types import Parts
from tfp_reprior.layers import ntk_dense
from tfp_reprior.models import readout_split, stateless

METHODS = ('auto', 'structured', 'products', 'jacobian')


def empirical_ntk(
  model: posterior_lib.Posterior | readout_split.ReadoutSplit,
  parts: Parts,
  x: ArrayLike,
  method: str = 'auto',
  chunk_size: int | None = None,
) -> tf.Tensor:
  """The neural tangent kernel `J @ J.T` of a network at given weights.

  J `[n k, p]` is the Jacobian of the outputs `f(x)`, in the order of `reshape(f, [n k])`, with
  respect to all p weights. With P the cost of the network for one input, and w its width:

  ```none
  'structured'  sum over dense layers of (features @ features.T) * (cotangents @ cotangents.T)
                                                                     n k P + n^2 (k^2 w + P / w)
  'products'    J @ (J.T @ e) for each unit vector e                 n^2 k P
  'jacobian'    J, then its product with itself                      n^2 k^2 P
  ```

  `'structured'` needs every weight before the readout to be in an `NTKDense` that is used once, on
  vectors, and all chains to go through the network at once (`tfp_reprior.models.fcn` is so).
  `'auto'` takes it where it can, else `'jacobian'`: `'products'` take fewer operations, but more
  time for convolutions, of which each has a kernel of its own. All are exact and have gradients.

  Args:
    model: A `tfp_reprior.Posterior` or a `tfp_reprior.models.ReadoutSplit`.
    parts: List of tensors `[*chains, *event_shape]`.
    x: Inputs `[n, ...]`.
    method: `'auto'`, `'structured'`, `'products'` or `'jacobian'`.
    chunk_size: Positive integer, the number of inputs whose Jacobian is held at once (twice), or
      None for all. It bounds the memory of the kernel, not that of its gradient.

  Returns:
    `[*chains, n k, n k]`.

  Raises:
    ValueError: If the method is `'structured'` and the network is not.

  #### Examples

  ```python
  import numpy as np
  import tfp_reprior as tfr

  split = tfr.models.ReadoutSplit(tfr.models.fcn((8,), num_outputs=2, width=64))
  parts = split.sample_prior(4, seed=1)  # four chains
  tfr.experimental.empirical_ntk(split, parts, np.ones([5, 8], np.float32)).shape  # ==> [4, 10, 10]
  ```

  #### References

  R. Novak, J. Sohl-Dickstein and S. Schoenholz. Fast finite width neural tangent kernel. ICML 2022.
  """
  split = model.split if isinstance(model, posterior_lib.Posterior) else model
  return TangentKernel(split, method, chunk_size)(parts, tf.convert_to_tensor(x))


class TangentKernel:
  """`empirical_ntk` as a function of parts and inputs, for repeated use.

  Args:
    split: A `tfp_reprior.models.ReadoutSplit`.
    method: As for `empirical_ntk`.
    chunk_size: As for `empirical_ntk`.
  """

  def __init__(self, split, method='auto', chunk_size=None):
    checks.one_of('method', method, METHODS)
    self._chunk_size = chunk_size
    if chunk_size is not None:
      checks.positive_integer('chunk_size', chunk_size)
    # What goes through the network in chunks has first derivatives only.
    split = self._split = split.in_chunks(None)
    layers = dense_layers(split) if method in ('auto', 'structured') else None
    if method == 'structured' and layers is None:
      raise errors.InputError(
        "`method='structured'` needs every weight before the readout to be in an `NTKDense` that "
        f'is used once, on vectors. Received: model {split.model.name!r}'
      )
    if layers is not None:
      self.method, self._block_fn = 'structured', _StructuredBlocks(split, layers)
    else:
      self.method = 'jacobian' if method == 'auto' else method
      blocks = {'products': _products_block, 'jacobian': _jacobian_block}
      self._block_fn = lambda *args: blocks[self.method](split, *args)

  def __call__(self, parts, x):
    """`[*chains, n k, n k]` at parts `[*chains, *event_shape]` and inputs `[n, ...]`."""
    parts = self._split.check_parts(parts)
    n, size = x.shape[0], self._chunk_size
    if size is None or size >= n:
      return self._block_fn(parts, x, x)
    # Whole chunks, filled up with copies of the last input, which are cut off in the end.
    num_chunks = -(-n // size)
    rows = tf.gather(x, tf.minimum(tf.range(num_chunks * size), n - 1))
    chunks = tf.reshape(rows, [num_chunks, size, *x.shape[1:]])

    def each_chunk(function):
      # One at a time: iterations that run ahead would keep their Jacobians.
      dtype = self._split.dtype
      return tf.map_fn(function, chunks, parallel_iterations=1, fn_output_signature=dtype)

    blocks = each_chunk(lambda a: each_chunk(lambda b: self._block_fn(parts, a, b)))
    ndims = blocks.shape.rank  # [row chunk, column chunk, *chains, size k, size k]
    order = [*range(2, ndims - 2), 0, ndims - 2, 1, ndims - 1]
    chains = tf.shape(blocks)[2 : ndims - 2]
    k = self._split.num_outputs
    whole = tf.reshape(
      tf.transpose(blocks, order), tf.concat([chains, 2 * [num_chunks * size * k]], axis=0)
    )
    return whole[..., : n * k, : n * k]


def flat_outputs(split, x):
  """The function of parts that returns `f(x)` as `[*chains, n k]`."""

  def function(parts):
    f = split.apply(parts, x)  # [*chains, n, k]
    return tf.reshape(f, tf.concat([tf.shape(f)[:-2], [x.shape[0] * split.num_outputs]], axis=0))

  return function


def _rows(split, parts, x):
  """The Jacobian, by one network evaluation for each input: list of `[n k, *chains, *event]`."""

  def input_rows(one):  # as many rows as there are outputs
    with tf.GradientTape(persistent=True) as tape:
      tape.watch(parts)
      f = split.apply(parts, one[tf.newaxis])
    rows = [
      tape.gradient(f, parts, tf.ones_like(f) * unit, tf.UnconnectedGradients.ZERO)
      for unit in tf.unstack(tf.eye(split.num_outputs, dtype=f.dtype))
    ]
    return [tf.stack(part_rows) for part_rows in zip(*rows, strict=True)]

  # A loop: what `tf.vectorized_map` makes of convolutions is one, too, and slower.
  rows = tf.map_fn(input_rows, x, fn_output_signature=[split.dtype] * len(parts))
  return [tf.reshape(r, tf.concat([[-1], tf.shape(r)[2:]], axis=0)) for r in rows]


def _jacobian_block(split, parts, x1, x2):
  rows1 = linearization.flatten(_rows(split, parts, x1), split.event_ndims)  # [n1 k, *chains, p]
  rows2 = linearization.flatten(_rows(split, parts, x2), split.event_ndims)
  return tf.einsum('i...p,j...p->...ij', rows1, rows2)


def _products_block(split, parts, x1, x2):
  function = flat_outputs(split, x2)
  columns = tf.map_fn(
    lambda row: linearization.push_forward(function, parts, row),
    _rows(split, parts, x1),
    fn_output_signature=split.dtype,
  )  # [n1 k, *chains, n2 k]
  ndims = columns.shape.rank
  return tf.transpose(columns, [*range(1, ndims - 1), 0, ndims - 1])


def dense_layers(split):
  """The layers before the readout that have weights, if `'structured'` applies, else None."""
  embedding = split.embedding.model
  layers = [layer for layer in embedding.layers if layer.weights]
  # How often a layer is called is private to Keras; its public `input` raises if more than once.
  is_dense = all(
    isinstance(layer, ntk_dense.NTKDense)
    and len(layer._inbound_nodes) == 1
    and len(layer.input.shape) == 2
    for layer in layers
  )
  return layers if layers and is_dense and split.embedding.accepts_chains else None


class _StructuredBlocks:
  """Blocks of the kernel, layer by layer.

  The gradient of output a of input i for the weights of a dense layer, kernel and bias, is an outer
  product: of the features that they multiply, and of the cotangent of what the activation is
  applied to. So

  ```none
  K[ia, jb] = sum over layers of (features[i] . features[j]) * (cotangents[ia] . cotangents[jb])
  ```
  """

  def __init__(self, split, layers):
    self._split = split
    self._layers = layers
    embedding = split.embedding.model
    tensors = [t for layer in layers for t in (layer.input, layer.output)]
    self._model = stateless.StatelessModel(
      keras.Model(embedding.inputs, [*tensors, embedding.outputs[0]])
    )

  def __call__(self, parts, x1, x2):
    ndims = self._split.event_ndims
    chain_ndims = parts[0].shape.rank - ndims[0]
    chains = tf.shape(parts[0])[:chain_ndims]
    if chain_ndims > 1:  # one chain dimension, or none
      parts = [
        tf.reshape(p, tf.concat([[-1], tf.shape(p)[p.shape.rank - r :]], axis=0))
        for p, r in zip(parts, ndims, strict=True)
      ]
    first = self._features_and_cotangents(parts, x1)
    second = first if x2 is x1 else self._features_and_cotangents(parts, x2)
    total = 0.0
    for (features1, cotangents1), (features2, cotangents2) in zip(first, second, strict=True):
      features = tf.matmul(features1, features2, transpose_b=True)  # [c, n1, n2]
      cotangents = tf.einsum('a...iw,b...jw->...iajb', cotangents1, cotangents2)
      total += features[..., :, tf.newaxis, :, tf.newaxis] * cotangents
    sizes = [x.shape[0] * self._split.num_outputs for x in (x1, x2)]
    return tf.reshape(total, tf.concat([chains, sizes], axis=0))

  def _features_and_cotangents(self, parts, x):
    """For each layer, features `[c, n, d]` and cotangents `[k, c, n, w]`, the readout last."""
    split = self._split
    values = {id(v): p for v, p in zip(split.embedding.variables, parts, strict=False)}
    with tf.GradientTape(persistent=True) as tape:
      tape.watch(parts)
      *tensors, h = self._model.call_at_once([values[id(v)] for v in self._model.variables], x)
      psi = split.to_features(h)
    inputs, outputs = tensors[0::2], tensors[1::2]
    readout = parts_lib.stack_readout(parts[split.num_hidden :])  # [c, d, k]
    columns = tf.transpose(readout, [readout.shape.rank - 1, *range(readout.shape.rank - 1)])

    def back_propagate(column):
      """The cotangents of all activations for one output, with its column `[c, d]`."""
      cotangents = tf.broadcast_to(column[..., tf.newaxis, :], tf.shape(psi))
      return tape.gradient(psi, outputs, cotangents)

    result = []
    for layer, h, cotangents in zip(
      self._layers, inputs, tf.vectorized_map(back_propagate, columns), strict=True
    ):
      features, z = _affine(layer, h, [values[id(v)] for v in layer.trainable_variables])
      result.append((features, _through_activation(layer.activation, z, cotangents)))
    units = tf.eye(split.num_outputs, dtype=psi.dtype)  # the cotangents of the outputs
    units = tf.reshape(units, [units.shape[0], *[1] * (psi.shape.rank - 1), units.shape[0]])
    ones = tf.ones([*[1] * (psi.shape.rank - 1), x.shape[0], 1], psi.dtype)
    return [*result, (psi, units * ones)]


def _affine(layer, h, layer_parts):
  """The features `[c, n, d]` that the weights of a dense layer multiply, and their product z."""
  features = layer.kernel_scale * h
  if layer.bias is not None:
    column = tf.fill(tf.shape(h[..., :1]), tf.constant(layer.bias_std, h.dtype))
    features = tf.concat([features, column], axis=-1)
  return features, tf.matmul(features, parts_lib.stack_readout(layer_parts))


def _through_activation(activation, z, cotangents):
  """The cotangents `[k, c, n, w]` of z, from those of `activation(z)`."""
  z = tf.broadcast_to(z, tf.shape(cotangents))
  with tf.GradientTape() as tape:
    tape.watch(z)
    outputs = activation(z)
  return tape.gradient(outputs, z, cotangents)
