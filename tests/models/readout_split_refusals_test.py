"""ReadoutSplit: which models cannot be split, and which parts do not fit."""

import re

import keras
import numpy as np
import pytest
import tensorflow as tf
from toys import functional

import tfp_reprior as tfr

NTKDense, ReadoutSplit = tfr.layers.NTKDense, tfr.models.ReadoutSplit
Dense, Flatten, Input = keras.layers.Dense, keras.layers.Flatten, keras.Input
X = np.ones([5, 3], np.float32)


def _shared_readout():
  readout = Dense(3, name='readout')
  return functional((3,), readout, keras.layers.ReLU(), readout)


def _readout_tied_through_a_nested_model():
  readout = Dense(3, name='readout')
  return functional((3,), functional((3,), readout, keras.layers.ReLU()), readout)


def _nested_model_used_twice():
  nested = functional((3,), Dense(4, 'relu'), Dense(3, name='readout'))
  return functional((3,), nested, nested)


def _two_outputs():
  inputs = Input((3,))
  return keras.Model(inputs, [Dense(2)(inputs), Dense(2)(inputs)], name='net')


def _two_inputs():
  inputs = [Input((3,)), Input((3,))]
  return keras.Model(inputs, Dense(2)(keras.layers.Add()(inputs)), name='net')


def _frozen():
  frozen = Dense(4, name='frozen')
  frozen.trainable = False
  return functional((3,), frozen, Dense(2))


