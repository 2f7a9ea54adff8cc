"""A dense layer by what it does to given inputs."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfp_reprior.layers import data_space_dense

X = np.random.default_rng(0).normal(size=(3, 5))


def _layer(bias_scale=0.2, activation='tanh'):
  layer = data_space_dense.DataSpaceDense(4, 3, 0.7, bias_scale, activation, dtype='float64')
  layer.build(X.shape)
  return layer


@pytest.mark.parametrize('bias_scale', [0.0, 0.2])
def test_outputs_are_the_activation_of_the_factor_times_u(bias_scale):
  layer = _layer(bias_scale)
  u = layer.kernel.numpy()
  assert u.shape == (3, 4)
  gram = 0.7**2 * X @ X.T + bias_scale**2
  expected = np.tanh(np.linalg.cholesky(gram) @ u)
  np.testing.assert_allclose(layer(X), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize('bias_scale, fan_in', [(0.0, 5), (0.2, 6)])
def test_features_are_scaled_inputs_and_the_constant_of_the_bias(bias_scale, fan_in):
  layer = _layer(bias_scale)
  psi = layer.features(tf.constant(X)).numpy()
  assert psi.shape == (3, fan_in) and layer.fan_in == fan_in
  np.testing.assert_array_equal(psi[:, :5], 0.7 * X)
  np.testing.assert_array_equal(psi[:, 5:], bias_scale)


def test_weights_with_chains_give_what_they_give_one_by_one():
  layer, u = _layer(), tf.constant(np.random.default_rng(1).normal(size=(2, 3, 4)))
  scope = keras.StatelessScope()
  scope.add_update((layer.kernel, u))
  with scope:
    actual = layer.call(tf.constant(X))
  psi = np.concatenate([0.7 * X, np.full((3, 1), 0.2)], axis=1)
  expected = np.tanh(np.linalg.cholesky(psi @ psi.T) @ u.numpy())
  np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-12)


def test_a_constant_factor_takes_the_place_of_that_of_the_inputs():
  layer = _layer(activation=None)
  layer.constant_chol = np.tril(np.full((3, 3), 2.0))
  np.testing.assert_allclose(layer(X), layer.constant_chol @ layer.kernel.numpy(), atol=1e-12)


def test_another_transform_takes_the_place_of_the_product():
  layer = _layer(activation=None)
  layer.transform = lambda layer, psi, u: 3.0 * u
  np.testing.assert_allclose(layer(X), 3.0 * layer.kernel.numpy(), atol=1e-12)


def test_the_output_shape_is_that_of_a_dense_layer():
  assert _layer().compute_output_shape((3, 5)) == (3, 4)


@pytest.mark.parametrize('name', ['units', 'num_rows'])
def test_sizes_must_be_positive(name):
  sizes = {'units': 4, 'num_rows': 3, name: 0}
  with pytest.raises(ValueError, match=f'`{name}` must be .*Received: {name}=0'):
    data_space_dense.DataSpaceDense(**sizes, feature_scale=1.0, bias_scale=0.0)
