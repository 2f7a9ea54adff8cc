"""Likelihoods against scipy, and their surrogates."""

import json
import re

import numpy as np
import pytest
import scipy.stats
import tensorflow as tf
import tensorflow_probability as tfp
import toys

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


def test_gaussian_noise_is_unknown_by_default():
  likelihood = tfr.likelihoods.Gaussian()
  assert repr(likelihood) == 'Gaussian(noise_scale=LogNormal(loc=-1, scale=1))'
  model, data = tfr.models.fcn((1,), 1, width=4), np.zeros([3, 1])
  assert repr(tfr.Posterior(model, data, data).likelihood) == repr(likelihood)


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


def test_gaussian_noise_may_differ_between_outputs():
  rng = np.random.default_rng(1)
  outputs, targets, scales = rng.normal(size=(3, 5, 2)), rng.normal(size=(5, 2)), [0.1, 0.4]
  actual = tfr.likelihoods.Gaussian(scales).log_prob(tf.constant(outputs), tf.constant(targets))
  expected = scipy.stats.norm.logpdf(targets, outputs, scales).sum((-2, -1))
  np.testing.assert_allclose(actual, expected, rtol=1e-12)
  assert repr(tfr.likelihoods.Gaussian(scales)) == 'Gaussian(noise_scale=[0.1, 0.4])'


def test_categorical_log_prob_is_that_of_scipy():
  rng = np.random.default_rng(1)
  outputs, labels = 5 * rng.normal(size=(4, 6, 3)), rng.integers(3, size=6)
  log_probs = outputs - scipy.special.logsumexp(outputs, axis=-1, keepdims=True)
  actual = tfr.likelihoods.Categorical().log_prob(tf.constant(outputs), labels)
  np.testing.assert_allclose(actual, log_probs[:, np.arange(6), labels].sum(-1), rtol=1e-12)


def test_bernoulli_log_prob_is_that_of_scipy():
  rng = np.random.default_rng(1)
  outputs, targets = 5 * rng.normal(size=(4, 6, 2)), rng.integers(2, size=(6, 2))
  expected = scipy.stats.bernoulli.logpmf(targets, scipy.special.expit(outputs)).sum((-2, -1))
  actual = tfr.likelihoods.Bernoulli().log_prob(
    tf.constant(outputs), tf.constant(targets, tf.float64)
  )
  np.testing.assert_allclose(actual, expected, rtol=1e-9)


@pytest.mark.parametrize(
  ('likelihood', 'y'),
  [(tfr.likelihoods.Categorical(), [2]), (tfr.likelihoods.Bernoulli(), [[1, 0, 1]])],
)
def test_surrogates_are_the_expansion_at_zero_outputs(likelihood, y):
  # To second order -log_prob is |f - z|^2 / (2 v) + const: gradient -z / v and Hessian 1 / v at
  # zero, for classes in the directions that change anything, those of sum zero.
  targets = likelihood.check_targets(np.array(y), 3, tf.float64)
  surrogate, variance = likelihood.surrogate(targets, 3, tf.float64)
  f = tf.Variable(np.zeros((1, 3)))
  with tf.GradientTape() as outer:
    with tf.GradientTape() as inner:
      value = -likelihood.log_prob(f, targets)
    gradient = inner.gradient(value, f)
  hessian = tf.reshape(outer.jacobian(gradient, f), [3, 3]).numpy()
  np.testing.assert_allclose(gradient, -surrogate / variance, atol=1e-12)
  if isinstance(likelihood, tfr.likelihoods.Categorical):
    np.testing.assert_allclose(hessian, (np.eye(3) - 1 / 3) / variance, atol=1e-12)
  else:
    np.testing.assert_allclose(hessian, np.eye(3) / variance, atol=1e-12)


@pytest.mark.parametrize(
  ('likelihood', 'y'),
  [(tfr.likelihoods.Categorical(), [2, 0]), (tfr.likelihoods.Bernoulli(), [[1, 0, 1]])],
)
def test_targets_may_be_symbolic(likelihood, y):
  @tf.function(autograph=False)
  def check(y):
    return likelihood.check_targets(y, 3, tf.float64)

  expected = likelihood.check_targets(y, 3, tf.float64)
  for actual in (check(tf.constant(y)), likelihood.check_targets(tf.constant(y), 3, tf.float64)):
    assert actual.dtype == expected.dtype
    np.testing.assert_array_equal(actual, expected)


def test_surrogates_can_be_set():
  labels = tf.constant([0, 1])
  likelihood = tfr.likelihoods.Categorical(surrogate_scale=1.0, surrogate_variance=0.01)
  targets, variance = likelihood.surrogate(labels, 2, tf.float64)
  np.testing.assert_allclose(targets, [[0.5, -0.5], [-0.5, 0.5]])
  assert variance == 0.01
  assert 'surrogate_variance=0.01' in repr(likelihood)


def _posterior(kind):
  rng = np.random.default_rng(3)
  model = tfr.models.fcn((3,), 2, width=4, depth=1, dtype='float64')
  x = rng.normal(size=(5, 3))
  likelihood, y = {
    'outputs': (tfr.likelihoods.Gaussian([0.2, 0.5]), rng.normal(size=(5, 2))),
    'categorical': (tfr.likelihoods.Categorical(), rng.integers(2, size=5)),
    'bernoulli': (tfr.likelihoods.Bernoulli(), rng.integers(2, size=(5, 2))),
  }[kind]
  return tfr.Posterior(model, x, y, likelihood=likelihood)


