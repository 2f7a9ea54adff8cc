"""Samplers by name, and their tuning."""

import json
import math

import numpy as np
import pytest
import toys

import tfp_reprior as tfr
from tfp_reprior.mcmc import samplers


@pytest.mark.parametrize('name', samplers.NAMES)
def test_every_sampler_starts_steps_and_gives_weights(name):
  posterior = toys.tiny_posterior()
  sampler = tfr.mcmc.make_sampler(posterior, name)
  assert name in ('auto', sampler.name)
  kernel = sampler.kernel_fn(0.1, 0.2)
  assert kernel.is_calibrated == (not sampler.name.startswith('uncalibrated'))
  state = sampler.start_fn(3, seed=1)
  state, results = kernel.one_step(state, kernel.bootstrap_results(state), seed=[1, 2])
  theta = sampler.theta_fn(state)
  assert [tuple(p.shape) for p in theta] == [(3, *s) for s in posterior.split.event_shapes]
  assert results.log_accept_ratio.shape == [3]


def test_all_samplers_start_from_the_same_weights():
  posterior = toys.tiny_posterior()
  expected = posterior.reprior().forward(posterior.sample_prior(2, seed=5))
  for name in ('rotation', 'langevin', 'standard'):
    sampler = tfr.mcmc.make_sampler(posterior, name)
    theta = sampler.theta_fn(sampler.start_fn(2, seed=5))
    for a, b in zip(theta, expected, strict=True):
      np.testing.assert_allclose(a, b, atol=1e-10)


def test_starts_can_be_over_dispersed():
  posterior = toys.tiny_posterior()
  wide = tfr.mcmc.make_sampler(posterior, over_dispersion=3.0).start_fn(2, seed=1)
  narrow = tfr.mcmc.make_sampler(posterior).start_fn(2, seed=1)
  np.testing.assert_allclose(wide[0], 3.0 * narrow[0])


def test_unknown_samplers_are_refused():
  with pytest.raises(ValueError, match="`name` must be one of .* Received: name='gibbs'"):
    tfr.mcmc.make_sampler(toys.tiny_posterior(), 'gibbs')


def _tune(**kwargs):
  arguments = dict(num_steps=100, progress=False, num_projections=10, step_sizes=[0.03, 0.3, 0.9])
  return tfr.mcmc.tune(toys.tiny_posterior(), **{**arguments, **kwargs})


def test_tuning_picks_the_best_trial_of_its_last_round():
  tuning = _tune(sampler='rotation', dampings=[0.1, 1.0])
  assert len(tuning.trials) == 3 + 6 + 3
  last = tuning.trials[-3:]
  best = max(last, key=lambda t: t.ess_per_gradient)
  assert (tuning.step_size, tuning.damping) == (best.step_size, best.damping)
  assert all(t.step_size <= math.pi / 2 and t.is_feasible for t in tuning.trials)
  assert ' <-' in tuning.table() and len(tuning.table().splitlines()) == 1 + 12


def test_tuning_prefers_long_steps_where_the_posterior_is_the_prior():
  # With huge noise phi is N(0, I): rotation is exact, and short steps can only lose.
  posterior = toys.tiny_posterior(noise_scale=1e3)
  tuning = tfr.mcmc.tune(posterior, num_steps=200, progress=False, step_sizes=[0.02, 0.2, 1.0])
  first_round, chosen = tuning.trials[:3], max(t.ess_per_gradient for t in tuning.trials[-3:])
  assert tuning.step_size > 0.2
  assert chosen > 5 * first_round[0].ess_per_gradient
  assert all(t.acceptance > 0.99 for t in tuning.trials)


def test_uncalibrated_kernels_keep_the_acceptance_of_the_paper():
  tuning = _tune(sampler='uncalibrated_rotation', step_sizes=[0.003, 0.03, 0.3, 1.5])
  [chosen] = [
    t for t in tuning.trials[-3:] if (t.step_size, t.damping) == (tuning.step_size, tuning.damping)
  ]
  assert chosen.acceptance >= 0.98
  assert any(not t.is_feasible for t in tuning.trials), 'the bound must have mattered'
  assert '(not allowed)' in tuning.table()


def test_kernels_without_momentum_have_no_damping():
  tuning = _tune(sampler='crank_nicolson')
  assert math.isnan(tuning.damping)
  assert len(tuning.trials) == 3 + 3 + 3


def test_tuning_is_deterministic_and_resumes(tmp_path):
  path = tmp_path / 'tuning.json'
  first = _tune(path=path)
  saved = json.loads(path.read_text())
  assert len(saved['rounds']) == 3
  # As if it had been stopped after the first round.
  saved['rounds'] = saved['rounds'][:1]
  path.write_text(json.dumps(saved))
  second = _tune(path=path)
  assert second == first
  # Finished rounds are not run again: a changed figure is taken as it is.
  saved = json.loads(path.read_text())
  saved['rounds'][2][0]['ess_per_gradient'] = 99.0
  path.write_text(json.dumps(saved))
  assert _tune(path=path).trials[-3].ess_per_gradient == 99.0


def test_a_log_of_another_tuning_is_refused(tmp_path):
  path = tmp_path / 'tuning.json'
  _tune(path=path)
  with pytest.raises(
    ValueError, match='holds a tuning of something else.*num_steps is 100, not 50'
  ):
    _tune(path=path, num_steps=50)


def test_no_allowed_setting_is_an_error_that_says_what_was_tried():
  with pytest.raises(RuntimeError, match=r'target_accept_prob=1.0: .* Tried: 0.9 \(acceptance 0'):
    _tune(sampler='uncalibrated_langevin', target_accept_prob=1.0, step_sizes=[0.9])


@pytest.mark.parametrize('name', ['num_steps', 'num_chains'])
def test_counts_must_be_positive(name):
  with pytest.raises(ValueError, match=f'`{name}` must be a positive integer. .*{name}=0'):
    _tune(**{name: 0})
