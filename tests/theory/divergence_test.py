"""Divergences from the prior, against integrals, closed forms and repeated estimates."""

import numpy as np
import pytest
import statistics_lib
import tensorflow_probability as tfp

import tfp_reprior as tfr
from tfp_reprior.theory import divergence

X, Y = 0.8, 1.1
NOISES = {'known': 0.5, 'unknown': tfp.distributions.LogNormal(-0.6, 0.4)}


def _two_weights(noise='known'):
  """A network with one weight before the readout and one in it: f(x) = w2 w1 x."""
  model = tfr.models.fcn((1,), 1, 1, 1, 'linear', 1.0, 0.0, 1.0, 0.0, dtype='float64')
  return tfr.Posterior(model, np.array([[X]]), np.array([[Y]]), NOISES[noise])


def _expectation(f, num_nodes=101):
  """Over z ~ N(0, 1), by the trapezoidal rule."""
  nodes = np.linspace(-9, 9, num_nodes)
  weights = np.exp(-(nodes**2) / 2)
  return sum(w * f(z) for z, w in zip(nodes, weights, strict=True)) / np.sum(weights)


def _two_weights_kl(coordinates, noise):
  """By integration over w1, the noise and, in theta, w2."""

  def variance_of(u):
    return 0.25 if noise == 'known' else np.exp(2 * (-0.6 + 0.4 * u))

  def log_normal(residual, variance):
    return -(residual**2) / (2 * variance) - np.log(2 * np.pi * variance) / 2

  def log_prob_of_target(w1, u):
    return log_normal(Y, variance_of(u) + (w1 * X) ** 2)

  def over_both(f):
    return _expectation(lambda u: _expectation(lambda w1: f(w1, u)))

  log_evidence = np.log(over_both(lambda w1, u: np.exp(log_prob_of_target(w1, u))))
  if coordinates == 'phi':
    return -over_both(log_prob_of_target) + log_evidence
  # Over w2, for which the residual is quadratic, three points are enough.
  w2, weights = np.polynomial.hermite_e.hermegauss(3)
  weights = weights / np.sum(weights)
  return log_evidence - over_both(
    lambda w1, u: np.sum(weights * log_normal(Y - w1 * w2 * X, variance_of(u)))
  )


@pytest.mark.parametrize('coordinates', ['phi', 'theta'])
@pytest.mark.parametrize('noise', NOISES)
def test_estimate_is_the_integral(coordinates, noise):
  expected = _two_weights_kl(coordinates, noise)
  estimate = tfr.theory.kl_to_prior(_two_weights(noise), 30000, coordinates, seed=1)
  assert abs(estimate.value - expected) < 5 * estimate.standard_error  # a false alarm in 1.7e6
  # The test sees errors of a quarter of what there is to see.
  assert estimate.standard_error < 0.025 * expected
  assert estimate.num_draws == 30000


def _gaussian_kl(kernel_root, y, noise_scale):
  """KL(N(0, I) || posterior) of `y = psi @ theta + noise`, from means and covariances."""
  psi, s2 = kernel_root, noise_scale**2
  precision = np.eye(psi.shape[1]) + psi.T @ psi / s2
  mean = np.linalg.solve(precision, psi.T @ y / s2)
  _, log_det = np.linalg.slogdet(precision)
  terms = np.trace(precision) - len(precision) - log_det
  return 0.5 * (y.shape[1] * terms + np.sum(mean * (precision @ mean)))


@pytest.mark.parametrize('d', [3, 8])
def test_limit_is_that_of_a_linear_model_with_the_same_kernel(d):
  rng = np.random.default_rng(0)
  psi, y = rng.normal(size=(5, d)), rng.normal(size=(5, 2))
  limit = tfr.theory.kl_limit(psi @ psi.T, y, noise_scale=0.3)
  assert limit == pytest.approx(_gaussian_kl(psi, y, 0.3), rel=1e-10)


def _estimates(coordinates, widths, num_draws):
  rng = np.random.default_rng(0)
  x, y = rng.normal(size=(4, 3)), rng.normal(size=(4, 2))
  posteriors = [tfr.Posterior(tfr.models.fcn((3,), 2, w, 2), x, y, 0.5) for w in widths]
  kernel = tfr.theory.nngp_kernel(posteriors[0].split, x)
  estimates = [tfr.theory.kl_to_prior(p, num_draws, coordinates, seed=1) for p in posteriors]
  return estimates, tfr.theory.kl_limit(kernel, y, 0.5)


def test_divergence_in_phi_falls_like_one_over_width():
  estimates, _ = _estimates('phi', (16, 32, 64), 3000)
  for wide, wider in zip(estimates[:-1], estimates[1:], strict=True):
    assert wider.value < wide.value - 4 * wide.standard_error
    assert 1.6 < wide.value / wider.value < 2.6  # 2 and O(1 / width)


def test_divergence_in_theta_tends_to_its_limit_which_is_not_zero():
  (narrow, wide), limit = _estimates('theta', (16, 128), 1000)
  assert abs(wide.value - limit) < 5 * wide.standard_error + 0.02 * limit  # O(1 / width)
  assert abs(wide.value - limit) < abs(narrow.value - limit)
  assert limit > 1.0


