"""fcn: the network of the paper, against NumPy."""

import math

import keras
import numpy as np
import pytest
import scipy.special

import tfp_reprior as tfr


def _gelu(x):
  """The exact GELU, x times the standard normal CDF."""
  return x * (1 + scipy.special.erf(x / math.sqrt(2))) / 2


def _dense_layers(model):
  return [layer for layer in model.layers if isinstance(layer, tfr.layers.NTKDense)]


def test_defaults_are_those_of_the_paper():
  *hidden, readout = _dense_layers(tfr.models.fcn((5,), 3, 7))
  assert [layer.units for layer in hidden] == [7, 7, 7]
  for layer in hidden:
    assert layer.weight_std**2 == pytest.approx(2.0, rel=1e-15)
    assert layer.bias_std**2 == pytest.approx(0.01, rel=1e-15)
  assert readout.units == 3
  assert readout.weight_std == 1.0
  assert readout.bias_std**2 == pytest.approx(0.01, rel=1e-15)
  assert readout.activation is keras.activations.linear


def test_default_activation_is_the_exact_gelu():
  x = np.linspace(-4, 4, 101)
  tanh_form = x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
  for layer in _dense_layers(tfr.models.fcn((5,), 3, 7))[:-1]:
    np.testing.assert_allclose(layer.activation(x), _gelu(x), rtol=0, atol=1e-12)
  assert np.max(np.abs(tanh_form - _gelu(x))) > 1e-4  # the other GELU would be noticed


@pytest.mark.parametrize('input_shape', [(5,), (2, 3, 2), ()])
@pytest.mark.parametrize('activation, function', [('gelu', _gelu), ('tanh', np.tanh)])
def test_default_forward_pass_is_that_of_numpy(input_shape, activation, function):
  model = tfr.models.fcn(input_shape, 3, 7, activation=activation, dtype='float64')
  x = np.random.default_rng(1).normal(size=(4, *input_shape))
  h, weights = x.reshape(4, -1), [w.numpy() for w in model.trainable_variables]
  for kernel, bias in zip(weights[:-2:2], weights[1:-2:2], strict=True):
    h = function(math.sqrt(2 / h.shape[1]) * h @ kernel + 0.1 * bias)
  expected = math.sqrt(1 / 7) * h @ weights[-2] + 0.1 * weights[-1]
  np.testing.assert_allclose(model(x), expected, rtol=0, atol=1e-10)


def test_every_argument_reaches_its_layer():
  model = tfr.models.fcn((5,), 3, 7, 2, 'tanh', 1.1, 0.3, 0.6, 0.4, dtype='float64', name='net')
  x = np.random.default_rng(1).normal(size=(4, 5))
  w1, b1, w2, b2, w3, b3 = (w.numpy() for w in model.trainable_variables)
  h = np.tanh(1.1 / math.sqrt(5) * x @ w1 + 0.3 * b1)
  h = np.tanh(1.1 / math.sqrt(7) * h @ w2 + 0.3 * b2)
  expected = 0.6 / math.sqrt(7) * h @ w3 + 0.4 * b3
  np.testing.assert_allclose(model(x), expected, rtol=0, atol=1e-10)
  assert model.name == 'net'


def test_biases_with_std_zero_are_left_out():
  model = tfr.models.fcn((5,), 3, 7, depth=2, bias_std=0.0, readout_bias_std=0.0)
  assert [tuple(w.shape) for w in model.trainable_variables] == [(5, 7), (7, 7), (7, 3)]
  assert not model.non_trainable_variables
