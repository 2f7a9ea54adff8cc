"""Layers in NTK parametrisation: forward pass, prior, saving, and what they refuse."""

import inspect
import re

import keras
import numpy as np
import numpy_layers
import pytest
import scipy.stats
import statistics_lib

import tfp_reprior as tfr

NTKDense, NTKConv2D = tfr.layers.NTKDense, tfr.layers.NTKConv2D
NTKPosition, NTKSelfAttention = tfr.layers.NTKPosition, tfr.layers.NTKSelfAttention


@pytest.fixture(autouse=True)
def _seed():
  keras.utils.set_random_seed(0)


def _refuses(message):
  return pytest.raises(ValueError, match=re.escape(message))


@pytest.mark.parametrize('shape', [(5, 3), (5, 2, 3)])
@pytest.mark.parametrize('bias_std', [0.0, 0.7])
def test_dense_is_the_scaled_affine_map(shape, bias_std):
  layer = NTKDense(4, weight_std=1.5, bias_std=bias_std, activation='tanh', dtype='float64')
  x = np.random.default_rng(1).normal(size=shape)
  actual = layer(x)
  affine = 1.5 / np.sqrt(3) * x @ layer.kernel.numpy()
  if bias_std:
    affine += bias_std * layer.bias.numpy()
  np.testing.assert_allclose(actual, np.tanh(affine), rtol=0, atol=1e-10)


@pytest.mark.parametrize('padding', ['same', 'valid'])
@pytest.mark.parametrize('strides', [(1, 1), (2, 2), (2, 1)])
@pytest.mark.parametrize('bias_std', [0.0, 0.7])
def test_conv2d_is_the_scaled_sum_over_taps(padding, strides, bias_std):
  # Odd and even sizes of input and kernel, since `same` pads the two sides differently.
  layer = NTKConv2D(3, (3, 2), strides, padding, 1.5, bias_std, activation='tanh', dtype='float64')
  x = np.random.default_rng(1).normal(size=(2, 5, 6, 4))
  actual = layer(x)
  affine = 1.5 / np.sqrt(3 * 2 * 4) * numpy_layers.conv2d(x, layer.kernel.numpy(), strides, padding)
  if bias_std:
    affine += bias_std * layer.bias.numpy()
  np.testing.assert_allclose(actual, np.tanh(affine), rtol=0, atol=1e-10)


def test_conv2d_takes_one_integer_for_a_pair():
  layer = NTKConv2D(3, 2, strides=2)
  assert layer.kernel_size == (2, 2) and layer.strides == (2, 2)


@pytest.mark.parametrize(
  'layer, input_shape',
  [
    (NTKDense(500, bias_std=0.1), (None, 40)),
    (NTKConv2D(200, 3, bias_std=0.1), (None, 5, 5, 10)),
    (NTKSelfAttention(200, bias_std=0.1), (None, 7, 100)),
    (NTKPosition(), (None, 100, 200)),
  ],
)
def test_initial_weights_are_standard_normal(layer, input_shape):
  # False-alarm rate 1e-6 each (Kolmogorov-Smirnov).
  layer.build(input_shape)
  for weights in layer.weights:
    draws = weights.numpy().ravel()
    assert statistics_lib.cdf_p_value(draws, 'norm') > statistics_lib.FALSE_ALARM
  kernel = layer.weights[0].numpy().ravel()
  x = np.linspace(-3, 3, 601)
  error = np.max(np.abs(scipy.stats.norm.cdf(x / 1.2) - scipy.stats.norm.cdf(x)))
  assert statistics_lib.detectable_cdf_error(kernel.size) < error
  assert statistics_lib.cdf_p_value(1.2 * kernel, 'norm') < statistics_lib.FALSE_ALARM


@pytest.mark.parametrize(
  'layer, input_shape',
  [
    (NTKDense(50, bias_std=0.1), (None, 4)),
    (NTKConv2D(50, 2, bias_std=0.1), (None, 5, 5, 3)),
    (NTKSelfAttention(50, bias_std=0.1), (None, 5, 50)),
  ],
)
def test_initial_weights_of_a_layer_share_no_draws(layer, input_shape):
  layer.build(input_shape)
  flat = np.concatenate([w.numpy().ravel() for w in layer.weights])
  assert np.unique(flat).size == flat.size


