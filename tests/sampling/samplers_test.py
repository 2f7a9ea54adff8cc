"""Samplers by name."""

import math

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp
import toys

import tfp_reprior as tfr
from tfp_reprior.densities import parameter_coordinates
from tfp_reprior.sampling import coordinates, samplers


@pytest.mark.parametrize('name', samplers.NAMES)
def test_every_sampler_starts_steps_and_gives_weights(name):
  posterior = toys.tiny_posterior()
  sampler = tfr.make_sampler(posterior, name)
  assert name in ('auto', sampler.name)
  kernel = sampler.kernel_fn(0.1, 0.2)
  is_calibrated = not sampler.name.startswith('uncalibrated')
  assert kernel.is_calibrated == sampler.is_calibrated == is_calibrated
  state = sampler.start_fn(3, seed=1)
  state, results = kernel.one_step(state, kernel.bootstrap_results(state), seed=[1, 2])
  theta = sampler.theta_fn(state)
  assert [tuple(p.shape) for p in theta] == [(3, *s) for s in posterior.split.event_shapes]
  assert results.log_accept_ratio.shape == [3]


@pytest.mark.parametrize('name', samplers.NAMES)
def test_kernels_of_warm_up_are_corrected_and_have_a_temperature(name):
  sampler = tfr.make_sampler(toys.tiny_posterior(), name)
  state = sampler.start_fn(3, seed=1)
  cold = sampler.kernel_fn(0.1, 0.2, inverse_temperature=3.0, is_calibrated=True)
  assert cold.is_calibrated
  plain = sampler.kernel_fn(0.1, 0.2).bootstrap_results(state)
  np.testing.assert_allclose(
    cold.bootstrap_results(state).target_log_prob, 3.0 * plain.target_log_prob, rtol=1e-12
  )


def test_classes_have_the_map_to_sites_where_the_scale_of_outputs_is_known(monkeypatch):
  rng = np.random.default_rng(0)
  x, model = rng.normal(size=[6, 3]), tfr.models.fcn((3,), 2, width=4, depth=1)

  def default_map(name='auto', output_scale=1.0, labels=(0, 1, 1, 0, 1, 0), **kwargs):
    likelihood = tfr.likelihoods.Categorical(output_scale=output_scale)
    posterior = tfr.Posterior(model, x, labels, likelihood=likelihood)
    return tfr.make_sampler(posterior, name, **kwargs).regularizer

  assert [default_map(name) for name in ('auto', 'rotation')] == ['sites'] * 2
  assert [default_map(name) for name in ('langevin', 'standard')] == [math.inf] * 2
  assert default_map(output_scale=None) == default_map(regularizer=math.inf) == math.inf
  assert default_map(strategy=tf.distribute.OneDeviceStrategy('CPU:0')) == math.inf

  @tf.function(autograph=False)
  def in_a_graph(labels):
    maps.append(default_map(labels=labels))

  maps = []
  in_a_graph(tf.constant([0, 1, 1, 0, 1, 0]))
  assert maps == [math.inf]
  monkeypatch.setattr(coordinates, '_MOST_SITES', 5)  # a fit would take long
  assert default_map() == math.inf


def test_the_temperature_is_that_of_the_likelihood_and_not_of_the_map():
  # A power of the whole ratio to N(0, I) is no density: chains would run away.
  posterior = toys.tiny_posterior()
  sampler = tfr.make_sampler(posterior, regularizer=2.0)
  state = sampler.start_fn(3, seed=1)
  plain, cold = (
    sampler.kernel_fn(0.1, 0.2, inverse_temperature=b).bootstrap_results(state).target_log_prob
    for b in (1.0, 3.0)
  )
  log_likelihood = posterior.log_likelihood_fn(*sampler.theta_fn(state))
  np.testing.assert_allclose(cold, plain + 2.0 * log_likelihood, rtol=1e-10)


def test_the_temperature_does_not_change_the_prior_of_unknown_noise():
  posterior = toys.tiny_posterior(noise_scale=tfp.distributions.LogNormal(-1.0, 0.5))
  sampler = tfr.make_sampler(posterior)
  state = sampler.start_fn(3, seed=1)
  plain, cold = (
    sampler.kernel_fn(0.1, 0.2, inverse_temperature=b).bootstrap_results(state).target_log_prob
    for b in (1.0, 3.0)
  )
  density = tfr.CollapsedPosterior(posterior)
  expected = 2.0 * density.log_likelihood_fn(
    *parameter_coordinates.ParameterCoordinates(posterior).forward(state)
  )
  np.testing.assert_allclose(cold - plain, expected, rtol=1e-9)


