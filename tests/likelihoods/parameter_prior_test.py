"""Priors of parameters against scipy, and what is refused."""

import json
import re

import numpy as np
import pytest
import scipy.stats
import tensorflow as tf
import tensorflow_probability as tfp

import tfp_reprior as tfr
from tfp_reprior.likelihoods import parameter_prior

tfd = tfp.distributions

PRIORS = {
  'LogNormal': (tfd.LogNormal(-2.0, 0.5), scipy.stats.lognorm(0.5, scale=np.exp(-2.0))),
  'HalfNormal': (tfd.HalfNormal(0.7), scipy.stats.halfnorm(scale=0.7)),
  'HalfCauchy': (tfd.HalfCauchy(0.0, 0.7), scipy.stats.halfcauchy(scale=0.7)),
  'Gamma': (tfd.Gamma(2.0, 5.0), scipy.stats.gamma(2.0, scale=0.2)),
  'InverseGamma': (tfd.InverseGamma(3.0, 0.4), scipy.stats.invgamma(3.0, scale=0.4)),
  'Uniform': (tfd.Uniform(0.01, 2.0), scipy.stats.uniform(0.01, 1.99)),
}


def _log_scale(name, u):
  prior = parameter_prior.ParameterPrior('noise_scale', PRIORS[name][0])
  return prior.log_value(tf.constant(u))


@pytest.mark.parametrize('name', PRIORS)
def test_a_standard_normal_coordinate_gives_the_prior(name):
  # Equal probabilities below u and below the scale; both tails, where each sees its own error.
  u = np.linspace(-6, 6, 25)
  scale = np.exp(_log_scale(name, u))
  expected = PRIORS[name][1]
  np.testing.assert_allclose(expected.cdf(scale[:13]), scipy.stats.norm.cdf(u[:13]), rtol=1e-6)
  np.testing.assert_allclose(expected.sf(scale[12:]), scipy.stats.norm.sf(u[12:]), rtol=1e-6)


@pytest.mark.parametrize('name', PRIORS)
def test_gradient_is_the_ratio_of_densities(name):
  u = tf.constant(np.linspace(-3, 3, 7))
  log_scale, gradient = tfp.math.value_and_gradient(lambda u: _log_scale(name, u), u)
  scale = np.exp(log_scale)
  expected = scipy.stats.norm.pdf(u) / (PRIORS[name][1].pdf(scale) * scale)
  np.testing.assert_allclose(gradient, expected, rtol=1e-8)


@pytest.mark.parametrize('name', PRIORS)
def test_scales_are_finite_wherever_a_chain_may_go(name):
  for dtype in (np.float32, np.float64):
    log_scale = _log_scale(name, np.array([-20, 20], dtype))
    assert log_scale.dtype == dtype and np.all(np.isfinite(log_scale))


def test_parameters_may_be_tensors_and_are_shown():
  distribution = tfd.LogNormal(tf.constant(-2.5), np.float32(0.25))
  prior = parameter_prior.ParameterPrior('noise_scale', distribution)
  assert repr(prior) == 'LogNormal(loc=-2.5, scale=0.25)'


@pytest.mark.parametrize('name', PRIORS)
def test_a_prior_goes_through_json(name):
  likelihood = tfr.likelihoods.Gaussian(PRIORS[name][0])
  back = tfr.likelihoods.from_dict(json.loads(json.dumps(likelihood.to_dict())))
  assert repr(back) == repr(likelihood) and name in repr(back)
  u = tf.constant([-1.0, 2.0], tf.float64)
  expected = likelihood.given([u]).noise_scale
  np.testing.assert_array_equal(back.given([u]).noise_scale, expected)


def _refuses(message):
  return pytest.raises(ValueError, match=re.escape(message))


@pytest.mark.parametrize(
  'prior, received',
  [
    (lambda: tfd.LogNormal([-2.0, -1.0], 0.5), 'LogNormal with loc=[-2.0, -1.0]'),
    (lambda: tfd.LogNormal(tf.Variable(-2.0), 0.5), 'LogNormal with loc=<tf.Variable'),
    (lambda: tfd.Sample(tfd.HalfNormal(1.0), 2), 'Sample with distribution='),
  ],
)
def test_priors_must_be_of_one_number_with_numbers_as_parameters(prior, received):
  with _refuses('for all outputs, with numbers as parameters. Received: ' + received):
    tfr.likelihoods.Gaussian(prior())


def test_priors_must_have_a_quantile():
  with _refuses('needs a quantile, as those of LogNormal, HalfNormal or Gamma. Received: noise_sc'):
    tfr.likelihoods.Gaussian(tfd.Pareto(2.0, 0.1))


@pytest.mark.parametrize('prior', [tfd.Normal(0.0, 1.0), tfd.Uniform(-1.0, 1.0)])
def test_priors_must_be_of_positive_numbers(prior):
  with _refuses('must be one of positive numbers. Received: noise_scale='):
    tfr.likelihoods.Gaussian(prior)
