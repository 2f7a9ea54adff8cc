"""Predictions as mixtures of Gaussians, against SciPy and Monte Carlo."""

import numpy as np
import pytest
import scipy.stats
import statistics_lib
import tensorflow_probability as tfp

import tfp_reprior as tfr

NOISE_VARIANCE = 0.3**2


def _prediction(components=5, inputs=4, outputs=3, seed=0, equal_variances=False):
  rng = np.random.default_rng(seed)
  means = rng.normal(size=(components, inputs, outputs))
  shape = (components, inputs, 1 if equal_variances else outputs)
  variances = np.broadcast_to(rng.uniform(0.05, 0.5, size=shape), means.shape)
  return tfr.sampling.Prediction(means, variances, NOISE_VARIANCE)


def _components(prediction):
  """Frozen SciPy distributions of observations, `[s, m, k]` in one."""
  return scipy.stats.norm(prediction.means, np.sqrt(prediction.variances + NOISE_VARIANCE))


def test_cdf_and_log_prob_are_those_of_the_mixture():
  prediction = _prediction()
  y = np.random.default_rng(1).normal(size=prediction.mean.shape)
  components = _components(prediction)
  np.testing.assert_allclose(prediction.cdf(y), components.cdf(y).mean(axis=0), rtol=1e-12)
  np.testing.assert_allclose(
    prediction.log_prob(y), np.log(components.pdf(y).mean(axis=0)), rtol=1e-12
  )


def test_log_prob_is_finite_where_densities_underflow():
  prediction = _prediction(components=1)
  y = prediction.mean + 100.0
  np.testing.assert_allclose(prediction.log_prob(y), _components(prediction).logpdf(y)[0])
  assert np.all(_components(prediction).pdf(y) == 0)


def test_components_in_blocks_are_those_at_once(monkeypatch):
  prediction = _prediction(components=7)
  y = np.random.default_rng(1).normal(size=(2, *prediction.mean.shape))
  expected = prediction.cdf(y), prediction.log_prob(y[0])
  monkeypatch.setattr('tfp_reprior.sampling.prediction._BLOCK_SIZE', 50)
  np.testing.assert_allclose(prediction.cdf(y), expected[0], rtol=1e-12)
  np.testing.assert_allclose(prediction.log_prob(y[0]), expected[1], rtol=1e-12)


@pytest.mark.parametrize('q', [0.5, [0.05, 0.95], [[0.01], [0.2], [0.999]], 1e-12, 1 - 1e-9])
def test_cdf_of_quantile_is_the_level(q):
  prediction = _prediction()
  quantile = prediction.quantile(q)
  assert quantile.shape == (*np.shape(q), *prediction.mean.shape)
  level = np.broadcast_to(np.asarray(q)[..., np.newaxis, np.newaxis], quantile.shape)
  tail = np.minimum(level, 1 - level)
  np.testing.assert_array_less(np.abs(prediction.cdf(quantile) - level), 1e-5 * tail)


