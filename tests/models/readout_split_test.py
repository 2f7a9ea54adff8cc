"""ReadoutSplit: features times readout is the model."""

import math

import keras
import numpy as np
import pytest
import statistics_lib
import tensorflow as tf
from toys import functional

import tfp_reprior as tfr

NTKConv2D, NTKDense, ReadoutSplit = (
  tfr.layers.NTKConv2D,
  tfr.layers.NTKDense,
  tfr.models.ReadoutSplit,
)
Dense, Input = keras.layers.Dense, keras.Input


@pytest.fixture(autouse=True)
def _float64():
  keras.config.set_floatx('float64')
  keras.config.set_dtype_policy('float64')
  yield
  keras.config.set_floatx('float32')
  keras.config.set_dtype_policy('float32')


def _skip():
  inputs = Input((3,))
  h = Dense(3, activation='tanh')(inputs)
  return keras.Model(inputs, Dense(2)(keras.layers.Add()([h, NTKDense(3, bias_std=0.2)(inputs)])))


# A model, and by hand the prior standard deviations of its variables: 1 for layers in NTK
# parametrisation, else sqrt(2 / fan_in) and 0.1, and sqrt(1 / fan_in) and 0.1 for the readout.
MODELS = {
  'ntk fcn': (lambda: tfr.models.fcn((3,), 2, 4, depth=2), [1] * 6),
  'ntk fcn without biases': (
    lambda: tfr.models.fcn((3,), 2, 4, bias_std=0.0, readout_bias_std=0.0, depth=1),
    [1, 1],
  ),
  'ntk fcn of images': (lambda: tfr.models.fcn((2, 2, 3), 2, 4, depth=1), [1] * 4),
  'plain functional': (
    lambda: functional((3,), Dense(4, 'relu'), Dense(5, 'relu', use_bias=False), Dense(2)),
    [math.sqrt(2 / 3), 0.1, math.sqrt(2 / 4), math.sqrt(1 / 5), 0.1],
  ),
  'plain without readout bias': (
    lambda: functional((3,), Dense(4, 'relu'), Dense(2, use_bias=False)),
    [math.sqrt(2 / 3), 0.1, math.sqrt(1 / 4)],
  ),
  'plain sequential': (
    lambda: keras.Sequential([Input((3,)), Dense(4, 'relu'), Dense(2)]),
    [math.sqrt(2 / 3), 0.1, math.sqrt(1 / 4), 0.1],
  ),
  'plain hidden layer, ntk readout': (
    lambda: keras.Sequential([Input((3,)), Dense(4, 'relu'), NTKDense(2, 0.7, 0.3)]),
    [math.sqrt(2 / 3), 0.1, 1, 1],
  ),
  'ntk convolution, flatten': (
    lambda: functional(
      (4, 4, 2), NTKConv2D(3, 3, 2, 'same', 1.5, 0.2, 'gelu'), keras.layers.Flatten(), NTKDense(2)
    ),
    [1, 1, 1],
  ),
  'ntk convolution, average pooling': (
    lambda: functional(
      (4, 4, 2),
      NTKConv2D(3, 3, 1, 'valid', 1.5, 0.2, 'gelu'),
      keras.layers.GlobalAveragePooling2D(),
      NTKDense(2, bias_std=0.1),
    ),
    [1] * 4,
  ),
  'plain convolution': (
    lambda: functional((4, 4, 2), keras.layers.Conv2D(3, (3, 2)), keras.layers.Flatten(), Dense(2)),
    [math.sqrt(2 / 12), 0.1, math.sqrt(1 / 18), 0.1],
  ),
  'plain depthwise convolution': (
    lambda: functional(
      (4, 4, 2),
      keras.layers.DepthwiseConv2D((3, 2), depth_multiplier=2),
      keras.layers.Flatten(),
      Dense(2),
    ),
    [math.sqrt(2 / 6), 0.1, math.sqrt(1 / 24), 0.1],
  ),
  'depthwise convolution in time': (
    lambda: functional(
      (6, 3), keras.layers.DepthwiseConv1D(4), keras.layers.GlobalAveragePooling1D(), Dense(2)
    ),
    [math.sqrt(2 / 4), 0.1, math.sqrt(1 / 3), 0.1],
  ),
  'layer in a layer': (
    lambda: functional(
      (5, 3), keras.layers.TimeDistributed(Dense(4, 'relu')), keras.layers.Flatten(), Dense(2)
    ),
    [math.sqrt(2 / 3), 0.1, math.sqrt(1 / 20), 0.1],
  ),
  'nested at the end': (
    lambda: functional((3,), Dense(4, 'relu'), functional((4,), Dense(5, 'relu'), Dense(2))),
    [math.sqrt(2 / 3), 0.1, math.sqrt(2 / 4), 0.1, math.sqrt(1 / 5), 0.1],
  ),
  'nested twice at the end': (
    lambda: keras.Sequential(
      [Input((3,)), keras.Sequential([Input((3,)), tfr.models.fcn((3,), 2, 4, depth=1)])]
    ),
    [1] * 4,
  ),
  'nested at the end, linear': (
    lambda: functional((3,), Dense(4, 'relu'), functional((4,), Dense(2))),
    [math.sqrt(2 / 3), 0.1, math.sqrt(1 / 4), 0.1],
  ),
  'nested in the middle': (
    lambda: functional((3,), functional((3,), NTKDense(4), Dense(5, 'relu')), Dense(2)),
    [1, math.sqrt(2 / 4), 0.1, math.sqrt(1 / 5), 0.1],
  ),
  'skip connection': (_skip, [math.sqrt(2 / 3), 0.1, 1, 1, math.sqrt(1 / 3), 0.1]),
  'linear': (lambda: functional((3,), NTKDense(2, 0.7, 0.3)), [1, 1]),
  'plain linear, sequential': (
    lambda: keras.Sequential([Input((3,)), Dense(2)]),
    [math.sqrt(1 / 3), 0.1],
  ),
}

