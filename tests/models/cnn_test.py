"""cnn: a plain convolutional network, against NumPy and the theory of its prior."""

import math
import re

import numpy as np
import numpy_layers as numpy_lib
import prior_draws
import pytest
import statistics_lib

import tfp_reprior as tfr

cnn = tfr.models.cnn


def _hidden(model):
  return [layer for layer in model.layers if isinstance(layer, tfr.layers.NTKConv2D)]


@pytest.mark.parametrize('pooling', ['flatten', 'average'])
@pytest.mark.parametrize('activation', ['relu', 'erf', 'tanh', 'gelu'])
def test_forward_pass_is_that_of_numpy(pooling, activation):
  # An odd size, on which stride 2 rounds up.
  model = cnn((5, 4, 2), 3, 4, 2, 3, 2, pooling, activation, dtype='float64')
  x = np.random.default_rng(1).normal(size=(2, 5, 4, 2))
  k1, b1, k2, b2, k3, b3 = (w.numpy() for w in model.trainable_variables)
  function = numpy_lib.ACTIVATIONS[activation]
  h = function(numpy_lib.ntk_conv2d(x, k1, math.sqrt(2), 2) + 0.1 * b1)
  h = function(numpy_lib.ntk_conv2d(h, k2, math.sqrt(2), 2) + 0.1 * b2)
  assert h.shape == (2, 2, 1, 4)
  h = h.reshape(2, -1) if pooling == 'flatten' else h.mean(axis=(1, 2))
  expected = numpy_lib.ntk_dense(h, k3, 1.0) + 0.1 * b3
  np.testing.assert_allclose(model(x), expected, rtol=0, atol=1e-10)


def test_every_argument_reaches_its_layers():
  model = cnn((6, 6), 3, 7, 2, (3, 1), (2, 1), 'average', 'erf', 1.1, 0.3, 0.6, 0.4, name='net')
  for layer in _hidden(model):
    assert (layer.filters, layer.kernel_size, layer.strides) == (7, (3, 1), (2, 1))
    assert (layer.weight_std, layer.bias_std, layer.padding) == (1.1, 0.3, 'same')
    assert layer.activation is tfr.layers.activations.erf
  readout = model.get_layer('readout')
  assert (readout.weight_std, readout.bias_std) == (0.6, 0.4)
  assert model.name == 'net'


@pytest.mark.parametrize('pooling, features', [('flatten', 16 * 7), ('average', 7)])
def test_parts_and_parameters(pooling, features):
  split = tfr.models.ReadoutSplit(cnn((4, 4, 2), 3, 7, 2, pooling=pooling))
  assert split.event_shapes == [(3, 3, 2, 7), (7,), (3, 3, 7, 7), (7,), (features, 3), (3,)]
  assert split.num_parameters == 9 * 2 * 7 + 7 + 9 * 7 * 7 + 7 + features * 3 + 3
  without = cnn((4, 4, 2), 3, 7, 2, pooling=pooling, bias_std=0.0, readout_bias_std=0.0)
  assert tfr.models.ReadoutSplit(without).event_shapes == split.event_shapes[::2]


# The prior.


def _expected_moments(x, activation, weight_std, bias_std, num_layers):
  """Of each hidden layer, and of the average over positions of the last one."""
  cov, moments = numpy_lib.input_covariance(x), []
  for _ in range(num_layers):
    cov = numpy_lib.conv2d_covariance(cov, weight_std) + bias_std**2
    cov = numpy_lib.activation_covariance(cov, activation)
    moments.append(np.mean(numpy_lib.variances(cov)))
  return [*moments, np.mean(cov)]


def test_variances_of_relu_layers_are_exact():
  # Given the layer below, what enters a ReLU is symmetric, so that it halves the second moment at
  # every width. False-alarm rate 1e-6 over all layers.
  model = cnn((5, 5, 3), 1, 8, activation='relu', weight_std=1.2, bias_std=0.5, dtype='float64')
  x = np.random.default_rng(1).normal(size=(1, 5, 5, 3))
  names = ['hidden_1', 'hidden_2', 'hidden_3']
  draws = prior_draws.second_moments(model, names, x, 1000, seed=1)

  def p_value(*stds):
    return statistics_lib.mean_p_value(draws, _expected_moments(x[0], 'relu', *stds, 3)[:-1])

  assert p_value(1.2, 0.5) > statistics_lib.FALSE_ALARM
  assert p_value(1.3, 0.5) < statistics_lib.FALSE_ALARM
  assert p_value(1.2, 0.6) < statistics_lib.FALSE_ALARM


@pytest.mark.parametrize('activation', ['relu', 'erf'])
def test_variances_of_a_wide_network_are_those_of_the_limit(activation):
  # False-alarm rate 1e-6 plus the error of the limit, of order 1 / width.
  model = cnn((5, 5, 3), 1, 128, 2, pooling='average', activation=activation)
  x = np.random.default_rng(1).normal(size=(1, 5, 5, 3)).astype(np.float32)
  draws = prior_draws.second_moments(model, ['hidden_1', 'hidden_2', 'pooling'], x, 50, seed=1)

  def p_value(activation, weight_std):
    expected = _expected_moments(x[0], activation, weight_std, 0.1, 2)
    return statistics_lib.mean_p_value(draws, expected)

  assert p_value(activation, math.sqrt(2)) > statistics_lib.FALSE_ALARM
  other = {'relu': 'erf', 'erf': 'relu'}[activation]
  assert p_value(other, math.sqrt(2)) < statistics_lib.FALSE_ALARM
  assert p_value(activation, 1.6) < statistics_lib.FALSE_ALARM


# What is refused.


def test_pooling_must_be_known():
  message = "`pooling` must be one of 'flatten', 'average'. Received: pooling='max'"
  with pytest.raises(ValueError, match=re.escape(message)):
    cnn((4, 4), 2, 4, pooling='max')