def test_jackknife_is_that_of_the_definition():
  rng = np.random.default_rng(0)
  energies, log_weights = rng.normal(size=6), 3 * rng.normal(size=6)

  def plain(keep):
    return np.mean(energies[keep]) + np.log(np.mean(np.exp(log_weights[keep])))

  without = np.array([plain(np.delete(np.arange(6), i)) for i in range(6)])
  estimate = divergence._jackknife(energies, log_weights)
  all_of_them = plain(np.arange(6))
  weights = np.exp(log_weights)
  assert estimate.value == pytest.approx(6 * all_of_them - 5 * np.mean(without), rel=1e-12)
  assert estimate.bias == pytest.approx(all_of_them - estimate.value, rel=1e-10)
  assert estimate.standard_error == pytest.approx(
    np.sqrt(5 / 6 * np.sum((without - np.mean(without)) ** 2)), rel=1e-12
  )
  assert estimate.effective_sample_size == pytest.approx(
    np.sum(weights) ** 2 / np.sum(weights**2), rel=1e-12
  )


def test_jackknife_takes_off_the_bias_of_the_plain_estimate():
  # V ~ N(0, 1/4) has KL = 1/8. 40 draws bias the plain estimate by about (exp(1/4) - 1) / 80.
  rng = np.random.default_rng(0)
  energies = 0.5 * rng.normal(size=(20000, 40))
  estimates = [divergence._jackknife(v, -v) for v in energies]
  values = np.array([e.value for e in estimates])
  assert statistics_lib.mean_p_value(values, 1 / 8) > statistics_lib.FALSE_ALARM
  plain = values + np.array([e.bias for e in estimates])
  assert statistics_lib.mean_p_value(plain, 1 / 8) < statistics_lib.FALSE_ALARM
  assert np.mean(plain) - 1 / 8 == pytest.approx(-(np.exp(0.25) - 1) / 80, rel=0.2)
  errors = np.array([e.standard_error for e in estimates])
  assert np.mean(errors) == pytest.approx(np.std(values), rel=0.1)


def test_one_weight_that_is_nearly_all_is_survived():
  log_weights = np.array([800.0, 0.0, 1.0, 2.0])
  estimate = divergence._jackknife(-log_weights, log_weights)
  assert np.isfinite(estimate.value) and np.isfinite(estimate.standard_error)
  assert estimate.effective_sample_size == pytest.approx(1.0)


def test_other_likelihoods_use_the_composed_density():
  # The normalizer does not depend on coordinates: in theta it is the mean of the likelihood.
  rng = np.random.default_rng(0)
  x, labels = rng.normal(size=(3, 2)), np.array([0, 1, 1])
  model = tfr.models.fcn((2,), 2, 4, 1, dtype='float64')
  posterior = tfr.Posterior(model, x, labels, likelihood=tfr.likelihoods.Categorical())
  estimate = tfr.theory.kl_to_prior(posterior, 4000, seed=1)
  composed = tfr.ComposedPosterior(posterior)
  draws = posterior.sample_prior(20000, seed=2)
  energies = -composed.log_likelihood_fn(*draws).numpy()
  likelihoods = np.exp(posterior.log_likelihood_fn(*draws))
  expected = np.mean(energies) + np.log(np.mean(likelihoods))
  error = np.std(energies + likelihoods / np.mean(likelihoods)) / np.sqrt(20000)
  assert abs(estimate.value - expected) < 5 * np.hypot(error, estimate.standard_error)
  assert estimate.value > 5 * estimate.standard_error


@pytest.mark.parametrize(
  'arguments, message',
  [
    ({'num_draws': 2}, '`num_draws` must be at least 3. Received: num_draws=2'),
    ({'coordinates': 'psi'}, "`coordinates` must be one of 'phi', 'theta'. Received: coordinates="),
  ],
)
def test_bad_arguments_are_refused(arguments, message):
  with pytest.raises(ValueError, match=message):
    tfr.theory.kl_to_prior(_two_weights(), **arguments)


def test_theta_needs_gaussian_noise():
  model = tfr.models.fcn((2,), 2, 3)
  posterior = tfr.Posterior(
    model, np.ones((1, 2)), np.array([1]), likelihood=tfr.likelihoods.Categorical()
  )
  with pytest.raises(ValueError, match='needs Gaussian noise of one scale. Received: Categorical'):
    tfr.theory.kl_to_prior(posterior, coordinates='theta')


@pytest.mark.parametrize(
  'kernel, y, noise_scale, message',
  [
    (np.eye(2), np.ones((3, 1)), 0.1, r'\[n, n\].*kernel of shape \(2, 2\), y of shape \(3, 1\)'),
    (np.eye(2), np.ones(2), 0.1, r'y of shape \(2,\)'),
    (np.eye(2), np.ones((2, 1)), -1.0, '`noise_scale` must be positive. Received: noise_scale=-1'),
  ],
)
def test_limit_refuses_bad_arguments(kernel, y, noise_scale, message):
  with pytest.raises(ValueError, match=message):
    tfr.theory.kl_limit(kernel, y, noise_scale)
