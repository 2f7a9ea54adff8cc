"""ScaledSum: a sum with fixed scales."""

import re

import keras
import numpy as np
import pytest

import tfp_reprior as tfr

ScaledSum = tfr.layers.ScaledSum


def test_outputs_are_the_scaled_sum():
  x = np.random.default_rng(1).normal(size=(3, 2, 5, 4))
  layer = ScaledSum([0.5, -2.0, 3.0], dtype='float64')
  outputs = layer(list(x))
  np.testing.assert_allclose(outputs, 0.5 * x[0] - 2 * x[1] + 3 * x[2], rtol=1e-14)
  assert not layer.weights
  assert layer.compute_output_shape([(None, 5, 4)] * 3) == (None, 5, 4)


def test_a_saved_layer_reloads_with_its_scales(tmp_path):
  inputs = keras.Input((3,))
  model = keras.Model(inputs, ScaledSum((np.float64(0.6), 0.8))([inputs, inputs]))
  model.save(tmp_path / 'model.keras')
  reloaded = keras.saving.load_model(tmp_path / 'model.keras')
  assert reloaded.layers[-1].scales == [0.6, 0.8]
  assert reloaded.layers[-1].get_config() == model.layers[-1].get_config()


@pytest.mark.parametrize('scales', [[], 0.5, [1.0, np.nan], [np.inf]])
def test_scales_must_be_finite_floats(scales):
  message = f'`scales` must be a list of finite floats. Received: scales={scales!r}'
  with pytest.raises(ValueError, match=re.escape(message)):
    ScaledSum(scales)


@pytest.mark.parametrize('shapes', [[(2, 3)], [(2, 3), (2, 4)], [(2, 3)] * 3])
def test_inputs_must_fit(shapes):
  message = f'The inputs must be 2 tensors of one shape. Received: shapes {shapes}'
  with pytest.raises(ValueError, match=re.escape(message)):
    ScaledSum([1.0, 1.0])([np.ones(s, np.float32) for s in shapes])
