"""Which layers go to data space, for all kinds of models; the others keep their weights."""

import contextlib
import re
import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf
import toys

import tfp_reprior as tfr

Dense, NTKDense = keras.layers.Dense, tfr.layers.NTKDense
X = np.random.default_rng(0).normal(size=(4, 6))
IMAGES = np.random.default_rng(0).normal(size=(4, 5, 5, 2))
STDS = dict(weight_std=1.2, bias_std=0.4, readout_weight_std=0.8, readout_bias_std=0.3)


@pytest.fixture(autouse=True)
def _float64():
  policy = keras.config.dtype_policy()
  keras.config.set_floatx('float64')
  keras.config.set_dtype_policy('float64')
  yield
  keras.config.set_floatx('float32')
  keras.config.set_dtype_policy(policy)


def _hidden(units=9, **kwargs):
  return NTKDense(units, bias_std=0.2, activation='tanh', **kwargs)


def _sequential():
  return keras.Sequential([keras.Input((6,)), _hidden(name='a'), _hidden(name='b'), NTKDense(2)])


def _nested():
  """A model before, one in the middle, and one that holds the readout."""
  inner = keras.Sequential([keras.Input((6,)), _hidden(name='a')])
  middle = toys.functional((9,), _hidden(7, name='b'))
  end = keras.Sequential([keras.Input((7,)), _hidden(8, name='c'), NTKDense(2)])
  return toys.functional((6,), inner, middle, end)


def _plain():
  layers = [Dense(9, 'tanh', name='a'), Dense(8, 'relu', use_bias=False, name='b'), Dense(2)]
  return toys.functional((6,), *layers)


def _skips():
  """Two branches with weights of the same shapes, which must not be taken for each other."""
  inputs = keras.Input((6,))
  h = _hidden(name='stem')(inputs)
  left = _hidden(name='left')(h)
  right = _hidden(name='right')(_hidden(name='deeper')(h))
  h = keras.layers.add([h, left, right])
  h = h + _hidden(name='after')(h)  # an operation that is no layer
  return keras.Model(inputs, NTKDense(2)(keras.layers.Concatenate()([h, inputs])))


def _cnn():
  return tfr.models.cnn((5, 5, 2), 2, width=3, depth=2)


def _after_convolutions():
  conv = [tfr.layers.NTKConv2D(3, 3, activation='tanh'), keras.layers.Conv2D(3, 3, name='plain')]
  return toys.functional(
    (5, 5, 2), *conv, keras.layers.Flatten(), _hidden(name='a'), _hidden(name='b'), NTKDense(2)
  )


def _shared():
  inputs = keras.Input((6,))
  layer = _hidden(9, name='shared')
  h = layer(_hidden(9, name='a')(inputs))
  return keras.Model(inputs, NTKDense(2)(_hidden(name='b')(layer(h))))


def _rows_of_vectors():
  layers = [keras.layers.Reshape((1, 6)), Dense(9, 'tanh', name='a'), keras.layers.Flatten()]
  return toys.functional((6,), *layers, Dense(5, 'tanh', name='b'), Dense(2))


def _narrow():
  return toys.functional(
    (6,), _hidden(3, name='a'), _hidden(9, name='b'), _hidden(5, name='c'), NTKDense(2)
  )


def _normalized():
  """A layer whose inputs do not change if those weights before it are all doubled."""
  layers = [_hidden(3, name='a'), NTKDense(12, name='b'), keras.layers.UnitNormalization()]
  return toys.functional((6,), *layers, _hidden(name='c'), NTKDense(2))


@keras.saving.register_keras_serializable('tests')
class _Block(keras.layers.Layer):
  def __init__(self, **kwargs):
    super().__init__(**kwargs)
    self.inner = _hidden(9, name='inside')

  def build(self, input_shape):
    self.inner.build(input_shape)

  def call(self, inputs):
    return self.inner(inputs)


def _composite():
  return toys.functional((6,), _Block(), _hidden(name='a'), NTKDense(2))


class _Subclass(keras.Model):
  def __init__(self):
    super().__init__()
    self.a, self.b, self.out = _hidden(name='a'), _hidden(name='b'), NTKDense(2)

  def call(self, inputs):
    h = self.a(inputs)
    return self.out(h + self.b(h))


def _subclass():
  model = _Subclass()
  model(X)
  return model


