"""Unknown noise through posterior, map and densities, against scipy, autodiff and dense NumPy."""

import keras
import numpy as np
import pytest
import scipy.stats
import tensorflow as tf
import tensorflow_probability as tfp
import toys

import tfp_reprior as tfr

tfd = tfp.distributions
PRIORS = [tfd.LogNormal(-1.0, 0.7), tfd.HalfNormal(0.5)]
U = 2  # the part of the noise in `toys.tiny_posterior`


def _scale(prior, u):
  return float(prior.quantile(scipy.stats.norm.cdf(u)))


def _naive_log_prob(posterior, reprior):
  """The density in phi by the definition: transformed target plus log-determinant, autodiff."""

  def target_log_prob_fn(*phi):
    parts = [tf.identity(p) for p in phi]
    value = posterior.target_log_prob_fn(*reprior.forward(parts))
    return value + reprior.forward_log_det_jacobian(parts)

  return target_log_prob_fn


def _assert_same(actual_fn, expected_fn, phi, constant=0.0):
  actual, grads = tfp.math.value_and_gradient(actual_fn, phi)
  expected, expected_grads = tfp.math.value_and_gradient(expected_fn, phi)
  np.testing.assert_allclose(actual + constant, expected, atol=1e-9)
  for grad, expected_grad in zip(grads, expected_grads, strict=True):
    np.testing.assert_allclose(grad, expected_grad, atol=1e-8)


@pytest.mark.parametrize('prior', PRIORS)
@pytest.mark.parametrize('chains', [(), (2, 3)])
def test_log_densities_are_those_of_scipy(prior, chains):
  posterior = toys.tiny_posterior(noise_scale=prior)
  parts = posterior.sample_prior(chains, seed=1)
  assert posterior.split.event_shapes == [(3, 4), (4,), (), (4, 2), (2,)]
  log_prior, log_likelihood = posterior.log_prior_fn(*parts), posterior.log_likelihood_fn(*parts)
  target = posterior.target_log_prob_fn(*parts)
  for index in np.ndindex(*chains):
    draw = [p[index].numpy() for p in parts]
    weights = np.concatenate([p.ravel() for p in draw])
    expected_prior = scipy.stats.norm.logpdf(weights).sum() + posterior.prior_entropy
    f = posterior.split.inner.apply(draw[:U] + draw[U + 1 :], posterior.x)
    scale = _scale(prior, draw[U])
    expected = scipy.stats.norm.logpdf(posterior.y, f, scale).sum()
    np.testing.assert_allclose(log_prior[index], expected_prior, atol=1e-10)
    np.testing.assert_allclose(log_likelihood[index], expected, rtol=1e-5)  # a float32 quantile
    np.testing.assert_allclose(target[index], log_prior[index] + log_likelihood[index], atol=1e-10)
    actual_scale = posterior.likelihood_given(parts).noise_scale[index]
    np.testing.assert_allclose(actual_scale, scale, rtol=1e-6)


@pytest.mark.parametrize('space', ['feature', 'data'])
@pytest.mark.parametrize('regularizer', [None, 'n*noise', 0.3])
@pytest.mark.parametrize('n', [3, 9])
def test_log_det_is_that_of_the_dense_jacobian(space, regularizer, n):
  posterior = toys.tiny_posterior(n=n, noise_scale=PRIORS[0])
  reprior = posterior.reprior(regularizer, space)
  phi = posterior.sample_prior(seed=1)
  sizes = [int(tf.size(p)) for p in phi]

  def forward(rows):
    pieces = tf.split(rows, sizes, axis=1)
    parts = [tf.reshape(v, [-1, *p.shape]) for v, p in zip(pieces, phi, strict=True)]
    return tf.concat([tf.reshape(p, [len(rows), -1]) for p in reprior.forward(parts)], axis=1)

  jacobian = toys.jacobian(forward, tf.concat([tf.reshape(p, [-1]) for p in phi], axis=0))
  noise_column = jacobian[:, 3 * 4 + 4]
  actual = reprior.forward_log_det_jacobian(phi)
  np.testing.assert_allclose(actual, np.linalg.slogdet(jacobian)[1], atol=1e-9)
  # The readout depends on the noise if the map does.
  assert (np.max(np.abs(noise_column[17:])) > 1e-3) == (regularizer != 0.3)
  for part, back in zip(phi, reprior.inverse(reprior.forward(phi)), strict=True):
    np.testing.assert_allclose(back, part, atol=1e-10)


