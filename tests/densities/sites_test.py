"""Gaussian sites: the fit against autodiff, and the map that they make against its Jacobian."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp
import toys

import tfp_reprior as tfr
from tfp_reprior.densities import sites

KINDS = ['categorical', 'bernoulli']


def _posterior(kind, n=5, output_scale=3.0):
  rng = np.random.default_rng(3)
  model = tfr.models.fcn((3,), 3, width=4, depth=1, dtype='float64')
  labels = rng.integers(3, size=n)
  likelihood, y = {
    'categorical': (tfr.likelihoods.Categorical(output_scale=output_scale), labels),
    'bernoulli': (tfr.likelihoods.Bernoulli(output_scale=output_scale), np.eye(3)[labels]),
  }[kind]
  return tfr.Posterior(model, rng.normal(size=(n, 3)), y, likelihood=likelihood)


@pytest.mark.parametrize('kind', KINDS)
@pytest.mark.parametrize('output_scale', [1.0, 5.0])
def test_sites_are_stationary(kind, output_scale, monkeypatch):
  monkeypatch.setattr(sites, '_TOLERANCE', 1e-11)
  monkeypatch.setattr(sites, '_NUM_ROUNDS', 1000)
  # Mean and variances of the outputs by dense inverses; gradient and curvature by autodiff.
  posterior = _posterior(kind, n=12, output_scale=output_scale)
  targets, variances = (np.asarray(v) for v in posterior.sites[:2])
  precision = np.linalg.inv(sites.mean_kernel(posterior)) + np.diag(1 / variances)
  covariance = np.linalg.inv(precision)
  mean = tf.constant(covariance @ (targets / variances[:, np.newaxis]))
  noise = np.sqrt(np.diag(covariance))[:, np.newaxis] * sites.standard_outputs(3)
  with tf.GradientTape(persistent=True) as outer:
    outer.watch(mean)
    with tf.GradientTape() as inner:
      inner.watch(mean)
      value = tf.reduce_mean(posterior.likelihood.log_prob(mean + noise, posterior.y))
    gradient = inner.gradient(value, mean)
  hessian = outer.jacobian(gradient, mean, experimental_use_pfor=False)
  # The posterior of the outputs has its mean where the gradient of prior and likelihood is zero.
  pull = np.linalg.solve(sites.mean_kernel(posterior), mean)
  np.testing.assert_allclose(gradient, pull, atol=1e-8)
  num_seen = 2 if kind == 'categorical' else 3
  curvature = -np.einsum('ikik->i', hessian) / num_seen
  np.testing.assert_allclose(1 / variances, curvature, rtol=1e-8)


def test_rounds_that_have_not_converged_are_told(monkeypatch):
  monkeypatch.setattr(sites, '_NUM_ROUNDS', 3)
  with pytest.warns(UserWarning, match='`regularizer=.sites.` have not converged in 3 rounds'):
    sites.fit(_posterior('categorical'))


def test_the_surrogate_is_not_stationary():
  posterior = _posterior('categorical', n=12, output_scale=10.0)
  ratio = np.asarray(posterior.sites.variances) / posterior.surrogate_variance
  assert np.max(ratio) > 1.5  # sure outputs have less curvature than those at zero


def test_directions_are_those_that_say_most():
  posterior = _posterior('categorical', n=30, output_scale=1.0)
  variances, projection = (np.asarray(v) for v in posterior.sites[1:])
  m = len(projection)
  assert m < 30
  np.testing.assert_allclose(projection * variances @ projection.T, np.eye(m), atol=1e-12)
  kernel = sites.mean_kernel(posterior).numpy() / np.sqrt(np.outer(variances, variances))
  gains = np.linalg.svd(kernel, compute_uv=False)
  np.testing.assert_allclose(
    np.linalg.norm(projection @ sites.mean_kernel(posterior) @ projection.T, 2), gains[0]
  )
  assert gains[m] < 1 / 3


@pytest.mark.parametrize('kind', KINDS)
@pytest.mark.parametrize('n', [3, 8])  # in data space, and in feature space
def test_the_map_of_sites_is_exact(kind, n):
  posterior = _posterior(kind, n)
  reprior = posterior.reprior('sites')
  composed = tfr.ComposedPosterior(posterior, 'sites')
  chains = posterior.sample_prior(2, seed=1)
  theta = reprior.forward(chains)
  for part, back in zip(chains, reprior.inverse(theta), strict=True):
    np.testing.assert_allclose(back, part, atol=1e-10)
  for part, other in zip(theta, composed.to_theta(chains), strict=True):
    np.testing.assert_allclose(other, part, atol=1e-10)
  log_det = reprior.forward_log_det_jacobian(chains)
  shapes = [p.shape[1:] for p in chains]
  for c in range(2):
    jacobian = toys.jacobian(
      lambda rows: toys.flat(reprior.forward(toys.unflat(rows, shapes)), 1),
      toys.flat([p[c] for p in chains]),
    )
    np.testing.assert_allclose(log_det[c], np.linalg.slogdet(jacobian)[1], atol=1e-9)
  expected = posterior.target_log_prob_fn(*theta) + log_det
  np.testing.assert_allclose(composed.target_log_prob_fn(*chains), expected, rtol=1e-10)

  @tf.function(autograph=False, jit_compile=True)
  def compiled(*parts):
    return tfp.math.value_and_gradient(composed.target_log_prob_fn, parts)

  value, gradient = compiled(*chains)
  np.testing.assert_allclose(value, expected, rtol=1e-10)
  # Against automatic differentiation through the map and the factor.
  _, plain = tfp.math.value_and_gradient(
    lambda *phi: (
      posterior.target_log_prob_fn(*reprior.forward(list(phi)))
      + reprior.forward_log_det_jacobian(list(phi))
    ),
    chains,
  )
  for actual, part in zip(gradient, plain, strict=True):
    np.testing.assert_allclose(actual, part, atol=1e-9)


def test_sites_made_in_a_graph_serve_outside_of_it():
  posterior = _posterior('categorical')
  phi = posterior.sample_prior(seed=1)

  @tf.function(autograph=False)
  def density(*phi):
    return tfr.ComposedPosterior(posterior, 'sites').log_likelihood_fn(*phi)

  inside = density(*phi)
  outside = tfr.ComposedPosterior(posterior, 'sites').log_likelihood_fn(*phi)
  np.testing.assert_allclose(inside, outside, rtol=1e-12)


def test_sites_are_for_classes():
  posterior = toys.tiny_posterior()
  with pytest.raises(ValueError, match="`regularizer='sites'` is for classes. Received: likeli"):
    posterior.reprior('sites')
