"""The split of a Keras model at its linear readout."""

import copy
import math
import numbers
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf
from numpy.typing import ArrayLike

from tfp_reprior import errors
from tfp_reprior.internal import checks, chunks, random
from tfp_reprior.internal import parts as parts_lib
from tfp_reprior.internal.types import Parts, Seed
from tfp_reprior.layers import ntk_layer
from tfp_reprior.models import graphs, stateless

# For plain layers, how many of the last dimensions of a kernel do not count as inputs of a unit.
_NUM_OUTPUT_DIMENSIONS = {
  keras.layers.Dense: 1,
  keras.layers.Conv1D: 1,
  keras.layers.Conv2D: 1,
  keras.layers.Conv3D: 1,
  keras.layers.DepthwiseConv1D: 2,
  keras.layers.DepthwiseConv2D: 2,
}


class ReadoutSplit:
  """A Keras model as features times readout, over a list of parts with prior N(0, 1).

  ```none
  f(x)      = psi(x) @ theta_out                                           [n, k]
  psi(x)    = [readout_weight_std / sqrt(width) * h(x), readout_bias_std]  [n, d]
  theta_out = [kernel; bias]                                               [d, k]
  ```

  with `h` [n, width] everything before the readout, and `d = width + 1` (`width` without bias).

  The state parts are a list in the order of `model.trainable_variables`: the hidden parts, the
  readout kernel `[width, k]` and, if there is one, the readout bias `[k]`. Every part has prior
  N(0, 1). For layers in NTK parametrisation (`tfp_reprior.layers`) a part is the variable. For
  plain Keras layers the prior is that of the standard parametrisation, with variance
  `weight_std**2 / fan_in` for kernels and `bias_std**2` for biases, and a part is the variable
  divided by its prior standard deviation: so the two parametrisations give the same posterior.

  Parts may have leading chain dimensions, the same for all of them.

  Args:
    model: A `keras.Model` with one input, and one output of shape `[n, k]` from a linear `NTKDense`
      or `keras.layers.Dense`: functional, Sequential, or a subclass that calls layers and
      `keras.ops` only; models and layers may hold others. If it was not made from a `keras.Input`,
      it must have been called on data once. It is not changed.
    weight_std: Positive float, for kernels of plain Keras layers before the readout.
    bias_std: Positive float, for their biases.
    readout_weight_std: Positive float, for the kernel of a plain Keras readout.
    readout_bias_std: Positive float, for its bias.

  Raises:
    ValueError: If the model cannot be split, with the reason.

  #### Examples

  ```python
  import numpy as np
  import tfp_reprior as tfr

  split = tfr.models.ReadoutSplit(tfr.models.fcn((8,), num_outputs=2, width=64))
  parts = split.sample_prior(4, seed=1)  # four chains
  x = np.ones([5, 8], np.float32)
  split.apply(parts, x).shape  # ==> [4, 5, 2]
  split.embed(parts[: split.num_hidden], x).shape  # ==> [4, 5, 65]
  ```
  """

  hidden_space = 'weights'  # where layers are asked to be; another one for `DataSpaceSplit`

  def __init__(
    self,
    model: keras.Model,
    weight_std: float = 2**0.5,
    bias_std: float = 0.1,
    readout_weight_std: float = 1.0,
    readout_bias_std: float = 0.1,
  ) -> None:
    model, embedding, readout = graphs.split(model)
    graphs.check_state(model, embedding, readout)
    self.model = model
    self.readout = readout
    self.prior_stds = dict(
      weight_std=weight_std,
      bias_std=bias_std,
      readout_weight_std=readout_weight_std,
      readout_bias_std=readout_bias_std,
    )
    self.chunk_size = None
    self.embedding = stateless.StatelessModel(embedding)
    hidden_std = {
      'kernel': checks.positive('weight_std', weight_std),
      'bias': checks.positive('bias_std', bias_std),
    }
    readout_std = {
      'kernel': checks.positive('readout_weight_std', readout_weight_std),
      'bias': checks.positive('readout_bias_std', readout_bias_std),
    }
    self._owners = owners = graphs.owners(model)
    # What multiplies each part to give the variable: its prior standard deviation.
    self._scales = [
      _prior_std(v, owners[id(v)], readout_std if owners[id(v)] is readout else hidden_std)
      for v in model.trainable_variables
    ]
    self.event_shapes = [tuple(v.shape) for v in model.trainable_variables]
    self.num_hidden = len(self.embedding.variables)
    self.has_bias = readout.bias is not None
    self.num_features = readout.kernel.shape[0] + self.has_bias
    self.num_outputs = readout.kernel.shape[1]
    self.dtype = tf.as_dtype(readout.kernel.dtype)
    # The columns of psi: what multiplies the readout parts in the forward pass.
    self._feature_scales = [
      scale * factor
      for scale, factor in zip(
        self._scales[self.num_hidden :],
        [readout.kernel_scale, readout.bias_std]
        if isinstance(readout, ntk_layer.NTKLayer)
        else [1.0, 1.0],
        strict=False,
      )
    ]

  @property
  def event_ndims(self) -> list[int]:
    """List of the ranks of the parts, without chain dimensions."""
    return [len(shape) for shape in self.event_shapes]

  @property
  def num_parameters(self) -> int:
    """The number of weights in all parts."""
    return sum(math.prod(shape) for shape in self.event_shapes)

  def hidden_owners(self) -> list[tuple[keras.layers.Layer, list[int]]]:
    """List of each layer with hidden parts, and the list of their indices."""
    groups: dict[int, tuple[Any, list[int]]] = {}
    for i, variable in enumerate(self.model.trainable_variables[: len(self.embedding.variables)]):
      layer = self._owners[id(variable)]
      groups.setdefault(id(layer), (layer, []))[1].append(i)
    return list(groups.values())

  def layer_scales(self, layer: keras.layers.Layer) -> tuple[float, float]:
    """What multiplies the kernel part and the bias part of a dense layer; 0 without bias."""
    pairs = zip(self.model.trainable_variables, self._scales, strict=True)
    scales = {id(variable): scale for variable, scale in pairs}
    is_ntk = isinstance(layer, ntk_layer.NTKLayer)
    kernel = scales[id(layer.kernel)] * (layer.kernel_scale if is_ntk else 1.0)
    if layer.bias is None:
      return kernel, 0.0
    return kernel, scales[id(layer.bias)] * (layer.bias_std if is_ntk else 1.0)

  def in_chunks(self, chunk_size: int | None) -> 'ReadoutSplit':
    """The same split with bounded memory, for networks with large activations.

    Inputs go through the network `chunk_size` at a time, and once more for a gradient, which keeps
    features `[*chains, n, d]` and nothing else of the network. The results are the same up to
    rounding.

    Args:
      chunk_size: Positive integer, or None for all inputs at once.

    Returns:
      A `ReadoutSplit` of the same model.
    """
    split = copy.copy(self)
    if chunk_size is not None:
      chunk_size = checks.positive_integer('chunk_size', chunk_size)
    split.chunk_size = chunk_size
    return split

  def embed(self, hidden_parts: Parts, x: ArrayLike) -> tf.Tensor:
    """The readout features.

    Args:
      hidden_parts: List of `num_hidden` tensors `[*chains, *event_shape]`.
      x: Inputs `[n, ...]`.

    Returns:
      psi: `[*chains, n, d]`.
    """
    hidden_parts = self.check_parts(hidden_parts, hidden=True)
    values = multiply(self._scales[: self.num_hidden], hidden_parts)
    return self.to_features(chunks.apply(self.embedding, values, x, self.chunk_size))

  def to_features(self, h: tf.Tensor) -> tf.Tensor:
    """The features psi `[*chains, n, d]` of what goes into the readout, h `[*chains, n, width]`."""
    psi = self._feature_scales[0] * h
    if self.has_bias:
      column = tf.fill(tf.shape(psi[..., :1]), tf.constant(self._feature_scales[1], psi.dtype))
      psi = tf.concat([psi, column], axis=-1)
    return psi

  def scale_features(self, hidden_parts: Parts, psi: tf.Tensor) -> tf.Tensor:
    """Features times the scale of the outputs, which is one unless a posterior has another."""
    del hidden_parts
    return psi

  def apply(self, parts: Parts, x: ArrayLike) -> tf.Tensor:
    """The outputs of the network.

    Args:
      parts: List of tensors `[*chains, *event_shape]`.
      x: Inputs `[n, ...]`.

    Returns:
      f: `[*chains, n, k]`.
    """
    parts = self.check_parts(parts)
    psi = self.embed(parts[: self.num_hidden], x)
    return tf.matmul(psi, parts_lib.stack_readout(parts[self.num_hidden :]))

  @property
  def network(self) -> 'ReadoutSplit':
    """The split whose parts are the weights of the network: this one, unless it has others."""
    return self

  @property
  def layer_spaces(self) -> list[Any]:
    """List of where layers are, for splits that have them elsewhere than in weights; else empty."""
    return []

  @property
  def names_in_data_space(self) -> list[str]:
    """List of the names of layers that are in data space."""
    return [s.name for s in self.layer_spaces if s.space == 'data']

  def embed_new(self, hidden_parts: Parts, x: ArrayLike, seed: Seed = None) -> tf.Tensor:
    """As `embed`, for inputs that a split may not have been made for; drawn with a seed then."""
    del seed  # weights say it all
    return self.embed(hidden_parts, x)

  def apply_new(self, parts: Parts, x: ArrayLike, seed: Seed = None) -> tf.Tensor:
    """The outputs of the network, by `embed_new`: `[*chains, n, k]`."""
    psi = self.embed_new(list(parts[: self.num_hidden]), x, seed)
    return tf.matmul(psi, parts_lib.stack_readout(parts[self.num_hidden :]))

  def to_weights(self, parts: Parts, seed: Seed = None) -> list[tf.Tensor]:
    """The parts of `network` for parts of this split; what these leave open is drawn."""
    del seed
    return list(parts)

  def from_weights(self, parts: Parts) -> list[tf.Tensor]:
    """The parts of this split for parts of `network`."""
    return list(parts)

  def sample_prior(
    self, sample_shape: int | Sequence[int] = (), seed: Seed = None
  ) -> list[tf.Tensor]:
    """Draws parts from N(0, 1).

    Args:
      sample_shape: Integer or tuple, the chain dimensions.
      seed: A seed of TFP (see `tfp.random.sanitize_seed`).

    Returns:
      List of tensors `[*sample_shape, *event_shape]`.
    """
    if isinstance(sample_shape, (int, numbers.Integral)):
      sample_shape = (sample_shape,)
    chains = tuple(sample_shape)
    return random.normal_parts([chains + s for s in self.event_shapes], self.dtype, seed)

  def assign(self, parts: Parts) -> None:
    """Writes one draw (parts without chain dimensions) into the variables of the model."""
    parts = self.check_parts(parts)
    for variable, part, shape in zip(
      self.model.trainable_variables, parts, self.event_shapes, strict=True
    ):
      if part.shape != shape:
        raise errors.InputError(
          '`parts` must be one draw, without chain dimensions. Received: a part of shape '
          f'{tuple(part.shape)} for {variable.path} of shape {shape}'
        )
    values = multiply(self._scales, parts)
    with keras.StatelessScope():  # at its end, variables that were made without values get some
      pass
    for variable, value in zip(self.model.trainable_variables, values, strict=True):
      variable.assign(value)

  def current_parts(self) -> list[tf.Tensor]:
    """The parts that the variables of the model hold now: the inverse of `assign`."""
    values = [tf.convert_to_tensor(v.value) for v in self.model.trainable_variables]
    return multiply([1 / s for s in self._scales], values)

  def check_parts(
    self, parts: Parts, hidden: bool = False, name: str | None = None
  ) -> list[tf.Tensor]:
    """Refuses parts of the wrong number, type or shape; returns them as a list of tensors."""
    shapes = self.event_shapes[: self.num_hidden] if hidden else self.event_shapes
    name = name or ('hidden_parts' if hidden else 'parts')
    if not parts_lib.is_list_like(parts) or len(parts) != len(shapes):
      received = f'{len(parts)} parts' if parts_lib.is_list_like(parts) else type(parts).__name__
      raise errors.InputError(
        f'`{name}` must be a list of {len(shapes)} tensors of shapes {shapes}, with optional '
        f'leading chain dimensions. Received: {received}'
      )
    parts = [tf.convert_to_tensor(p) for p in parts]
    for i, (part, shape) in enumerate(zip(parts, shapes, strict=True)):
      if part.dtype != self.dtype:
        raise errors.InputError(
          f'`{name}` must have the dtype of the model, {self.dtype.name}. Received: '
          f'{name}[{i}] of dtype {part.dtype.name}'
        )
      chain_ndims = part.shape.rank - len(shape)
      if chain_ndims < 0 or not part.shape[chain_ndims:].is_compatible_with(shape):
        raise errors.InputError(
          f'`{name}[{i}]` must have shape {shape} after its chain dimensions. Received: '
          f'shape {tuple(part.shape)}'
        )
      if not part.shape[:chain_ndims].is_compatible_with(
        parts[0].shape[: parts[0].shape.rank - len(shapes[0])]
      ):
        raise errors.InputError(
          f'`{name}` must have the same chain dimensions. Received: shapes '
          f'{[tuple(p.shape) for p in parts]} for events of shapes {shapes}'
        )
    return parts

  def __repr__(self):
    return (
      f'ReadoutSplit(model={self.model.name!r}, num_features={self.num_features}, '
      f'num_outputs={self.num_outputs}, num_parameters={self.num_parameters}, '
      f'dtype={self.dtype.name})'
    )


def multiply(scales, values):
  """Values times their scales, a list."""
  return [v if s == 1.0 else s * v for s, v in zip(scales, values, strict=True)]


def _prior_std(variable, layer, plain_std):
  """The prior standard deviation of a Keras variable."""
  if isinstance(layer, ntk_layer.NTKLayer):
    return 1.0
  for kind, num_output_dimensions in _NUM_OUTPUT_DIMENSIONS.items():
    if isinstance(layer, kind) and variable is layer.kernel:
      return plain_std['kernel'] / math.sqrt(math.prod(variable.shape[:-num_output_dimensions]))
    if isinstance(layer, kind) and variable is layer.bias:
      return plain_std['bias']
  raise errors.InputError(
    'The prior is known for weights of layers in NTK parametrisation (subclasses of `NTKLayer`), '
    'Dense, convolutional and depthwise convolutional layers. Received: '
    f'{variable.path} of shape {variable.shape} in a layer of type {type(layer).__name__}'
  )
