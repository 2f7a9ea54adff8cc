"""Which fully connected layers can be in data space, and a model with them there."""

from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tfp_reprior import errors
from tfp_reprior.layers import data_space_dense, ntk_dense
from tfp_reprior.models import graphs

HIDDEN_SPACES = ('auto', 'weights', 'data')

# The largest n / d that `'auto'` takes: beyond it kernels are ill-conditioned, and little is saved.
_MOST_ROWS = 0.5


class LayerSpace(NamedTuple):
  """Where a fully connected layer is.

  Attributes:
    name: Of the layer.
    space: `'data'` or `'weights'`.
    num_rows: The number of distinct inputs.
    fan_in: The number of weights of a unit, its bias counted.
    reason: Why it keeps its weights; empty in data space.
  """

  name: str
  space: str
  num_rows: int
  fan_in: int
  reason: str = ''


class NoCloneError(Exception):
  """A layer that Keras cannot make again."""


def choose(split, num_rows, hidden_space):
  """The `LayerSpace` of every fully connected layer before the readout, by its size."""
  spaces = []
  all_layers = list(graphs.layers(split.embedding.model))
  names = [layer.name for layer in all_layers]
  for layer in all_layers:
    if type(layer) not in (keras.layers.Dense, ntk_dense.NTKDense):
      continue
    fan_in = layer.kernel.shape[0] + (layer.bias is not None)
    reason = ''
    if hidden_space == 'weights':
      reason = 'asked for'
    elif names.count(layer.name) > 1:  # in models inside of this one
      reason = 'another layer has its name'
    elif num_rows >= fan_in:
      reason = 'it has no more weights a unit than there are distinct inputs'
    elif hidden_space == 'auto' and num_rows > _MOST_ROWS * fan_in:
      reason = 'it has less than twice as many weights a unit as there are distinct inputs'
    spaces.append(LayerSpace(layer.name, 'weights' if reason else 'data', num_rows, fan_in, reason))
  return spaces


def clone_model(split, names, num_rows):
  """The model with some of its layers in data space."""

  def clone(layer):
    if layer.name not in names:
      try:
        return layer.__class__.from_config(layer.get_config())
      except (NotImplementedError, TypeError, ValueError) as e:
        raise NoCloneError(f'layer {layer.name!r} cannot be made from its configuration') from e
    return data_space_dense.DataSpaceDense(
      layer.units,
      num_rows,
      *split.layer_scales(layer),
      activation=layer.activation,
      dtype=layer.dtype_policy,
      name=layer.name,
    )

  embedding, readout = split.embedding.model, split.readout
  expected = embedding.inputs[0]
  inputs = keras.Input(batch_shape=(num_rows, *expected.shape[1:]), dtype=expected.dtype)
  h = keras.models.clone_model(
    embedding, input_tensors=inputs, clone_function=clone, recursive=True
  )
  outputs = readout.__class__.from_config(readout.get_config())(h.outputs[0])
  return keras.Model(h.inputs[0], outputs, name=split.model.name)


def pair(split, own):
  """Which hidden parts of two splits belong together.

  Returns:
    List of the indices of parts of `own`, those of `split`, and the layer in data space, or None.
  """
  pairs = []
  for mine, other in zip(own.hidden_owners(), split.hidden_owners(), strict=True):
    (layer, indices), (_, others) = mine, other
    is_in_data_space = isinstance(layer, data_space_dense.DataSpaceDense)
    pairs.append((indices, others, layer if is_in_data_space else None))
  return pairs


def distinct_rows(x):
  """The distinct rows of x, in the order of first appearance, and which of them each row is."""
  rows = np.ascontiguousarray(x).reshape([len(x), -1])
  _, first, inverse = np.unique(rows, axis=0, return_index=True, return_inverse=True)
  order = np.argsort(first)
  index = None if len(first) == len(rows) else np.argsort(order)[inverse.ravel()]
  with tf.init_scope():  # not in a graph, which other graphs cannot see
    return tf.constant(x[first[order]]), index


def check_no_chunks(chunk_size):
  if chunk_size is not None:
    raise errors.InputError(
      'Data space needs all inputs at once: leave `chunk_size` out. Received: '
      f'chunk_size={chunk_size}'
    )
