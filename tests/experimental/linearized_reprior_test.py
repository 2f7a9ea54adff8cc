"""LinearizedReprior: its equations, density, inverse, and where it is no bijector."""

import functools

import keras
import numpy as np
import pytest
import sklearn.linear_model
import tensorflow as tf
import tensorflow_probability as tfp
import toys

import tfp_reprior as tfr
from tfp_reprior.experimental import linearization

# Tiny networks that do not fold, as `test_narrow_networks_fold` shows that others do.
VARIANTS = {
  'one step': dict(regularizer=3.0),
  'two steps': dict(regularizer=4.0, num_iterations=2),
  'gradient descent': dict(method='gradient_descent', step_size=0.05, num_iterations=2),
  'subset': dict(regularizer=3.0, subset=[3, 1]),
}


def _posterior():
  return toys.tiny_posterior(n=4, inputs=2, width=3)


@functools.cache
def _variant(name):
  """The map, and its functions in graphs of their own."""
  linearized = tfr.experimental.LinearizedReprior(_posterior(), **VARIANTS[name])
  functions = (
    linearized.forward,
    linearized.forward_log_det_jacobian,
    linearized.inverse,
    linearized.inverse_log_det_jacobian,
  )
  return [tf.function(f, autograph=False) for f in functions]


def _flat(parts):
  return np.concatenate([np.ravel(p) for p in parts])


def _outputs_and_jacobian(posterior, vector, rows=range(4)):
  """f `[m]` and J `[m, p]` by autodiff, of chosen data."""
  parts = linearization.unflatten(tf.constant(vector), posterior.sample_prior(seed=0))
  with tf.GradientTape() as tape:
    tape.watch(parts)
    f = tf.reshape(tf.gather(posterior.split.apply(parts, posterior.x), rows), [-1])
  jacobians = tape.jacobian(f, parts)
  return f.numpy(), np.concatenate([np.reshape(j, [len(f), -1]) for j in jacobians], axis=1)


@pytest.mark.parametrize('name', VARIANTS)
def test_forward_is_its_equation(name):
  posterior, settings = _posterior(), VARIANTS[name]
  phi = posterior.sample_prior(2, seed=1)
  theta = _variant(name)[0](phi)
  rows = settings.get('subset', range(4))
  y = np.ravel(posterior.y.numpy()[rows])
  for c in range(2):
    expected = _flat([p[c] for p in phi])
    for _ in range(settings.get('num_iterations', 1)):
      f, j = _outputs_and_jacobian(posterior, expected, rows)
      if 'step_size' in settings:
        a = settings['step_size'] * (y - f)
      else:
        a = np.linalg.solve(settings['regularizer'] * np.eye(len(f)) + j @ j.T, y - f)
      expected = expected + j.T @ a
    np.testing.assert_allclose(_flat([p[c] for p in theta]), expected, atol=1e-10)


@pytest.mark.parametrize(
  'name',
  [
    'one step',
    *(pytest.param(n, marks=pytest.mark.slow) for n in ('two steps', 'gradient descent')),
  ],
)
def test_exact_log_det_is_that_of_the_autodiff_jacobian(name):
  forward, fldj, _, _ = _variant(name)
  chains = _posterior().sample_prior(2, seed=1)
  log_dets = fldj(chains)
  for c in range(2):
    phi = [p[c] for p in chains]
    vector = tf.constant(_flat(phi))
    with tf.GradientTape(persistent=True) as tape:
      tape.watch(vector)
      theta = linearization.flatten(forward(linearization.unflatten(vector, phi)), [2, 1, 2, 1])
    jacobian = tape.jacobian(theta, vector, experimental_use_pfor=False)
    np.testing.assert_allclose(log_dets[c], np.linalg.slogdet(jacobian)[1], atol=1e-10)


def test_a_second_tape_in_a_graph_has_the_gradient_of_eager_mode():
  linearized = tfr.experimental.LinearizedReprior(_posterior(), regularizer=3.0)

  def gradients(*phi, num_tapes=2):
    result = []
    for _ in range(num_tapes):
      with tf.GradientTape() as tape:
        tape.watch(phi)
        value = tf.add_n([tf.reduce_sum(tf.sin(p) * p**2) for p in linearized.forward(list(phi))])
      result.append(tape.gradient(value, phi))
    return result

  phi = _posterior().sample_prior(seed=1)
  [expected] = gradients(*phi, num_tapes=1)
  for actual in tf.function(gradients, autograph=False)(*phi):
    np.testing.assert_allclose(_flat(actual), _flat(expected), rtol=0, atol=1e-10)


