"""CollapsedPosterior and ComposedPosterior against the composition and against dense NumPy."""

import numpy as np
import pytest
import statistics_lib as stats
import tensorflow as tf
import tensorflow_probability as tfp
import toys

import tfp_reprior as tfr


def _composition(posterior, regularizer=None, space='auto'):
  """Bijector and target as `TransformedTransitionKernel` combines them."""
  reprior = posterior.reprior(regularizer, space)

  def target_log_prob_fn(*phi):
    parts = [tf.identity(p) for p in phi]
    value = posterior.target_log_prob_fn(*reprior.forward(parts))
    return value + reprior.forward_log_det_jacobian(parts)

  return target_log_prob_fn


def _assert_same_density(actual_fn, expected_fn, phi, constant=0.0):
  actual, grads = tfp.math.value_and_gradient(actual_fn, phi)
  expected, expected_grads = tfp.math.value_and_gradient(expected_fn, phi)
  np.testing.assert_allclose(actual + constant, expected, atol=1e-9)
  for grad, expected_grad in zip(grads, expected_grads, strict=True):
    np.testing.assert_allclose(grad, expected_grad, atol=1e-8)


@pytest.mark.parametrize('space', ['feature', 'data'])
@pytest.mark.parametrize('n', [3, 9])
@pytest.mark.parametrize('bias', [True, False])
@pytest.mark.parametrize('chains', [(), (2, 3)])
def test_collapsed_equals_the_composition_with_its_constant(space, n, bias, chains):
  posterior = toys.tiny_posterior(n=n, bias=bias, depth=2)
  collapsed = tfr.CollapsedPosterior(posterior, space=space)
  phi = posterior.sample_prior(chains, seed=1)
  expected_fn = _composition(posterior)
  _assert_same_density(collapsed.target_log_prob_fn, expected_fn, phi, collapsed.log_constant)


@pytest.mark.parametrize('space', ['feature', 'data'])
@pytest.mark.parametrize('regularizer', [None, 0.01, 7.0])
@pytest.mark.parametrize('chains', [(), (2,)])
def test_composed_equals_the_composition(space, regularizer, chains):
  posterior = toys.tiny_posterior(depth=2)
  composed = tfr.ComposedPosterior(posterior, regularizer, space)
  phi = posterior.sample_prior(chains, seed=1)
  expected_fn = _composition(posterior, regularizer, space)
  _assert_same_density(composed.target_log_prob_fn, expected_fn, phi)


def test_log_likelihood_is_minus_v_of_the_docstring():
  posterior = toys.tiny_posterior()
  hidden = posterior.sample_prior(seed=2)[:2]
  psi, y = posterior.features_fn(*hidden).numpy(), posterior.y.numpy()
  gram = posterior.likelihood.noise_variance * np.eye(5) + psi @ psi.T
  v = np.trace(y.T @ np.linalg.solve(gram, y)) / 2 + 2 / 2 * np.linalg.slogdet(gram)[1]
  actual = tfr.CollapsedPosterior(posterior).log_likelihood_fn(*hidden)
  np.testing.assert_allclose(actual, -v, atol=1e-10)


@pytest.mark.parametrize(
  ('chunk_size', 'chains', 'jit_compile'),
  [
    *((size, chains, False) for size in (1, 3, 4, 11, 12, 50) for chains in ((), (2,))),
    (4, (), True),
    (11, (2,), True),
  ],
)
def test_chunks_equal_the_whole(chunk_size, chains, jit_compile):
  posterior = toys.tiny_posterior(n=12)
  hidden = posterior.sample_prior(chains, seed=1)[:2]
  expected, expected_grads = tfp.math.value_and_gradient(
    tfr.CollapsedPosterior(posterior, space='feature').log_likelihood_fn, hidden
  )
  chunked = tfr.CollapsedPosterior(posterior, chunk_size=chunk_size)

  @tf.function(autograph=False, jit_compile=jit_compile)
  def evaluate(*hidden):
    return tfp.math.value_and_gradient(chunked.log_likelihood_fn, hidden)

  actual, grads = evaluate(*hidden)
  np.testing.assert_allclose(actual, expected, atol=1e-10)
  for grad, expected_grad in zip(grads, expected_grads, strict=True):
    np.testing.assert_allclose(grad, expected_grad, atol=1e-10)
  for part, expected_part in zip(
    chunked.given(hidden).mean(),
    tfr.CollapsedPosterior(posterior).given(hidden).mean(),
    strict=True,
  ):
    np.testing.assert_allclose(part, expected_part, atol=1e-10)


