"""Kernels of networks, against draws of networks and against naive linear algebra."""

import keras
import numpy as np
import pytest
import statistics_lib
import tensorflow as tf
import toys

import tfp_reprior as tfr
from tfp_reprior.theory import prior_draws


def _inputs(n=3, size=5, seed=0):
  return np.random.default_rng(seed).normal(size=(n, size))


def _kernel_draws(model, x, num_draws, seed):
  """`[num_draws, n, n]`, float64."""
  split = tfr.models.ReadoutSplit(model)
  hidden = split.sample_prior(num_draws, seed)[: split.num_hidden]
  return tfr.theory.empirical_kernel(split, hidden, x).numpy()


@pytest.mark.parametrize('activation', ['linear', 'relu', 'erf', 'gelu', 'tanh', 'silu'])
def test_kernel_of_one_hidden_layer_is_the_mean_over_networks(activation):
  # With one hidden layer it is so at every width. The standard errors are near 1 %, so that the
  # kernel of weights that are 10 % larger (20 % in the kernel) is rejected.
  x = _inputs()
  model = tfr.models.fcn((5,), 2, 16, 1, activation, 1.3, 0.4, 0.9, 0.3, dtype='float64')
  other = tfr.models.fcn((5,), 2, 16, 1, activation, 1.3, 0.4, 0.99, 0.3, dtype='float64')
  upper = np.triu_indices(3)
  draws = _kernel_draws(model, x, 4000, seed=1)[(slice(None), *upper)]
  p_value = statistics_lib.mean_p_value(draws, tfr.theory.nngp_kernel(model, x)[upper])
  assert p_value > statistics_lib.FALSE_ALARM
  p_value = statistics_lib.mean_p_value(draws, tfr.theory.nngp_kernel(other, x)[upper])
  assert p_value < statistics_lib.FALSE_ALARM


@pytest.mark.parametrize('activation', ['relu', 'gelu', 'tanh'])
def test_kernel_of_three_hidden_layers_is_the_limit_of_networks(activation):
  # The mean over networks is that of the limit plus c / width; two widths take c off. What is left
  # is O(1 / width^2), for which we allow 1 %, and noise: 5 sigma are a false alarm in 1.7e6.
  x = _inputs(2)

  def kernel_draws(width, seed):
    model = tfr.models.fcn((5,), 1, width, 3, activation, weight_std=1.8)
    return _kernel_draws(model, x, 1500, seed)

  draws = 2 * kernel_draws(64, seed=2) - kernel_draws(32, seed=3)
  tolerance = 5 * np.std(draws, axis=0) / np.sqrt(len(draws))
  model, shorter = (tfr.models.fcn((5,), 1, 2, d, activation, weight_std=1.8) for d in (3, 2))
  expected = tfr.theory.nngp_kernel(model, x)
  tolerance += 0.01 * np.max(expected)
  assert np.all(np.abs(np.mean(draws, axis=0) - expected) < tolerance)
  # A layer less would be noticed.
  assert np.any(np.abs(tfr.theory.nngp_kernel(shorter, x) - expected) > 2 * tolerance)


def test_kernel_of_other_inputs_is_a_block_of_the_whole():
  model, x = tfr.models.fcn((5,), 1, 2), _inputs(7)
  whole = tfr.theory.nngp_kernel(model, x)
  np.testing.assert_allclose(tfr.theory.nngp_kernel(model, x[:3], x[3:]), whole[:3, 3:], rtol=1e-12)
  np.testing.assert_allclose(whole, whole.T, rtol=1e-12)
  assert np.linalg.eigvalsh(whole)[0] > 0


def test_images_are_flattened():
  x = _inputs(3, size=12)
  image, flat = (tfr.models.fcn(shape, 1, 2) for shape in ((2, 2, 3), (12,)))
  np.testing.assert_array_equal(
    tfr.theory.nngp_kernel(image, x.reshape(3, 2, 2, 3)), tfr.theory.nngp_kernel(flat, x)
  )


