"""Gaussian likelihood against scipy."""

import re

import numpy as np
import pytest
import scipy.stats
import tensorflow as tf

import tfp_reprior as tfr


@pytest.mark.parametrize('noise_scale', [0.1, 2.0])
@pytest.mark.parametrize('batch', [(), (4,), (2, 3)])
def test_gaussian_log_prob_is_that_of_scipy(noise_scale, batch):
  rng = np.random.default_rng(1)
  outputs, targets = rng.normal(size=(*batch, 5, 2)), rng.normal(size=(5, 2))
  likelihood = tfr.likelihoods.Gaussian(noise_scale)
  actual = likelihood.log_prob(tf.constant(outputs), tf.constant(targets))
  expected = scipy.stats.norm.logpdf(targets, outputs, noise_scale).sum((-2, -1))
  assert actual.shape == batch
  np.testing.assert_allclose(actual, expected, rtol=1e-12)


def test_gaussian_log_prob_is_that_of_scipy_for_arrays():
  rng = np.random.default_rng(1)
  outputs, targets = rng.normal(size=(5, 2)), rng.normal(size=(5, 2))
  actual = tfr.likelihoods.Gaussian(0.3).log_prob(outputs, targets)
  expected = scipy.stats.norm.logpdf(targets, outputs, 0.3).sum()
  np.testing.assert_allclose(actual, expected, rtol=1e-12)


def test_gaussian_log_prob_keeps_float32():
  zeros = tf.zeros([5, 2])
  actual = tfr.likelihoods.Gaussian(0.1).log_prob(zeros, zeros)
  assert actual.dtype == tf.float32
  np.testing.assert_allclose(actual, 10 * scipy.stats.norm.logpdf(0, scale=0.1), rtol=1e-6)


def test_gaussian_noise_variance_is_the_square_of_its_scale():
  likelihood = tfr.likelihoods.Gaussian(0.3)
  assert likelihood.noise_scale == 0.3
  assert likelihood.noise_variance == pytest.approx(0.09, rel=1e-15)


def test_gaussian_noise_scale_is_that_of_the_paper_by_default():
  assert tfr.likelihoods.Gaussian().noise_scale == 0.1


@pytest.mark.parametrize('noise_scale', [np.float32(0.5), np.array(0.5), tf.constant(0.5)])
def test_gaussian_noise_scale_may_be_any_scalar(noise_scale):
  assert tfr.likelihoods.Gaussian(noise_scale).noise_scale == 0.5


def test_gaussian_repr_says_its_scale():
  assert repr(tfr.likelihoods.Gaussian(0.25)) == 'Gaussian(noise_scale=0.25)'


@pytest.mark.parametrize('noise_scale', [0.0, -0.1, np.nan, np.inf, 0])
def test_gaussian_noise_scale_must_be_positive(noise_scale):
  message = f'`noise_scale` must be positive. Received: noise_scale={noise_scale}'
  with pytest.raises(ValueError, match=re.escape(message)):
    tfr.likelihoods.Gaussian(noise_scale)
