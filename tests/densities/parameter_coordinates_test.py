"""Chains with unknown noise, and their coordinate, against the closed form for a linear model."""

import keras
import numpy as np
import pytest
import scipy.stats
import statistics_lib as stats
import tensorflow as tf
import tensorflow_probability as tfp
import toys

import tfp_reprior as tfr
from tfp_reprior.densities import parameter_coordinates
from tfp_reprior.sampling import runner

tfd = tfp.distributions
LOC, SCALE = -1.5, 0.5
NUM_CHAINS = 4000
GRID = np.linspace(-6, 6, 4001)


def _linear_posterior(n):
  """A model that is only a readout: its features are fixed."""
  rng = np.random.default_rng(0)
  inputs = keras.Input((2,), dtype='float64')
  model = keras.Sequential([inputs, tfr.layers.NTKDense(2, 1.0, 0.5, dtype='float64')])
  x = rng.normal(size=(n, 2))
  y = x @ rng.normal(size=(2, 2)) + 0.6 * rng.normal(size=(n, 2))
  return tfr.Posterior(model, x, y, tfd.LogNormal(LOC, SCALE))


def _psi(posterior):
  x = posterior.x.numpy()
  return np.concatenate([x / np.sqrt(2), np.full([len(x), 1], 0.5)], axis=1)


def _exact_density(posterior, with_prior=True):
  """p(u | D) on the grid, from N(u; 0, 1) * N(y; 0, s2 I + psi psi.T), dense."""
  psi, y = _psi(posterior), posterior.y.numpy()
  log_density = np.zeros_like(GRID)
  for i, u in enumerate(GRID):
    gram = np.exp(2 * (LOC + SCALE * u)) * np.eye(len(y)) + psi @ psi.T
    quadratic = np.sum(y * np.linalg.solve(gram, y))
    log_density[i] = -quadratic / 2 - np.linalg.slogdet(gram)[1]  # two outputs
  if with_prior:
    log_density += scipy.stats.norm.logpdf(GRID)
  density = np.exp(log_density - log_density.max())
  return density / density.sum()


def _cdf(density):
  return lambda u: np.interp(u, GRID, np.cumsum(density) - density / 2)


def _moments(density):
  mean = np.sum(GRID * density)
  return mean, np.sqrt(np.sum((GRID - mean) ** 2 * density))


@pytest.mark.parametrize(
  'name, step_size, damping, num_steps',
  [
    ('rotation', 0.4, 0.3, 60),
    ('langevin', 0.4, 0.3, 60),
    ('standard', 0.1, 0.1, 400),
    ('crank_nicolson', 0.5, None, 150),
  ],
)
def test_chains_have_the_exact_posterior_of_the_noise(name, step_size, damping, num_steps):
  # The ends of 4000 independent chains, Kolmogorov-Smirnov, false-alarm rate 1e-6: it sees errors
  # of the CDF of 0.09 almost surely. Chains start elsewhere, spread wider by half.
  posterior = _linear_posterior(n=8)
  sampler = tfr.make_sampler(posterior, name, over_dispersion=1.5)
  starts = sampler.start_fn(NUM_CHAINS, seed=1)
  trace, ends = runner.run_chains(
    sampler.kernel_fn(step_size, damping),
    starts,
    lambda *_: {},
    num_draws=1,
    thinning=num_steps,
    seed=2,
  )
  assert np.mean(trace['acceptance']) > 0.3
  u, kernel, bias = (p.numpy() for p in sampler.theta_fn(ends))
  exact = _exact_density(posterior)
  assert stats.cdf_p_value(u, _cdf(exact)) > stats.FALSE_ALARM
  # What it must see: the starts, and a posterior without the prior of the noise.
  start_u = sampler.theta_fn(starts)[0]
  without_prior = _exact_density(posterior, with_prior=False)
  assert stats.cdf_p_value(start_u, _cdf(exact)) < stats.FALSE_ALARM
  assert stats.cdf_p_value(u, _cdf(without_prior)) < stats.FALSE_ALARM
  # The mean of the readout is that of ridge regression, averaged over the noise.
  psi, y = _psi(posterior), posterior.y.numpy()
  means = [
    np.linalg.solve(np.exp(2 * (LOC + SCALE * v)) * np.eye(3) + psi.T @ psi, psi.T @ y)
    for v in GRID
  ]
  expected = np.tensordot(exact, means, axes=1)
  readout = np.concatenate([kernel, bias[:, np.newaxis]], axis=1)
  assert stats.mean_p_value(readout, expected) > stats.FALSE_ALARM