@pytest.mark.parametrize('kind', ['outputs', 'categorical', 'bernoulli'])
@pytest.mark.parametrize('regularizer', [None, 'n*noise', 0.3])
def test_composed_density_is_exact_for_every_likelihood(kind, regularizer):
  # The density of theta, carried over by the map with its Jacobian by automatic differentiation.
  posterior = _posterior(kind)
  composed = tfr.ComposedPosterior(posterior, regularizer)
  reprior = posterior.reprior(regularizer)
  phi = posterior.sample_prior((), seed=1)
  sizes = [int(np.prod(p.shape)) for p in phi]

  def flat_forward(flat):
    parts = [tf.reshape(p, q.shape) for p, q in zip(tf.split(flat, sizes), phi, strict=True)]
    return tf.concat([tf.reshape(p, [-1]) for p in reprior.forward(parts)], axis=0)

  flat = tf.concat([tf.reshape(p, [-1]) for p in phi], axis=0)
  with tf.GradientTape(persistent=True) as tape:
    tape.watch(flat)
    theta = flat_forward(flat)
  _, log_det = np.linalg.slogdet(tape.jacobian(theta, flat, experimental_use_pfor=False))
  expected = posterior.target_log_prob_fn(*reprior.forward(phi)) + log_det
  np.testing.assert_allclose(composed.target_log_prob_fn(*phi), expected, rtol=1e-10)
  split = composed.log_likelihood_fn(*phi) + posterior.log_prior_fn(*phi)
  np.testing.assert_allclose(split, expected, rtol=1e-10)


@pytest.mark.parametrize('kind', ['outputs', 'categorical', 'bernoulli'])
def test_composed_gradient_is_that_of_differences(kind):
  posterior = _posterior(kind)
  composed = tfr.ComposedPosterior(posterior)
  phi = posterior.sample_prior((), seed=1)
  direction = posterior.sample_prior((), seed=2)
  _, gradient = tfp.math.value_and_gradient(composed.log_likelihood_fn, phi)
  actual = sum(np.sum(g * d) for g, d in zip(gradient, direction, strict=True))

  def along(t):
    return composed.log_likelihood_fn(*[p + t * d for p, d in zip(phi, direction, strict=True)])

  h = 1e-3
  expected = (8 * (along(h) - along(-h)) - (along(2 * h) - along(-2 * h))) / (12 * h)
  np.testing.assert_allclose(actual, expected, rtol=1e-8)


def test_regularizers_have_names():
  posterior = toys.tiny_posterior(n=5, noise_scale=0.3)
  assert posterior.regularizer() == posterior.regularizer('noise') == pytest.approx(0.09)
  assert posterior.regularizer('n*noise') == pytest.approx(0.45)
  assert posterior.regularizer(2.0) == 2.0
  with pytest.raises(ValueError, match="`regularizer` must be one of 'noise', 'n\\*noise'"):
    posterior.reprior('noisy')


@pytest.mark.parametrize(
  ('likelihood', 'y', 'message'),
  [
    (tfr.likelihoods.Categorical(), [0, 2], r'labels from 0 to 1. Received: y\[1\]=2, and 1 such'),
    (tfr.likelihoods.Categorical(), [0.0, 1.0], 'integer labels. Received: y of dtype float64'),
    (tfr.likelihoods.Bernoulli(), [[0, 1], [2, 1]], 'zeros and ones. Received: an entry'),
    (tfr.likelihoods.Bernoulli(), [0, 1], r'shape \[n, 2\], a row of 2 zeros or ones'),
    (tfr.likelihoods.Gaussian([1.0, 1.0, 1.0]), [[0.0, 1.0]] * 2, 'each of the 2 outputs'),
  ],
)
def test_bad_targets_are_refused(likelihood, y, message):
  model = tfr.models.fcn((3,), 2, width=4)
  with pytest.raises(ValueError, match=message):
    tfr.Posterior(model, np.ones((2, 3)), np.array(y), likelihood=likelihood)


def test_means_are_those_of_observations():
  f = np.random.default_rng(1).normal(size=(4, 5, 3))
  np.testing.assert_array_equal(tfr.likelihoods.Gaussian(0.1).mean(f), f)
  softmax = np.exp(f) / np.exp(f).sum(axis=-1, keepdims=True)
  np.testing.assert_allclose(tfr.likelihoods.Categorical().mean(f), softmax, rtol=1e-12)
  np.testing.assert_allclose(tfr.likelihoods.Bernoulli().mean(f), 1 / (1 + np.exp(-f)), rtol=1e-12)


@pytest.mark.parametrize(
  'likelihood',
  [
    tfr.likelihoods.Gaussian(0.123456789),
    tfr.likelihoods.Gaussian([0.1, 0.4]),
    tfr.likelihoods.Categorical(),
    tfr.likelihoods.Categorical(surrogate_scale=2.5),
    tfr.likelihoods.Bernoulli(surrogate_variance=3.0),
  ],
)
def test_likelihoods_survive_json(likelihood):
  text = json.dumps(likelihood.to_dict())
  restored = tfr.likelihoods.from_dict(json.loads(text))
  assert type(restored) is type(likelihood)
  assert json.dumps(restored.to_dict()) == text


def test_unknown_likelihoods_are_refused():
  with pytest.raises(ValueError, match="`name` must be one of 'Gaussian', .*'Poisson'"):
    tfr.likelihoods.from_dict({'name': 'Poisson'})


def test_only_likelihoods_are_likelihoods():
  with pytest.raises(TypeError, match="`likelihood` must be .* Received: likelihood='poisson'"):
    tfr.Posterior(
      tfr.models.fcn((3,), 2, 4), np.ones((2, 3)), np.ones((2, 2)), likelihood='poisson'
    )
