"""Tuning of the regularizer."""

import math

import numpy as np
import pytest
import toys

import tfp_reprior as tfr
from tfp_reprior.mcmc import regularizers as regularizers_lib


@pytest.mark.parametrize('name', ['rotation', 'langevin', 'crank_nicolson'])
def test_an_infinite_regularizer_is_the_standard_parametrisation(name):
  posterior = toys.tiny_posterior()
  sampler = tfr.mcmc.make_sampler(posterior, name, regularizer=math.inf)
  standard = tfr.mcmc.make_sampler(posterior, 'standard')
  state = sampler.start_fn(2, seed=3)
  for part, theta, expected in zip(
    state, sampler.theta_fn(state), standard.start_fn(2, seed=3), strict=True
  ):
    np.testing.assert_array_equal(part, expected)
    np.testing.assert_array_equal(theta, expected)
  results = sampler.kernel_fn(0.1, 0.1).bootstrap_results(state)
  expected = posterior.log_likelihood(*state)
  np.testing.assert_allclose(results.target_log_prob, expected, rtol=1e-10)
  assert sampler.num_moving_parts == len(state), 'the readout is not drawn anew'


def test_a_large_regularizer_tends_to_the_infinite_one():
  posterior = toys.tiny_posterior()
  state = posterior.sample_prior(2, seed=3)
  results = [
    tfr.mcmc.make_sampler(posterior, 'rotation', regularizer=r)
    .kernel_fn(0.1, 0.1)
    .bootstrap_results(state)
    for r in (1e9, math.inf)
  ]
  np.testing.assert_allclose(results[0].target_log_prob, results[1].target_log_prob, rtol=1e-5)


def test_the_regularizer_of_the_fastest_pilots_is_chosen(monkeypatch, tmp_path):
  sizes, paths = iter([0.1, 0.3, 0.2]), []

  def pretend(posterior, sampler, path, num_steps):
    paths.append(path)
    trial = tfr.mcmc.Trial(0.1, 0.2, 4, 0.9, next(sizes), True)
    return tfr.mcmc.Tuning(0.1, 0.2, 4, [trial])

  monkeypatch.setattr(regularizers_lib.tuning, 'tune', pretend)
  best, tunings = tfr.mcmc.tune_regularizer(
    toys.tiny_posterior(), path=tmp_path / 'tuning.json', num_steps=7
  )
  assert best == 'n*noise'
  assert list(tunings) == ['noise', 'n*noise', math.inf]
  assert [p.name for p in paths] == ['tuning_0.json', 'tuning_1.json', 'tuning_2.json']


def test_repriorisation_is_chosen_where_it_mixes_faster():
  # A wide network, few data and little noise: phi is close to N(0, I), and theta narrow across the
  # data.
  x = np.linspace(-1, 1, 6, dtype=np.float32)[:, np.newaxis]
  model = tfr.models.fcn((1,), 1, width=128, depth=1)
  posterior = tfr.Posterior(model, x, np.sin(3 * x), noise_scale=0.02)
  best, tunings = tfr.mcmc.tune_regularizer(
    posterior, regularizers=[math.inf, 'noise'], num_steps=100, progress=False
  )
  assert best == 'noise'
  assert tunings['noise'].ess_per_gradient > 2 * tunings[math.inf].ess_per_gradient


def test_the_standard_parametrisation_has_no_regularizer():
  with pytest.raises(ValueError, match="no `regularizer` to tune. Received: sampler='standard'"):
    tfr.mcmc.tune_regularizer(toys.tiny_posterior(), 'standard')
