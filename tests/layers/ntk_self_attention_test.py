"""NTKSelfAttention and NTKPosition: forward pass, the theory of the prior, what they refuse."""

import re

import keras
import numpy as np
import numpy_layers as numpy_lib
import pytest
import statistics_lib
import tensorflow as tf

import tfp_reprior as tfr

NTKPosition, NTKSelfAttention = tfr.layers.NTKPosition, tfr.layers.NTKSelfAttention


@pytest.fixture(autouse=True)
def _seed():
  keras.utils.set_random_seed(0)


@pytest.mark.parametrize('num_heads', [1, 2, 6])
@pytest.mark.parametrize('bias_std', [0.0, 0.7])
def test_attention_is_that_of_numpy(num_heads, bias_std):
  layer = NTKSelfAttention(6, num_heads, 1.3, 0.8, bias_std, 'tanh', dtype='float64')
  x = np.random.default_rng(1).normal(size=(2, 5, 3))
  actual = layer(x)
  kernels = [w.numpy() for w in layer.weights[:3]]
  affine = 0.8 * numpy_lib.ntk_self_attention(x, *kernels, num_heads, 1.3)
  if bias_std:
    affine += bias_std * layer.bias.numpy()
  assert [w.name for w in layer.weights] == (
    ['query_kernel', 'value_kernel', 'kernel'] + ['bias'] * bool(bias_std)
  )
  np.testing.assert_allclose(actual, np.tanh(affine), rtol=0, atol=1e-10)


def test_the_length_may_differ_from_call_to_call():
  layer = NTKSelfAttention(4, 2, dtype='float64')
  x = np.random.default_rng(1).normal(size=(2, 5, 3))
  layer(x)
  inputs = keras.Input((None, 3), dtype='float64')
  model = keras.Model(inputs, layer(inputs))
  np.testing.assert_allclose(model(x[:, :2]), layer(x[:, :2]), rtol=0, atol=1e-12)


def _draws(layer, x, num_draws):
  """Outputs `[s, n, length, units]` for weights drawn from N(0, 1), and the query kernels."""
  layer.build(x.shape)
  rng = np.random.default_rng(2)
  weights = [rng.normal(size=(num_draws, *w.shape)) for w in layer.weights]

  @tf.function(autograph=False)
  def outputs(weights):
    return tf.map_fn(
      lambda w: layer.stateless_call(w, [], x)[0], weights, fn_output_signature=tf.float64
    )

  return outputs([tf.constant(w) for w in weights]).numpy(), weights[0]


def test_second_moments_given_the_attention_weights_are_exact():
  # Given the weights A of the heads, they are weight_std**2 * mean(A @ K @ A.T) + bias_std**2 at
  # every width. False-alarm rate 1e-6.
  layer = NTKSelfAttention(4, 2, 1.5, 1.2, 0.3, dtype='float64')
  x = np.random.default_rng(1).normal(size=(1, 5, 3))
  outputs, query_kernels = _draws(layer, x, 2000)
  cov = numpy_lib.input_covariance(x[0])

  def p_value(query_std, weight_std):
    ratios = []
    for out, kernel in zip(outputs, query_kernels, strict=True):
      weights = numpy_lib.attention_weights(x[0], kernel, 2, query_std)  # [heads, length, length]
      moments = np.einsum('hij,jk,hik->i', weights, cov, weights) / 2
      ratios.append(np.mean(out[0] ** 2, axis=-1) / (weight_std**2 * moments + 0.3**2))
    return statistics_lib.mean_p_value(ratios, 1.0)

  assert p_value(1.5, 1.2) > statistics_lib.FALSE_ALARM
  assert p_value(1.5, 1.4) < statistics_lib.FALSE_ALARM
  assert p_value(0.5, 1.2) < statistics_lib.FALSE_ALARM


def test_covariance_of_wide_heads_is_that_of_the_docstring():
  # False-alarm rate 1e-6 plus the error of the limit, of order 1 / head_size.
  layer = NTKSelfAttention(400, 2, 1.2, 0.9, 0.3, dtype='float64')
  x = np.random.default_rng(1).normal(size=(1, 4, 3))
  outputs, _ = _draws(layer, x, 60)
  empirical = np.einsum('sid,sjd->sij', outputs[:, 0], outputs[:, 0]) / 400
  cov = numpy_lib.input_covariance(x[0])

  def p_value(logits):
    weights = numpy_lib.softmax(logits)
    return statistics_lib.mean_p_value(empirical, 0.81 * weights @ cov @ weights.T + 0.3**2)

  assert p_value(1.44 * cov) > statistics_lib.FALSE_ALARM
  assert p_value(0.0 * cov) < statistics_lib.FALSE_ALARM  # keys that are not the queries
  assert p_value(1.44 * cov * np.sqrt(200)) < statistics_lib.FALSE_ALARM  # 1 / sqrt(head_size)


def test_positions_are_added():
  layer = NTKPosition(0.7, activation='tanh', dtype='float64')
  x = np.random.default_rng(1).normal(size=(2, 5, 3))
  outputs = layer(x)
  assert [tuple(w.shape) for w in layer.weights] == [(5, 3)]
  np.testing.assert_allclose(outputs, np.tanh(x + 0.7 * layer.bias.numpy()), rtol=0, atol=1e-12)


# What is refused.


def _refuses(message):
  return pytest.raises(ValueError, match=re.escape(message))


@pytest.mark.parametrize('name', ['units', 'num_heads'])
def test_sizes_must_be_positive_integers(name):
  with _refuses(f'`{name}` must be a positive integer. Received: {name}=0'):
    NTKSelfAttention(**{'units': 4, name: 0})


def test_units_must_be_a_multiple_of_num_heads():
  with _refuses('`units` must be a multiple of `num_heads`. Received: units=6, num_heads=4'):
    NTKSelfAttention(6, 4)


def test_stds_must_be_positive():
  with _refuses('`query_std` must be positive. Received: query_std=0.0'):
    NTKSelfAttention(4, query_std=0.0)
  with _refuses('`bias_std` must be positive. Received: bias_std=0.0'):
    NTKPosition(0.0)


def test_inputs_must_be_sequences_of_the_known_size():
  layer = NTKSelfAttention(4)
  layer.build((None, 5, 3))
  with pytest.raises(ValueError, match='expected ndim=3, found ndim=2'):
    layer(np.ones([5, 3], np.float32))
  position = NTKPosition()
  position.build((None, 5, 3))
  with pytest.raises(
    ValueError, match='expected shape=\\(None, 5, 3\\), found shape=\\(2, 4, 3\\)'
  ):
    position(np.ones([2, 4, 3], np.float32))