def _scale_posterior(likelihood):
  """One weight, by which a single input is multiplied, and an unknown scale of the output."""
  inputs = keras.Input((1,), dtype='float64')
  model = keras.Sequential([inputs, tfr.layers.NTKDense(1, 1.0, 0.0, dtype='float64')])
  x = np.array([[-1.5], [-1.0], [-0.5], [0.5], [1.0], [2.0]])
  return tfr.Posterior(model, x, (x > -0.7).astype(float), likelihood=likelihood)


@pytest.mark.parametrize('name', ['Bernoulli', 'Gaussian'])
def test_chains_have_the_exact_posterior_of_the_scale_of_the_outputs(name):
  # The ends of 4000 independent chains, as above, against quadrature over weight and scale.
  prior = tfd.LogNormal(1.0, 1.0)
  is_gaussian = name == 'Gaussian'
  posterior = _scale_posterior(
    tfr.likelihoods.Gaussian(0.5, prior) if is_gaussian else tfr.likelihoods.Bernoulli()
  )
  sampler = tfr.make_sampler(posterior)
  starts = sampler.start_fn(NUM_CHAINS, seed=1)
  kernel = sampler.kernel_fn(0.3, 0.3)
  trace, ends = runner.run_chains(kernel, starts, lambda *_: {}, num_draws=1, thinning=100, seed=2)
  assert np.mean(trace['acceptance']) > 0.5
  u = sampler.theta_fn(ends)[0].numpy()
  grid, weights = GRID[::20], np.linspace(-7, 7, 281)
  x, y = posterior.x.numpy()[:, 0], posterior.y.numpy()[:, 0]
  f = np.exp(1.0 + grid)[:, np.newaxis, np.newaxis] * weights[:, np.newaxis] * x
  if is_gaussian:
    log_likelihood = scipy.stats.norm.logpdf(y, f, 0.5).sum(axis=-1)
  else:
    log_likelihood = -np.logaddexp(0, np.where(y > 0, -f, f)).sum(axis=-1)
  log_density = log_likelihood + scipy.stats.norm.logpdf(weights)

  def exact(with_prior):
    prior = scipy.stats.norm.pdf(grid) if with_prior else scipy.stats.norm.pdf(grid, 0, 3)
    density = np.exp(log_density).sum(axis=1) * prior
    density /= density.sum()
    return lambda u: np.interp(u, grid, np.cumsum(density) - density / 2)

  assert stats.cdf_p_value(u, exact(True)) > stats.FALSE_ALARM
  # What it must see: the prior, and another one.
  assert stats.cdf_p_value(u, scipy.stats.norm.cdf) < stats.FALSE_ALARM
  assert stats.cdf_p_value(u, exact(False)) < stats.FALSE_ALARM


@pytest.mark.parametrize('n', [2, 3, 8, 50])
def test_the_coordinate_of_a_linear_model_has_the_moments_of_the_posterior(n):
  posterior = _linear_posterior(n)
  coordinate = parameter_coordinates.ParameterCoordinates(posterior)
  mean, stddev = _moments(_exact_density(posterior))
  # Rounded to two digits, and to a tenth of a standard deviation.
  np.testing.assert_allclose(coordinate.stddev[0], stddev, rtol=0.06)
  np.testing.assert_allclose(coordinate.mean[0], mean, atol=0.06 * stddev)


def test_a_narrow_posterior_is_resolved():
  # With n k = 4000 the standard deviation is about 1 / sqrt(2 * 4000), a grid spacing or so.
  coordinate = parameter_coordinates.ParameterCoordinates(_linear_posterior(2000))
  np.testing.assert_allclose(SCALE * coordinate.stddev[0], 1 / np.sqrt(8000), rtol=0.05)
  np.testing.assert_allclose(np.exp(LOC + SCALE * coordinate.mean[0]), 0.6, rtol=0.05)


def test_states_and_parts_are_inverse_and_only_the_noise_differs():
  posterior = toys.tiny_posterior(noise_scale=tfd.HalfNormal(0.5))
  coordinate = parameter_coordinates.ParameterCoordinates(posterior)
  state = posterior.sample_prior(3, seed=1)
  parts = coordinate.forward(state)
  np.testing.assert_allclose(
    parts[2], coordinate.mean[0] + coordinate.stddev[0] * state[2], rtol=1e-14
  )
  for i, (a, b, back) in enumerate(zip(state, parts, coordinate.inverse(parts), strict=True)):
    np.testing.assert_allclose(back, a, rtol=1e-12)
    assert i == 2 or a is b