@pytest.mark.parametrize('name', ['rotation', 'langevin'])
def test_the_gradient_is_traced_once_for_warm_up_and_sampling(name, monkeypatch):
  sampler = tfr.make_sampler(toys.tiny_posterior(), name)
  state = sampler.start_fn(3, seed=1)
  traced = []
  features_fn = sampler.posterior.features_fn

  def count(*parts):
    traced.append(parts)
    return features_fn(*parts)

  monkeypatch.setattr(sampler.posterior, 'features_fn', count)
  values = []
  for beta, is_calibrated in ((3.0, True), (1.0, True), (1.0, False)):
    temperature = tf.constant(beta, tf.float64)

    @tf.function(autograph=False)
    def run(state, temperature, is_calibrated=is_calibrated):
      kernel = sampler.kernel_fn(0.1, 0.2, 3, temperature, is_calibrated)
      results = kernel.bootstrap_results(state)
      return results.target_log_prob, kernel.one_step(state, results, seed=[1, 2])

    values.append(run(state, temperature)[0])
  assert len(traced) == 1
  assert np.all(values[0] != values[1]), 'of another temperature by the same graph'
  np.testing.assert_allclose(values[1], sampler.log_likelihood_fn(*state), rtol=1e-10)


def test_angles_are_bounded():
  largest = {
    name: tfr.make_sampler(toys.tiny_posterior(), name).max_step_size
    for name in ('rotation', 'uncalibrated_rotation', 'crank_nicolson', 'langevin', 'standard')
  }
  assert list(largest.values()) == [math.pi / 2] * 3 + [math.inf] * 2


def test_all_samplers_start_from_the_same_weights():
  posterior = toys.tiny_posterior()
  expected = posterior.reprior().forward(posterior.sample_prior(2, seed=5))
  for name in ('rotation', 'langevin', 'standard'):
    sampler = tfr.make_sampler(posterior, name)
    theta = sampler.theta_fn(sampler.start_fn(2, seed=5))
    for a, b in zip(theta, expected, strict=True):
      np.testing.assert_allclose(a, b, atol=1e-10)


def test_starts_can_be_over_dispersed():
  posterior = toys.tiny_posterior()
  wide = tfr.make_sampler(posterior, over_dispersion=3.0).start_fn(2, seed=1)
  narrow = tfr.make_sampler(posterior).start_fn(2, seed=1)
  np.testing.assert_allclose(wide[0], 3.0 * narrow[0])


def test_steps_have_three_stages_where_every_layer_has_a_map():
  posterior = toys.tiny_posterior()
  sampler = tfr.make_sampler(posterior, layer_regularizer=2.0)
  assert sampler.num_stages == sampler.kernel_fn(0.1, 0.2).num_stages == 3
  assert sampler.num_gradients(4) == 12
  others = [
    tfr.make_sampler(posterior),
    tfr.make_sampler(posterior, layer_regularizer=2.0, num_stages=1),
    tfr.make_sampler(posterior, 'langevin', layer_regularizer=2.0),
  ]
  assert {s.num_stages for s in others} == {1} and others[1].num_gradients(4) == 4
  assert tfr.make_sampler(posterior, num_stages=3).kernel_fn(0.1, 0.2).num_stages == 3


@pytest.mark.parametrize('name', ['langevin', 'crank_nicolson', 'standard'])
def test_samplers_without_rotation_refuse_stages(name):
  with pytest.raises(ValueError, match='for the samplers `auto` and `rotation`. .*num_stages=3, s'):
    tfr.make_sampler(toys.tiny_posterior(), name, num_stages=3)


def test_unknown_samplers_are_refused():
  with pytest.raises(ValueError, match="`sampler` must be one of .* Received: sampler='gibbs'"):
    tfr.make_sampler(toys.tiny_posterior(), 'gibbs')


@pytest.mark.parametrize('name', ['rotation', 'langevin', 'crank_nicolson'])
def test_an_infinite_regularizer_is_the_standard_parametrisation(name):
  posterior = toys.tiny_posterior()
  sampler = tfr.make_sampler(posterior, name, regularizer=math.inf)
  standard = tfr.make_sampler(posterior, 'standard')
  state = sampler.start_fn(2, seed=3)
  for part, theta, expected in zip(
    state, sampler.theta_fn(state), standard.start_fn(2, seed=3), strict=True
  ):
    np.testing.assert_array_equal(part, expected)
    np.testing.assert_array_equal(theta, expected)
  results = sampler.kernel_fn(0.1, 0.1).bootstrap_results(state)
  expected = posterior.log_likelihood_fn(*state)
  np.testing.assert_allclose(results.target_log_prob, expected, rtol=1e-10)
  assert sampler.num_moving_parts == len(state), 'the readout is not drawn anew'


def test_a_large_regularizer_tends_to_the_infinite_one():
  posterior = toys.tiny_posterior()
  state = posterior.sample_prior(2, seed=3)
  results = [
    tfr.make_sampler(posterior, 'rotation', regularizer=r)
    .kernel_fn(0.1, 0.1)
    .bootstrap_results(state)
    for r in (1e9, math.inf)
  ]
  np.testing.assert_allclose(results[0].target_log_prob, results[1].target_log_prob, rtol=1e-5)
