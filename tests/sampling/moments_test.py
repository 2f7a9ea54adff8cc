"""Running moments, and what is recorded of a draw."""

import numpy as np
import pytest
import tensorflow as tf
import toys

import tfp_reprior as tfr
from tfp_reprior.sampling import moments, observations, warmup

SAMPLERS = ('rotation', 'crank_nicolson', 'langevin', 'standard')


def _moments(values):
  running = moments.zeros_like([tf.zeros_like(part[0]) for part in values])
  for i in range(len(values[0])):
    running = moments.update(running, [tf.constant(part[i]) for part in values])
  return moments.finish(running)


def test_running_moments_are_those_of_all_values():
  rng = np.random.default_rng(0)
  values = [rng.normal(size=(20, 3, 2)), rng.exponential(size=(20, 4))]
  finished = _moments(values)
  for part, mean, variance in zip(values, finished.mean, finished.variance, strict=True):
    np.testing.assert_allclose(mean, part.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(variance, part.var(axis=0), rtol=1e-12)


def test_running_moments_survive_a_large_mean_in_float32():
  values = (1e4 + np.random.default_rng(0).normal(size=(200, 5))).astype(np.float32)
  finished = _moments([values])
  exact = values.astype(np.float64)
  np.testing.assert_allclose(finished.variance[0], exact.var(axis=0), rtol=1e-2)
  # The mean of squares minus the square of the mean would not.
  naive = np.mean(values**2, axis=0) - np.mean(values, axis=0) ** 2
  assert np.max(np.abs(naive - exact.var(axis=0))) > 1.0


@pytest.fixture(scope='module')
def posterior():
  return toys.tiny_posterior()


@pytest.fixture(scope='module')
def x_test(posterior):
  return tf.constant(np.random.default_rng(1).normal(size=(6, 3)), posterior.split.dtype)


@pytest.fixture(scope='module', params=SAMPLERS)
def observed(request, posterior, x_test):
  """A sampler, its observer, and the states and results of two steps of three chains."""
  sampler = tfr.make_sampler(posterior, request.param)
  observer = observations.Observer(sampler, x_test, num_projections=5, seed=3)
  kernel = warmup.sampling_kernel(
    sampler, {'step_size': 0.3, 'damping': 0.5, 'num_integrator_steps': 1}
  )
  state = sampler.start_fn(3, seed=1)
  results = kernel.bootstrap_results(state)
  steps = []
  for i in range(2):
    state, results = kernel.one_step(state, results, seed=[1, i])
    steps.append((state, results))
  return sampler, observer, steps


def test_log_prob_and_energy_are_those_of_state_and_momentum(observed, posterior):
  sampler, observer, steps = observed
  gaps = []
  for state, results in steps:
    trace, _ = observer.draw(state, results, observer.empty(3))
    theta = sampler.theta_fn(state)
    energy = -posterior.target_log_prob_fn(*theta).numpy()
    if sampler.name != 'standard':
      energy -= posterior.reprior().forward_log_det_jacobian(state).numpy()
    if sampler.name == 'rotation':  # it draws the readout anew, which is no part of the dynamics
      for part in state[posterior.split.num_hidden :]:
        energy -= 0.5 * np.sum(part.numpy().reshape(3, -1) ** 2, axis=1)
    gaps.append(trace['log_prob'].numpy() + energy)
    if sampler.has_damping:
      for part in results.inner_results.momentum:
        energy += 0.5 * np.sum(part.numpy().reshape(3, -1) ** 2, axis=1)
    gaps.append(trace['energy'].numpy() - energy)
  # Up to a constant, the same for all states.
  for some in (gaps[::2], gaps[1::2]):
    np.testing.assert_allclose(some, np.full_like(some, some[0][0]), rtol=0, atol=1e-8)


def test_hidden_weights_are_those_of_the_sampler(observed, posterior):
  # Therefore the readout can be integrated out for draws of every sampler.
  sampler, _, [(state, _), _] = observed
  for a, b in zip(state[: posterior.split.num_hidden], sampler.theta_fn(state), strict=False):
    np.testing.assert_array_equal(a, b)


def _conditional_moments(posterior, theta, x_test):
  """Mean and variance of f given hidden weights, by regression on the features in NumPy."""
  hidden = theta[: posterior.split.num_hidden]
  psi = posterior.split.embed(hidden, posterior.x).numpy()
  psi_test = posterior.split.embed(hidden, x_test).numpy()
  noise_variance = posterior.likelihood.noise_scale**2
  means, variances = [], []
  for features, test_features in zip(psi, psi_test, strict=True):
    precision = np.eye(features.shape[1]) + features.T @ features / noise_variance
    covariance = np.linalg.inv(precision)
    means.append(test_features @ covariance @ features.T @ posterior.y.numpy() / noise_variance)
    variance = np.diag(test_features @ covariance @ test_features.T)
    variances.append(np.repeat(variance[:, np.newaxis], posterior.y.shape[1], axis=1))
  return np.array(means), np.array(variances)


def test_a_draw_is_recorded_with_projections_and_moments(observed, posterior, x_test):
  sampler, observer, steps = observed
  split = posterior.split
  summary = observer.empty(3)
  thetas, means, variances = [], [], []
  for state, results in steps:
    trace, summary = observer.draw(state, results, summary)
    theta = sampler.theta_fn(state)
    project = tfr.diagnostics.RandomProjections(split.event_shapes, 5, 3, split.dtype)
    np.testing.assert_allclose(trace['theta'], project(theta), rtol=1e-12)
    project_f = tfr.diagnostics.RandomProjections([(6, 2)], 5, 3, split.dtype)
    np.testing.assert_allclose(trace['f'], project_f(split.apply(theta, x_test)), rtol=1e-12)
    thetas.append(theta)
    mean, variance = _conditional_moments(posterior, theta, x_test)
    means.append(mean)
    variances.append(variance)
  finished = moments.finish(summary.theta)
  for i, part in enumerate(finished.mean):
    draws = np.array([theta[i] for theta in thetas])
    np.testing.assert_allclose(part, draws.mean(axis=0), rtol=1e-10)
    np.testing.assert_allclose(finished.variance[i], draws.var(axis=0), rtol=1e-8, atol=1e-12)
  # Over draws and chains at once.
  f_mean, f_variance = observations.f_mean_and_variance(summary)
  means, variances = np.array(means), np.array(variances)
  np.testing.assert_allclose(f_mean, means.mean(axis=(0, 1)), rtol=1e-8)
  expected = np.mean(means**2 + variances, axis=(0, 1)) - means.mean(axis=(0, 1)) ** 2
  np.testing.assert_allclose(f_variance, expected, rtol=1e-8)


def test_where_the_readout_cannot_be_integrated_out_outputs_are_counted(posterior, x_test):
  other = tfr.Posterior(posterior.split, posterior.x, posterior.y, noise_scale=[0.2, 0.5])
  sampler = tfr.make_sampler(other)
  observer = observations.Observer(sampler, x_test, 5, seed=3)
  kernel = warmup.sampling_kernel(
    sampler, {'step_size': 0.3, 'damping': 0.5, 'num_integrator_steps': 1}
  )
  summary, outputs = observer.empty(3), []
  for seed in (1, 2):
    state = sampler.start_fn(3, seed)
    _, summary = observer.draw(state, kernel.bootstrap_results(state), summary)
    outputs.append(other.split.apply(sampler.theta_fn(state), x_test).numpy())
  f_mean, f_variance = observations.f_mean_and_variance(summary)
  np.testing.assert_allclose(f_mean, np.mean(outputs, axis=(0, 1)), rtol=1e-8)
  np.testing.assert_allclose(f_variance, np.var(outputs, axis=(0, 1)), rtol=1e-8)


def test_without_test_inputs_there_are_no_moments_of_outputs(posterior):
  observer = observations.Observer(tfr.make_sampler(posterior), None, 5, seed=3)
  summary = observer.empty(3)
  assert observations.f_mean_and_variance(summary) is None