@pytest.mark.slow
def test_convolutional_networks_have_a_taylor_series_with_gradients():
  rng = np.random.default_rng(0)
  model = tfr.models.cnn((3, 3, 1), 1, width=1, depth=1, dtype='float64')
  posterior = tfr.Posterior(
    model, rng.normal(size=(3, 3, 3, 1)), rng.normal(size=(3, 1)), noise_scale=0.1
  )
  series = tfr.experimental.TaylorSeries(num_probes=4, batch_size=2)
  linearized = tfr.experimental.LinearizedReprior(posterior, 3.0, log_det=series)
  fldj = tf.function(linearized.forward_log_det_jacobian, autograph=False)
  gradient = tf.function(lambda phi: tf.gradients(fldj(phi), phi), autograph=False)
  phi, direction = (posterior.sample_prior(2, seed=s) for s in (1, 2))
  upper, lower = (
    fldj([p + e * d for p, d in zip(phi, direction, strict=True)]) for e in (1e-5, -1e-5)
  )
  slope = sum(np.sum(g * d) for g, d in zip(gradient(phi), direction, strict=True))
  np.testing.assert_allclose(slope, np.sum(upper - lower) / 2e-5, rtol=1e-6)


def test_gradients_of_the_exact_log_det_are_finite_differences():
  _, fldj, _, _ = _variant('one step')
  phi = _posterior().sample_prior(2, seed=1)
  with tf.GradientTape() as tape:
    tape.watch(phi)
    value = fldj(phi)
  grads = tape.gradient(value, phi)
  direction = _posterior().sample_prior(2, seed=2)
  upper, lower = (
    fldj([p + e * d for p, d in zip(phi, direction, strict=True)]) for e in (1e-5, -1e-5)
  )
  slope = sum(
    np.sum(g * d, axis=tuple(range(1, d.ndim))) for g, d in zip(grads, direction, strict=True)
  )
  np.testing.assert_allclose(slope, (upper - lower) / 2e-5, rtol=1e-6)


@pytest.mark.parametrize(
  'name', ['one step', pytest.param('gradient descent', marks=pytest.mark.slow)]
)
def test_inverse_undoes_forward(name):
  forward, fldj, inverse, ildj = _variant(name)
  phi = _posterior().sample_prior(2, seed=1)
  theta = forward(phi)
  for part, back in zip(phi, inverse(theta), strict=True):
    np.testing.assert_allclose(back, part, atol=1e-6)
  np.testing.assert_allclose(ildj(theta), -fldj(phi), atol=1e-6)


def test_gradient_of_the_inverse_is_that_of_the_implicit_function():
  forward, _, inverse, _ = _variant('one step')
  theta = forward(_posterior().sample_prior(2, seed=1))
  with tf.GradientTape() as tape:
    tape.watch(theta)
    value = sum(tf.reduce_sum(tf.sin(p)) for p in inverse(theta))
  grads = tape.gradient(value, theta)
  direction = _posterior().sample_prior(2, seed=2)
  upper, lower = (
    sum(
      np.sum(np.sin(p)) for p in inverse([t + e * d for t, d in zip(theta, direction, strict=True)])
    )
    for e in (1e-4, -1e-4)
  )
  slope = sum(np.sum(g * d) for g, d in zip(grads, direction, strict=True))
  np.testing.assert_allclose(slope, (upper - lower) / 2e-4, rtol=1e-4)


def test_chains_without_inverse_are_nan_and_others_are_not():
  posterior = _posterior()
  phi = posterior.sample_prior(2, seed=1)
  good = _variant('one step')[0](phi)
  theta = [tf.stack([g[0], np.nan * g[1]]) for g in good]
  back = _variant('one step')[2](theta)
  for part, expected in zip(back, phi, strict=True):
    np.testing.assert_allclose(part[0], expected[0], atol=1e-6)
    assert np.all(np.isnan(part[1]))


def test_missing_inverse_is_an_error_if_arguments_are_validated():
  linearized = tfr.experimental.LinearizedReprior(
    _posterior(), max_inverse_iterations=1, validate_args=True
  )
  with pytest.raises(tf.errors.InvalidArgumentError, match='no inverse within `inverse_tolerance'):
    linearized.inverse(_posterior().sample_prior(2, seed=1))


def test_narrow_networks_fold():
  # The determinant changes its sign between draws from the prior; with a larger regularizer not.
  posterior = _posterior()
  phi = posterior.sample_prior(30, seed=1)

  @tf.function(autograph=False)
  def signs(regularizer):
    return tfr.experimental.LinearizedReprior(posterior, regularizer).jacobian_sign(phi)

  assert set(signs(tf.constant(0.09, tf.float64)).numpy()) == {-1.0, 1.0}
  assert set(signs(tf.constant(30.0, tf.float64)).numpy()) == {1.0}


def _linear_posterior():
  rng = np.random.default_rng(0)
  inputs = keras.Input((3,), dtype='float64')
  model = keras.Model(inputs, tfr.layers.NTKDense(2, bias_std=0.5, dtype='float64')(inputs))
  return tfr.Posterior(model, rng.normal(size=(6, 3)), rng.normal(size=(6, 2)), noise_scale=0.3)


