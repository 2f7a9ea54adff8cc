"""ReadoutSplit: features times readout is the model, and which models cannot be split."""

import math
import re

import keras
import numpy as np
import pytest
import statistics_lib
import tensorflow as tf

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


def _functional(input_shape, *layers):
  inputs = h = Input(input_shape)
  for layer in layers:
    h = layer(h)
  return keras.Model(inputs, h)


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
    lambda: _functional((3,), Dense(4, 'relu'), Dense(5, 'relu', use_bias=False), Dense(2)),
    [math.sqrt(2 / 3), 0.1, math.sqrt(2 / 4), math.sqrt(1 / 5), 0.1],
  ),
  'plain without readout bias': (
    lambda: _functional((3,), Dense(4, 'relu'), Dense(2, use_bias=False)),
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
    lambda: _functional(
      (4, 4, 2), NTKConv2D(3, 3, 2, 'same', 1.5, 0.2, 'gelu'), keras.layers.Flatten(), NTKDense(2)
    ),
    [1, 1, 1],
  ),
  'ntk convolution, average pooling': (
    lambda: _functional(
      (4, 4, 2),
      NTKConv2D(3, 3, 1, 'valid', 1.5, 0.2, 'gelu'),
      keras.layers.GlobalAveragePooling2D(),
      NTKDense(2, bias_std=0.1),
    ),
    [1] * 4,
  ),
  'plain convolution': (
    lambda: _functional(
      (4, 4, 2), keras.layers.Conv2D(3, (3, 2)), keras.layers.Flatten(), Dense(2)
    ),
    [math.sqrt(2 / 12), 0.1, math.sqrt(1 / 18), 0.1],
  ),
  'nested at the end': (
    lambda: _functional((3,), Dense(4, 'relu'), _functional((4,), Dense(5, 'relu'), Dense(2))),
    [math.sqrt(2 / 3), 0.1, math.sqrt(2 / 4), 0.1, math.sqrt(1 / 5), 0.1],
  ),
  'nested twice at the end': (
    lambda: keras.Sequential(
      [Input((3,)), keras.Sequential([Input((3,)), tfr.models.fcn((3,), 2, 4, depth=1)])]
    ),
    [1] * 4,
  ),
  'nested at the end, linear': (
    lambda: _functional((3,), Dense(4, 'relu'), _functional((4,), Dense(2))),
    [math.sqrt(2 / 3), 0.1, math.sqrt(1 / 4), 0.1],
  ),
  'nested in the middle': (
    lambda: _functional((3,), _functional((3,), NTKDense(4), Dense(5, 'relu')), Dense(2)),
    [1, math.sqrt(2 / 4), 0.1, math.sqrt(1 / 5), 0.1],
  ),
  'skip connection': (_skip, [math.sqrt(2 / 3), 0.1, 1, 1, math.sqrt(1 / 3), 0.1]),
  'linear': (lambda: _functional((3,), NTKDense(2, 0.7, 0.3)), [1, 1]),
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
  model = _functional((3,), Dense(4, 'relu'), Dense(2))
  split = ReadoutSplit(model, 1.1, 0.2, 0.7, 0.3)
  stds = [1.1 / math.sqrt(3), 0.2, 0.7 / math.sqrt(4), 0.3]
  parts, x = split.sample_prior(seed=[0, 1]), _inputs(model)
  expected = _model_outputs(model, [s * p for s, p in zip(stds, parts, strict=True)], x)
  np.testing.assert_allclose(split.apply(parts, x), expected, rtol=0, atol=1e-12)


def test_a_plain_model_has_the_log_density_of_the_ntk_model_at_the_same_parts():
  ntk = tfr.models.fcn((3,), 2, 4, 2, 'tanh', 1.1, 0.2, 0.7, 0.3)
  plain = _functional((3,), Dense(4, 'tanh'), Dense(4, 'tanh'), Dense(2))
  x, y = _inputs(ntk), np.random.default_rng(2).normal(size=(5, 2))
  posteriors = [tfr.Posterior(s, x, y) for s in (ntk, ReadoutSplit(plain, 1.1, 0.2, 0.7, 0.3))]
  parts = posteriors[0].sample_prior(3, seed=[0, 1])
  expected, actual = (p.target_log_prob_fn(*parts) for p in posteriors)
  np.testing.assert_allclose(actual, expected, rtol=1e-12)
  other = tfr.Posterior(ReadoutSplit(plain, 1.1, 0.2, 0.7, 0.31), x, y)
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
  readout = _functional((4,), NTKDense(4), NTKDense(2)) if nested else NTKDense(2)
  elsewhere = keras.Model(inputs, readout(NTKDense(4, activation='relu')(inputs)))
  model = keras.Model(inputs, readout(NTKDense(4, activation='tanh')(inputs)))
  x = _inputs(model)
  for m in (model, elsewhere):
    split = ReadoutSplit(m)
    np.testing.assert_allclose(split.apply(split.current_parts(), x), m(x), rtol=0, atol=1e-12)
  assert not np.allclose(model(x), elsewhere(x), atol=0.1)


