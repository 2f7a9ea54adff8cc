"""attention: a network of self-attention, against NumPy and the theory of its prior."""

import math
import re

import numpy as np
import numpy_layers as numpy_lib
import prior_draws
import pytest
import statistics_lib

import tfp_reprior as tfr

attention = tfr.models.attention


def _patches(x, size):
  """Images `[n, height, width, c]` as `[n, patches, entries]`, by explicit loops."""
  corners = [(i, j) for i in range(0, x.shape[1], size) for j in range(0, x.shape[2], size)]
  patches = [x[:, i : i + size, j : j + size].reshape(len(x), -1) for i, j in corners]
  return np.stack(patches, axis=1)


def _forward(weights, tokens, num_heads, activation, query_std):
  """Up to the average over positions; `weights` is a dict by path."""
  kernel = weights['embedding/kernel']
  h = numpy_lib.ntk_dense(tokens, kernel.reshape(-1, kernel.shape[-1]), 1.0)
  h = h + 0.7 * weights['position/bias']
  for i in range(1, 1 + sum(path.endswith('query_kernel') for path in weights)):
    kernels = [
      weights[f'attention_{i}/{name}'] for name in ('query_kernel', 'value_kernel', 'kernel')
    ]
    mixed = numpy_lib.ntk_self_attention(h, *kernels, num_heads, query_std)
    h = math.sqrt(0.5) * (h + mixed)
    h = numpy_lib.ntk_dense(h, weights[f'hidden_{i}/kernel'], math.sqrt(2))
    h = numpy_lib.ACTIVATIONS[activation](h + 0.1 * weights[f'hidden_{i}/bias'])
  return h.mean(axis=1)


@pytest.mark.parametrize('activation', ['relu', 'erf', 'tanh', 'gelu'])
@pytest.mark.parametrize(
  'input_shape, patch_size', [((4, 6, 3), 2), ((8, 4, 1), None), ((5, 3), None)]
)
def test_forward_pass_is_that_of_numpy(activation, input_shape, patch_size):
  model = attention(
    input_shape, 3, 6, 2, 2, patch_size, activation, 1.5, position_std=0.7, dtype='float64'
  )
  x = np.random.default_rng(1).normal(size=(2, *input_shape))
  weights = {v.path: v.numpy() for v in model.trainable_variables}
  tokens = x if len(input_shape) == 2 else _patches(x, patch_size or 4)
  h = _forward(weights, tokens, 2, activation, 1.5)
  expected = numpy_lib.ntk_dense(h, weights['readout/kernel'], 1.0) + 0.1 * weights['readout/bias']
  np.testing.assert_allclose(model(x), expected, rtol=0, atol=1e-10)
  assert np.max(np.abs(_forward(weights, tokens, 2, activation, 1.0) - h)) > 1e-4


def test_every_argument_reaches_its_layers():
  model = attention((5, 3), 3, 6, 2, 3, None, 'erf', 1.1, 0.7, 1.2, 0.3, 0.6, 0.4, name='net')
  layers = {layer.name: layer for layer in model.layers}
  for i in (1, 2):
    attend, hidden = layers[f'attention_{i}'], layers[f'hidden_{i}']
    assert (attend.units, attend.num_heads, attend.query_std) == (6, 3, 1.1)
    assert (hidden.units, hidden.weight_std, hidden.bias_std) == (6, 1.2, 0.3)
    assert hidden.activation is tfr.layers.activations.erf
  assert layers['position'].bias_std == 0.7
  assert (layers['readout'].weight_std, layers['readout'].bias_std) == (0.6, 0.4)
  assert model.name == 'net'


@pytest.mark.parametrize(
  'input_shape, embedding, length', [((8, 8, 3), (4, 4, 3, 8), 4), ((5, 3), (3, 8), 5)]
)
def test_parts_and_parameters(input_shape, embedding, length):
  split = tfr.models.ReadoutSplit(attention(input_shape, 3, 8, 2))
  block = [(8, 8), (8, 8), (8, 8), (8, 8), (8,)]  # queries, values, outputs; dense with bias
  assert split.event_shapes == [embedding, (length, 8), *block, *block, (8, 3), (3,)]
  expected = math.prod(embedding) + length * 8 + 2 * (4 * 64 + 8) + 8 * 3 + 3
  assert split.num_parameters == expected
  without = attention(input_shape, 3, 8, 1, position_std=0.0, bias_std=0.0, readout_bias_std=0.0)
  assert tfr.models.ReadoutSplit(without).event_shapes == [embedding, *block[:-1], (8, 3)]