every_model = pytest.mark.parametrize('make, stds', MODELS.values(), ids=MODELS.keys())


def _inputs(model, n=5):
  return np.random.default_rng(1).normal(size=(n, *model.input_shape[1:]))


def _model_outputs(model, weights, x):
  outputs, _ = model.stateless_call([tf.constant(w) for w in weights], [], x)
  return outputs.numpy()


@every_model
def test_features_times_readout_is_the_model(make, stds):
  model = make()
  split, x = ReadoutSplit(model), _inputs(model)
  parts = split.sample_prior(seed=[0, 1])
  expected = _model_outputs(model, [s * p for s, p in zip(stds, parts, strict=True)], x)
  psi = split.embed(parts[: split.num_hidden], x).numpy()
  kernel, *bias = (p.numpy() for p in parts[split.num_hidden :])
  theta_out = np.concatenate([kernel, *(b[np.newaxis] for b in bias)])
  assert expected.shape == (5, 2)
  assert psi.shape == (5, split.num_features)
  np.testing.assert_allclose(psi @ theta_out, expected, rtol=0, atol=1e-12)
  np.testing.assert_allclose(split.apply(parts, x), expected, rtol=0, atol=1e-12)


@every_model
def test_parts_are_in_the_order_of_the_trainable_variables(make, stds):
  del stds
  model = make()
  split = ReadoutSplit(model)
  readout = 1 + split.has_bias
  shapes = [tuple(v.shape) for v in model.trainable_variables]
  assert split.event_shapes == shapes
  assert split.event_ndims == [len(s) for s in shapes]
  assert split.num_parameters == model.count_params()
  assert split.num_hidden == len(shapes) - readout
  assert split.num_features == shapes[-readout][0] + split.has_bias
  assert split.num_outputs == 2
  assert split.dtype == tf.float64


@every_model
def test_assign_and_current_parts_are_inverse(make, stds):
  model = make()
  split, x = ReadoutSplit(model), _inputs(model)
  before = [v.numpy() for v in model.trainable_variables]
  initial = split.current_parts()
  for value, part, std in zip(before, initial, stds, strict=True):
    np.testing.assert_allclose(part, value / std, rtol=1e-12)
  parts = split.sample_prior(seed=[0, 1])
  split.assign(parts)
  for part, current in zip(parts, split.current_parts(), strict=True):
    np.testing.assert_allclose(current, part, rtol=1e-12)
  np.testing.assert_allclose(model(x), split.apply(parts, x), rtol=0, atol=1e-12)
  split.assign(initial)  # not changed by the assignment in between
  for value, variable in zip(before, model.trainable_variables, strict=True):
    np.testing.assert_allclose(variable.numpy(), value, rtol=1e-12)