@pytest.mark.parametrize('prior', PRIORS)
@pytest.mark.parametrize('settings', [{'space': 'feature'}, {'space': 'data'}, {'chunk_size': 4}])
@pytest.mark.parametrize('chains', [(), (2, 3)])
def test_collapsed_density_and_gradient_are_those_of_the_definition(prior, settings, chains):
  posterior = toys.tiny_posterior(n=9, depth=2, noise_scale=prior)
  collapsed = tfr.CollapsedPosterior(posterior, **settings)
  phi = posterior.sample_prior(chains, seed=1)
  expected_fn = _naive_log_prob(posterior, posterior.reprior())
  _assert_same(collapsed.target_log_prob_fn, expected_fn, phi, collapsed.log_constant)


@pytest.mark.parametrize('space', ['feature', 'data'])
@pytest.mark.parametrize('regularizer', [None, 'n*noise', 0.3])
@pytest.mark.parametrize('chains', [(), (3,)])
def test_composed_density_and_gradient_are_those_of_the_definition(space, regularizer, chains):
  posterior = toys.tiny_posterior(n=9, noise_scale=PRIORS[0])
  composed = tfr.ComposedPosterior(posterior, regularizer, space)
  phi = posterior.sample_prior(chains, seed=1)
  _assert_same(
    composed.target_log_prob_fn,
    _naive_log_prob(posterior, posterior.reprior(regularizer, space)),
    phi,
  )


@pytest.mark.parametrize(
  'likelihood',
  [
    tfr.likelihoods.Gaussian(PRIORS[0], output_scale=PRIORS[1]),
    tfr.likelihoods.Gaussian(0.3, output_scale=PRIORS[0]),
    tfr.likelihoods.Gaussian(0.3, output_scale=2.5),
    tfr.likelihoods.Bernoulli(),
  ],
)
def test_outputs_of_unknown_scale_go_through_all_densities(likelihood):
  tiny = toys.tiny_posterior(n=9)
  y = tf.cast(tiny.y > 0, tiny.y.dtype)
  posterior = tfr.Posterior(tiny.split, tiny.x, y, likelihood=likelihood)
  phi = posterior.sample_prior(3, seed=1)
  # The outputs are those of the network times the scale.
  shapes = likelihood.event_shapes
  f = tiny.split.apply(phi[:U] + phi[U + len(shapes) :], tiny.x)
  scale = np.broadcast_to(2.5, 3)
  if 'output_scale' in likelihood.priors:
    prior, u = likelihood.priors['output_scale'].distribution, phi[U + len(shapes) - 1]
    scale = np.array([_scale(prior, v) for v in u])
  outputs = posterior.split.apply(phi, tiny.x)
  np.testing.assert_allclose(outputs, scale[:, np.newaxis, np.newaxis] * f, rtol=1e-6)
  _assert_same(
    tfr.ComposedPosterior(posterior, 0.3).target_log_prob_fn,
    _naive_log_prob(posterior, posterior.reprior(0.3)),
    phi,
  )
  if likelihood.is_conjugate:
    collapsed = tfr.CollapsedPosterior(posterior)
    expected_fn = _naive_log_prob(posterior, posterior.reprior())
    _assert_same(collapsed.target_log_prob_fn, expected_fn, phi, collapsed.log_constant)


def test_a_model_that_is_assigned_a_draw_has_the_scale_of_its_outputs():
  tiny = toys.tiny_posterior()
  likelihood = tfr.likelihoods.Gaussian(output_scale=tfd.LogNormal(0.5, 1.0))
  split = tfr.Posterior(tiny.split, tiny.x, tiny.y, likelihood=likelihood).split
  parts = split.sample_prior(seed=1)
  split.assign(parts)
  np.testing.assert_allclose(split.model(tiny.x), split.apply(parts, tiny.x), atol=1e-12)
  again = split.current_parts()  # the same function, with the parameters at their medians
  np.testing.assert_allclose(split.apply(again, tiny.x), split.apply(parts, tiny.x), atol=1e-12)


@pytest.mark.parametrize('space', ['feature', 'data'])
def test_collapsed_likelihood_is_the_gaussian_density_of_the_targets(space):
  posterior = toys.tiny_posterior(noise_scale=PRIORS[0])
  collapsed = tfr.CollapsedPosterior(posterior, space=space)
  hidden = posterior.sample_prior(4, seed=2)[: U + 1]
  actual = collapsed.log_likelihood_fn(*hidden) + collapsed.log_constant
  for c in range(4):
    psi = posterior.features_fn(*(p[c] for p in hidden)).numpy()
    gram = np.exp(2 * (-1.0 + 0.7 * hidden[U][c])) * np.eye(5) + psi @ psi.T
    expected = scipy.stats.multivariate_normal(cov=gram).logpdf(posterior.y.numpy().T).sum()
    np.testing.assert_allclose(actual[c], expected, atol=1e-10)