def test_hidden_layers_may_be_used_twice():
  shared = Dense(3, 'tanh')
  model = _functional((3,), shared, shared, Dense(2))
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
  split = ReadoutSplit(_functional((3,), Dense(4, 'relu'), Dense(2)))
  for part in split.sample_prior(2000, seed=[0, 1]):
    draws = np.ravel(part)
    assert statistics_lib.cdf_p_value(draws, 'norm') > statistics_lib.FALSE_ALARM
    assert statistics_lib.cdf_p_value(1.2 * draws, 'norm') < statistics_lib.FALSE_ALARM


def test_repr_says_what_it_is():
  split = ReadoutSplit(tfr.models.fcn((3,), 2, 4, depth=1, name='net'))
  assert repr(split) == (
    "ReadoutSplit(model='net', num_features=5, num_outputs=2, num_parameters=26, dtype=float64)"
  )


# Models that cannot be split.


class _Subclassed(keras.Model):
  def __init__(self):
    super().__init__(name='mine')
    self.readout = Dense(2)

  def call(self, inputs):
    return self.readout(inputs)


def _shared_readout():
  readout = Dense(3, name='readout')
  return _functional((3,), readout, keras.layers.ReLU(), readout)


def _readout_tied_through_a_nested_model():
  readout = Dense(3, name='readout')
  return _functional((3,), _functional((3,), readout, keras.layers.ReLU()), readout)


def _nested_model_used_twice():
  nested = _functional((3,), Dense(4, 'relu'), Dense(3, name='readout'))
  return _functional((3,), nested, nested)


def _two_outputs():
  inputs = Input((3,))
  return keras.Model(inputs, [Dense(2)(inputs), Dense(2)(inputs)], name='net')


def _two_inputs():
  inputs = [Input((3,)), Input((3,))]
  return keras.Model(inputs, Dense(2)(keras.layers.Add()(inputs)), name='net')


def _frozen():
  frozen = Dense(4, name='frozen')
  frozen.trainable = False
  return _functional((3,), frozen, Dense(2))


NOT_SPLIT = {
  'not a model': (lambda: Dense(2), '`model` must be a `keras.Model`. Received: Dense'),
  'unbuilt sequential': (
    lambda: keras.Sequential([Dense(2)], name='net'),
    "with a `keras.Input` first (or called once on data). Received: 'net' of type Sequential",
  ),
  'subclassed': (
    _Subclassed,
    'its graph is not known: it must be functional, or Sequential with a `keras.Input` first (or '
    "called once on data). Received: 'mine' of type _Subclassed",
  ),
  'two outputs': (_two_outputs, "Received: 'net' with 1 inputs and 2 outputs"),
  'two inputs': (_two_inputs, "Received: 'net' with 2 inputs and 1 outputs"),
  'nonlinear readout': (
    lambda: _functional((3,), Dense(2, 'softmax', name='last')),
    "The readout must be linear; its activation belongs to the likelihood. Received: 'last' with "
    "activation 'softmax'",
  ),
  'nonlinear ntk readout': (
    lambda: _functional((3,), NTKDense(2, activation='tanh', name='last')),
    "Received: 'last' with activation 'tanh'",
  ),
  'nonlinear nested readout': (
    lambda: _functional((3,), _functional((3,), Dense(2, 'relu', name='last'))),
    "Received: 'last' with activation 'relu'",
  ),
  'softmax at the end': (
    lambda: _functional((3,), Dense(2), keras.layers.Activation('softmax', name='last')),
    "Received: a model that ends in 'last' of type Activation",
  ),
  'output of rank 3': (
    lambda: _functional((5, 3), Dense(2)),
    'The output of the model must have shape [n, k]. Received: an output of shape (None, 5, 2)',
  ),
  'batch normalization': (
    lambda: _functional((3,), keras.layers.BatchNormalization(name='bad'), Dense(2)),
    "Received: layer 'bad' of type BatchNormalization with non-trainable variables "
    "['moving_mean', 'moving_variance']",
  ),
  'dropout': (
    lambda: _functional((3,), keras.layers.Dropout(0.5, name='bad'), Dense(2)),
    "(no batch normalization, dropout or frozen layers). Received: layer 'bad' of type Dropout",
  ),
  'dropout in a nested model': (
    lambda: _functional((3,), _functional((3,), keras.layers.Dropout(0.5, name='bad')), Dense(2)),
    "Received: layer 'bad' of type Dropout",
  ),
  'frozen layer': (_frozen, "layer 'frozen' of type Dense with non-trainable variables ['kernel'"),
  'shared readout': (
    _shared_readout,
    "The weights of the readout must be used once. Received: readout 'readout', which is shared",
  ),
  'readout tied through a nested model': (
    _readout_tied_through_a_nested_model,
    "The weights of the readout must be used once. Received: readout 'readout', which is shared",
  ),
  'nested model used twice': (
    _nested_model_used_twice,
    "The weights of the readout must be used once. Received: readout 'readout', which is shared",
  ),
  'layer normalization': (
    lambda: _functional((3,), keras.layers.LayerNormalization(name='bad'), Dense(2)),
    'Received: bad/gamma of shape (3,) in a layer of type LayerNormalization',
  ),
  'mixed precision': (
    lambda: _functional((3,), Dense(4, dtype='mixed_float16'), Dense(2, dtype='mixed_float16')),
    'The model must be float32 or float64 throughout (set the dtype policy of its layers). '
    'Received: float16, float32',
  ),
  'mixed precision in a hidden layer': (
    lambda: _functional((3,), Dense(4, dtype='mixed_float16'), Dense(2, dtype='float32')),
    'Received: float16, float32',
  ),
  'half precision': (
    lambda: _functional((3,), Dense(4, dtype='float16'), Dense(2, dtype='float16')),
    'Received: float16',
  ),
  'two precisions': (
    lambda: _functional((3,), Dense(4, dtype='float32'), Dense(2)),
    'Received: float32, float64',
  ),
  'two precisions through a layer without weights': (
    lambda: _functional((3,), Dense(4), keras.layers.ReLU(dtype='float32'), Dense(2)),
    'Received: float32, float64',
  ),
  'inputs of another precision': (
    lambda: keras.Sequential([Input((3,), dtype='float32'), Dense(2)]),
    'Received: float32, float64',
  ),
}


