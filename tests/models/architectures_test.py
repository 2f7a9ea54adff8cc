"""What all models share: splits, chains, chunks, saving, compilation, and what they refuse."""

import re

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfp_reprior as tfr

# A model for each kind of input and of pooling; its arguments are keywords of all of them.
MODELS = {
  'fcn': lambda **k: tfr.models.fcn((2, 3), 2, 4, 2, **k),
  'cnn, flatten': lambda **k: tfr.models.cnn((4, 3, 2), 2, 3, 2, **k),
  'cnn, average': lambda **k: tfr.models.cnn((4, 3), 2, 3, 2, pooling='average', **k),
  'wide_resnet': lambda **k: tfr.models.wide_resnet((4, 4, 2), 2, 2, 8, **k),
  'attention, images': lambda **k: tfr.models.attention((4, 2, 3), 2, 4, 2, 2, 2, **k),
  'attention, sequences': lambda **k: tfr.models.attention((3, 2), 2, 4, 1, 2, **k),
}
every_model = pytest.mark.parametrize('make', MODELS.values(), ids=MODELS.keys())
# All activations in one model, and one in each of the others: `erf` is ours, and has to be saved.
every_activation = pytest.mark.parametrize(
  'name, activation',
  [*(('fcn', a) for a in ('relu', 'erf', 'gelu', 'tanh')), *((m, 'erf') for m in [*MODELS][1:])],
)


def _inputs(model, n=5):
  x = np.random.default_rng(1).normal(size=(n, *model.input_shape[1:]))
  return x.astype(model.inputs[0].dtype)


def _posterior(make, n=5, **kwargs):
  model = make(**{'dtype': 'float64', **kwargs})
  x = _inputs(model, n)
  y = np.random.default_rng(2).normal(size=(n, 2)).astype(x.dtype)
  return tfr.Posterior(model, x, y, noise_scale=0.3)


@every_model
@pytest.mark.parametrize('dtype', ['float32', 'float64'])
def test_features_times_readout_is_the_model(make, dtype):
  model = make(dtype=dtype)
  split, x = tfr.models.ReadoutSplit(model), _inputs(model)
  assert split.dtype.name == dtype
  assert model.output_shape == (None, 2)
  outputs = split.apply(split.current_parts(), x)
  np.testing.assert_allclose(outputs, model(x), rtol=0, atol=1e-5 if dtype == 'float32' else 1e-12)


@every_model
def test_every_weight_has_prior_n_0_1_and_the_readout_comes_last(make):
  model = make()
  split = tfr.models.ReadoutSplit(model)
  for part, variable in zip(split.current_parts(), model.trainable_variables, strict=True):
    np.testing.assert_array_equal(part, variable.numpy())
  paths = [v.path for v in model.trainable_variables]
  assert paths[-2:] == ['readout/kernel', 'readout/bias']
  assert split.num_hidden == len(paths) - 2
  assert not model.non_trainable_variables


