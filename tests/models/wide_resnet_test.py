"""wide_resnet: the network of the paper, against NumPy and the theory of its prior."""

import math
import re

import keras
import numpy as np
import numpy_layers as numpy_lib
import prior_draws
import pytest
import statistics_lib

import tfp_reprior as tfr
from tfp_reprior.layers import activations

wide_resnet = tfr.models.wide_resnet


def _scales(num_sums, offset, weighting):
  """The scales of skip and residual, as in the paper."""
  if weighting == 'uniform':
    return [(math.sqrt(offset / (1 + offset)), math.sqrt(1 / (1 + offset)))] * num_sums
  ks = range(1, num_sums + 1)
  return [(math.sqrt((k - 1 + offset) / (k + offset)), math.sqrt(1 / (k + offset))) for k in ks]


def _forward(weights, x, depth, activation, scales, weight_std):
  """The network without biases before the readout; `weights` is a dict by path."""
  function = numpy_lib.ACTIVATIONS[activation]
  h = numpy_lib.ntk_conv2d(x, weights['stem/kernel'], 1.0)
  m = (depth - 2) // 6
  for k, (skip_scale, residual_scale) in enumerate(scales):
    name, stride = f'stage_{k // m + 1}_block_{k % m + 1}', 2 if k in (m, 2 * m) else 1
    r = numpy_lib.ntk_conv2d(function(h), weights[f'{name}_conv_1/kernel'], weight_std, stride)
    r = numpy_lib.ntk_conv2d(function(r), weights[f'{name}_conv_2/kernel'], weight_std)
    if stride == 2:
      h = numpy_lib.ntk_conv2d(h, weights[f'{name}_skip/kernel'], 1.0, stride)
    h = skip_scale * h + residual_scale * r
  return function(h).mean(axis=(1, 2))


