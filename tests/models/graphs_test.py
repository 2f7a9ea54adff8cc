"""Subclassed models and layers that hold layers: split as their functional equals, or refused."""

import math
import re

import keras
import numpy as np
import pytest
import tensorflow as tf
from toys import functional

import tfp_reprior as tfr

Dense, ReadoutSplit = keras.layers.Dense, tfr.models.ReadoutSplit
X = np.random.default_rng(1).normal(size=(5, 3)).astype(np.float32)


class Subclassed(keras.Model):
  """The readout is made before the hidden layer, to mislead what goes by the order."""

  def __init__(self):
    super().__init__(name='mine')
    self.readout = Dense(2)
    self.hidden = Dense(4, 'relu')

  def call(self, inputs, training=False):
    return self.readout(keras.ops.square(self.hidden(inputs)))


class Hidden(keras.Model):
  def __init__(self):
    super().__init__(name='hidden')
    self.dense = Dense(4, 'relu')

  def call(self, inputs):
    return self.dense(inputs)


class InOrder(keras.Model):
  def __init__(self):
    super().__init__(name='in_order')
    self.hidden = Hidden()
    self.readout = Dense(2)

  def call(self, inputs):
    return self.readout(self.hidden(inputs))


class Block(keras.layers.Layer):
  """A layer of layers, in a list and as an attribute."""

  def __init__(self):
    super().__init__(name='block')
    self.denses = [Dense(4, 'relu'), Dense(3)]
    self.ntk = tfr.layers.NTKDense(3)

  def build(self, input_shape):
    self.denses[0].build(input_shape)
    self.denses[1].build((None, 4))
    self.ntk.build(input_shape)
    super().build(input_shape)

  def call(self, inputs):
    return self.denses[1](self.denses[0](inputs)) + self.ntk(inputs)


def _called(model, x=X):
  model(x)
  return model


# A model, and the prior standard deviations of its variables by hand, in the order of the parts.
DENSE, HIDDEN, READOUT = [math.sqrt(2 / 3), 0.1], [math.sqrt(2 / 4), 0.1], [math.sqrt(1 / 4), 0.1]
MODELS = {
  'subclassed': (lambda: _called(Subclassed()), DENSE + READOUT),
  'subclassed, with a subclassed one in it': (lambda: _called(InOrder()), DENSE + READOUT),
  'functional, with a subclassed one in it': (
    lambda: functional((3,), Hidden(), Dense(2)),
    DENSE + READOUT,
  ),
  'functional, with a subclassed one at the end': (
    lambda: functional((3,), Dense(3, 'tanh'), InOrder()),
    DENSE + DENSE + READOUT,
  ),
  'sequential, with a subclassed one at the end': (
    lambda: keras.Sequential([keras.Input((3,)), InOrder()]),
    DENSE + READOUT,
  ),
  'layers in a layer': (
    lambda: functional((3,), Block(), Dense(2)),
    [*DENSE, *HIDDEN, 1.0, math.sqrt(1 / 3), 0.1],
  ),
}


@pytest.mark.parametrize('make, stds', MODELS.values(), ids=MODELS.keys())
def test_features_times_readout_is_the_model(make, stds):
  model = make()
  split = ReadoutSplit(model)
  parts = split.sample_prior(seed=[0, 1])
  split.assign(parts)
  values = [s * p for s, p in zip(stds, parts, strict=True)]
  for variable, value in zip(split.model.trainable_variables, values, strict=True):
    np.testing.assert_allclose(variable.numpy(), value, rtol=1e-6)
  # The user's own model holds the draw, too.
  np.testing.assert_allclose(model(X), split.apply(parts, X), rtol=0, atol=1e-5)
  psi = split.embed(parts[: split.num_hidden], X)
  theta_out = tf.concat([parts[-2], parts[-1][tf.newaxis]], axis=0)
  np.testing.assert_allclose(psi @ theta_out, model(X), rtol=0, atol=1e-5)


@pytest.mark.parametrize('make, stds', MODELS.values(), ids=MODELS.keys())
def test_chains_are_a_loop_over_one(make, stds):
  del stds
  split = ReadoutSplit(make())
  parts = split.sample_prior(3, seed=[0, 1])
  expected = np.stack([split.apply([p[i] for p in parts], X) for i in range(3)])
  np.testing.assert_allclose(split.apply(parts, X), expected, rtol=0, atol=1e-5)