@every_model
@pytest.mark.parametrize('chains', [(3,), (2, 3)])
def test_chains_are_a_loop_over_single_chains(make, chains):
  model = make(dtype='float64')
  split, x = tfr.models.ReadoutSplit(model), _inputs(model)
  parts = split.sample_prior(chains, seed=1)
  psi = tf.function(split.embed)(parts[: split.num_hidden], x)
  outputs = split.apply(parts, x)
  assert psi.shape == (*chains, 5, split.num_features)
  for index in np.ndindex(*chains):
    one = [p[index] for p in parts]
    expected = split.embed(one[: split.num_hidden], x)
    np.testing.assert_allclose(psi[index], expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(outputs[index], split.apply(one, x), rtol=0, atol=1e-12)


def _value_and_gradients(collapsed):
  def evaluate(*hidden):
    with tf.GradientTape() as tape:
      tape.watch(hidden)
      value = collapsed.log_likelihood_fn(*hidden)
    return value, tape.gradient(value, hidden)

  return evaluate


@every_activation
def test_gradients_are_finite_and_none_is_missing(name, activation):
  posterior = _posterior(MODELS[name], activation=activation, dtype='float32')
  evaluate = _value_and_gradients(tfr.CollapsedPosterior(posterior))
  value, gradients = evaluate(*posterior.sample_prior((), seed=1)[: posterior.split.num_hidden])
  assert np.isfinite(value)
  for gradient in gradients:
    assert np.all(np.isfinite(gradient)) and np.any(gradient != 0)


@pytest.mark.parametrize(
  'name, how', [*((name, 'eager') for name in MODELS), ('cnn, average', 'traced')]
)
def test_chunks_of_data_are_the_same_as_all_at_once(name, how):
  posterior = _posterior(MODELS[name], n=5)
  hidden = posterior.sample_prior(2, seed=1)[: posterior.split.num_hidden]
  whole = _value_and_gradients(tfr.CollapsedPosterior(posterior, space='feature'))
  # Two chunks of two, and one of one datum.
  chunked = _value_and_gradients(tfr.CollapsedPosterior(posterior, chunk_size=2))
  expected, expected_gradients = whole(*hidden)
  value, gradients = (tf.function(chunked) if how == 'traced' else chunked)(*hidden)
  np.testing.assert_allclose(value, expected, rtol=1e-10)
  for a, b in zip(gradients, expected_gradients, strict=True):
    np.testing.assert_allclose(a, b, rtol=0, atol=1e-9 * np.max(np.abs(b)))


def _in_chunks(posterior, chunk_size):
  return tfr.Posterior(
    posterior.split,
    posterior.x,
    posterior.y,
    likelihood=posterior.likelihood,
    chunk_size=chunk_size,
  )


@pytest.mark.parametrize('name', MODELS)
def test_networks_in_chunks_give_the_same_densities(name):
  posterior = _posterior(MODELS[name], n=5)
  parts = posterior.sample_prior(2, seed=1)
  for make_density in (lambda p: p, lambda p: tfr.ComposedPosterior(p, 'n*noise')):
    whole, chunked = (
      _value_and_gradients(make_density(p))(*parts) for p in (posterior, _in_chunks(posterior, 2))
    )
    np.testing.assert_allclose(chunked[0], whole[0], rtol=1e-10)
    for a, b in zip(chunked[1], whole[1], strict=True):
      np.testing.assert_allclose(a, b, rtol=0, atol=1e-9 * np.max(np.abs(b)))


@pytest.mark.parametrize(
  'name, chains, chunk_size',
  [
    ('fcn', (2,), 3),
    ('wide_resnet', (), None),
    ('attention, images', (2,), None),
  ],
)
def test_xla_compiles_value_and_gradients(name, chains, chunk_size):
  posterior = _in_chunks(_posterior(MODELS[name]), chunk_size)
  evaluate = _value_and_gradients(tfr.CollapsedPosterior(posterior))
  hidden = posterior.sample_prior(chains, seed=1)[: posterior.split.num_hidden]
  compiled = tf.function(evaluate, jit_compile=True)(*hidden)
  for a, b in zip(tf.nest.flatten(compiled), tf.nest.flatten(evaluate(*hidden)), strict=True):
    np.testing.assert_allclose(a, b, rtol=0, atol=1e-9 * np.max(np.abs(b)))


@every_activation
def test_a_saved_model_reloads_to_the_same_network(name, activation, tmp_path):
  model = MODELS[name](activation=activation)
  model.save(tmp_path / 'model.keras')
  reloaded = keras.saving.load_model(tmp_path / 'model.keras')
  x = _inputs(model)
  np.testing.assert_array_equal(reloaded(x), model(x))
  # The parts are in the same order, so that draws for one are draws for the other.
  splits = [tfr.models.ReadoutSplit(m) for m in (model, reloaded)]
  parts = splits[0].sample_prior((), seed=1)
  np.testing.assert_array_equal(splits[1].apply(parts, x), splits[0].apply(parts, x))


@every_model
def test_dtype_is_that_of_inputs_weights_and_outputs(make):
  for dtype in (None, 'float32', 'float64'):
    model, expected = make(dtype=dtype), dtype or 'float32'
    assert model.inputs[0].dtype == model.outputs[0].dtype == expected
    assert {w.dtype for w in model.trainable_variables} == {expected}


# What is refused.


def _refuses(message):
  return pytest.raises(ValueError, match=re.escape(message))


@every_model
def test_activations_must_be_known(make):
  with _refuses(
    "`activation` must be 'erf', a name of Keras such as 'gelu', 'relu' or 'tanh', or a function. "
    "Received: activation='sine'"
  ):
    make(activation='sine')


@every_model
@pytest.mark.parametrize('name', ['weight_std', 'readout_weight_std'])
@pytest.mark.parametrize('value', [0.0, -1.0, np.nan])
def test_weight_stds_must_be_positive(make, name, value):
  with _refuses(f'`{name}` must be positive. Received: {name}={value}'):
    make(**{name: value})


@every_model
@pytest.mark.parametrize('name', ['bias_std', 'readout_bias_std'])
@pytest.mark.parametrize('value', [-1.0, np.nan])
def test_bias_stds_must_not_be_negative(make, name, value):
  with _refuses(f'`{name}` must not be negative. Received: {name}={value}'):
    make(**{name: value})


builders = pytest.mark.parametrize(
  'build', [tfr.models.fcn, tfr.models.cnn, tfr.models.wide_resnet, tfr.models.attention]
)


@builders
@pytest.mark.parametrize('name', ['num_outputs', 'width', 'depth'])
@pytest.mark.parametrize('value', [0, 2.0])
def test_sizes_must_be_positive_integers(build, name, value):
  with _refuses(f'`{name}` must be a positive integer. Received: {name}={value!r}'):
    build((8, 8, 3), **{'num_outputs': 2, 'width': 4, name: value})


@builders
@pytest.mark.parametrize('input_shape', [8, '8', None])
def test_input_shape_must_be_a_tuple(build, input_shape):
  with _refuses(f'`input_shape` must be a tuple. Received: input_shape={input_shape!r}'):
    build(input_shape, 2, 4)


@builders
@pytest.mark.parametrize('input_shape', [(8, None, 3), (8, 8, 0), (8.0, 8), (None, 3)])
def test_sizes_of_inputs_must_be_known(build, input_shape):
  with _refuses(
    f'`input_shape` must hold positive integers. Received: input_shape={input_shape!r}'
  ):
    build(input_shape, 2, 4)


@pytest.mark.parametrize('build', [tfr.models.cnn, tfr.models.wide_resnet])
@pytest.mark.parametrize('input_shape', [(8,), (8, 8, 3, 1), ()])
def test_inputs_must_be_images(build, input_shape):
  with _refuses(
    '`input_shape` must be (height, width, channels), or (height, width) for one channel. '
    f'Received: input_shape={input_shape!r}'
  ):
    build(input_shape, 2, 4)