def _same_names():
  """Keras allows that in different models; which of them is which would be open."""
  first = keras.Sequential([keras.Input((6,)), _hidden(name='same')])
  second = keras.Sequential([keras.Input((9,)), _hidden(name='same')])
  return toys.functional((6,), first, second, _hidden(name='a'), NTKDense(2))


# Inputs, and the spaces of layers by name.
MODELS = {
  'functional': (lambda: tfr.models.fcn((6,), 2, 9, 2), X, 'hidden_1:data hidden_2:data'),
  'sequential': (_sequential, X, 'a:data b:data'),
  'nested': (_nested, X, 'a:data b:data c:data'),
  'plain': (_plain, X, 'a:data b:data'),
  'skips': (_skips, X, 'stem:data deeper:data left:data right:data after:data'),
  'after convolutions': (_after_convolutions, IMAGES, 'a:data b:data'),
  'shared': (_shared, X, 'a:data shared:weights b:data'),
  'rows of vectors': (_rows_of_vectors, X, 'a:weights b:data'),
  'narrow': (_narrow, X, 'a:data b:weights c:data'),
  'normalized': (_normalized, X, 'a:data b:weights c:data'),
  'composite': (_composite, X, 'inside:weights a:data'),
  'subclass': (_subclass, X, 'a:data b:data'),
  'same names': (_same_names, X, 'same:weights same:weights a:data'),
}


def _spaces(split):
  return [(s.name, s.space) for s in split.layer_spaces]


def _expected_spaces(text):
  return [tuple(pair.split(':')) for pair in text.split()]


def _assert_same_as_weights(split, x, chains):
  """Features at u are those at the weights, and u comes back."""
  u = split.sample_prior(chains, seed=1)
  theta = split.to_weights(u, seed=2)
  assert [p.shape for p in theta] == [(*chains, *s) for s in split.network.event_shapes]
  psi = split.embed(u[: split.num_hidden], tf.constant(x))
  expected = split.network.embed(theta[: split.network.num_hidden], tf.constant(x))
  np.testing.assert_allclose(psi, expected, rtol=0, atol=1e-9)
  for actual, wanted in zip(split.from_weights(theta), u, strict=True):
    np.testing.assert_allclose(actual, wanted, rtol=0, atol=1e-8)
  # New inputs too: seen before, so that features are known, and beside others.
  rows = np.concatenate([x[2:3] + 1.0, x[1:2]])
  new = split.embed_new(u[: split.num_hidden], tf.constant(rows), seed=3)
  np.testing.assert_allclose(new[..., 1, :], expected[..., 1, :], rtol=0, atol=1e-4)


@pytest.mark.parametrize('name', MODELS)
def test_eligible_layers_go_and_the_others_keep_their_weights(name):
  make, x, spaces = MODELS[name]
  network = tfr.models.ReadoutSplit(make(), **STDS)
  split = tfr.models.DataSpaceSplit(network, tf.constant(x), 'data')
  assert _spaces(split) == _expected_spaces(spaces)
  assert split.embedding.accepts_chains >= network.embedding.accepts_chains
  assert split.num_outputs == 2 and split.num_features == network.num_features
  for chains in ((), (2, 3)):
    _assert_same_as_weights(split, x, chains)


@pytest.mark.parametrize('name', ['subclass', 'nested', 'shared', 'after convolutions'])
def test_a_model_can_go_twice_and_is_left_as_it_was(name):
  make, x, _ = MODELS[name]
  model = make()
  before = [v.numpy() for v in model.variables], model(x).numpy()
  posteriors = [
    tfr.Posterior(model, x, np.zeros([4, 2]), noise_scale=0.1).in_space('data') for _ in range(2)
  ]
  assert _spaces(posteriors[0].split) == _spaces(posteriors[1].split)
  u = posteriors[0].sample_prior(2, seed=1)
  values = [p.log_likelihood_fn(*u) for p in posteriors]
  np.testing.assert_array_equal(*values)
  for variable, value in zip(model.variables, before[0], strict=True):
    np.testing.assert_array_equal(variable, value)
  np.testing.assert_array_equal(model(x), before[1])
  if hasattr(model, 'layers') and name == 'nested':
    for layer in model.layers:
      assert layer.output.shape[0] is None