def test_a_subclassed_model_is_sampled_saved_and_loaded(tmp_path):
  rng = np.random.default_rng(2)
  result = tfr.sample_posterior(
    _called(Subclassed()),
    X,
    rng.normal(size=(5, 2)).astype(np.float32),
    num_chains=2,
    num_results=4,
    thinning=1,
    step_size=0.1,
    progress=False,
    run_dir=tmp_path,
    noise_scale=0.1,
  )
  assert result.settings['model'] == 'mine'
  # Loading needs no class of the user's: what is saved is the functional model.
  np.testing.assert_allclose(
    tfr.load_result(tmp_path).predict(X).mean, result.predict(X).mean, rtol=1e-5
  )


class _OwnWeight(keras.Model):
  def __init__(self):
    super().__init__(name='mine')
    self.readout = Dense(2)

  def build(self, input_shape):
    self.own = self.add_weight(shape=input_shape[-1:], name='own')
    self.readout.build(input_shape)

  def call(self, inputs):
    return self.readout(inputs * self.own)


class _OfTensorFlow(keras.Model):
  def __init__(self):
    super().__init__(name='mine')
    self.readout = Dense(2)

  def call(self, inputs):
    return self.readout(tf.tanh(inputs))


class _TwoArguments(_OfTensorFlow):
  def call(self, inputs, others):
    return self.readout(inputs + others)


class _OfDict(_OfTensorFlow):
  def call(self, inputs):
    return self.readout(inputs['x'])


class _Dropping(keras.layers.Layer):
  def __init__(self):
    super().__init__()
    self.dropout = keras.layers.Dropout(0.5, name='inner_dropout')

  def call(self, inputs):
    return self.dropout(inputs)


def _two_arguments():
  model = _TwoArguments()
  model(X, X)
  return model


NOT_SPLIT = {
  'not called': (
    Subclassed,
    'because its shapes are not known: it must begin with a `keras.Input`, or be called once on '
    "data. Received: 'mine' of type Subclassed",
  ),
  'weight of the model itself': (
    lambda: _called(_OwnWeight()),
    'All weights of the model must belong to layers that it calls. Received: '
    "'mine' of type _OwnWeight with ['mine/own'] besides",
  ),
  'weight of a nested model itself': (
    lambda: functional((3,), _OwnWeight(), Dense(2)),
    'mine/own of shape (3,) in a layer of type _OwnWeight',
  ),
  'functions of TensorFlow': (
    lambda: _called(_OfTensorFlow()),
    'its `call` must take one argument, and use Keras layers and `keras.ops` only, not functions '
    "of TensorFlow. Received: 'mine' of type _OfTensorFlow: A KerasTensor cannot be used",
  ),
  'two arguments': (_two_arguments, "Received: 'mine' of type _TwoArguments"),
  'a dict of inputs': (
    lambda: _called(_OfDict(), {'x': X}),
    "The model must have one input. Received: 'mine' of type _OfDict with inputs {'x': (5, 3)}",
  ),
  'dropout in a layer': (
    lambda: functional((3,), _Dropping(), Dense(2)),
    "Received: layer 'inner_dropout' of type Dropout",
  ),
}


@pytest.mark.parametrize('make, message', NOT_SPLIT.values(), ids=NOT_SPLIT.keys())
def test_a_model_that_cannot_be_split_is_refused_with_the_reason(make, message):
  with pytest.raises(ValueError, match=re.escape(message)):
    ReadoutSplit(make())


def test_keras_still_lists_the_layers_in_a_layer():
  why = 'Keras dropped or changed `Layer._flatten_layers`, which `models/graphs.py` needs'
  block = Block()
  inner = block._flatten_layers(include_self=False, recursive=False)
  assert {id(x) for x in inner} == {id(x) for x in [*block.denses, block.ntk]}, why


def test_keras_still_keeps_the_shape_that_a_model_was_called_with():
  why = 'Keras changed what `get_build_config` returns, which `models/graphs.py` needs'
  assert _called(Subclassed()).get_build_config() == {'input_shape': (5, 3)}, why