def test_plain_keras_layers_have_the_prior_of_the_split():
  plain = toys.functional(
    (5,),
    keras.layers.Dense(4, use_bias=False),
    keras.layers.Activation('tanh'),
    keras.layers.Dense(3, activation='relu'),
    keras.layers.Dense(2),
  )
  ntk = toys.functional(
    (5,),
    tfr.layers.NTKDense(4, 1.2, 0.0, 'tanh'),
    tfr.layers.NTKDense(3, 1.2, 0.3, 'relu'),
    tfr.layers.NTKDense(2, 0.7, 0.2),
  )
  split = tfr.models.ReadoutSplit(plain, 1.2, 0.3, 0.7, 0.2)
  x = _inputs()
  np.testing.assert_allclose(
    tfr.theory.nngp_kernel(split, x), tfr.theory.nngp_kernel(ntk, x), rtol=1e-12
  )


def test_empirical_kernel_is_the_product_of_features():
  split = tfr.models.ReadoutSplit(tfr.models.fcn((5,), 2, 4, dtype='float64'))
  parts = split.sample_prior(2, seed=1)
  x1, x2 = _inputs(3), _inputs(4, seed=1)
  kernel = tfr.theory.empirical_kernel(split, parts[: split.num_hidden], x1, x2).numpy()
  # f is linear in the readout: the kernel is a sum over its weights of df df.
  zeros = [tf.zeros_like(p) for p in parts[split.num_hidden :]]
  expected = np.zeros_like(kernel)
  for i, part in enumerate(zeros):
    for j in range(part.shape[1] if part.shape.rank == 3 else 1):
      unit = np.zeros(part.shape)
      unit[(slice(None), j, 0) if part.shape.rank == 3 else (slice(None), 0)] = 1.0
      readout = [*zeros[:i], tf.constant(unit), *zeros[i + 1 :]]
      f1, f2 = (split.apply([*parts[: split.num_hidden], *readout], x)[..., 0] for x in (x1, x2))
      expected += np.einsum('ci,cj->cij', f1, f2)
  np.testing.assert_allclose(kernel, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
  'make',
  [
    lambda: tfr.models.cnn((4, 4, 1), 2, width=3),
    lambda: tfr.models.wide_resnet((8, 8, 1), 2, width=2, depth=8),
  ],
  ids=['cnn', 'wide_resnet'],
)
def test_monte_carlo_kernel_is_the_covariance_of_outputs(make):
  model = make()
  split = tfr.models.ReadoutSplit(model)
  x = np.random.default_rng(0).normal(size=(2, *model.input_shape[1:])).astype(np.float32)
  kernel = tfr.theory.monte_carlo_kernel(split, x, num_draws=500, seed=1)
  f = np.concatenate(list(prior_draws.map_prior(lambda p: split.apply(p, x), split, 500, seed=2)))
  products = np.mean(np.einsum('sik,sjk->sijk', f, f), axis=-1)  # [s, n, n]
  error = np.sqrt(np.var(products, axis=0) / 500 + kernel.standard_error**2)
  assert np.all(np.abs(products.mean(axis=0) - kernel.mean) < 5.5 * error)  # 1e-6 with four entries
  assert np.all(error < 0.2 * np.max(kernel.mean))


def test_monte_carlo_kernel_has_mean_and_standard_error_of_its_draws(monkeypatch):
  model, x = tfr.models.fcn((5,), 2, 4, dtype='float64'), _inputs()
  split = tfr.models.ReadoutSplit(model)
  monkeypatch.setattr(prior_draws, '_BATCH_NUMBERS', 4 * split.num_parameters)  # 4 + 4 + 2 draws

  def kernels(parts):
    return tfr.theory.empirical_kernel(split, parts[: split.num_hidden], x)

  batches = list(prior_draws.map_prior(kernels, split, num_draws=10, seed=3))
  draws = np.concatenate(batches)
  kernel = tfr.theory.monte_carlo_kernel(model, x, num_draws=10, seed=3)
  assert [len(b) for b in batches] == [4, 4, 2] and len(np.unique(draws[:, 0, 0])) == 10
  np.testing.assert_allclose(kernel.mean, draws.mean(axis=0), rtol=1e-12)
  np.testing.assert_allclose(
    kernel.standard_error, draws.std(axis=0, ddof=1) / np.sqrt(10), rtol=1e-10
  )


