"""Many chains through a model at once, or one after the other: the same as a loop."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfp_reprior as tfr
from tfp_reprior.models import stateless


@pytest.fixture(autouse=True)
def _float64():
  keras.config.set_floatx('float64')
  keras.config.set_dtype_policy('float64')
  yield
  keras.config.set_floatx('float32')
  keras.config.set_dtype_policy('float32')


def _conv():
  inputs = keras.Input((4, 4, 2))
  h = tfr.layers.NTKConv2D(3, 3, 2, bias_std=0.2, activation='tanh')(inputs)
  return keras.Model(inputs, tfr.layers.NTKDense(2, bias_std=0.1)(keras.layers.Flatten()(h)))


def _plain(use_bias=True):
  return keras.Sequential(
    [
      keras.Input((3,)),
      keras.layers.Dense(4, 'tanh', use_bias=use_bias),
      keras.layers.Dense(5, 'tanh', use_bias=use_bias),
      keras.layers.Dense(2),
    ]
  )


def _sequence():
  # A matrix product with a kernel for each chain would take the data for the chains here.
  inputs = keras.Input((3, 4))
  h = tfr.layers.NTKDense(4, bias_std=0.2, activation='tanh')(inputs)
  h = keras.layers.GlobalAveragePooling1D()(h)
  return keras.Model(inputs, tfr.layers.NTKDense(2, bias_std=0.1)(h))


MODELS = {
  'dense': lambda: tfr.models.fcn((3,), 2, 4, depth=2),
  'dense, images': lambda: tfr.models.fcn((2, 2, 3), 2, 4, depth=1, bias_std=0.0),
  'convolution': _conv,
  'plain dense': _plain,
  'plain dense without biases': lambda: _plain(use_bias=False),
  'sequence': _sequence,
  'linear': lambda: keras.Sequential([keras.Input((3,)), tfr.layers.NTKDense(2, bias_std=0.1)]),
}

every_model = pytest.mark.parametrize('make', MODELS.values(), ids=MODELS.keys())


def _compile(function, how):
  return function if how == 'eager' else tf.function(function, jit_compile=how == 'compiled')


def _split_parts_inputs(make, chains, n=5):
  split = tfr.models.ReadoutSplit(make())
  x = np.random.default_rng(1).normal(size=(n, *split.model.input_shape[1:]))
  return split, split.sample_prior(chains, seed=[0, 1]), tf.constant(x)


@pytest.mark.parametrize(
  'name, chains, how',
  [
    *((n, c, 'eager') for n in MODELS for c in ((), (4,), (2, 3))),
    *((n, (2, 3), 'traced') for n in MODELS),
    # Others are compiled together with their gradients below.
    ('plain dense without biases', (2, 3), 'compiled'),
    *((n, (2, 3), 'compiled') for n in ('dense, images', 'sequence', 'linear')),
  ],
)
def test_chains_are_a_loop_over_single_chains(name, chains, how):
  split, parts, x = _split_parts_inputs(MODELS[name], chains)

  def evaluate(*parts):
    return split.embed(parts[: split.num_hidden], x), split.apply(parts, x)

  psi, outputs = _compile(evaluate, how)(*parts)
  # Without hidden parts the features are those of the inputs, for every chain.
  assert psi.shape == (*(chains if split.num_hidden else ()), 5, split.num_features)
  assert outputs.shape == (*chains, 5, 2)
  for index in np.ndindex(*chains):
    expected = evaluate(*(p[index] for p in parts))
    actual = psi[index] if split.num_hidden else psi
    np.testing.assert_allclose(actual, expected[0], rtol=0, atol=1e-12)
    np.testing.assert_allclose(outputs[index], expected[1], rtol=0, atol=1e-12)


@pytest.mark.parametrize(
  'name, how',
  [
    *((name, 'eager') for name in MODELS),
    *((name, 'traced') for name in MODELS),
    *((name, 'compiled') for name in ('dense', 'convolution', 'plain dense')),
  ],
)
def test_gradients_of_chains_are_those_of_a_loop(name, how):
  split, parts, x = _split_parts_inputs(MODELS[name], (2, 3))

  def gradient(*parts):
    with tf.GradientTape() as tape:
      tape.watch(parts)
      value = tf.reduce_sum(tf.sin(split.apply(parts, x)))
    return tape.gradient(value, parts)

  gradients = _compile(gradient, how)(*parts)
  for index in np.ndindex(2, 3):
    for actual, expected in zip(gradients, gradient(*(p[index] for p in parts)), strict=True):
      np.testing.assert_allclose(actual[index], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize('n', [1, 2, 4])
@every_model
def test_chains_are_not_taken_for_data_when_there_are_as_many(make, n):
  split, parts, x = _split_parts_inputs(make, (n,), n)
  outputs = split.apply(parts, x)
  for c in range(n):
    expected = split.apply([p[c] for p in parts], x)
    np.testing.assert_allclose(outputs[c], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize('make', [MODELS['dense'], MODELS['convolution']], ids=['dense', 'conv'])
def test_the_number_of_chains_may_be_unknown_when_traced(make):
  split, parts, x = _split_parts_inputs(make, (3,))
  signature = [tf.TensorSpec([None, *s], tf.float64) for s in split.event_shapes]
  apply = tf.function(lambda *parts: split.apply(parts, x), input_signature=signature)
  outputs = apply(*parts)
  for c in range(3):
    expected = split.apply([p[c] for p in parts], x)
    np.testing.assert_allclose(outputs[c], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
  'name, at_once',
  [
    ('dense', True),
    ('dense, images', True),
    ('convolution', False),
    ('plain dense', False),
    ('sequence', False),
  ],
)
def test_only_layers_that_know_chains_take_them_at_once(name, at_once):
  # Whole model, readout included.
  assert stateless.StatelessModel(MODELS[name]()).accepts_chains is at_once


def test_a_layer_that_mixes_chains_is_found_out():
  # The shapes are right and no error is raised, but each chain sees the others.
  inputs = keras.Input((3,))
  h = tfr.layers.NTKDense(4)(inputs)
  h = keras.layers.Lambda(lambda h: h - keras.ops.mean(h, axis=0, keepdims=True))(h)
  model = keras.Model(inputs, tfr.layers.NTKDense(2)(h))
  assert not stateless.StatelessModel(model).accepts_chains


def test_whether_chains_are_accepted_is_found_out_while_tracing_too():
  model = stateless.StatelessModel(MODELS['dense']())
  tf.function(lambda: tf.constant(model.accepts_chains), jit_compile=True)()
  assert model.accepts_chains is True


def test_float32_models_take_chains():
  split = tfr.models.ReadoutSplit(tfr.models.fcn((3,), 2, 64, dtype='float32'))
  x = np.random.default_rng(1).normal(size=(5, 3)).astype(np.float32)
  parts = split.sample_prior(4, seed=[0, 1])
  outputs = split.apply(parts, x)
  assert outputs.dtype == tf.float32
  assert stateless.StatelessModel(split.model).accepts_chains
  for c in range(4):
    np.testing.assert_allclose(outputs[c], split.apply([p[c] for p in parts], x), atol=1e-5)
