"""Diagnostics: projections, effective sample size and R-hat against NumPy."""

import re

import numpy as np
import pytest
import statistics_lib
import tensorflow as tf

import tfp_reprior as tfr

SHAPES = [(3, 2), (2,), ()]  # nine weights


def _basis():
  """The nine unit vectors, as a list of parts with leading dimension 9."""
  eye = np.eye(9)
  return [tf.constant(p) for p in (eye[:, :6].reshape(9, 3, 2), eye[:, 6:8], eye[:, 8])]


def _projections(num_projections=50, seed=(0, 1), dtype=tf.float64):
  return tfr.diagnostics.RandomProjections(SHAPES, num_projections, seed, dtype)


@pytest.mark.parametrize('leading', [(), (4,), (5, 4)])
def test_projections_are_one_matrix_times_all_weights(leading):
  project = _projections()
  matrix = project(_basis()).numpy()  # [9, 50]
  rng = np.random.default_rng(1)
  parts = [rng.normal(size=(*leading, *shape)) for shape in SHAPES]
  flat = np.concatenate([p.reshape(*leading, -1) for p in parts], axis=-1)
  actual = project([tf.constant(p) for p in parts])
  assert actual.shape == (*leading, 50)
  np.testing.assert_allclose(actual, flat @ matrix, rtol=0, atol=1e-12)


def test_projections_of_standard_normal_weights_have_variance_one_on_average():
  # The directions are N(0, 1 / 9) for nine weights. False-alarm rate 1e-6, 20000 projections.
  matrix = _projections(20_000)(_basis()).numpy()
  draws = np.sqrt(9) * matrix.ravel()
  assert statistics_lib.cdf_p_value(draws, 'norm') > statistics_lib.FALSE_ALARM
  assert statistics_lib.cdf_p_value(1.05 * draws, 'norm') < statistics_lib.FALSE_ALARM
  variances = np.sum(matrix**2, axis=0)  # of the projections of N(0, I)
  assert statistics_lib.mean_p_value(variances, 1.0) > statistics_lib.FALSE_ALARM


def test_projections_of_parts_share_no_directions():
  matrix = _projections()(_basis()).numpy()
  assert np.unique(matrix).size == matrix.size


def test_projections_take_one_tensor():
  project = tfr.diagnostics.RandomProjections([(3,)], 5, [0, 1])
  x = tf.constant([[1.0, 2.0, 3.0]])
  np.testing.assert_array_equal(project(x), project([x]))


def test_projections_take_arrays():
  project = _projections()
  parts = _basis()
  np.testing.assert_array_equal(project([p.numpy() for p in parts]), project(parts))


@pytest.mark.parametrize('seed', [0, [1, 2]], ids=['int', 'list'])
def test_projections_are_fixed_by_the_seed(seed):
  first, again = _projections(seed=seed)(_basis()), _projections(seed=seed)(_basis())
  np.testing.assert_array_equal(first, again)
  assert not np.isin(first, _projections(seed=[3, 4])(_basis())).any()


def test_projections_default_to_a_hundred_in_float32():
  project = tfr.diagnostics.RandomProjections([(3,)])
  projected = project(tf.ones([4, 3]))
  assert projected.shape == (4, 100) and projected.dtype == tf.float32


@pytest.mark.parametrize('num_projections', [0, 2.5])
def test_number_of_projections_must_be_a_positive_integer(num_projections):
  message = (
    f'`num_projections` must be a positive integer. Received: num_projections={num_projections!r}'
  )
  with pytest.raises(ValueError, match=re.escape(message)):
    tfr.diagnostics.RandomProjections([(3,)], num_projections)


def test_projections_of_the_wrong_number_of_parts_are_refused():
  with pytest.raises(ValueError):
    _projections()(_basis()[:2])


def _autoregressive(rho, num_draws, num_chains, seed):
  """Stationary chains x' = rho x + sqrt(1 - rho^2) xi: `[s, c]`."""
  noise = np.random.default_rng(seed).normal(size=(num_draws, num_chains))
  chain = [noise[0]]
  for xi in noise[1:]:
    chain.append(rho * chain[-1] + np.sqrt(1 - rho**2) * xi)
  return np.stack(chain)


@pytest.mark.parametrize('rho', [0.0, 0.5, 0.9])
def test_effective_sample_size_of_an_autoregressive_chain(rho):
  # s (1 - rho) / (1 + rho). By Sokal's formula the relative error for one chain is about
  # sqrt(2 (2 m + 1) / s) for m lags, here 0.1 (m = 50 for rho = 0.9), so 1.3 % for the mean of 64
  # chains; the cut at the first negative autocorrelation keeps some noise, another 1 %.
  s = 20_000
  ess = tfr.diagnostics.effective_sample_size(_autoregressive(rho, s, 64, seed=1)).numpy()
  assert ess.shape == (64,)
  np.testing.assert_allclose(ess.mean(), s * (1 - rho) / (1 + rho), rtol=0.05)


def test_effective_sample_size_cuts_the_sum_at_the_first_negative_autocorrelation():
  draws = _autoregressive(0.7, 200, 3, seed=1)
  s = len(draws)
  expected = []
  for x in (draws - draws.mean(axis=0)).T:
    covariance = np.array([np.sum(x[: s - lag] * x[lag:]) / (s - lag) for lag in range(s)])
    rho = covariance / covariance[0]
    cut = np.argmax(rho < 0)
    assert 0 < cut < s // 2 and np.any(rho[cut:] > 0)  # else there would be nothing to see
    lags = np.arange(1, cut)
    expected.append(s / (1 + 2 * np.sum((s - lags) / s * rho[lags])))
  actual = tfr.diagnostics.effective_sample_size(tf.constant(draws))
  np.testing.assert_allclose(actual, expected, rtol=1e-10)