def _chi_squared_p_value(draws, variance):
  """p-value of independent draws having the distribution N(0, variance)."""
  below = scipy.stats.chi2.cdf(np.sum(np.square(draws, dtype=np.float64)) / variance, draws.size)
  return 2 * min(below, 1 - below)


@pytest.mark.parametrize('bias_std', [0.0, 0.5])
@pytest.mark.parametrize('kind', ['dense', 'conv2d'])
def test_prior_variance_of_outputs_is_that_of_the_docstring(kind, bias_std):
  # Over the units the outputs at one input are independent N(0, v), so that the sum of their
  # squares over v is exactly chi-squared: false-alarm rate 1e-6, relative error of the variance
  # sqrt(2 / 20000) = 1 %, so 10 % is a deviation of ten.
  units = 20_000
  if kind == 'dense':
    layer, shape = NTKDense(units, 1.5, bias_std), (1, 8)
  else:
    layer, shape = NTKConv2D(units, 2, 1, 'valid', 1.5, bias_std), (1, 2, 2, 2)
  x = np.random.default_rng(1).normal(1.0, 1.0, size=shape)
  outputs = np.ravel(layer(x.astype(np.float32)))
  variance = 1.5**2 * np.mean(x**2) + bias_std**2
  assert outputs.shape == (units,)
  assert _chi_squared_p_value(outputs, variance) > statistics_lib.FALSE_ALARM
  assert _chi_squared_p_value(outputs, 1.1 * variance) < statistics_lib.FALSE_ALARM


@pytest.mark.parametrize(
  'layer, input_shape', [(NTKDense(3), (None, 4)), (NTKConv2D(3, 2), (None, 5, 5, 2))]
)
def test_there_is_no_bias_variable_when_bias_std_is_zero(layer, input_shape):
  layer.build(input_shape)
  assert layer.bias is None
  assert [v.name for v in layer.weights] == ['kernel']


@pytest.mark.parametrize('dtype', ['float32', 'float64'])
@pytest.mark.parametrize('make', [lambda **k: NTKDense(3, **k), lambda **k: NTKConv2D(3, 2, **k)])
def test_weights_and_outputs_have_the_dtype_of_the_policy(make, dtype):
  layer = make(bias_std=0.1, activation='gelu', dtype=dtype)
  outputs = layer(np.ones([2, 4, 4, 3], dtype))
  assert {w.dtype for w in layer.weights} == {dtype}
  assert outputs.dtype.name == dtype


@pytest.mark.parametrize(
  'layer',
  [
    NTKDense(7, 1.5, 0.2, 'gelu', name='a', dtype='float64'),
    NTKDense(7, np.sqrt(2.0), np.float64(0.1)),
    NTKConv2D(5, (3, 2), (1, 2), 'valid', 1.5, 0.2, 'relu', name='b'),
    NTKSelfAttention(6, 3, 1.2, 1.5, 0.2, 'erf', name='c'),
    NTKPosition(0.3, activation='tanh', name='d', dtype='float64'),
  ],
)
def test_config_holds_every_argument_and_makes_the_same_layer(layer):
  config = layer.get_config()
  arguments = set(inspect.signature(type(layer)).parameters) - {'kwargs'}
  assert arguments <= set(config)
  clone = type(layer).from_config(config)
  assert clone.get_config() == config
  assert clone.activation is layer.activation
  assert {a: getattr(clone, a) for a in arguments} == {a: getattr(layer, a) for a in arguments}


def test_a_saved_model_reloads_to_equal_outputs(tmp_path):
  inputs = keras.Input((6, 6, 2))
  h = NTKConv2D(3, (3, 2), (2, 1), 'valid', 1.5, 0.2, 'gelu')(inputs)
  h = NTKConv2D(4, 2)(h)
  h = keras.layers.Flatten()(h)
  model = keras.Model(inputs, NTKDense(2, 0.8, 0.3)(NTKDense(5, np.sqrt(2.0), 0.1, 'relu')(h)))
  path = tmp_path / 'model.keras'
  model.save(path)
  reloaded = keras.saving.load_model(path)
  x = np.random.default_rng(1).normal(size=(3, 6, 6, 2)).astype(np.float32)
  np.testing.assert_array_equal(reloaded(x), model(x))


