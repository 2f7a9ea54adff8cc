"""The empirical NTK against the dense Jacobian of autodiff, in float64."""

import keras
import numpy as np
import pytest
import tensorflow as tf
import toys

import tfp_reprior as tfr
from tfp_reprior.experimental import tangent_kernel

METHODS = ('structured', 'products', 'jacobian')


def _dense_kernel(split, parts, x):
  """J @ J.T by `tf.GradientTape.jacobian`, of one chain."""
  with tf.GradientTape() as tape:
    tape.watch(parts)
    f = tf.reshape(split.apply(parts, x), [-1])
  rows = [np.reshape(j, [len(f), -1]) for j in tape.jacobian(f, parts)]
  return sum(r @ r.T for r in rows)


@pytest.mark.parametrize(
  ('method', 'chains', 'chunk_size'),
  [('structured', (), None), ('structured', (2,), None), *((m, (2, 1), 2) for m in METHODS)],
)
def test_all_methods_give_the_kernel_of_the_dense_jacobian(method, chains, chunk_size):
  posterior = toys.tiny_posterior(n=5, depth=2)
  parts = posterior.sample_prior(chains, seed=1)
  kernel = tf.function(tfr.experimental.empirical_ntk)(
    posterior, parts, posterior.x, method, chunk_size
  )
  assert kernel.shape == (*chains, 10, 10)
  for index in np.ndindex(*chains):
    expected = _dense_kernel(posterior.split, [p[index] for p in parts], posterior.x)
    np.testing.assert_allclose(kernel[index], expected, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize(
  'method', ['structured', *(pytest.param(m, marks=pytest.mark.slow) for m in METHODS[1:])]
)
def test_gradients_are_those_of_the_dense_jacobian(method):
  posterior = toys.tiny_posterior(n=3, width=3)
  parts = posterior.sample_prior(seed=1)
  weights = np.random.default_rng(0).normal(size=(6, 6))

  def value(*parts):
    kernel = tfr.experimental.empirical_ntk(posterior, list(parts), posterior.x, method)
    return tf.reduce_sum(weights * kernel)

  with tf.GradientTape() as tape:
    tape.watch(parts)
    y = tf.function(value)(*parts)
  grads = tape.gradient(y, parts)
  for i, grad in enumerate(grads):
    direction = np.random.default_rng(i).normal(size=grad.shape)
    ends = [[*parts[:i], parts[i] + e * direction, *parts[i + 1 :]] for e in (1e-5, -1e-5)]
    upper, lower = (np.sum(weights * _dense_kernel(posterior.split, p, posterior.x)) for p in ends)
    np.testing.assert_allclose(np.sum(grad * direction), (upper - lower) / 2e-5, rtol=1e-6)


def _branches():
  """Two dense branches that meet, one with an activation that mixes units."""
  inputs = keras.Input((3,), dtype='float64')
  options = dict(bias_std=0.3, dtype='float64')
  left = tfr.layers.NTKDense(4, activation='softmax', **options)(inputs)
  right = tfr.layers.NTKDense(4, activation='tanh', dtype='float64')(inputs)
  right = keras.layers.Activation('gelu', dtype='float64')(right)
  both = keras.layers.Add(dtype='float64')([left, right])
  return keras.Model(inputs, tfr.layers.NTKDense(2, **options)(both))


def test_structured_networks_may_branch_and_mix_units():
  split = tfr.models.ReadoutSplit(_branches())
  parts, x = split.sample_prior(seed=1), np.random.default_rng(0).normal(size=(4, 3))
  assert tangent_kernel.TangentKernel(split).method == 'structured'
  kernel = tfr.experimental.empirical_ntk(split, parts, x)
  np.testing.assert_allclose(kernel, _dense_kernel(split, parts, x), atol=1e-12)


def _shared():
  """A network that uses a layer twice."""
  inputs = keras.Input((4,), dtype='float64')
  layer = tfr.layers.NTKDense(4, activation='tanh', dtype='float64')
  return keras.Model(inputs, tfr.layers.NTKDense(1, dtype='float64')(layer(layer(inputs))))


def _convolutional():
  return tfr.models.cnn((4, 4, 1), 2, width=3, depth=1, dtype='float64')


@pytest.mark.parametrize('make_model', [_shared, _convolutional])
def test_other_networks_fall_back(make_model):
  split = tfr.models.ReadoutSplit(make_model())
  parts = split.sample_prior(seed=1)
  x = np.random.default_rng(0).normal(size=(3, *split.model.input_shape[1:]))
  assert tangent_kernel.TangentKernel(split).method == 'jacobian'
  for method in ('auto', 'products'):
    kernel = tfr.experimental.empirical_ntk(split, parts, x, method)
    np.testing.assert_allclose(kernel, _dense_kernel(split, parts, x), atol=1e-12)
  with pytest.raises(ValueError, match="`method='structured'` needs every weight .*model '"):
    tfr.experimental.empirical_ntk(split, parts, x, 'structured')


def test_bad_arguments_are_refused():
  posterior = toys.tiny_posterior()
  parts = posterior.sample_prior(seed=1)
  with pytest.raises(ValueError, match="`method` must be one of 'auto'.*method='fast'"):
    tfr.experimental.empirical_ntk(posterior, parts, posterior.x, 'fast')
  with pytest.raises(ValueError, match='`chunk_size` must be a positive integer.*chunk_size=0'):
    tfr.experimental.empirical_ntk(posterior, parts, posterior.x, chunk_size=0)
