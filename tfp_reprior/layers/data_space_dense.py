"""A fully connected layer by what it does to given inputs."""

import contextlib

import tensorflow as tf

from tfp_reprior.internal import checks, linalg
from tfp_reprior.layers import ntk_layer


class DataSpaceDense(ntk_layer.NTKLayer):
  """A fully connected layer with as many weights for each unit as there are inputs to it.

  A layer with scaled inputs psi `[n, d]` (a constant column for the bias among them) and weights
  Theta `[d, units]` of prior N(0, 1) acts on these inputs by `z = psi @ Theta` alone. With

  ```none
  L @ L.T = psi @ psi.T        z = L @ u        u ~ N(0, 1) [n, units]
  ```

  z has the same distribution, and u takes the place of Theta. For n below d these are fewer
  numbers, and what they leave out of Theta the n inputs cannot see. `models.DataSpaceSplit` makes
  such layers, and goes back to Theta.

  Args:
    units: Positive integer, the number of outputs.
    num_rows: Positive integer n.
    feature_scale: Positive float, what multiplies inputs.
    bias_scale: Float, the constant column of psi; 0 for no bias.
    activation: As of `NTKDense`.
    **kwargs: Passed to `keras.layers.Layer`.

  Attributes:
    constant_chol: The factor L `[n, n]` as an array, if inputs do not depend on weights; else None.
    transform: Function of the layer, psi and u, which returns z for these or other rows; by default
      `DataSpaceDense.multiply`.
  """

  def __init__(self, units, num_rows, feature_scale, bias_scale, activation=None, **kwargs):
    super().__init__(activation=activation, **kwargs)
    self.units = checks.positive_integer('units', units)
    self.num_rows = checks.positive_integer('num_rows', num_rows)
    self.feature_scale = float(feature_scale)
    self.bias_scale = float(bias_scale)
    self.constant_chol = None
    self.transform = DataSpaceDense.multiply

  def build(self, input_shape):
    self.kernel = self.add_standard_normal((self.num_rows, self.units), name='kernel')
    self.fan_in = input_shape[-1] + (self.bias_scale > 0)
    self.input_rank = len(input_shape)
    self.built = True

  def features(self, inputs):
    """psi `[..., d]` of inputs `[..., d]` without the constant column."""
    psi = self.feature_scale * inputs
    if self.bias_scale > 0:
      column = tf.fill(tf.shape(psi[..., :1]), tf.constant(self.bias_scale, psi.dtype))
      psi = tf.concat([psi, column], axis=-1)
    return psi

  def multiply(self, psi, u):
    """`z = L @ u`: `[..., n, units]`."""
    if self.constant_chol is not None:
      return tf.matmul(tf.constant(self.constant_chol, u.dtype), u)
    return linalg.root_matmul(psi, u)

  def exact_chol(self, psi):
    """The factor L of psi `[..., n, d]` in float64."""
    if self.constant_chol is not None:
      return tf.constant(self.constant_chol, tf.float64)
    return tf.linalg.cholesky(tf.matmul(psi, psi, transpose_b=True))

  def call(self, inputs):
    # `.value`, because in a `keras.StatelessScope` it may have leading chain dimensions.
    return self.activation(self.transform(self, self.features(inputs), self.kernel.value))

  def compute_output_shape(self, input_shape):
    return (*input_shape[:-1], self.units)


@contextlib.contextmanager
def transformed(layers, transform):
  """A context in which layers get z by another function."""
  for layer in layers:
    layer.transform = transform
  try:
    yield
  finally:
    for layer in layers:
      layer.transform = DataSpaceDense.multiply