@pytest.mark.parametrize(
  'layer, input_shape',
  [
    (NTKDense(7), (2, 3)),
    (NTKDense(7), (2, 4, 3)),
    (NTKConv2D(5, 3), (2, 6, 7, 3)),
    (NTKConv2D(5, (3, 2), strides=2), (2, 6, 7, 3)),
    (NTKConv2D(5, (3, 2), padding='valid'), (2, 6, 7, 3)),
    (NTKConv2D(5, (3, 2), strides=(1, 3), padding='valid'), (2, 6, 7, 3)),
    (NTKSelfAttention(6, 3), (2, 7, 4)),
    (NTKPosition(), (2, 7, 4)),
  ],
)
def test_computed_output_shape_is_that_of_the_outputs(layer, input_shape):
  expected = layer.compute_output_shape(input_shape)
  unknown_batch = layer.compute_output_shape((None, *input_shape[1:]))
  assert tuple(layer(np.ones(input_shape, np.float32)).shape) == tuple(expected)
  assert tuple(unknown_batch) == (None, *expected[1:])


@pytest.mark.parametrize('units', [0, -1, 2.0, True, '3', None])
def test_units_must_be_a_positive_integer(units):
  with _refuses(f'`units` must be a positive integer. Received: units={units!r}'):
    NTKDense(units)


@pytest.mark.parametrize('filters', [0, 2.5])
def test_filters_must_be_a_positive_integer(filters):
  with _refuses(f'`filters` must be a positive integer. Received: filters={filters!r}'):
    NTKConv2D(filters, 3)


@pytest.mark.parametrize('weight_std', [0.0, -1.0, np.nan, np.inf])
@pytest.mark.parametrize('make', [lambda **k: NTKDense(3, **k), lambda **k: NTKConv2D(3, 2, **k)])
def test_weight_std_must_be_positive(make, weight_std):
  with _refuses(f'`weight_std` must be positive. Received: weight_std={weight_std}'):
    make(weight_std=weight_std)


@pytest.mark.parametrize('bias_std', [-0.1, np.nan, np.inf])
@pytest.mark.parametrize('make', [lambda **k: NTKDense(3, **k), lambda **k: NTKConv2D(3, 2, **k)])
def test_bias_std_must_not_be_negative(make, bias_std):
  with _refuses(f'`bias_std` must not be negative. Received: bias_std={bias_std}'):
    make(bias_std=bias_std)


@pytest.mark.parametrize('name', ['kernel_size', 'strides'])
@pytest.mark.parametrize('value', [(1, 2, 3), [1], ()])
def test_kernel_size_and_strides_must_be_one_integer_or_two(name, value):
  with _refuses(f'`{name}` must be one integer or two. Received: {name}={value!r}'):
    NTKConv2D(**{'filters': 2, 'kernel_size': 3, name: value})


@pytest.mark.parametrize('name', ['kernel_size', 'strides'])
@pytest.mark.parametrize('value', [0, 1.5])
def test_kernel_size_and_strides_must_be_positive_integers(name, value):
  for given in (value, (1, value)):
    with _refuses(f'`{name}` must be a positive integer. Received: {name}={value!r}'):
      NTKConv2D(**{'filters': 2, 'kernel_size': 3, name: given})


@pytest.mark.parametrize('padding', ['causal', None])
def test_padding_must_be_same_or_valid(padding):
  with _refuses(f"`padding` must be one of 'same', 'valid'. Received: padding={padding!r}"):
    NTKConv2D(2, 3, padding=padding)


def test_inputs_must_have_as_many_features_as_the_kernel():
  layer = NTKDense(2)
  layer.build((None, 3))
  with pytest.raises(ValueError, match='expected axis -1 of input shape to have value 3'):
    layer(np.ones([5, 4], np.float32))


def test_conv2d_inputs_must_be_images():
  layer = NTKConv2D(2, 3)
  layer.build((None, 5, 5, 3))
  with pytest.raises(ValueError, match='expected ndim=4, found ndim=2'):
    layer(np.ones([5, 3], np.float32))