def test_in_a_graph_the_guess_is_that_of_the_targets_when_it_runs():
  tiny = toys.tiny_posterior(noise_scale=tfd.LogNormal(LOC, SCALE))

  def numbers(y):
    posterior = tfr.Posterior(tiny.split, tiny.x, y, likelihood=tiny.likelihood)
    coordinate = parameter_coordinates.ParameterCoordinates(posterior)
    return coordinate.mean[0], coordinate.stddev[0]

  graph_numbers = tf.function(numbers, autograph=False)
  for scale in (0.1, 1.0):
    y = scale * tiny.y
    np.testing.assert_allclose(graph_numbers(y), numbers(y), rtol=1e-12)


@pytest.mark.parametrize('density_class', [tfr.CollapsedPosterior, tfr.ComposedPosterior])
def test_the_standardized_density_is_the_same_up_to_a_constant(density_class):
  posterior = toys.tiny_posterior(noise_scale=tfd.LogNormal(LOC, SCALE))
  coordinate = parameter_coordinates.ParameterCoordinates(posterior)
  plain = density_class(posterior)
  standardized = coordinate.standardized(plain)
  state = posterior.sample_prior(6, seed=1)
  parts = coordinate.forward(state)
  target = standardized.target_log_prob_fn(*state)
  np.testing.assert_allclose(target, plain.target_log_prob_fn(*parts), atol=1e-10)
  # The likelihood with respect to N(0, I) of the state.
  likelihood = standardized.log_likelihood_fn(*state)
  np.testing.assert_allclose(posterior.log_prior_fn(*state) + likelihood, target, atol=1e-10)


def test_every_sampler_starts_and_steps_with_unknown_noise():
  posterior = toys.tiny_posterior(noise_scale=tfd.LogNormal(LOC, SCALE))
  starts = []
  for name in ('rotation', 'uncalibrated_langevin', 'standard', 'crank_nicolson'):
    sampler = tfr.make_sampler(posterior, name)
    starts.append(sampler.theta_fn(sampler.start_fn(3, seed=1)))
    kernel = sampler.kernel_fn(0.05, 0.1)
    state = sampler.start_fn(3, seed=1)
    results = kernel.bootstrap_results(state)
    state, _ = kernel.one_step(state, results, seed=(1, 2))
    theta = sampler.theta_fn(state)
    assert [p.shape for p in theta] == [(3, *s) for s in posterior.split.event_shapes]
    assert all(np.all(np.isfinite(p)) for p in theta)
    np.testing.assert_allclose(starts[-1][2], starts[0][2], atol=1e-12)


def test_with_more_features_than_data_the_guess_is_that_of_their_covariance():
  # n = 5 data, 33 features; moments by scipy's quadrature for each draw of the features, combined.
  rng = np.random.default_rng(2)
  model = tfr.models.fcn((3,), 1, width=32, depth=1, dtype='float64')
  x, y = rng.normal(size=(5, 3)), rng.normal(size=(5, 1))
  posterior = tfr.Posterior(model, x, y, tfd.LogNormal(LOC, SCALE))
  moments = []
  for seed in tfr.internal.random.split_seed(0, 4):
    hidden = posterior.sample_prior(seed=seed)[:3]
    psi = posterior.features_fn(*hidden).numpy()

    def density(u, psi=psi):
      gram = np.exp(2 * (LOC + SCALE * u)) * np.eye(5) + psi @ psi.T
      likelihood = scipy.stats.multivariate_normal(cov=gram).pdf(y[:, 0])
      return scipy.stats.norm.pdf(u) * likelihood

    total, first, second = (
      scipy.integrate.quad(lambda u, p=p, density=density: u**p * density(u), -8, 8)[0]
      for p in range(3)
    )
    moments.append((first / total, second / total))
  mean, square = np.mean(moments, axis=0)
  coordinate = parameter_coordinates.ParameterCoordinates(posterior)
  stddev = np.sqrt(square - mean**2)
  np.testing.assert_allclose(coordinate.stddev[0], stddev, rtol=0.06)
  np.testing.assert_allclose(coordinate.mean[0], mean, atol=0.06 * stddev)