NOT_SPLIT = {
  'not a model': (lambda: Dense(2), '`model` must be a `keras.Model`. Received: Dense'),
  'unbuilt sequential': (
    lambda: keras.Sequential([Dense(2)], name='net'),
    "begin with a `keras.Input`, or be called once on data. Received: 'net' of type Sequential",
  ),
  'two outputs': (_two_outputs, "Received: 'net' with 1 inputs and 2 outputs"),
  'two inputs': (_two_inputs, "Received: 'net' with 2 inputs and 1 outputs"),
  'nonlinear readout': (
    lambda: functional((3,), Dense(2, 'softmax', name='last')),
    "The readout must be linear; its activation belongs to the likelihood. Received: 'last' with "
    "activation 'softmax'",
  ),
  'nonlinear ntk readout': (
    lambda: functional((3,), NTKDense(2, activation='tanh', name='last')),
    "Received: 'last' with activation 'tanh'",
  ),
  'nonlinear nested readout': (
    lambda: functional((3,), functional((3,), Dense(2, 'relu', name='last'))),
    "Received: 'last' with activation 'relu'",
  ),
  'softmax at the end': (
    lambda: functional((3,), Dense(2), keras.layers.Activation('softmax', name='last')),
    "Received: a model that ends in 'last' of type Activation",
  ),
  'output of rank 3': (
    lambda: functional((5, 3), Dense(2)),
    'The output of the model must have shape [n, k]. Received: an output of shape (None, 5, 2)',
  ),
  'batch normalization': (
    lambda: functional((3,), keras.layers.BatchNormalization(name='bad'), Dense(2)),
    "Received: layer 'bad' of type BatchNormalization with non-trainable variables "
    "['moving_mean', 'moving_variance']",
  ),
  'dropout': (
    lambda: functional((3,), keras.layers.Dropout(0.5, name='bad'), Dense(2)),
    "(no batch normalization, dropout or frozen layers). Received: layer 'bad' of type Dropout",
  ),
  'dropout in a nested model': (
    lambda: functional((3,), functional((3,), keras.layers.Dropout(0.5, name='bad')), Dense(2)),
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
    lambda: functional((3,), keras.layers.LayerNormalization(name='bad'), Dense(2)),
    'Received: bad/gamma of shape (3,) in a layer of type LayerNormalization',
  ),
  'embedding': (
    lambda: functional((3,), keras.layers.Embedding(7, 4, name='bad'), Flatten(), Dense(2)),
    'Received: bad/embeddings of shape (7, 4) in a layer of type Embedding',
  ),
  'einsum': (
    lambda: functional((3,), keras.layers.EinsumDense('ab,bc->ac', 4, name='bad'), Dense(2)),
    'Received: bad/kernel of shape (3, 4) in a layer of type EinsumDense',
  ),
  'recurrent layer': (
    lambda: functional((5, 3), keras.layers.LSTM(4), Dense(2)),
    'of type LSTMCell with non-trainable variables',
  ),
  'mixed precision': (
    lambda: functional((3,), Dense(4, dtype='mixed_float16'), Dense(2, dtype='mixed_float16')),
    'The model must be float32 or float64 throughout (set the dtype policy of its layers). '
    'Received: float16, float32',
  ),
  'mixed precision in a hidden layer': (
    lambda: functional((3,), Dense(4, dtype='mixed_float16'), Dense(2, dtype='float32')),
    'Received: float16, float32',
  ),
  'half precision': (
    lambda: functional((3,), Dense(4, dtype='float16'), Dense(2, dtype='float16')),
    'Received: float16',
  ),
  'two precisions': (
    lambda: functional((3,), Dense(4), Dense(2, dtype='float64')),
    'Received: float32, float64',
  ),
  'two precisions through a layer without weights': (
    lambda: functional((3,), Dense(4), keras.layers.ReLU(dtype='float64'), Dense(2)),
    'Received: float32, float64',
  ),
  'inputs of another precision': (
    lambda: keras.Sequential([Input((3,)), Dense(2, dtype='float64')]),
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
    ReadoutSplit(functional((3,), Dense(2)), **{name: value})


def _split_and_parts(chains=()):
  split = ReadoutSplit(tfr.models.fcn((3,), 2, 4, depth=1))
  return split, split.sample_prior(chains, seed=[0, 1])


def test_too_few_parts_are_refused():
  split, parts = _split_and_parts()
  message = '`parts` must be a list of 4 tensors of shapes [(3, 4), (4,), (4, 2), (2,)]'
  with pytest.raises(ValueError, match=re.escape(message) + '.*Received: 3 parts'):
    split.apply(parts[:-1], X)


def test_all_parts_in_place_of_the_hidden_ones_are_refused():
  split, parts = _split_and_parts()
  message = '`hidden_parts` must be a list of 2 tensors of shapes [(3, 4), (4,)]'
  with pytest.raises(ValueError, match=re.escape(message) + '.*Received: 4 parts'):
    split.embed(parts, X)


def test_one_tensor_in_place_of_a_list_is_refused():
  split, parts = _split_and_parts(chains=4)
  with pytest.raises(ValueError, match='`parts` must be a list of 4 tensors .* Received: .*Tensor'):
    split.apply(parts[0], X)


def test_parts_of_another_dtype_are_refused():
  split, parts = _split_and_parts()
  parts[1] = tf.cast(parts[1], tf.float64)
  message = '`parts` must have the dtype of the model, float32. Received: parts[1] of dtype float64'
  with pytest.raises(TypeError, match=re.escape(message)):
    split.apply(parts, X)


@pytest.mark.parametrize('shape', [(5, 2), (2,), (4, 3, 4, 3)])
def test_parts_of_another_shape_are_refused(shape):
  split, parts = _split_and_parts()
  parts[2] = tf.ones(shape)
  message = f'`parts[2]` must have shape (4, 2) after its chain dimensions. Received: shape {shape}'
  with pytest.raises(ValueError, match=re.escape(message)):
    split.apply(parts, X)


@pytest.mark.parametrize('shape', [(2,), (3, 2), (1, 2), (4, 4, 2)])
def test_parts_with_other_chain_dimensions_are_refused(shape):
  split, parts = _split_and_parts(chains=4)
  parts[3] = tf.ones(shape)
  shapes = [(4, 3, 4), (4, 4), (4, 4, 2), shape]
  message = f'`parts` must have the same chain dimensions. Received: shapes {shapes} for events'
  with pytest.raises(ValueError, match=re.escape(message)):
    split.apply(parts, X)


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