def test_gradients_take_one_factorization():
  posterior = toys.tiny_posterior(noise_scale=PRIORS[0])
  for target in (tfr.CollapsedPosterior(posterior), tfr.ComposedPosterior(posterior)):
    function = tf.function(
      lambda *phi, target=target: tfp.math.value_and_gradient(target.target_log_prob_fn, phi)
    )
    graph = function.get_concrete_function(*posterior.sample_prior(seed=1)).graph
    assert [op.type for op in graph.get_operations()].count('Cholesky') == 1


@pytest.mark.parametrize('jit_compile', [False, True])
def test_compiled_chunks_in_float64_of_a_float32_network_agree(jit_compile):
  x, y = np.random.default_rng(0).normal(size=(2, 12, 1)).astype(np.float32)
  model = tfr.models.fcn((1,), 1, 8, 1)
  posterior = tfr.Posterior(model, x, y, tfd.HalfNormal(0.5))
  phi = posterior.sample_prior(2, seed=1)
  whole = tfr.CollapsedPosterior(posterior, linalg_dtype=tf.float64)
  chunked = tfr.CollapsedPosterior(posterior, chunk_size=5, linalg_dtype=tf.float64)
  function = tf.function(
    lambda *phi: tfp.math.value_and_gradient(chunked.target_log_prob_fn, phi),
    jit_compile=jit_compile,
    autograph=False,
  )
  value, grads = function(*phi)
  expected, expected_grads = tfp.math.value_and_gradient(whole.target_log_prob_fn, phi)
  np.testing.assert_allclose(value, expected, rtol=1e-4)
  for grad, expected_grad in zip(grads, expected_grads, strict=True):
    assert grad.dtype == tf.float32
    np.testing.assert_allclose(grad, expected_grad, rtol=1e-3, atol=1e-3)


def test_predictions_use_the_noise_of_each_chain():
  posterior = toys.tiny_posterior(noise_scale=PRIORS[0])
  x = np.random.default_rng(5).normal(size=(4, 3))
  hidden = posterior.sample_prior(3, seed=2)[: U + 1]
  collapsed = tfr.CollapsedPosterior(posterior)
  mean, variance = collapsed.predict(hidden, x)
  readout = collapsed.given(hidden).mean()
  assert [p.shape for p in collapsed.sample_readout(hidden, seed=1)] == [(3, 4, 2), (3, 2)]
  for c in range(3):
    one = [p[c] for p in hidden]
    known = toys.tiny_posterior(noise_scale=float(np.exp(-1.0 + 0.7 * one[U])))
    expected = tfr.CollapsedPosterior(known).predict(one[:U], x)
    np.testing.assert_allclose(mean[c], expected[0], atol=1e-10)
    np.testing.assert_allclose(variance[c], expected[1], atol=1e-10)
    expected = tfr.CollapsedPosterior(known).given(one[:U]).mean()
    np.testing.assert_allclose(readout[0][c], expected[0], atol=1e-10)


def test_a_model_that_is_only_a_readout_takes_chains():
  rng = np.random.default_rng(1)
  inputs = keras.Input((3,), dtype='float64')
  model = keras.Sequential([inputs, tfr.layers.NTKDense(2, 0.7, 0.3, dtype='float64')])
  x, y = rng.normal(size=(5, 3)), rng.normal(size=(5, 2))
  posterior = tfr.Posterior(model, x, y, PRIORS[0])
  collapsed = tfr.CollapsedPosterior(posterior)
  phi = posterior.sample_prior(4, seed=1)
  assert [p.shape for p in phi] == [(4,), (4, 3, 2), (4, 2)]
  expected_fn = _naive_log_prob(posterior, posterior.reprior())
  _assert_same(collapsed.target_log_prob_fn, expected_fn, phi, collapsed.log_constant)
  mean, variance = collapsed.predict(phi[:1], x)
  for c in range(4):
    single = collapsed.predict([phi[0][c]], x)
    np.testing.assert_allclose(mean[c], single[0], atol=1e-12)
    np.testing.assert_allclose(variance[c], single[1], atol=1e-12)


def test_a_split_or_an_earlier_posterior_s_split_is_taken():
  posterior = toys.tiny_posterior(noise_scale=PRIORS[0])
  again = tfr.Posterior(posterior.split, posterior.x, posterior.y, PRIORS[1])
  assert again.split.event_shapes == posterior.split.event_shapes
  known = tfr.Posterior(posterior.split, posterior.x, posterior.y, 0.3)
  assert known.split is posterior.split.inner


def test_reprs_say_the_prior():
  posterior = toys.tiny_posterior(noise_scale=PRIORS[0])
  assert repr(posterior).endswith('likelihood=Gaussian(noise_scale=LogNormal(loc=-1, scale=0.7)))')
  assert "regularizer='noise'" in repr(tfr.ComposedPosterior(posterior))
  assert 'regularizer=?' in repr(posterior.reprior())