@pytest.mark.parametrize('position_std, sees_order', [(0.0, False), (0.5, True)])
def test_only_positions_tell_the_order(position_std, sees_order):
  model = attention((5, 3), 2, 8, 2, position_std=position_std, dtype='float64')
  x = np.random.default_rng(1).normal(size=(2, 5, 3))
  difference = np.max(np.abs(model(x[:, ::-1]) - model(x)))
  assert difference > 1e-3 if sees_order else difference < 1e-12


# The prior.


def _expected_moments(tokens, activation, query_std, mix=numpy_lib.softmax):
  """Of each block after its sum and after its dense layer, and of the average over positions."""
  cov = numpy_lib.input_covariance(tokens) + 0.7**2 * np.eye(len(tokens))
  moments = []
  for _ in range(2):
    weights = mix(query_std**2 * cov)
    cov = (cov + weights @ cov @ weights.T) / 2
    moments.append(np.mean(numpy_lib.variances(cov)))
    cov = numpy_lib.activation_covariance(2 * cov + 0.1**2, activation)
    moments.append(np.mean(numpy_lib.variances(cov)))
  return [*moments, np.mean(cov)]


@pytest.mark.parametrize('activation', ['relu', 'erf'])
def test_variances_of_a_wide_network_are_those_of_the_limit(activation):
  # False-alarm rate 1e-6 plus the error of the limit, of order 1 / width.
  model = attention((6, 3), 1, 256, 2, 2, None, activation, 1.2, position_std=0.7)
  x = np.random.default_rng(1).normal(size=(1, 6, 3)).astype(np.float32)
  names = ['sum_1', 'hidden_1', 'sum_2', 'hidden_2', 'pooling']
  draws = prior_draws.second_moments(model, names, x, 60, seed=1)

  def p_value(*arguments):
    return statistics_lib.mean_p_value(draws, _expected_moments(x[0], *arguments))

  assert p_value(activation, 1.2) > statistics_lib.FALSE_ALARM
  # Other controls: keys that are not queries, whose limit is an average; no mixing; another scale.
  assert p_value(activation, 1.2, lambda g: np.full_like(g, 1 / 6)) < statistics_lib.FALSE_ALARM
  assert p_value(activation, 1.2, lambda g: np.eye(6)) < statistics_lib.FALSE_ALARM
  assert p_value(activation, 0.6) < statistics_lib.FALSE_ALARM


# What is refused.


def _refuses(message):
  return pytest.raises(ValueError, match=re.escape(message))


def test_width_must_be_a_multiple_of_num_heads():
  with _refuses('`width` must be a multiple of `num_heads`. Received: width=6, num_heads=4'):
    attention((5, 3), 2, 6)


@pytest.mark.parametrize('patch_size', [3, 16])
def test_patches_must_fill_the_image(patch_size):
  with _refuses(
    '`patch_size` must divide height and width of the images. Received: '
    f'patch_size={patch_size}, input_shape=(8, 8, 3)'
  ):
    attention((8, 8, 3), 2, 4, patch_size=patch_size)


@pytest.mark.parametrize('patch_size', [0, 2.0])
def test_patch_size_must_be_a_positive_integer(patch_size):
  with _refuses(f'`patch_size` must be a positive integer. Received: patch_size={patch_size!r}'):
    attention((8, 8, 3), 2, 4, patch_size=patch_size)


def test_sequences_have_no_patches():
  with _refuses('Sequences have no `patch_size`; images have `input_shape` (height, width, chan'):
    attention((8, 8), 2, 4, patch_size=2)


@pytest.mark.parametrize('input_shape', [(8,), (2, 2, 2, 2), ()])
def test_inputs_must_be_images_or_sequences(input_shape):
  with _refuses(
    '`input_shape` must be (height, width, channels) or (length, features). Received: '
    f'input_shape={input_shape!r}'
  ):
    attention(input_shape, 2, 4)


def test_position_std_must_not_be_negative():
  with _refuses('`position_std` must not be negative. Received: position_std=-1.0'):
    attention((5, 3), 2, 4, position_std=-1.0)


def test_query_std_must_be_positive():
  with _refuses('`query_std` must be positive. Received: query_std=0.0'):
    attention((5, 3), 2, 4, query_std=0.0)