@pytest.mark.parametrize('make, message', NOT_SPLIT.values(), ids=NOT_SPLIT.keys())
def test_a_model_that_cannot_be_split_is_refused_with_the_reason(make, message):
  with pytest.raises(ValueError, match=re.escape(message)):
    ReadoutSplit(make())


@pytest.mark.parametrize(
  'name', ['weight_std', 'bias_std', 'readout_weight_std', 'readout_bias_std']
)
@pytest.mark.parametrize('value', [0.0, -1.0, np.nan])
def test_prior_scales_must_be_positive(name, value):
  message = f'`{name}` must be positive. Received: {name}={value}'
  with pytest.raises(ValueError, match=re.escape(message)):
    ReadoutSplit(_functional((3,), Dense(2)), **{name: value})


# Parts that do not fit.


def _split_and_parts(chains=()):
  split = ReadoutSplit(tfr.models.fcn((3,), 2, 4, depth=1))
  return split, split.sample_prior(chains, seed=[0, 1])


def test_too_few_parts_are_refused():
  split, parts = _split_and_parts()
  message = '`parts` must be a list of 4 tensors of shapes [(3, 4), (4,), (4, 2), (2,)]'
  with pytest.raises(ValueError, match=re.escape(message) + '.*Received: 3 parts'):
    split.apply(parts[:-1], np.ones([5, 3]))


def test_all_parts_in_place_of_the_hidden_ones_are_refused():
  split, parts = _split_and_parts()
  message = '`hidden_parts` must be a list of 2 tensors of shapes [(3, 4), (4,)]'
  with pytest.raises(ValueError, match=re.escape(message) + '.*Received: 4 parts'):
    split.embed(parts, np.ones([5, 3]))


def test_one_tensor_in_place_of_a_list_is_refused():
  split, parts = _split_and_parts(chains=4)
  with pytest.raises(ValueError, match='`parts` must be a list of 4 tensors .* Received: .*Tensor'):
    split.apply(parts[0], np.ones([5, 3]))


def test_parts_of_another_dtype_are_refused():
  split, parts = _split_and_parts()
  parts[1] = tf.cast(parts[1], tf.float32)
  message = '`parts` must have the dtype of the model, float64. Received: parts[1] of dtype float32'
  with pytest.raises(TypeError, match=re.escape(message)):
    split.apply(parts, np.ones([5, 3]))


@pytest.mark.parametrize('shape', [(5, 2), (2,), (4, 3, 4, 3)])
def test_parts_of_another_shape_are_refused(shape):
  split, parts = _split_and_parts()
  parts[2] = tf.ones(shape, tf.float64)
  message = f'`parts[2]` must have shape (4, 2) after its chain dimensions. Received: shape {shape}'
  with pytest.raises(ValueError, match=re.escape(message)):
    split.apply(parts, np.ones([5, 3]))


@pytest.mark.parametrize('shape', [(2,), (3, 2), (1, 2), (4, 4, 2)])
def test_parts_with_other_chain_dimensions_are_refused(shape):
  split, parts = _split_and_parts(chains=4)
  parts[3] = tf.ones(shape, tf.float64)
  shapes = [(4, 3, 4), (4, 4), (4, 4, 2), shape]
  message = f'`parts` must have the same chain dimensions. Received: shapes {shapes} for events'
  with pytest.raises(ValueError, match=re.escape(message)):
    split.apply(parts, np.ones([5, 3]))


def test_many_draws_cannot_be_assigned():
  split, parts = _split_and_parts(chains=4)
  before = split.current_parts()
  message = (
    '`parts` must be one draw, without chain dimensions. Received: a part of shape (4, 3, 4)'
  )
  with pytest.raises(ValueError, match=re.escape(message)):
    split.assign(parts)
  for a, b in zip(before, split.current_parts(), strict=True):
    np.testing.assert_array_equal(a, b)