def test_the_model_is_not_changed_by_evaluating_it():
  model = tfr.models.fcn((3,), 2, 4)
  before = [v.numpy() for v in model.trainable_variables]
  split = ReadoutSplit(model)
  split.apply(split.sample_prior(4, seed=[0, 1]), _inputs(model))
  for value, variable in zip(before, model.trainable_variables, strict=True):
    np.testing.assert_array_equal(variable.numpy(), value)


def test_features_are_the_scaled_embeddings_and_the_scaled_constant():
  model = tfr.models.fcn(
    (3,), 2, 4, 1, 'tanh', 1.5, 0.2, readout_weight_std=0.7, readout_bias_std=0.3
  )
  split, x = ReadoutSplit(model), _inputs(model)
  kernel, bias = split.sample_prior(seed=[0, 1])[:2]
  h = np.tanh(1.5 / np.sqrt(3) * x @ kernel.numpy() + 0.2 * bias.numpy())
  expected = np.concatenate([0.7 / np.sqrt(4) * h, np.full([5, 1], 0.3)], axis=1)
  np.testing.assert_allclose(split.embed([kernel, bias], x), expected, rtol=0, atol=1e-12)


def test_scales_of_plain_layers_are_the_arguments():
  model = functional((3,), Dense(4, 'relu'), Dense(2))
  split = ReadoutSplit(model, 1.1, 0.2, 0.7, 0.3)
  stds = [1.1 / math.sqrt(3), 0.2, 0.7 / math.sqrt(4), 0.3]
  parts, x = split.sample_prior(seed=[0, 1]), _inputs(model)
  expected = _model_outputs(model, [s * p for s, p in zip(stds, parts, strict=True)], x)
  np.testing.assert_allclose(split.apply(parts, x), expected, rtol=0, atol=1e-12)


def test_a_plain_model_has_the_log_density_of_the_ntk_model_at_the_same_parts():
  ntk = tfr.models.fcn((3,), 2, 4, 2, 'tanh', 1.1, 0.2, 0.7, 0.3)
  plain = functional((3,), Dense(4, 'tanh'), Dense(4, 'tanh'), Dense(2))
  x, y = _inputs(ntk), np.random.default_rng(2).normal(size=(5, 2))
  posteriors = [
    tfr.Posterior(s, x, y, noise_scale=0.1) for s in (ntk, ReadoutSplit(plain, 1.1, 0.2, 0.7, 0.3))
  ]
  parts = posteriors[0].sample_prior(3, seed=[0, 1])
  expected, actual = (p.target_log_prob_fn(*parts) for p in posteriors)
  np.testing.assert_allclose(actual, expected, rtol=1e-12)
  other = tfr.Posterior(ReadoutSplit(plain, 1.1, 0.2, 0.7, 0.31), x, y, noise_scale=0.1)
  assert not np.allclose(other.target_log_prob_fn(*parts), expected, rtol=1e-6)


def test_a_sequential_model_that_was_called_on_data_can_be_split():
  model = keras.Sequential([Dense(4, 'relu'), Dense(2)])
  x = np.random.default_rng(1).normal(size=(5, 3))
  model(x)
  split = ReadoutSplit(model)
  np.testing.assert_allclose(split.apply(split.current_parts(), x), model(x), rtol=0, atol=1e-12)


# The private names of Keras.


def test_keras_still_records_which_call_gave_an_output():
  why = 'Keras dropped or changed {}, which `models/readout_split.py` needs to find the readout'
  readout = Dense(2)
  inputs = Input((3,))
  first, second = readout(inputs), readout(keras.layers.ReLU()(inputs))
  assert hasattr(second, '_keras_history'), why.format('`KerasTensor._keras_history`')
  assert len(second._keras_history) == 3, why.format('the fields of `_keras_history`')
  layer, node_index, _ = second._keras_history
  assert layer is readout and node_index == 1, why.format('the meaning of `_keras_history`')
  assert hasattr(readout, '_inbound_nodes'), why.format('`Layer._inbound_nodes`')
  nodes = readout._inbound_nodes
  assert nodes[0].input_tensors[0] is inputs, why.format('`Node.input_tensors`')
  assert nodes[0].output_tensors[0] is first, why.format('the order of `_inbound_nodes`')
  assert nodes[1].output_tensors[0] is second, why.format('the order of `_inbound_nodes`')