def test_quantile_of_a_single_component_is_that_of_a_gaussian():
  prediction = _prediction(components=1)
  for q in (1e-10, 0.025, 0.5, 0.9):
    expected = _components(prediction).ppf(q)[0]
    np.testing.assert_allclose(prediction.quantile(q), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize('q', [0.0, 1.0, -0.1, [0.5, 1.5], np.nan])
def test_levels_outside_the_unit_interval_are_refused(q):
  with pytest.raises(ValueError, match=r'`q` must lie in \(0, 1\). Received: q='):
    _prediction().quantile(q)


def test_mean_and_deviations_follow_the_law_of_total_variance():
  prediction = _prediction()
  second = np.mean(prediction.means**2 + prediction.variances, axis=0)
  variance = second - np.mean(prediction.means, axis=0) ** 2
  np.testing.assert_allclose(prediction.mean, prediction.means.mean(axis=0))
  np.testing.assert_allclose(prediction.function_stddev, np.sqrt(variance))
  np.testing.assert_allclose(prediction.stddev, np.sqrt(variance + NOISE_VARIANCE))


def test_moments_over_more_draws_replace_those_of_the_components():
  mixture = _prediction()
  mean, variance = np.full((4, 3), 2.0), np.full((4, 3), 9.0)
  prediction = tfr.sampling.Prediction(
    mixture.means, mixture.variances, NOISE_VARIANCE, (mean, variance)
  )
  np.testing.assert_array_equal(prediction.mean, mean)
  np.testing.assert_array_equal(prediction.function_stddev, 3.0)


def test_samples_are_of_the_mixture_and_repeat_with_their_seed():
  # As many functions of each component as there are samples of it.
  one = _prediction()
  rng = np.random.default_rng(5)
  repeated = [np.tile(a, [2000 // len(one.means), 1, 1]) for a in (one.means, one.variances)]
  functions = repeated[0] + np.sqrt(repeated[1]) * rng.standard_normal(repeated[0].shape)
  prediction = tfr.sampling.Prediction(*repeated, NOISE_VARIANCE, functions=functions)
  draws = prediction.sample(2000, seed=1)
  assert draws.shape == (2000, 4, 3)
  np.testing.assert_array_equal(draws, prediction.sample(2000, seed=1))
  assert np.all(draws != prediction.sample(2000, seed=2))
  for i, j in np.ndindex(4, 3):
    components = scipy.stats.norm(
      prediction.means[:, i, j], np.sqrt(prediction.variances[:, i, j] + NOISE_VARIANCE)
    )
    p_value = statistics_lib.cdf_p_value(
      draws[:, i, j], lambda y, c=components: c.cdf(y[:, np.newaxis]).mean(axis=1)
    )
    assert 12 * p_value > statistics_lib.FALSE_ALARM
  # The same test tells draws without their noise apart.
  wrong = prediction.sample(2000, seed=1)[:, 0, 0] - prediction.mean[0, 0]
  wrong *= prediction.function_stddev[0, 0] / prediction.stddev[0, 0] * 0.7
  components = scipy.stats.norm(
    prediction.means[:, 0, 0], np.sqrt(prediction.variances[:, 0, 0] + NOISE_VARIANCE)
  )
  assert (
    statistics_lib.cdf_p_value(
      wrong + prediction.mean[0, 0], lambda y: components.cdf(y[:, np.newaxis]).mean(axis=1)
    )
    < statistics_lib.FALSE_ALARM
  )


def test_a_sample_is_of_one_component_for_all_inputs():
  means = np.array([-100.0, 100.0])[:, np.newaxis, np.newaxis] * np.ones([2, 4, 3])
  prediction = tfr.sampling.Prediction(means, np.zeros([2, 4, 3]), NOISE_VARIANCE)
  signs = np.sign(prediction.sample(50, seed=0))
  assert np.all(signs == signs[:, :1, :1]) and set(signs.ravel()) == {-1, 1}


def test_samples_without_noise_are_functions_and_all_come_before_one_comes_again():
  functions = np.random.default_rng(1).normal(size=[5, 4, 3])
  prediction = tfr.sampling.Prediction(
    np.zeros([5, 4, 3]), np.ones([5, 4, 3]), NOISE_VARIANCE, functions=functions
  )
  draws = prediction.sample(12, noise=False)
  for first in (0, 5):
    order = np.argsort(draws[first : first + 5, 0, 0])
    np.testing.assert_array_equal(
      draws[first : first + 5][order], functions[np.argsort(functions[:, 0, 0])]
    )


def test_means_and_variances_alone_are_not_enough_for_joint_samples():
  with pytest.raises(ValueError, match='give `functions`.*Received: functions=None'):
    _prediction().sample(3)


@pytest.mark.parametrize('shape', [(4,), (3, 4), (4, 2), (5, 4, 4)])
def test_observations_of_another_shape_are_refused(shape):
  prediction = _prediction()
  for function in (prediction.log_prob, prediction.cdf):
    with pytest.raises(ValueError, match=r'`y` must have .*shape.* \(4, 3\).*Received: y of shape'):
      function(np.zeros(shape))


@pytest.mark.parametrize('equal_variances', [True, False])
def test_class_probabilities_are_frequencies_of_the_largest_output(equal_variances):
  prediction = _prediction(equal_variances=equal_variances)
  rng = np.random.default_rng(3)
  num_draws = 4000
  noise = rng.normal(size=(num_draws, *prediction.means.shape))
  f = prediction.means + np.sqrt(prediction.variances) * noise  # [draw, s, m, k]
  is_largest = np.eye(3)[np.argmax(f, axis=-1)].mean(axis=1)
  p_value = statistics_lib.mean_p_value(is_largest, prediction.class_probabilities)
  assert p_value > statistics_lib.FALSE_ALARM
  np.testing.assert_allclose(prediction.class_probabilities.sum(axis=-1), 1.0, rtol=1e-12)
  # Means alone, without the spread of the components, would not pass.
  wrong = np.eye(3)[np.argmax(prediction.means, axis=-1)].mean(axis=0)
  assert statistics_lib.mean_p_value(is_largest, wrong) < statistics_lib.FALSE_ALARM


def test_of_two_outputs_the_probability_is_that_of_their_difference():
  prediction = _prediction(components=2, outputs=2)
  difference = prediction.means[..., 0] - prediction.means[..., 1]
  expected = scipy.stats.norm.cdf(difference / np.sqrt(prediction.variances.sum(axis=-1)))
  np.testing.assert_allclose(
    prediction.class_probabilities[:, 0], expected.mean(axis=0), atol=1e-12
  )


def test_of_equal_variances_probabilities_are_exact():
  prediction = _prediction(components=1, inputs=1, outputs=4, equal_variances=True)
  mean, scale = prediction.means[0, 0], np.sqrt(prediction.variances[0, 0, 0])

  def density(t, j):
    others = np.delete(mean, j)
    return scipy.stats.norm.pdf(t, mean[j], scale) * np.prod(scipy.stats.norm.cdf(t, others, scale))

  expected = [
    scipy.integrate.quad(density, -10, 10, args=(j,), epsabs=1e-13, points=[mean[j]])[0]
    for j in range(4)
  ]
  np.testing.assert_allclose(prediction.class_probabilities[0], expected, atol=1e-10)


def test_without_variance_class_probabilities_are_counts():
  means = np.random.default_rng(0).normal(size=(6, 4, 3))
  prediction = tfr.sampling.Prediction(means, np.zeros_like(means), NOISE_VARIANCE)
  counts = np.eye(3)[np.argmax(means, axis=-1)].mean(axis=0)
  np.testing.assert_allclose(prediction.class_probabilities, counts, atol=1e-15)


def test_an_input_without_variance_does_not_disturb_the_others():
  means = np.zeros([1, 2, 2])
  means[0, 0] = [1.0, 3.0]
  variances = np.array([[[0.5, 0.5], [0.0, 0.0]]])
  prediction = tfr.sampling.Prediction(means, variances, NOISE_VARIANCE)
  expected = [[scipy.stats.norm.cdf(-2.0), scipy.stats.norm.cdf(2.0)], [0.5, 0.5]]
  np.testing.assert_allclose(prediction.class_probabilities, expected, atol=1e-12)


def _predictions():
  """Of two draws at three inputs each: a prediction of every kind, and observations."""
  rng = np.random.default_rng(0)
  means = rng.standard_normal([2, 3, 1])
  shares = rng.dirichlet(np.ones(4), size=[2, 3])
  rates = tfp.distributions.Poisson(log_rate=means)
  return [
    (tfr.sampling.Prediction(means, np.zeros_like(means), 0.04), means[0]),
    (tfr.sampling.CategoricalPrediction(shares), np.array([0, 3, 1])),
    (tfr.sampling.BernoulliPrediction(shares[..., :1]), np.array([[0], [1], [1]])),
    (tfr.sampling.DistributionPrediction(rates), np.array([[0.0], [1.0], [2.0]])),
  ]


@pytest.mark.parametrize('case', range(4))
def test_components_one_by_one_make_the_mixture(case):
  prediction, y = _predictions()[case]
  each = prediction.log_prob_each(y)
  assert each.shape == (2, *y.shape)
  np.testing.assert_allclose(prediction.log_prob(y), np.log(np.mean(np.exp(each), axis=0)))
  samples = prediction.sample_each(seed=1)
  assert samples.shape == each.shape
  np.testing.assert_array_equal(samples, prediction.sample_each(seed=1))
