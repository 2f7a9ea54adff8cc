"""Posterior: density against scipy, gradients, float32 at size, and bad data."""

import re

import keras
import numpy as np
import pytest
import scipy.stats
import tensorflow as tf
import toys

import tfp_reprior as tfr


def _model(inputs=3, outputs=2, dtype='float64'):
  return tfr.models.fcn((inputs,), outputs, width=4, depth=1, dtype=dtype, name='net')


def _data(n=5, inputs=3, outputs=2):
  rng = np.random.default_rng(1)
  return rng.normal(size=(n, inputs)), rng.normal(size=(n, outputs))


@pytest.mark.parametrize('chains', [(), (4,), (2, 3)])
def test_log_densities_are_those_of_scipy(chains):
  x, y = _data()
  model = tfr.models.fcn((3,), 2, width=4, depth=1, activation='tanh', dtype='float64')
  posterior = tfr.Posterior(model, x, y, noise_scale=0.3)
  parts = posterior.sample_prior(chains, seed=[0, 1])
  target = posterior.target_log_prob_fn(*parts)
  log_prior, log_likelihood = posterior.log_prior_fn(*parts), posterior.log_likelihood_fn(*parts)
  assert target.shape == log_prior.shape == log_likelihood.shape == chains
  # The entropy of N(0, I) with 3 * 4 + 4 + 4 * 2 + 2 weights.
  entropy = 26 * scipy.stats.norm.entropy()
  assert posterior.prior_entropy == pytest.approx(entropy, rel=1e-14)
  for index in np.ndindex(*chains):
    kernel, bias, kernel_out, bias_out = (p[index].numpy() for p in parts)
    h = np.tanh(np.sqrt(2 / 3) * x @ kernel + 0.1 * bias)
    f = np.sqrt(1 / 4) * h @ kernel_out + 0.1 * bias_out
    weights = np.concatenate([p[index].numpy().ravel() for p in parts])
    prior = scipy.stats.norm.logpdf(weights).sum() + entropy
    likelihood = scipy.stats.norm.logpdf(y, f, 0.3).sum()
    np.testing.assert_allclose(log_prior[index], prior, rtol=0, atol=1e-10)
    np.testing.assert_allclose(log_likelihood[index], likelihood, rtol=0, atol=1e-10)
    np.testing.assert_allclose(target[index], prior + likelihood, rtol=0, atol=1e-10)


def test_log_prior_has_mean_zero_under_the_prior():
  # Mean of 4000 draws, variance of one 26 / 2: false-alarm rate 1e-6 at 4.9 standard errors.
  posterior = toys.tiny_posterior()
  values = posterior.log_prior_fn(*posterior.sample_prior(4000, seed=[0, 1])).numpy()
  assert abs(values.mean()) < 4.9 * np.sqrt(26 / 2 / 4000)
  np.testing.assert_allclose(values.var(), 26 / 2, rtol=0.2)


@pytest.mark.parametrize('bias', [True, False])
def test_gradient_is_that_of_central_differences(bias):
  posterior = toys.tiny_posterior(bias=bias)
  parts = posterior.sample_prior(seed=[0, 1])
  with tf.GradientTape() as tape:
    tape.watch(parts)
    value = posterior.target_log_prob_fn(*parts)
  for i, gradient in enumerate(tape.gradient(value, parts)):
    for index in np.ndindex(*parts[i].shape):
      ends = []
      for step in (1e-5, -1e-5):
        moved = parts[i].numpy()
        moved[index] += step
        ends.append(posterior.target_log_prob_fn(*parts[:i], tf.constant(moved), *parts[i + 1 :]))
      np.testing.assert_allclose(gradient[index], (ends[0] - ends[1]) / 2e-5, rtol=1e-6, atol=1e-6)