@pytest.mark.parametrize('chunk_size', [None, 4])
def test_float64_linear_algebra_of_a_float32_network_is_more_accurate(chunk_size):
  errors = {}
  rng = np.random.default_rng(0)
  x, y = rng.normal(size=(64, 3)), rng.normal(size=(64, 2))
  exact = None
  for model_dtype, linalg_dtype in [
    ('float64', None),
    ('float32', tf.float32),
    ('float32', tf.float64),
  ]:
    model = tfr.models.fcn((3,), 2, 32, 1, dtype=model_dtype)
    posterior = tfr.Posterior(model, x.astype(np.float32), y.astype(np.float32), 0.02)
    hidden = [
      tf.cast(p, model_dtype)
      for p in tfr.models.ReadoutSplit(tfr.models.fcn((3,), 2, 32, 1)).sample_prior(seed=1)[:2]
    ]
    collapsed = tfr.CollapsedPosterior(posterior, chunk_size, linalg_dtype, space='feature')
    value, grads = tfp.math.value_and_gradient(collapsed.log_likelihood_fn, hidden)
    assert value.dtype == model_dtype and grads[0].dtype == model_dtype
    if exact is None:
      exact = grads[0].numpy()
    else:
      errors[linalg_dtype] = np.linalg.norm(grads[0] - exact) / np.linalg.norm(exact)
  assert errors[tf.float64] < errors[tf.float32] / 3


def test_a_gradient_takes_one_factorization_and_one_network_evaluation():
  posterior = toys.tiny_posterior()
  for target in (tfr.CollapsedPosterior(posterior), tfr.ComposedPosterior(posterior)):
    function = tf.function(
      lambda *phi, target=target: tfp.math.value_and_gradient(target.target_log_prob_fn, phi)
    )
    graph = function.get_concrete_function(*posterior.sample_prior(seed=1)).graph
    operations = [op.type for op in graph.get_operations()]
    assert operations.count('Cholesky') == 1
    assert operations.count('Erf') == 1  # of the gelu: one hidden layer, evaluated once


@pytest.mark.parametrize('space', ['feature', 'data'])
def test_predictions_average_out_the_readout(space):
  posterior = toys.tiny_posterior()
  hidden = posterior.sample_prior(seed=2)[:2]
  x = np.random.default_rng(5).normal(size=(4, 3))
  psi, psi_new = posterior.features_fn(*hidden).numpy(), posterior.split.embed(hidden, x).numpy()
  sigma = np.linalg.inv(np.eye(5) + psi.T @ psi / 0.09)
  mu = sigma @ psi.T @ posterior.y.numpy() / 0.09
  collapsed = tfr.CollapsedPosterior(posterior, space=space)
  mean, variance = collapsed.predict(hidden, x)
  np.testing.assert_allclose(mean, psi_new @ mu, atol=1e-10)
  expected = np.diag(psi_new @ sigma @ psi_new.T)
  np.testing.assert_allclose(variance, np.stack([expected, expected], axis=1), atol=1e-10)
  readout = collapsed.given(hidden).mean()
  np.testing.assert_allclose(np.concatenate([readout[0], readout[1][None]]), mu, atol=1e-10)