def test_linear_model_is_shifted_to_the_ridge_solution():
  posterior = _linear_posterior()
  linearized = tfr.experimental.LinearizedReprior(posterior)
  psi, y = posterior.features_fn().numpy(), posterior.y.numpy()
  ridge = sklearn.linear_model.Ridge(alpha=0.09, fit_intercept=False).fit(psi, y)
  kernel, bias = linearized.forward([np.zeros([3, 2]), np.zeros([2])])
  np.testing.assert_allclose(np.concatenate([kernel, bias[np.newaxis]]), ridge.coef_.T, atol=1e-10)

  # From elsewhere: the posterior mean, and Sigma times where it starts.
  phi = posterior.sample_prior(seed=1)
  sigma = np.linalg.inv(np.eye(4) + psi.T @ psi / 0.09)
  start = np.concatenate([phi[0], phi[1][np.newaxis]])
  kernel, bias = linearized.forward(phi)
  np.testing.assert_allclose(
    np.concatenate([kernel, bias[np.newaxis]]), ridge.coef_.T + sigma @ start, atol=1e-10
  )
  fldj = linearized.forward_log_det_jacobian(phi)
  np.testing.assert_allclose(fldj, 2 * np.linalg.slogdet(sigma)[1], atol=1e-10)
  for part, back in zip(phi, linearized.inverse([kernel, bias]), strict=True):
    np.testing.assert_allclose(back, part, atol=1e-6)


def test_unknown_noise_passes_through():
  exact = _posterior()
  posterior = tfr.Posterior(
    exact.split, exact.x, exact.y, noise_scale=tfp.distributions.LogNormal(-1.0, 0.5)
  )
  phi = posterior.sample_prior(2, seed=1)
  linearized = tfr.experimental.LinearizedReprior(posterior, regularizer=3.0)
  theta = linearized.forward(phi)
  np.testing.assert_array_equal(theta[2], phi[2])
  weights = phi[:2] + phi[3:]
  for part, expected in zip(theta[:2] + theta[3:], _variant('one step')[0](weights), strict=True):
    np.testing.assert_allclose(part, expected, atol=1e-12)
  with pytest.raises(ValueError, match='`regularizer` must be a number.*regularizer=None'):
    tfr.experimental.LinearizedReprior(posterior)


def test_classes_have_the_targets_of_their_surrogate():
  exact = _posterior()
  likelihood = tfr.likelihoods.Categorical(output_scale=1.0)
  posterior = tfr.Posterior(exact.split, exact.x, np.array([0, 1, 1, 0]), likelihood=likelihood)
  phi = posterior.sample_prior(seed=1)
  f, j = _outputs_and_jacobian(posterior, _flat(phi))
  lam = posterior.surrogate_variance
  a = np.linalg.solve(lam * np.eye(8) + j @ j.T, np.ravel(posterior.surrogate_targets) - f)
  theta = tfr.experimental.LinearizedReprior(posterior, 'noise').forward(phi)
  np.testing.assert_allclose(_flat(theta), _flat(phi) + j.T @ a, atol=1e-10)


def test_tfp_contract():
  linearized = tfr.experimental.LinearizedReprior(_posterior())
  assert linearized.forward_min_event_ndims == [2, 1, 2, 1]
  assert linearized.dtype == tf.float64
  phi = _posterior().sample_prior(seed=1)
  copy = linearized.copy(regularizer=1e12)
  np.testing.assert_allclose(_flat(copy.forward(phi)), _flat(phi), atol=1e-9)


@pytest.mark.parametrize(
  ('arguments', 'message'),
  [
    (dict(regularizer=-1.0), '`regularizer` must be positive. Received: regularizer=-1.0'),
    (dict(method='newton'), "`method` must be one of .*Received: method='newton'"),
    (dict(num_iterations=0), '`num_iterations` must be a positive integer.*num_iterations=0'),
    (dict(step_size=0.1), '`step_size` is of gradient descent only. Received: step_size=0.1'),
    (dict(method='gradient_descent'), 'has a `step_size`.*step_size=None, regularizer=None'),
    (dict(method='gradient_descent', step_size=0.0), '`step_size` must be positive.*step_size=0.0'),
    (dict(subset=[0.5]), r'`subset` must be a list of integers. Received: subset=\[0.5\]'),
    (dict(subset=[0, 4]), r'different numbers from 0 to 3. Received: subset=\[0, 4\]'),
    (dict(log_det='dense'), "`log_det` must be one of 'exact'.*log_det='dense'"),
    (dict(inverse_tolerance=0.0), '`inverse_tolerance` must be positive.*=0.0'),
    (dict(max_inverse_iterations=0), '`max_inverse_iterations` must be a positive integer.*=0'),
    (dict(ntk_method='fast'), "`method` must be one of 'auto'.*method='fast'"),
  ],
)
def test_bad_arguments_are_refused(arguments, message):
  with pytest.raises(ValueError, match=message):
    tfr.experimental.LinearizedReprior(_posterior(), **arguments)


def test_posterior_is_needed():
  with pytest.raises(TypeError, match='`posterior` must be a `tfp_reprior.Posterior`. .*: int'):
    tfr.experimental.LinearizedReprior(3)