def test_float32_resolves_differences_of_log_prior_at_five_million_weights():
  # Two nearby draws differ by about 250 in the log-density. Centered, its values are about 2000,
  # where float32 resolves 1e-4; without it, 2.5 million, where it resolves 0.25.
  model = tfr.models.fcn((2000,), 1, width=1000, depth=4, dtype='float32')
  posterior = tfr.Posterior(model, np.zeros([1, 2000]), np.zeros([1, 1]), noise_scale=0.1)
  assert posterior.split.num_parameters > 5e6
  draws = [posterior.sample_prior(seed=[0, i]) for i in range(4)]
  centered, uncentered = [], []
  for theta, noise in zip(draws[:-1], draws[1:], strict=True):
    moved = [t + 0.01 * e for t, e in zip(theta, noise, strict=True)]
    exact = 0.0
    for part, moved_part in zip(theta, moved, strict=True):
      a, b = (p.numpy().astype(np.float64) for p in (part, moved_part))
      exact -= 0.5 * np.sum((b - a) * (b + a))
    naive = [-0.5 * sum(tf.reduce_sum(tf.square(p)) for p in parts) for parts in (theta, moved)]
    difference = posterior.log_prior_fn(*moved) - posterior.log_prior_fn(*theta)
    centered.append(difference.numpy() - exact)
    uncentered.append((naive[1] - naive[0]).numpy() - exact)
  assert abs(exact) > 100
  assert np.max(np.abs(centered)) < 5e-3
  assert np.max(np.abs(uncentered)) > 5e-2


def test_chains_are_a_loop_over_single_chains():
  posterior = toys.tiny_posterior()
  parts = posterior.sample_prior((2, 3), seed=[0, 1])
  target = posterior.target_log_prob_fn(*parts)
  for index in np.ndindex(2, 3):
    expected = posterior.target_log_prob_fn(*(p[index] for p in parts))
    np.testing.assert_allclose(target[index], expected, rtol=1e-12)


def test_a_linear_model_takes_chains():
  model = keras.Sequential([keras.Input((3,)), tfr.layers.NTKDense(2, 0.7, 0.3)])
  posterior = tfr.Posterior(model, *_data(), noise_scale=0.1)
  parts = posterior.sample_prior(4, seed=[0, 1])
  target = posterior.target_log_prob_fn(*parts)
  assert target.shape == (4,)
  np.testing.assert_allclose(target[2], posterior.target_log_prob_fn(*(p[2] for p in parts)))