@pytest.mark.parametrize('activation', ['relu', 'erf', 'tanh', 'gelu'])
@pytest.mark.parametrize(
  'depth, weighting, offset',
  [(14, 'progressive', 1.0), (8, 'progressive', 2.5), (14, 'uniform', 2)],
)
def test_forward_pass_is_that_of_numpy(activation, depth, weighting, offset):
  model = wide_resnet((8, 4, 2), 3, 2, depth, activation, offset, weighting, dtype='float64')
  x = np.random.default_rng(1).normal(size=(2, 8, 4, 2))
  weights = {v.path: v.numpy() for v in model.trainable_variables}
  scales = _scales((depth - 2) // 2, offset, weighting)
  h = _forward(weights, x, depth, activation, scales, math.sqrt(2.2))
  expected = math.sqrt(1 / 8) * h @ weights['readout/kernel'] + 0.1 * weights['readout/bias']
  np.testing.assert_allclose(model(x), expected, rtol=0, atol=1e-10)
  # Other scales would be noticed.
  other = _forward(weights, x, depth, activation, scales[::-1], math.sqrt(2.2))
  assert weighting == 'uniform' or np.max(np.abs(other - h)) > 1e-3


def test_every_argument_reaches_its_layers():
  model = wide_resnet((4, 4), 3, 5, 8, 'erf', 2.0, 'uniform', 1.1, 0.3, 0.6, 0.4, name='net')
  layers = {layer.name: layer for layer in model.layers}
  for name, layer in layers.items():
    if isinstance(layer, tfr.layers.NTKConv2D):
      assert layer.weight_std == (1.1 if '_conv_' in name else 1.0)
      assert layer.bias_std == 0.3 and layer.kernel_size == (3, 3)
    if isinstance(layer, tfr.layers.ScaledSum):
      assert layer.scales == pytest.approx([math.sqrt(2 / 3), math.sqrt(1 / 3)], rel=1e-15)
  assert (layers['readout'].weight_std, layers['readout'].bias_std) == (0.6, 0.4)
  assert model.name == 'net'
  assert len(model.trainable_variables) == 2 * (1 + 3 * 2 + 2 + 1)


def test_defaults_are_those_of_the_paper():
  model = wide_resnet((32, 32, 3), 10)
  shapes = {v.path: tuple(v.shape) for v in model.trainable_variables}
  stages = [(s, b) for s in (1, 2, 3) for b in (1, 2, 3)]
  expected = {'stem/kernel': (3, 3, 3, 128), 'readout/kernel': (512, 10), 'readout/bias': (10,)}
  for k, (stage, block) in enumerate(stages, start=1):
    channels = 128 * 2 ** (stage - 1)
    before = channels // 2 if stage > 1 and block == 1 else channels
    name = f'stage_{stage}_block_{block}'
    expected[f'{name}_conv_1/kernel'] = (3, 3, before, channels)
    expected[f'{name}_conv_2/kernel'] = (3, 3, channels, channels)
    if before != channels:
      expected[f'{name}_skip/kernel'] = (3, 3, before, channels)
    sum_layer = model.get_layer(f'{name}_sum')
    assert sum_layer.scales == pytest.approx([math.sqrt(k / (k + 1)), math.sqrt(1 / (k + 1))])
    assert model.get_layer(f'{name}_conv_1').weight_std ** 2 == pytest.approx(2.2)
    assert model.get_layer(f'{name}_conv_1').activation is activations.gelu
    assert model.get_layer(f'{name}_conv_2').activation is keras.activations.linear
  assert shapes == expected
  assert list(shapes)[-2:] == ['readout/kernel', 'readout/bias']
  assert model.get_layer('activation').output.shape == (None, 8, 8, 512)
  assert model.get_layer('readout').bias_std ** 2 == pytest.approx(0.01)


def test_number_of_parameters():
  # 9 * 3 * 4 in the stem; 2 * 9 * 4^2, then 9 (4 * 8 + 8^2 + 4 * 8) and the same for 8 and 16
  # channels in the stages; 16 * 5 + 5 in the readout.
  split = tfr.models.ReadoutSplit(wide_resnet((4, 4, 3), 5, width=4, depth=8))
  stages = [2 * 9 * 16, 9 * (32 + 64 + 32), 9 * (128 + 256 + 128)]
  assert split.num_parameters == 9 * 3 * 4 + sum(stages) + 16 * 5 + 5
  assert split.event_shapes[-2:] == [(16, 5), (5,)]
  assert (split.num_hidden, split.num_features) == (9, 17)


# The prior.


def _covariances(x, depth, activation, scales, weight_std):
  """Of the sums, and of the last activations, for one image `x` `[h, w, c]`."""
  cov = numpy_lib.conv2d_covariance(numpy_lib.input_covariance(x), 1.0)
  m, sums = (depth - 2) // 6, []
  for k, (skip_scale, residual_scale) in enumerate(scales):
    stride = 2 if k in (m, 2 * m) else 1
    r = numpy_lib.activation_covariance(cov, activation)
    r = numpy_lib.conv2d_covariance(r, weight_std, stride)
    r = numpy_lib.conv2d_covariance(numpy_lib.activation_covariance(r, activation), weight_std)
    if stride == 2:
      cov = numpy_lib.conv2d_covariance(cov, 1.0, stride)
    cov = skip_scale**2 * cov + residual_scale**2 * r
    sums.append(cov)
  return sums, numpy_lib.activation_covariance(cov, activation)


def _sum_names(depth):
  m = (depth - 2) // 6
  return [f'stage_{s}_block_{b}_sum' for s in (1, 2, 3) for b in range(1, m + 1)]


def _expected_moments(x, depth, activation, scales, weight_std):
  """Of the sums, and of the pooled activations."""
  sums, last = _covariances(x, depth, activation, scales, weight_std)
  return [*(np.mean(numpy_lib.variances(cov)) for cov in sums), np.mean(last)]


@pytest.mark.parametrize('weighting', ['progressive', 'uniform'])
def test_variances_of_a_linear_network_are_exact_layer_by_layer(weighting):
  # False-alarm rate 1e-6 over all layers. Residuals have five times the variance of skips here, so
  # that the scales show.
  depth, offset, weight_std = 14, 1.5, 1.5
  model = wide_resnet(
    (8, 8, 3), 1, 6, depth, 'linear', offset, weighting, weight_std, dtype='float64'
  )
  x = np.random.default_rng(1).normal(size=(1, 8, 8, 3))
  draws = prior_draws.second_moments(model, [*_sum_names(depth), 'pooling'], x, 300, seed=1)

  def p_value(weighting, offset, weight_std=weight_std):
    scales = _scales(6, offset, weighting)
    expected = _expected_moments(x[0], depth, 'linear', scales, weight_std)
    return statistics_lib.mean_p_value(draws, expected)

  assert p_value(weighting, offset) > statistics_lib.FALSE_ALARM
  other = {'progressive': 'uniform', 'uniform': 'progressive'}[weighting]
  for wrong in [(other, offset), (weighting, 0.5), (weighting, offset, 1.3)]:
    assert p_value(*wrong) < statistics_lib.FALSE_ALARM


@pytest.mark.parametrize('activation, weight_std', [('relu', math.sqrt(2)), ('erf', 1.3)])
def test_variances_of_a_wide_network_are_those_of_the_limit(activation, weight_std):
  # False-alarm rate 1e-6 plus the error of the limit, of order 1 / width.
  depth = 8
  model = wide_resnet((8, 8, 3), 1, 32, depth, activation, weight_std=weight_std)
  x = np.random.default_rng(1).normal(size=(1, 8, 8, 3)).astype(np.float32)
  draws = prior_draws.second_moments(model, [*_sum_names(depth), 'pooling'], x, 40, seed=1)

  def p_value(activation, scales):
    expected = _expected_moments(x[0], depth, activation, scales, weight_std)
    return statistics_lib.mean_p_value(draws, expected)

  assert p_value(activation, _scales(3, 1.0, 'progressive')) > statistics_lib.FALSE_ALARM
  assert p_value('linear', _scales(3, 1.0, 'progressive')) < statistics_lib.FALSE_ALARM
  assert p_value(activation, 3 * [(1.0, 1.0)]) < statistics_lib.FALSE_ALARM


@pytest.mark.parametrize('weighting', ['progressive', 'uniform'])
def test_skip_sums_preserve_the_variance_away_from_borders(weighting):
  # Inputs of size 1 at each position, and positions that no zeros at the border reach: every sum of
  # a linear network has variance 1, exactly. False-alarm rate 1e-6.
  depth = 8
  model = wide_resnet((32, 32, 2), 1, 4, depth, 'linear', 1.0, weighting, weight_std=1.0)
  x = np.random.default_rng(1).choice([-1.0, 1.0], size=(1, 32, 32, 2)).astype(np.float32)

  def center(h):
    middle = h.shape[1] // 2
    return h[:, middle, middle]

  draws = prior_draws.second_moments(model, _sum_names(depth), x, 400, seed=1, where=center)
  assert statistics_lib.mean_p_value(draws, 1.0) > statistics_lib.FALSE_ALARM
  for layer in model.layers:  # plain sums: the variance doubles
    if isinstance(layer, tfr.layers.ScaledSum):
      layer.scales = [1.0, 1.0]
  draws = prior_draws.second_moments(model, _sum_names(depth), x, 400, seed=1, where=center)
  assert statistics_lib.mean_p_value(draws, 1.0) < statistics_lib.FALSE_ALARM


@pytest.mark.parametrize('offset', [0.3, 1.0, 4.0])
def test_progressive_scales_give_every_residual_the_same_share(offset):
  layers = wide_resnet((4, 4), 1, 1, depth=20, skip_offset=offset).layers
  sums = [layer.scales for layer in layers if isinstance(layer, tfr.layers.ScaledSum)]
  np.testing.assert_allclose(np.square(sums).sum(axis=1), 1.0, rtol=1e-14)
  shares = [r**2 * math.prod(s**2 for s, _ in sums[k + 1 :]) for k, (_, r) in enumerate(sums)]
  np.testing.assert_allclose(shares, 1 / (9 + offset), rtol=1e-12)
  np.testing.assert_allclose(math.prod(s**2 for s, _ in sums), offset / (9 + offset), rtol=1e-12)


# What is refused.


def _refuses(message):
  return pytest.raises(ValueError, match=re.escape(message))


@pytest.mark.parametrize('depth', [1, 2, 7, 9, 19])
def test_depth_must_be_six_m_plus_two(depth):
  with _refuses(f'`depth` must be 6 m + 2 with positive m: 8, 14, 20, ... Received: depth={depth}'):
    wide_resnet((8, 8, 3), 2, 4, depth)


@pytest.mark.parametrize('input_shape', [(7, 8, 3), (8, 10, 3), (30, 30)])
def test_height_and_width_must_be_multiples_of_four(input_shape):
  with _refuses(
    'Height and width of `input_shape` must be multiples of 4, because two stages halve them. '
    f'Received: input_shape={input_shape}'
  ):
    wide_resnet(input_shape, 2, 4, 8)


@pytest.mark.parametrize('offset', [0.0, -1.0, np.nan])
def test_skip_offset_must_be_positive(offset):
  with _refuses(f'`skip_offset` must be positive. Received: skip_offset={offset}'):
    wide_resnet((8, 8), 2, 4, 8, skip_offset=offset)


def test_skip_weighting_must_be_known():
  with _refuses(
    "`skip_weighting` must be one of 'progressive', 'uniform'. Received: skip_weighting='none'"
  ):
    wide_resnet((8, 8), 2, 4, 8, skip_weighting='none')