def test_effective_sample_size_is_that_of_each_chain_and_dimension():
  draws = _autoregressive(0.5, 100, 12, seed=1)
  single = [tfr.diagnostics.effective_sample_size(draws[:, i : i + 1])[0] for i in range(12)]
  actual = tfr.diagnostics.effective_sample_size(draws.reshape(100, 3, 4))
  np.testing.assert_allclose(actual, np.reshape(single, (3, 4)), rtol=1e-10)


@pytest.mark.parametrize('shape', [(50, 4), (50, 2, 3), (7, 3, 2, 2)])
def test_r_hat_squared_is_total_over_within(shape):
  rng = np.random.default_rng(1)
  draws = rng.normal(size=shape) + rng.normal(size=shape[1:])
  within = np.mean(np.var(draws, axis=0), axis=0)
  between = np.var(np.mean(draws, axis=0), axis=0)
  actual = tfr.diagnostics.r_hat_squared(draws)
  assert actual.shape == shape[2:]
  np.testing.assert_allclose(actual, 1 + between / within, rtol=1e-12)
  total = np.var(draws.reshape(shape[0] * shape[1], *shape[2:]), axis=0)
  np.testing.assert_allclose(actual, total / within, rtol=1e-12)


def test_r_hat_squared_is_one_for_chains_that_agree_and_more_for_those_that_do_not():
  draws = np.random.default_rng(1).normal(size=(4000, 4))
  # Between chains: variance 1 / 4000, so 1 + 3 / 4 / 4000 on average; 1.002 is far in the tail.
  assert 1.0 <= tfr.diagnostics.r_hat_squared(draws) < 1.002
  assert tfr.diagnostics.r_hat_squared(draws + np.arange(4)) > 2.0


@pytest.mark.parametrize('shape', [(), (50,), (50, 1), (50, 1, 3)])
def test_r_hat_squared_needs_two_chains(shape):
  message = (
    f'`draws` must have shape [s, c, ...] with two chains or more. Received: draws of shape {shape}'
  )
  with pytest.raises(ValueError, match=re.escape(message)):
    tfr.diagnostics.r_hat_squared(np.ones(shape))


def test_projections_of_large_states_are_signed_sums_of_unit_variance():
  # 300,001 weights: 100 dense directions would not fit the limit.
  shapes = [(300, 1000), (1,)]
  project = tfr.diagnostics.RandomProjections(shapes, num_projections=100, seed=1)
  rng = np.random.default_rng(0)
  parts = [rng.normal(size=(20, *s)).astype(np.float32) for s in shapes]
  projections = project(parts).numpy()
  assert projections.shape == (20, 100)
  # Linear: each weight is in one projection, with a sign.
  ones = [np.ones(s, np.float32) for s in shapes]
  unit = [np.zeros(s, np.float32) for s in shapes]
  unit[0][7, 123] = 1.0
  difference = project([a + b for a, b in zip(ones, unit, strict=True)]) - project(ones)
  [changed] = np.flatnonzero(np.abs(difference) > 1e-3)
  assert changed == (7 * 1000 + 123) % 100
  np.testing.assert_allclose(abs(difference[changed]), np.sqrt(100 / 300_001), rtol=1e-2)
  # 2,000 independent standard normals: a z-test of the variance, false-alarm rate 1e-6.
  assert statistics_lib.mean_p_value(np.ravel(projections) ** 2, 1.0) > statistics_lib.FALSE_ALARM


def test_effective_sample_size_of_known_variance_sees_what_a_chain_has_not_seen():
  rng = np.random.default_rng(0)
  # A chain that stays has one sample; that of its own variance cannot tell.
  still = np.full((100, 2, 3), rng.normal(size=(2, 3)))
  size = tfr.diagnostics.effective_sample_size_of_known_variance(still)
  np.testing.assert_allclose(size, 1.0, rtol=1e-12)
  # Independent draws: as many as there are. The first autocorrelation has a deviation of
  # 1 / sqrt(200,000), far below 0.05.
  independent = rng.normal(size=(2000, 2, 50))
  size = tfr.diagnostics.effective_sample_size_of_known_variance(independent)
  assert size == 2000
  # AR(1) with coefficient 0.9 and variance 4: the sum of 0.9**t up to 0.05. The estimate has a
  # relative deviation of about sqrt(2 * 57 / 500,000), and the lag of the cut one of 2 or 3.
  chain = 2.0 * rng.normal(size=(5000, 2, 50))
  for i in range(1, 5000):
    chain[i] = 0.9 * chain[i - 1] + np.sqrt(1 - 0.81) * 2.0 * rng.normal(size=(2, 50))
  size = tfr.diagnostics.effective_sample_size_of_known_variance(chain, variance=4.0)
  t = np.arange(1, 29)
  expected = 5000 / (1 + 2 * np.sum((1 - t / 5000) * 0.9**t))
  assert 0.9 < size / expected < 1.1
  assert 1.0 < expected / (5000 * 0.1 / 1.9) < 1.06, 'what the cut leaves out'