def test_features_times_readout_are_the_outputs_at_the_training_inputs():
  posterior = toys.tiny_posterior()
  parts = posterior.sample_prior(4, seed=[0, 1])
  psi = posterior.features_fn(*parts[:2]).numpy()
  outputs = psi[..., :-1] @ parts[2].numpy() + psi[..., -1:] * parts[3].numpy()[:, np.newaxis]
  expected = posterior.split.apply(parts, posterior.x)
  np.testing.assert_allclose(outputs, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize('regularizer, expected', [(None, 0.09), (2.0, 2.0)])
def test_reprior_is_regularized_by_the_variance_of_the_noise_unless_told(regularizer, expected):
  reprior = toys.tiny_posterior(noise_scale=0.3).reprior(regularizer, space='data')
  np.testing.assert_allclose(reprior.regularizer, expected, rtol=1e-12)
  assert reprior.space == 'data'


def test_a_likelihood_takes_the_place_of_the_noise_scale():
  x, y = _data()
  split = tfr.models.ReadoutSplit(_model())
  parts = split.sample_prior(seed=[0, 1])
  by_scale = tfr.Posterior(split, x, y, noise_scale=0.7)
  by_object = tfr.Posterior(split, x, y, likelihood=tfr.likelihoods.Gaussian(0.7))
  default = tfr.Posterior(split, x, y, noise_scale=0.1)
  assert by_scale.likelihood.noise_scale == 0.7
  assert default.likelihood.noise_scale == 0.1
  expected = by_scale.log_likelihood_fn(*parts)
  np.testing.assert_array_equal(by_object.log_likelihood_fn(*parts), expected)


def test_a_split_with_its_own_prior_scales_is_kept():
  plain = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
  split = tfr.models.ReadoutSplit(plain, readout_weight_std=3.0)
  assert tfr.Posterior(split, *_data(), noise_scale=0.1).split is split


def test_prior_draws_are_those_of_the_split():
  posterior = toys.tiny_posterior()
  expected = posterior.split.sample_prior((2, 3), seed=[0, 1])
  for a, b in zip(posterior.sample_prior((2, 3), seed=[0, 1]), expected, strict=True):
    np.testing.assert_array_equal(a, b)


# Data that are accepted.


def test_targets_of_rank_one_are_one_output():
  x, y = _data(outputs=1)
  model = _model(outputs=1)
  vector, column = (
    tfr.Posterior(model, x, y[:, 0], noise_scale=0.1),
    tfr.Posterior(model, x, y, noise_scale=0.1),
  )
  parts = column.sample_prior(seed=[0, 1])
  assert vector.y.shape == (5, 1)
  np.testing.assert_array_equal(
    vector.target_log_prob_fn(*parts), column.target_log_prob_fn(*parts)
  )


def test_data_are_cast_to_the_dtype_of_the_model():
  x, y = _data()
  posterior = tfr.Posterior(_model(dtype='float32'), x, y, noise_scale=0.1)
  assert posterior.x.dtype == posterior.y.dtype == tf.float32
  np.testing.assert_array_equal(posterior.x, x.astype(np.float32))
  parts = posterior.sample_prior(seed=[0, 1])
  assert posterior.target_log_prob_fn(*parts).dtype == tf.float32
  widened = tfr.Posterior(_model(), x.astype(np.float32), y.astype(np.float32), noise_scale=0.1)
  assert widened.x.dtype == widened.y.dtype == tf.float64


def test_data_may_be_lists_or_tensors():
  x, y = _data()
  for convert in (np.ndarray.tolist, tf.constant):
    posterior = tfr.Posterior(_model(), convert(x), convert(y), noise_scale=0.1)
    np.testing.assert_array_equal(posterior.x, x)
    np.testing.assert_array_equal(posterior.y, y)


@pytest.mark.parametrize('jit_compile', [False, True])
def test_targets_may_be_symbolic(jit_compile):
  x, y = _data()
  split = tfr.models.ReadoutSplit(_model())
  parts = split.sample_prior(4, seed=[0, 1])

  @tf.function(jit_compile=jit_compile)
  def target(x, y):
    return tfr.Posterior(split, x, y, noise_scale=0.1).target_log_prob_fn(*parts)

  expected = tfr.Posterior(split, x, y, noise_scale=0.1).target_log_prob_fn(*parts)
  np.testing.assert_allclose(target(tf.constant(x), tf.constant(y)), expected, rtol=1e-12)


def test_repr_says_what_it_is():
  assert repr(tfr.Posterior(_model(), *_data(), noise_scale=0.1)) == (
    "Posterior(model='net', n=5, num_parameters=26, likelihood=Gaussian(noise_scale=0.1))"
  )


# Data that are refused.


def _refuses(message, error=ValueError):
  return pytest.raises(error, match=re.escape(message))


def test_inputs_and_targets_must_have_the_same_length():
  x, y = _data()
  with _refuses('`x` and `y` must have the same length. Received: x of length 5, y of length 4'):
    tfr.Posterior(_model(), x, y[:4], noise_scale=0.1)


@pytest.mark.parametrize('name', ['x', 'y'])
@pytest.mark.parametrize('bad', [np.nan, np.inf, -np.inf])
def test_data_must_be_finite(name, bad):
  data = dict(zip(['x', 'y'], _data(), strict=True))
  data[name][1, 0] = data[name][3, 1] = bad
  shape = data[name].shape
  message = (
    f'`{name}` must be finite. Received: {name} of shape {shape} with 2 entries that are NaN, '
    'infinite, or too large for float64'
  )
  with _refuses(message):
    tfr.Posterior(_model(), **data, noise_scale=0.1)


@pytest.mark.parametrize('name', ['x', 'y'])
def test_data_must_be_finite_in_the_dtype_of_the_model(name):
  data = dict(zip(['x', 'y'], _data(), strict=True))
  data[name][1, 0] = 1e300
  with _refuses(f'`{name}` must be finite.'):
    tfr.Posterior(_model(dtype='float32'), **data, noise_scale=0.1)


@pytest.mark.parametrize('name', ['x', 'y'])
@pytest.mark.parametrize('dtype', [np.int64, np.uint8, np.bool_])
def test_data_must_be_floating_point(name, dtype):
  data = dict(zip(['x', 'y'], _data(), strict=True))
  data[name] = data[name].astype(dtype)
  message = f'(see `tfp_reprior.data`). Received: {name} of dtype {tf.as_dtype(dtype).name}'
  with _refuses(f'`{name}` must hold floating point numbers', TypeError):
    tfr.Posterior(_model(), **data, noise_scale=0.1)
  with _refuses(message, TypeError):
    tfr.Posterior(_model(), **data, noise_scale=0.1)


@pytest.mark.parametrize('shape', [(5, 4), (5,), (5, 3, 1)])
def test_inputs_must_have_the_shape_of_the_model(shape):
  message = f"`x` must have shape [n, 3] for the model 'net'. Received: x of shape {shape}"
  with _refuses(message):
    tfr.Posterior(_model(), np.ones(shape), np.ones([5, 2]), noise_scale=0.1)


@pytest.mark.parametrize('name', ['x', 'y'])
def test_one_number_is_no_data(name):
  data = {'x': np.ones([5, 3]), 'y': np.ones([5, 2])} | {name: np.ones([])}
  with _refuses(f'`{name}` must be an array of numbers, a row for each datum. Received: {name} of'):
    tfr.Posterior(_model(), **data, noise_scale=0.1)


def test_there_must_be_data():
  with _refuses('`x` must hold at least one input. Received: x of shape (0, 3)'):
    tfr.Posterior(_model(), np.ones([0, 3]), np.ones([0, 2]), noise_scale=0.1)


@pytest.mark.parametrize('shape', [(5,), (5, 3), (5, 1), (5, 2, 1)])
def test_targets_must_have_a_column_for_each_output(shape):
  message = (
    f'`y` must have shape [n, 2], a row of 2 outputs for each input. Received: y of shape {shape}'
  )
  with _refuses(message):
    tfr.Posterior(_model(), np.ones([5, 3]), np.ones(shape), noise_scale=0.1)


@pytest.mark.parametrize('noise_scale', [0.0, -0.1, np.nan])
def test_noise_scale_must_be_positive(noise_scale):
  with _refuses(f'`noise_scale` must be positive. Received: noise_scale={noise_scale}'):
    tfr.Posterior(_model(), *_data(), noise_scale=noise_scale)


def test_a_model_that_cannot_be_split_is_refused():
  with _refuses('`model` must be a `keras.Model`. Received: int'):
    tfr.Posterior(3, *_data())


@pytest.mark.parametrize('method', ['target_log_prob_fn', 'log_prior_fn', 'log_likelihood_fn'])
def test_the_wrong_number_of_parts_is_refused(method):
  posterior = toys.tiny_posterior()
  parts = posterior.sample_prior(seed=[0, 1])
  with pytest.raises(ValueError, match='`parts` must be a list of 4 tensors .*Received: 3 parts'):
    getattr(posterior, method)(*parts[:3])


@pytest.mark.parametrize('method', ['target_log_prob_fn', 'log_prior_fn', 'log_likelihood_fn'])
def test_parts_of_another_dtype_are_refused(method):
  posterior = toys.tiny_posterior()
  parts = [tf.cast(p, tf.float32) for p in posterior.sample_prior(seed=[0, 1])]
  message = '`parts` must have the dtype of the model, float64. Received: parts[0] of dtype float32'
  with _refuses(message, TypeError):
    getattr(posterior, method)(*parts)
