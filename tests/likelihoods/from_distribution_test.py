"""Likelihoods by distributions: densities against scipy, surrogates, files, what is refused."""

import json

import numpy as np
import pytest
import scipy.stats
import tensorflow as tf
import tensorflow_probability as tfp
import toys

import tfp_reprior as tfr

tfd = tfp.distributions
L = tfr.likelihoods
NOISE = tfd.LogNormal(-1.0, 0.5)
CUTS = tfd.Normal([-1.0, 1.0], 0.3)


def _ordered(f, cuts):
  return tfd.OrderedLogistic(cuts, f[..., 0])


def _ordered_log_prob(y, f, cuts):
  below = scipy.stats.logistic.cdf(np.array([-np.inf, *cuts, np.inf])[:, np.newaxis] - f[:, 0])
  return np.log(np.diff(below, axis=0)[y, np.arange(len(y))])


def _scale(u):
  return np.exp(-1.0 + 0.5 * u)


# The likelihood, targets, and the log-densities of one chain given outputs and parts.
CASES = {
  'student_t': (
    L.StudentT(NOISE, 3.0),
    np.linspace(-2, 2, 10).reshape(5, 2),
    lambda y, f, u: scipy.stats.t.logpdf(y, 3.0, f, _scale(u)),
  ),
  'heteroscedastic': (
    L.Heteroscedastic(NOISE),
    np.linspace(-2, 2, 5),
    lambda y, f, u: scipy.stats.norm.logpdf(y, f[:, 0], _scale(u) * np.exp(f[:, 1])),
  ),
  'poisson': (
    L.FromDistribution(lambda f: tfd.Poisson(log_rate=f)),
    np.arange(10).reshape(5, 2),
    lambda y, f: scipy.stats.poisson.logpmf(y, np.exp(f)),
  ),
  'laplace': (
    L.FromDistribution(lambda f, scale: tfd.Laplace(f, scale), {'scale': NOISE}),
    np.linspace(-2, 2, 10).reshape(5, 2),
    lambda y, f, u: scipy.stats.laplace.logpdf(y, f, _scale(u)),
  ),
  'ordered': (
    L.FromDistribution(_ordered, {'cuts': CUTS}),
    np.array([0, 1, 2, 1, 0]),
    lambda y, f, u: _ordered_log_prob(y, f, np.array([-1.0, 1.0]) + 0.3 * u),
  ),
}


def _posterior(name):
  tiny = toys.tiny_posterior()
  likelihood, y, _ = CASES[name]
  return tfr.Posterior(tiny.split, tiny.x, y, likelihood=likelihood)


@pytest.mark.parametrize('name', CASES)
def test_log_densities_are_those_of_scipy(name):
  posterior = _posterior(name)
  likelihood, y, log_probs = CASES[name]
  parts = posterior.sample_prior([2, 3], seed=1)
  actual = posterior.log_likelihood_fn(*parts)
  outputs = posterior.split.apply(parts, posterior.x).numpy()
  own = posterior.likelihood_parts(parts)
  assert [tuple(p.shape) for p in own] == [(2, 3, *s) for s in likelihood.event_shapes]
  for index in np.ndindex(2, 3):
    expected = log_probs(y, outputs[index], *(u[index].numpy() for u in own)).sum()
    np.testing.assert_allclose(actual[index], expected, rtol=1e-10)


@pytest.mark.parametrize('name', ['student_t', 'heteroscedastic', 'poisson'])
def test_the_density_in_phi_is_that_of_the_definition(name):
  posterior = _posterior(name)
  composed, reprior = tfr.ComposedPosterior(posterior), posterior.reprior()

  def naive(*phi):
    parts = [tf.identity(p) for p in phi]
    value = posterior.target_log_prob_fn(*reprior.forward(parts))
    return value + reprior.forward_log_det_jacobian(parts)

  phi = posterior.sample_prior(2, seed=2)
  actual, grads = tfp.math.value_and_gradient(composed.target_log_prob_fn, phi)
  expected, expected_grads = tfp.math.value_and_gradient(naive, phi)
  np.testing.assert_allclose(actual, expected, atol=1e-9)
  for grad, expected_grad in zip(grads, expected_grads, strict=True):
    np.testing.assert_allclose(grad, expected_grad, atol=1e-8)