def test_posterior_is_the_conditional_of_the_joint_normal():
  rng = np.random.default_rng(0)
  root, y = rng.normal(size=(7, 7)), rng.normal(size=(4, 2))
  joint = root @ root.T
  mean, covariance = tfr.theory.nngp_posterior(joint[:4, :4], joint[4:, :4], joint[4:, 4:], y, 0.3)
  # The precision of the joint normal, conditioned by leaving out rows and columns.
  precision = np.linalg.inv(joint + np.diag([0.09] * 4 + [0.0] * 3))
  expected = np.linalg.inv(precision[4:, 4:])
  np.testing.assert_allclose(covariance, expected, rtol=1e-8, atol=1e-10)
  np.testing.assert_allclose(mean, -expected @ precision[4:, :4] @ y, rtol=1e-8, atol=1e-10)


def test_wide_networks_predict_what_the_limit_predicts():
  # Errors are O(width^(-1/2)) for one network and O(1 / width) in the mean over 20.
  x, x_test = _inputs(4), _inputs(6, seed=1)
  y = np.random.default_rng(2).normal(size=(4, 1))
  model = tfr.models.fcn((5,), 1, 512, dtype='float64')
  kernels = [tfr.theory.nngp_kernel(model, *p) for p in [(x, x), (x_test, x), (x_test, x_test)]]
  mean, covariance = tfr.theory.nngp_posterior(*kernels, y, noise_scale=0.3)
  posterior = tfr.Posterior(model, x, y, noise_scale=0.3)
  hidden = posterior.sample_prior(20, seed=1)[: posterior.split.num_hidden]
  means, variances = tfr.CollapsedPosterior(posterior).predict(hidden, x_test)
  np.testing.assert_allclose(np.mean(means, axis=0), mean, rtol=0, atol=0.03)
  np.testing.assert_allclose(
    np.mean(variances, axis=0)[:, 0], np.diag(covariance), rtol=0, atol=0.03
  )
  prior_mean = np.zeros_like(mean)
  assert np.max(np.abs(mean - prior_mean)) > 0.3  # what was learnt is ten times the tolerance


def _residual():
  inputs = keras.Input((5,))
  h = tfr.layers.NTKDense(5)(inputs)
  return keras.Model(inputs, tfr.layers.NTKDense(1)(keras.layers.Add()([h, inputs])))


def _shared():
  layer = tfr.layers.NTKDense(5)
  return toys.functional((5,), layer, layer, tfr.layers.NTKDense(1))


@pytest.mark.parametrize(
  'make, message',
  [
    (_residual, "layer 'add.*' of type Add"),
    (_shared, 'of type NTKDense'),
    (lambda: tfr.models.cnn((4, 4, 1), 2, width=3), 'for dense layers that follow one another'),
  ],
  ids=['residual', 'shared', 'cnn'],
)
def test_models_without_closed_form_are_refused(make, message):
  model = make()
  with pytest.raises(ValueError, match=message):
    tfr.theory.nngp_kernel(model, np.ones((2, *model.input_shape[1:])))


@pytest.mark.parametrize('name', ['x1', 'x2'])
def test_inputs_of_the_wrong_shape_are_refused(name):
  arguments = {'x1': _inputs(), name: _inputs(size=4)}
  with pytest.raises(ValueError, match=rf'`{name}` must have shape \[n, 5\].*\(3, 4\)'):
    tfr.theory.nngp_kernel(tfr.models.fcn((5,), 1, 2), **arguments)


def test_one_draw_has_no_standard_error():
  with pytest.raises(ValueError, match='`num_draws` must be at least 2. Received: num_draws=1'):
    tfr.theory.monte_carlo_kernel(tfr.models.fcn((5,), 1, 2), _inputs(), num_draws=1)


def test_noise_must_be_positive():
  with pytest.raises(ValueError, match='`noise_scale` must be positive. Received: noise_scale=0.0'):
    tfr.theory.nngp_posterior(np.eye(1), np.eye(1), np.eye(1), np.eye(1), 0.0)