def test_readout_draws_have_the_exact_mean_and_covariance():
  # 20,000 draws; every entry of mean and second moments, false-alarm rate 1e-6.
  posterior = toys.tiny_posterior(outputs=1)
  single = posterior.sample_prior(seed=2)[:2]
  hidden = [tf.repeat(p[tf.newaxis], 20_000, axis=0) for p in single]
  kernel, bias = tfr.CollapsedPosterior(posterior).sample_readout(hidden, seed=3)
  draws = np.concatenate([kernel[..., 0], bias], axis=-1)
  psi = posterior.features_fn(*single).numpy()
  sigma = np.linalg.inv(np.eye(5) + psi.T @ psi / 0.09)
  mu = (sigma @ psi.T @ posterior.y.numpy() / 0.09)[:, 0]
  centered = draws - mu
  products = centered[:, :, None] * centered[:, None, :]
  assert stats.mean_p_value(draws, mu) > stats.FALSE_ALARM
  assert stats.mean_p_value(products, sigma) > stats.FALSE_ALARM
  assert stats.mean_p_value(products, 1.1 * sigma) < stats.FALSE_ALARM  # it would see 10 %


def test_second_derivatives_of_the_chunked_density_are_refused():
  posterior = toys.tiny_posterior(n=12)
  collapsed = tfr.CollapsedPosterior(posterior, chunk_size=5)
  hidden = posterior.sample_prior(seed=1)[:2]
  with tf.GradientTape() as outer:
    outer.watch(hidden)
    with tf.GradientTape() as inner:
      inner.watch(hidden)
      value = collapsed.log_likelihood_fn(*hidden)
    gradient = tf.reduce_sum(inner.gradient(value, hidden[0]))
  with pytest.raises(ValueError, match='no second derivatives'):
    outer.gradient(gradient, hidden[0])


def test_kernels_of_tfp_sample_the_collapsed_density():
  posterior = toys.tiny_posterior()
  collapsed = tfr.CollapsedPosterior(posterior)
  start = posterior.sample_prior(3, seed=1)
  draws = tf.function(
    lambda: tfp.mcmc.sample_chain(
      5,
      start,
      kernel=tfr.mcmc.UnderdampedLangevin(collapsed.target_log_prob_fn, 0.2, 0.1),
      trace_fn=None,
      seed=(1, 2),
    )
  )()
  assert draws[0].shape == [5, 3, 3, 4] and np.all(np.isfinite(draws[0]))
  assert np.any(draws[0][-1] != start[0])


def test_only_gaussian_likelihoods_collapse():
  for likelihood in (tfr.likelihoods.Bernoulli(), tfr.likelihoods.Gaussian([0.1, 0.2])):
    posterior = toys.tiny_posterior()
    posterior.likelihood = likelihood
    with pytest.raises(ValueError, match=r'Only Gaussian noise of one scale .* Received: \w+\('):
      tfr.CollapsedPosterior(posterior)


@pytest.mark.parametrize('chunk_size', [0, -1, 2.5])
def test_chunk_size_must_be_a_positive_integer(chunk_size):
  with pytest.raises(ValueError, match='`chunk_size` must be a positive integer'):
    tfr.CollapsedPosterior(toys.tiny_posterior(), chunk_size=chunk_size)


def test_chunks_need_the_feature_space():
  with pytest.raises(ValueError, match="Received: space='data', chunk_size=2"):
    tfr.CollapsedPosterior(toys.tiny_posterior(), chunk_size=2, space='data')


def test_linalg_dtype_must_be_a_float_that_is_wide_enough():
  with pytest.raises(ValueError, match='`linalg_dtype` must be one of'):
    tfr.CollapsedPosterior(toys.tiny_posterior(), linalg_dtype=tf.float16)


@pytest.mark.parametrize('space', ['feature', 'data'])
@pytest.mark.parametrize('chains', [(), (2,)])
def test_to_theta_is_the_map(space, chains):
  posterior = toys.tiny_posterior()
  phi = posterior.sample_prior(chains, seed=1)
  actual = tfr.CollapsedPosterior(posterior, space=space).to_theta(phi)
  for a, e in zip(actual, posterior.reprior(space=space).forward(phi), strict=True):
    np.testing.assert_allclose(a, e, rtol=0, atol=1e-12)