def test_the_surrogate_of_gaussian_noise_is_that_noise():
  likelihood = L.FromDistribution(lambda f: tfd.Normal(f, tf.constant(0.3, f.dtype)))
  y = np.random.default_rng(1).normal(size=(5, 2))
  targets, variance = likelihood.surrogate(tf.constant(y), 2, tf.float64)
  np.testing.assert_allclose(targets, y, atol=1e-10)
  assert variance == pytest.approx(0.09)


def test_the_surrogate_of_other_likelihoods_has_their_mode():
  # Of y = 0 and 5 counts: the mode of y f - exp(f) - f**2 / 2 by a grid.
  likelihood = L.FromDistribution(lambda f: tfd.Poisson(log_rate=f))
  y = np.array([[0.0], [5.0]])
  targets, variance = likelihood.surrogate(tf.constant(y), 1, tf.float64)
  f = np.linspace(-4, 4, 80_001)
  modes = [f[np.argmax(k * f - np.exp(f) - f**2 / 2)] for k in (0, 5)]
  assert variance == pytest.approx(1 / np.mean(np.exp(modes)), rel=1e-3)
  np.testing.assert_allclose(targets[:, 0], np.multiply(modes, 1 + variance), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize('name', ['student_t', 'heteroscedastic'])
def test_ready_made_ones_go_through_json(name):
  likelihood = CASES[name][0]
  back = L.from_dict(json.loads(json.dumps(likelihood.to_dict())))
  assert repr(back) == repr(likelihood) and type(back) is L.NAMES[name]


def test_functions_do_not():
  with pytest.raises(ValueError, match='load_result.*likelihood=.*Received: likelihood=None'):
    L.from_dict(CASES['poisson'][0].to_dict())


def test_noise_follows_the_units_of_targets_unless_it_is_the_default():
  for kind in (L.StudentT, L.Heteroscedastic):
    assert kind(0.6).in_units_of(np.array([2.0])).noise_scale == pytest.approx(0.3)
    prior = kind(NOISE).in_units_of(np.array([2.0])).priors['noise_scale']
    assert prior.parameters['loc'] == pytest.approx(-1.0 - np.log(2))
  student_t, varying = (
    kind().in_units_of(np.array([2.0])) for kind in (L.StudentT, L.Heteroscedastic)
  )
  assert student_t.priors['noise_scale'].parameters['loc'] == -1.0
  assert varying.noise_scale == pytest.approx(np.exp(-1))  # its outputs have the prior of the level


@pytest.mark.parametrize(
  'make, y, message',
  [
    (lambda: L.FromDistribution(3), None, '`fn` must be a function of outputs. Received: fn=3'),
    (lambda: L.FromDistribution(lambda f: f), np.zeros([5, 2]), 'must return a distribution'),
    (
      lambda: L.FromDistribution(lambda f: tfd.Normal(tf.reduce_sum(f), 1.0)),
      np.zeros([5, 2]),
      r'batch shape begins with \[..., n\]',
    ),
    (
      lambda: L.FromDistribution(lambda f: tfd.Poisson(log_rate=f)),
      np.zeros([5, 3]),
      r'`y` must have shape \(5, 2\).*Received: y of shape \(5, 3\)',
    ),
    (
      lambda: L.FromDistribution(lambda f: tfd.Gamma(2.0, tf.exp(f))),
      -np.ones([5, 2]),
      '`y` must have a positive density for outputs of zero',
    ),
    (lambda: L.StudentT(degrees_of_freedom=2.0), None, 'must be above 2.*degrees_of_freedom=2.0'),
    (lambda: L.StudentT(0.0), None, '`noise_scale` must be positive. Received: noise_scale=0.0'),
    (lambda: L.Heteroscedastic(), np.zeros([5, 2]), r'`y` must have shape \[n, 1\]'),
  ],
)
def test_mistakes_are_refused(make, y, message):
  tiny = toys.tiny_posterior()
  with pytest.raises(ValueError, match=message):
    likelihood = make()
    tfr.Posterior(tiny.split, tiny.x, y, likelihood=likelihood)