@pytest.mark.parametrize('nested', [False, True])
def test_a_readout_called_elsewhere_first_is_split_at_the_right_call(nested):
  inputs = Input((3,))
  readout = functional((4,), NTKDense(4), NTKDense(2)) if nested else NTKDense(2)
  elsewhere = keras.Model(inputs, readout(NTKDense(4, activation='relu')(inputs)))
  model = keras.Model(inputs, readout(NTKDense(4, activation='tanh')(inputs)))
  x = _inputs(model)
  for m in (model, elsewhere):
    split = ReadoutSplit(m)
    np.testing.assert_allclose(split.apply(split.current_parts(), x), m(x), rtol=0, atol=1e-12)
  assert not np.allclose(model(x), elsewhere(x), atol=0.1)


def test_hidden_layers_may_be_used_twice():
  shared = Dense(3, 'tanh')
  model = functional((3,), shared, shared, Dense(2))
  split, x = ReadoutSplit(model), _inputs(model)
  assert len(split.event_shapes) == 4
  np.testing.assert_allclose(split.apply(split.current_parts(), x), model(x), rtol=0, atol=1e-12)


# Draws of the prior.


@pytest.mark.parametrize(
  'sample_shape, chains', [((), ()), (4, (4,)), ([4], (4,)), ((2, 3), (2, 3))]
)
def test_prior_draws_have_the_chain_dimensions_asked_for(sample_shape, chains):
  split = ReadoutSplit(tfr.models.fcn((3,), 2, 4, depth=1))
  parts = split.sample_prior(sample_shape, seed=[0, 1])
  assert [p.shape for p in parts] == [(*chains, *s) for s in [(3, 4), (4,), (4, 2), (2,)]]
  assert {p.dtype for p in parts} == {tf.float64}


@pytest.mark.parametrize('seed', [1, [1, 2], tf.constant([1, 2])], ids=['int', 'list', 'tensor'])
def test_prior_draws_are_determined_by_the_seed(seed):
  split = ReadoutSplit(tfr.models.fcn((3,), 2, 4, depth=1))
  other_seed = seed + 1 if isinstance(seed, int) else [1, 3]
  for a, b, other in zip(
    split.sample_prior(2, seed),
    split.sample_prior(2, seed),
    split.sample_prior(2, other_seed),
    strict=True,
  ):
    np.testing.assert_array_equal(a, b)
    assert not np.isin(a, other).any()


def test_prior_draws_are_the_same_traced_and_compiled():
  split = ReadoutSplit(tfr.models.fcn((3,), 2, 4, depth=1))
  expected = split.sample_prior(2, seed=tf.constant([1, 2]))
  for jit_compile in (False, True):
    draw = tf.function(lambda seed: split.sample_prior(2, seed), jit_compile=jit_compile)
    for a, b in zip(draw(tf.constant([1, 2])), expected, strict=True):
      np.testing.assert_allclose(a, b, rtol=1e-12)


def test_prior_draws_without_a_seed_differ():
  split = ReadoutSplit(tfr.models.fcn((3,), 2, 4, depth=1))
  for a, b in zip(split.sample_prior(), split.sample_prior(), strict=True):
    assert not np.isin(a, b).any()


def test_parts_and_chains_of_a_prior_draw_share_no_noise():
  split = ReadoutSplit(tfr.models.fcn((4,), 4, 4, depth=3))
  parts = split.sample_prior(3, seed=[0, 1])
  flat = np.concatenate([np.ravel(p) for p in parts])
  assert np.unique(flat).size == flat.size


def test_prior_draws_are_standard_normal():
  # False-alarm rate 1e-6 for each part.
  split = ReadoutSplit(functional((3,), Dense(4, 'relu'), Dense(2)))
  for part in split.sample_prior(2000, seed=[0, 1]):
    draws = np.ravel(part)
    assert statistics_lib.cdf_p_value(draws, 'norm') > statistics_lib.FALSE_ALARM
    assert statistics_lib.cdf_p_value(1.2 * draws, 'norm') < statistics_lib.FALSE_ALARM


def test_repr_says_what_it_is():
  split = ReadoutSplit(tfr.models.fcn((3,), 2, 4, depth=1, name='net'))
  assert repr(split) == (
    "ReadoutSplit(model='net', num_features=5, num_outputs=2, num_parameters=26, dtype=float64)"
  )
