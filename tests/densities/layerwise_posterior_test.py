"""LayerwisePosterior: equal to the composition of posterior and bijector, value and gradient."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp
import toys

import tfp_reprior as tfr

REGULARIZERS = [3.0, 0.7, np.inf]


def _with_likelihood(posterior, **arguments):
  return tfr.Posterior(posterior.split, posterior.x, **arguments)


def _posterior(kind, n):
  posterior = toys.tiny_posterior(n=n, inputs=6, width=4, outputs=2, depth=3)
  if kind == 'unknown noise':
    prior = tfp.distributions.LogNormal(tf.constant(-1.0, tf.float64), 1.0)
    return _with_likelihood(posterior, y=posterior.y, noise_scale=prior)
  if kind == 'classes':
    labels = np.arange(n) % 2
    return _with_likelihood(posterior, y=labels, likelihood=tfr.likelihoods.Categorical())
  return posterior.in_space('auto') if kind == 'data space' else posterior


# Rows below and above the number of weights a unit: all directions, those of features, and some.
@pytest.mark.parametrize(
  'kind, n, num_directions',
  [
    ('gaussian', 3, None),
    ('gaussian', 9, None),
    ('gaussian', 9, 2),
    ('data space', 3, 2),
    ('unknown noise', 9, None),
    ('classes', 9, 3),
  ],
)
def test_value_and_gradient_are_those_of_the_composition(kind, n, num_directions):
  posterior = _posterior(kind, n)
  if kind == 'data space':
    assert posterior.split.names_in_data_space == ['hidden_1']
  anchor = posterior.sample_prior(2, seed=3)
  directions = {'num_directions': num_directions}
  density = tfr.LayerwisePosterior(posterior, anchor, REGULARIZERS, **directions)
  reprior = tfr.LayerwiseReprior(posterior, anchor, REGULARIZERS, **directions)
  phi = posterior.sample_prior(2, seed=4)

  def composed(*phi):
    theta = reprior.forward(phi)
    return posterior.target_log_prob_fn(*theta) + reprior.forward_log_det_jacobian(phi)

  value, grads = tfp.math.value_and_gradient(density.target_log_prob_fn, phi)
  expected, expected_grads = tfp.math.value_and_gradient(composed, phi)
  constant = 0.0 if kind == 'classes' else tfr.CollapsedPosterior(posterior).log_constant
  np.testing.assert_allclose(value + constant, expected, rtol=1e-10, atol=1e-10)
  for grad, other in zip(grads, expected_grads, strict=True):
    np.testing.assert_allclose(grad, other, rtol=1e-9, atol=1e-9)
  for part, other in zip(density.to_theta(phi), reprior.forward(phi), strict=True):
    np.testing.assert_allclose(part, other, atol=1e-10)


def test_the_change_is_that_of_the_pseudo_observations():
  # log N(v; 0, K) - log N(v; psi @ theta, lam I), by another library.
  posterior = toys.tiny_posterior(n=6, inputs=3, width=4, outputs=1)
  anchor, phi = posterior.sample_prior(seed=3), posterior.sample_prior(seed=4)
  density = tfr.LayerwisePosterior(posterior, anchor, 2.0)
  theta = density.to_theta(phi)
  psi = np.concatenate([2**0.5 / 3**0.5 * posterior.x, np.full([6, 1], 0.1)], axis=1)
  stack = [np.concatenate([p[0], p[1][np.newaxis]]) for p in (anchor, theta)]
  v, z = (psi @ s for s in stack)
  covariance = 2.0 * np.eye(6) + psi @ psi.T
  multivariate = tfp.distributions.MultivariateNormalFullCovariance(np.zeros(6), covariance)
  change = tf.reduce_sum(multivariate.log_prob(v.T)) - tf.reduce_sum(
    tfp.distributions.Normal(z, np.sqrt(2.0)).log_prob(v)
  )
  collapsed = tfr.CollapsedPosterior(posterior).log_likelihood_fn(*theta)
  np.testing.assert_allclose(density.log_likelihood_fn(*phi), collapsed + change, rtol=1e-10)


def test_temperature_is_of_the_likelihood_alone():
  posterior = toys.tiny_posterior(n=3)
  density = tfr.LayerwisePosterior(posterior, posterior.sample_prior(seed=3), 2.0)
  phi = posterior.sample_prior(seed=4)
  one, three = (density.log_likelihood_fn(*phi, inverse_temperature=t) for t in (1.0, 3.0))
  collapsed = tfr.CollapsedPosterior(posterior).log_likelihood_fn(*density.to_theta(phi))
  np.testing.assert_allclose(three - one, 2 * collapsed, rtol=1e-10)


def test_an_anchor_that_moves_is_seen_by_graphs_made_before():
  posterior = toys.tiny_posterior(n=6)
  first, second = (posterior.sample_prior(2, seed=s) for s in (3, 5))
  phi = posterior.sample_prior(2, seed=4)
  density = tfr.LayerwisePosterior(posterior, first, 2.0)
  graph = tf.function(density.log_likelihood_fn, autograph=False)
  before = graph(*phi)
  theta = density.to_theta(phi)
  density.move_anchor(second)
  expected = tfr.LayerwisePosterior(posterior, second, 2.0).log_likelihood_fn(*phi)
  np.testing.assert_allclose(graph(*phi), expected, rtol=1e-12)
  assert not np.allclose(before, expected)
  back = density.from_theta(theta[: posterior.split.num_hidden])
  for part, other in zip(density.to_theta([*back, *phi[2:]]), theta, strict=True):
    np.testing.assert_allclose(part, other, atol=1e-10)


def test_float32_energies_are_accurate_enough_to_accept_by():
  model = tfr.models.fcn((8,), 2, width=32)
  x = np.random.default_rng(1).normal(size=[40, 8]).astype(np.float32)
  values = {}
  for dtype in ('float32', 'float64'):
    network = tfr.models.fcn((8,), 2, width=32, dtype=dtype)
    posterior = tfr.Posterior(network, x, x[:, :2], noise_scale=0.1)
    parts = tfr.Posterior(model, x, x[:, :2], noise_scale=0.1).sample_prior(2, seed=1)
    parts = [tf.cast(p, dtype) for p in parts]
    density = tfr.LayerwisePosterior(posterior, parts, 3.0)
    moved = [
      tf.cast(p, dtype)
      for p in tfr.Posterior(model, x, x[:, :2], noise_scale=0.1).sample_prior(2, seed=2)
    ]
    values[dtype] = density.log_likelihood_fn(*moved).numpy()
  np.testing.assert_allclose(values['float32'], values['float64'], atol=0.05)
