"""Calls a Keras model with given weights, for one chain or for many."""

import functools

import keras
import numpy as np
import tensorflow as tf

from tfp_reprior.internal import random

# Up to this many chains get a copy of the network each in the graph.
_MAX_COPIES = 4


class StatelessModel:
  """A Keras model as a function of its trainable variables.

  With chain dimensions, all chains go through the model at once if its layers allow (NTKDense
  does, and elementwise layers do), else each chain by itself. Which of the two is found out by
  trying: no list of layers would be complete.

  Args:
    model: A `keras.Model` without non-trainable variables.

  Attributes:
    example: Inputs to try with, for a model that does not take any; by default random ones.
  """

  def __init__(self, model):
    self.model = model
    self.example = None
    self.variables = list(model.trainable_variables)

  def __call__(self, values, x):
    """Evaluates the model.

    Args:
      values: List of tensors `[*chains, *variable.shape]` in the order of `variables`.
      x: Inputs `[n, ...]`.

    Returns:
      The outputs `[*chains, n, ...]`.
    """
    chain_ndims = values[0].shape.rank - len(self.variables[0].shape) if values else 0
    if chain_ndims == 0:
      return self.call_at_once(values, x)
    if chain_ndims == 1:
      return self._call_chains(values, x)
    chain_shape = tf.shape(values[0])[:chain_ndims]
    static_chain_shape = values[0].shape[:chain_ndims]
    flat = [tf.reshape(v, tf.concat([[-1], tf.shape(v)[chain_ndims:]], 0)) for v in values]
    for v, variable in zip(flat, self.variables, strict=True):
      v.set_shape([static_chain_shape.num_elements(), *variable.shape])
    outputs = self._call_chains(flat, x)
    reshaped = tf.reshape(outputs, tf.concat([chain_shape, tf.shape(outputs)[1:]], 0))
    reshaped.set_shape(static_chain_shape.concatenate(outputs.shape[1:]))
    return reshaped

  def _call_chains(self, values, x):
    return self.call_at_once(values, x) if self.accepts_chains else self._map(values, x)

  def call_at_once(self, values, x):
    """Calls the model as it is, with values `[*variable.shape]` or, if it accepts them, chains."""
    # Variables of models that were made without values stay so: nothing here looks at them.
    scope = keras.StatelessScope(initialize_variables=False)
    for variable, value in zip(self.variables, values, strict=True):
      # Not through `state_mapping`, which refuses a value with chain dimensions.
      scope.add_update((variable, value))
    with scope:
      return self.model(x)

  def _map(self, values, x):
    if values[0].shape[0] in range(1, _MAX_COPIES + 1):
      # A loop takes longer to trace, and longer to run in the loop over chunks of data.
      chains = zip(*(tf.unstack(v) for v in values), strict=True)
      return tf.stack([self.call_at_once(chain, x) for chain in chains])
    return tf.map_fn(
      lambda chain: self.call_at_once(chain, x),
      values,
      fn_output_signature=values[0].dtype,
    )

  @functools.cached_property
  def accepts_chains(self):
    """Whether the layers take weights with a leading chain dimension, and give the same."""
    # Different numbers, so that one is never taken for the other.
    num_data = 3 if self.example is None else self.example.shape[0]
    num_chains = 2 if num_data != 2 else 3
    with tf.init_scope():
      dtype = self.variables[0].dtype
      shapes = [(num_chains, *v.shape) for v in self.variables]
      values = random.normal_parts(shapes, dtype, seed=[0, 1])
      x = self.example
      if x is None:
        x_shape = [num_data, *(2 if s is None else s for s in self.model.input_shape[1:])]
        x = tf.random.stateless_uniform(x_shape, seed=[0, 2], dtype=tf.float32)
        x = tf.cast(x, self.model.inputs[0].dtype)
      expected = np.stack([self.call_at_once([v[c] for v in values], x) for c in range(num_chains)])
      try:
        actual = np.asarray(self.call_at_once(values, x))
      except (ValueError, TypeError, tf.errors.OpError):
        return False
    tolerance = 1e-4 * np.max(np.abs(expected))
    return actual.shape == expected.shape and np.allclose(actual, expected, atol=tolerance)
