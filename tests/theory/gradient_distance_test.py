"""The distance of gradients, against autodiff of the composed density."""

import numpy as np
import tensorflow as tf
import toys

import tfp_reprior as tfr


def _norms(gradients):
  """`[c]`, of parts `[c, ...]`."""
  return np.sqrt(sum(np.sum(np.square(g.numpy().reshape(3, -1)), axis=1) for g in gradients))


def test_distance_is_that_of_the_transformed_density():
  posterior = toys.tiny_posterior()
  reprior, phi = posterior.reprior(), posterior.sample_prior(3, seed=1)
  with tf.GradientTape() as tape:
    tape.watch(phi)
    theta = reprior.forward(phi)
    log_prob = posterior.target_log_prob_fn(*theta) + reprior.forward_log_det_jacobian(phi)
  gradients = tape.gradient(log_prob, phi)
  expected = _norms([g + p for g, p in zip(gradients, phi, strict=True)])  # grad log N = -phi
  for density in (tfr.CollapsedPosterior(posterior), tfr.ComposedPosterior(posterior)):
    distance = tfr.theory.gradient_distance(density, phi)
    np.testing.assert_allclose(distance, expected, rtol=1e-8)


def test_distance_of_a_posterior_is_that_of_the_standard_parametrisation():
  posterior = toys.tiny_posterior()
  theta = posterior.sample_prior(3, seed=1)
  with tf.GradientTape() as tape:
    tape.watch(theta)
    log_prob = posterior.target_log_prob_fn(*theta)
  gradients = tape.gradient(log_prob, theta)
  expected = _norms([g + p for g, p in zip(gradients, theta, strict=True)])
  np.testing.assert_allclose(tfr.theory.gradient_distance(posterior, theta), expected, rtol=1e-8)


def test_distance_falls_like_the_root_of_width_with_the_map_only():
  rng = np.random.default_rng(0)
  x, y = rng.normal(size=(4, 3)), rng.normal(size=(4, 2))
  squares = {'map': [], 'standard': []}
  for width in (64, 256):
    model = tfr.models.fcn((3,), 2, width)
    posterior = tfr.Posterior(model, x, y, noise_scale=0.5)
    phi = posterior.sample_prior(100, seed=1)
    for name, density in (('map', tfr.CollapsedPosterior(posterior)), ('standard', posterior)):
      squares[name].append(np.mean(np.square(tfr.theory.gradient_distance(density, phi))))
  assert 3 < squares['map'][0] / squares['map'][1] < 6  # 4 and O(1 / width)
  assert squares['standard'][0] / squares['standard'][1] < 2