def test_prior_scales_of_plain_layers_are_those_of_the_split():
  network = tfr.models.ReadoutSplit(_plain(), **STDS)
  split = tfr.models.DataSpaceSplit(network, tf.constant(X), 'data')
  assert split.prior_stds == STDS
  u = split.sample_prior(seed=1)
  z = np.linalg.cholesky(1.2**2 / 6 * X @ X.T + 0.4**2) @ u[0]
  gram = 1.2**2 / 9 * np.tanh(z) @ np.tanh(z).T  # the second has no bias
  h = np.maximum(np.linalg.cholesky(gram) @ u[1], 0)
  expected = np.concatenate([0.8 / np.sqrt(8) * h, np.full((4, 1), 0.3)], axis=1)
  np.testing.assert_allclose(split.embed(u[:2], split._x), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize('hidden_space', ['auto', 'data'])
@pytest.mark.parametrize('fan_in', [4, 5, 7, 8, 9])
def test_auto_wants_twice_as_many_weights_a_unit_as_data_and_data_wants_more(hidden_space, fan_in):
  x = np.random.default_rng(0).normal(size=(4, fan_in))
  model = toys.functional((fan_in,), NTKDense(3, activation='tanh', name='a'), NTKDense(2))
  posterior = tfr.Posterior(model, x, np.zeros([4, 2]), noise_scale=0.1)
  other = posterior.in_space(hidden_space)
  is_in_data_space = fan_in >= 8 if hidden_space == 'auto' else fan_in > 4
  assert [s.space for s in other.split.layer_spaces] == ['data'] * is_in_data_space
  assert (other is posterior) == (not is_in_data_space)


def test_reasons_say_why_layers_keep_their_weights():
  network = tfr.models.ReadoutSplit(_narrow())

  def reasons(hidden_space):
    spaces = tfr.models.DataSpaceSplit(network, tf.constant(X), hidden_space).layer_spaces
    assert [(s.num_rows, s.fan_in) for s in spaces] == [(4, 7), (4, 4), (4, 10)]
    return [s.reason for s in spaces]

  none = 'it has no more weights a unit than there are distinct inputs'
  few = 'it has less than twice as many weights a unit as there are distinct inputs'
  assert reasons('weights') == ['asked for'] * 3
  assert reasons('data') == ['', none, '']
  assert reasons('auto') == [few, none, '']
  for make, name, reason in [
    (_shared, 'shared', 'it is called more than once'),
    (_rows_of_vectors, 'a', 'its inputs are no vectors'),
    (_composite, 'inside', 'it is inside of another layer'),
    (_same_names, 'same', 'another layer has its name'),
  ]:
    split = tfr.models.DataSpaceSplit(tfr.models.ReadoutSplit(make()), tf.constant(X), 'data')
    assert {s.name: s.reason for s in split.layer_spaces}[name] == reason


@pytest.mark.parametrize(
  'make, x', [(_cnn, IMAGES), (lambda: toys.functional((6,), NTKDense(2)), X)]
)
@pytest.mark.parametrize('hidden_space', ['auto', 'data'])
def test_a_model_without_eligible_layers_stays_where_it_is(make, x, hidden_space):
  posterior = tfr.Posterior(make(), x, np.zeros([4, 2]), noise_scale=0.1)
  assert posterior.in_space(hidden_space) is posterior


@contextlib.contextmanager
def _one_warning(pattern):
  with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter('always', UserWarning)
    yield
  [said] = [str(w.message) for w in caught if w.filename == __file__]
  assert re.search(pattern, said)


def test_nearly_equal_rows_keep_weights_and_a_warning_names_the_layer():
  x = X.copy()
  x[1] = x[0] + 1e-9
  network = tfr.models.ReadoutSplit(tfr.models.fcn((6,), 2, 9, 1))
  with _one_warning("Layer 'hidden_1' keeps its weights: .* 4 distinct inputs is ill-conditioned"):
    split = tfr.models.DataSpaceSplit(network, tf.constant(x), 'data')
  [space] = split.layer_spaces
  assert space.space == 'weights'
  assert re.match('the kernel of its 4 distinct inputs is ill-conditioned', space.reason)
  theta = split.sample_prior(2, seed=1)
  expected = network.embed(theta[:2], x)
  np.testing.assert_allclose(split.embed(theta[:2], tf.constant(x)), expected, atol=1e-12)


def test_auto_leaves_ill_conditioned_layers_alone_without_a_word():
  x = np.linspace(-1, 1, 9, dtype=np.float32)[:, np.newaxis]
  posterior = tfr.Posterior(tfr.models.fcn((1,), 1, 64, dtype='float32'), x, x, noise_scale=0.1)
  with warnings.catch_warnings():
    warnings.simplefilter('error')
    split = tfr.models.DataSpaceSplit(posterior.split, posterior.x)
  assert [s.space for s in split.layer_spaces] == ['weights'] * 3
  assert 'ill-conditioned' in split.layer_spaces[1].reason


class _Forgetful(keras.layers.Layer):
  """A layer whose configuration leaves an argument out."""

  def __init__(self, factor=1.0, **kwargs):
    super().__init__(**kwargs)
    self.factor = factor

  def call(self, inputs):
    return self.factor * inputs

  def get_config(self):
    return {'name': self.name}


def test_a_copy_that_computes_something_else_is_noticed():
  layers = _hidden(name='a'), _Forgetful(3.0), _hidden(name='b'), NTKDense(2)
  network = tfr.models.ReadoutSplit(toys.functional((6,), *layers))
  with _one_warning('a copy of the model computes something else'):
    split = tfr.models.DataSpaceSplit(network, tf.constant(X), 'data')
  assert [s.space for s in split.layer_spaces] == ['weights', 'weights']


def test_in_float32_rows_need_not_be_as_close():
  for distance, dtype, space in [
    (1e-4, 'float32', 'weights'),
    (0.1, 'float32', 'data'),
    (1e-4, 'float64', 'data'),
  ]:
    x = X.astype(dtype)
    x[1] = x[0] + distance
    network = tfr.models.ReadoutSplit(tfr.models.fcn((6,), 2, 9, 1, dtype=dtype))
    with _one_warning('hidden_1') if space == 'weights' else contextlib.nullcontext():
      split = tfr.models.DataSpaceSplit(network, tf.constant(x), 'data')
    assert [s.space for s in split.layer_spaces] == [space]


class _Unknown(keras.layers.Layer):
  """A layer that cannot be made from its configuration, because a function is not one."""

  def __init__(self, fn):
    super().__init__()
    self.fn = fn

  def call(self, inputs):
    return self.fn(inputs)


@pytest.mark.parametrize('layer_class', [_Unknown, keras.layers.Lambda])
def test_models_that_keras_cannot_clone_keep_their_weights_with_a_warning(layer_class):
  layer = layer_class(lambda h: 2.0 * h)
  model = toys.functional((6,), layer, _hidden(name='a'), NTKDense(2))
  network = tfr.models.ReadoutSplit(model)
  with _one_warning(f"layer '{layer.name}' cannot be made from its configuration"):
    split = tfr.models.DataSpaceSplit(network, tf.constant(X), 'data')
  assert [(s.name, s.space) for s in split.layer_spaces] == [('a', 'weights')]
  theta = split.sample_prior(2, seed=1)
  np.testing.assert_array_equal(split.apply(theta, split._x), network.apply(theta, X))


def test_layers_after_a_normalization_are_not_taken_for_constant():
  split = tfr.models.DataSpaceSplit(tfr.models.ReadoutSplit(_normalized()), tf.constant(X), 'data')
  constant = {layer.name: layer.constant_chol is not None for layer in split._data_layers}
  assert constant == {'a': True, 'c': False}


def test_chains_go_through_at_once_where_random_inputs_would_have_no_factor():
  # In float32 a kernel of inputs in the unit square fails; that of the training inputs does not.
  x = np.random.default_rng(0).normal(size=(8, 2)).astype(np.float32)
  model = tfr.models.fcn((2,), 1, width=128, activation='relu', dtype='float32')
  split = tfr.models.DataSpaceSplit(tfr.models.ReadoutSplit(model), tf.constant(x), 'data')
  assert [s.space for s in split.layer_spaces] == ['weights', 'data', 'data']
  assert split.embedding.accepts_chains


def test_images_of_bytes_are_taken():
  inputs = keras.Input((5, 5, 2), dtype='uint8')
  h = keras.layers.Flatten()(keras.layers.Rescaling(1 / 255)(inputs))
  model = keras.Model(inputs, NTKDense(2)(_hidden(name='a')(h)))
  x = np.random.default_rng(0).integers(0, 255, size=(4, 5, 5, 2)).astype(np.uint8)
  split = tfr.models.DataSpaceSplit(tfr.models.ReadoutSplit(model), tf.constant(x), 'data')
  assert [s.space for s in split.layer_spaces] == ['data']
  u = split.sample_prior(2, seed=1)
  expected = split.network.apply(split.to_weights(u, 2), tf.constant(x))
  np.testing.assert_allclose(split.apply(u, split._x), expected, rtol=0, atol=1e-9)
