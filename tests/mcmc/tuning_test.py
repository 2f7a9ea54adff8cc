"""Samplers by name, and their tuning."""

import json
import math

import numpy as np
import pytest
import tensorflow as tf
import toys

import tfp_reprior as tfr
from tfp_reprior.mcmc import pilots as pilots_lib
from tfp_reprior.mcmc import samplers
from tfp_reprior.mcmc import tuning as tuning_lib


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
  assert len(tuning.trials) == 3 + 4 + 4
  last = tuning.trials[-4:]
  best = max(last, key=lambda t: t.ess_per_gradient)
  assert tuning[:3] == best[:3]
  assert all(t.step_size <= math.pi / 2 for t in tuning.trials)
  assert ' <-' in tuning.table() and len(tuning.table().splitlines()) == 1 + 11


def test_tuning_prefers_long_steps_where_the_posterior_is_the_prior():
  # With huge noise phi is N(0, I): rotation is exact, and short steps can only lose.
  posterior = toys.tiny_posterior(noise_scale=1e3)
  tuning = tfr.mcmc.tune(posterior, num_steps=200, progress=False, step_sizes=[0.02, 0.2, 1.0])
  first_round, chosen = tuning.trials[:3], max(t.ess_per_gradient for t in tuning.trials[-4:])
  assert tuning.step_size > 0.2
  assert chosen > 5 * first_round[0].ess_per_gradient
  assert all(t.acceptance > 0.99 for t in tuning.trials)


def test_uncalibrated_kernels_keep_the_acceptance_of_the_paper():
  tuning = _tune(sampler='uncalibrated_rotation', step_sizes=[0.003, 0.03, 0.3, 1.5])
  [chosen] = filter(tuning.is_chosen, tuning.trials[-4:])
  assert chosen.acceptance >= 0.98
  assert {t.num_integrator_steps for t in tuning.trials} == {1}, 'as in the paper'
  assert any(not t.is_feasible for t in tuning.trials), 'the bound must have mattered'
  assert '(not allowed)' in tuning.table()


def test_kernels_without_momentum_have_no_damping():
  tuning = _tune(sampler='crank_nicolson')
  assert math.isnan(tuning.damping)
  assert tuning.num_integrator_steps == 1
  assert all(math.isnan(t.damping) for t in tuning.trials)
  [chosen] = filter(tuning.is_chosen, tuning.trials[-4:])
  assert chosen.acceptance >= 0.234
  assert any(not t.is_feasible for t in tuning.trials), 'the bound must have mattered'


def test_tuning_is_deterministic_and_resumes(tmp_path, monkeypatch):
  path = tmp_path / 'tuning.json'
  expected = _tune()
  add = pilots_lib.Log.add

  def add_and_stop(log, trials, state):
    add(log, trials, state)
    raise KeyboardInterrupt

  for num_rounds in (1, 2):  # stopped twice, after a round each
    monkeypatch.setattr(pilots_lib.Log, 'add', add_and_stop)
    with pytest.raises(KeyboardInterrupt):
      _tune(path=path)
    assert len(json.loads(path.read_text())['rounds']) == num_rounds
  monkeypatch.setattr(pilots_lib.Log, 'add', add)
  assert _tune(path=path) == expected
  assert list(tmp_path.iterdir()) == [path], 'states are for unfinished tunings'
  # Finished rounds are not run again: a changed figure is taken as it is.
  saved = json.loads(path.read_text())
  saved['rounds'][2][0]['ess_per_gradient'] = 99.0
  path.write_text(json.dumps(saved))
  assert _tune(path=path).trials[-4].ess_per_gradient == 99.0


def test_rounds_start_where_the_best_chains_of_the_last_ended(monkeypatch):
  starts, ends = [], []
  run_chains = pilots_lib.runner.run_chains

  def recorded(kernel, state, *args, **kwargs):
    trace, end = run_chains(kernel, state, *args, **kwargs)
    starts.append(np.asarray(state[0]))
    ends.append(np.asarray(end[0]))
    return trace, end

  monkeypatch.setattr(pilots_lib.runner, 'run_chains', recorded)
  tuning = _tune(sampler='rotation', dampings=[0.1, 1.0])
  rounds = [tuning.trials[:3], tuning.trials[3:7]]
  for trials, end, start in zip(rounds, ends, starts[1:], strict=False):
    best = trials.index(pilots_lib.best_of(trials, least_acceptance=0.7))
    np.testing.assert_array_equal(start, np.repeat(end[best : best + 1], len(start), axis=0))


def test_corrected_kernels_keep_an_acceptance_that_may_fall():
  tuning = _tune(sampler='rotation', step_sizes=[0.01, 0.03, 0.3, 1.5])
  allowed = [t for t in tuning.trials if t.is_feasible]
  assert all(t.acceptance >= 0.7 for t in allowed)
  assert any(t.acceptance < 0.7 for t in tuning.trials), 'the bound must have mattered'


@pytest.mark.parametrize(
  ('step_size', 'expected'), [(1.5, 1), (0.9, 1), (0.3, 4), (0.12, 8), (0.03, 16), (0.001, 16)]
)
def test_transitions_turn_the_prior_by_about_one_radian(step_size, expected):
  assert tuning_lib._num_integrator_steps(step_size) == expected


@pytest.mark.parametrize('name', ['rotation', 'standard'])
def test_corrected_kernels_take_several_steps_a_transition(name):
  tuning = _tune(sampler=name, step_sizes=[0.03, 0.1], num_steps=20)
  coarse, fine = tuning.trials[:2], tuning.trials[2:]
  assert {t.num_integrator_steps for t in coarse} == {4}
  [best] = [t for t in coarse if t == pilots_lib.best_of(coarse, least_acceptance=0.7)]
  expected = tuning_lib._num_integrator_steps(best.step_size)
  assert {t.num_integrator_steps for t in fine} == {expected} == {tuning.num_integrator_steps}
  assert expected > 1


def test_rejections_of_one_step_grow_with_its_third_power():
  # At equilibrium of N(0, I): 20,000 independent steps, so each rate is known to 1 %.
  state = tf.constant(np.random.default_rng(0).normal(size=(20_000, 10)))

  def rejections(step_size):
    kernel = tfr.mcmc.UncalibratedUnderdampedLangevin(
      lambda x: -0.5 * tf.reduce_sum(x**2, axis=-1), step_size, damping=1.0
    )
    _, results = kernel.one_step(state, kernel.bootstrap_results(state), seed=[1, 2])
    return 1.0 - np.mean(np.exp(np.minimum(results.log_accept_ratio, 0.0)))

  assert rejections(0.2) / rejections(0.1) == pytest.approx(8.0, rel=0.1)
  growth = tuning_lib._growth(1.0 - rejections(0.1), 1.0 - rejections(0.2))
  assert growth == pytest.approx(2.0, rel=0.05)
  assert tuning_lib._growth(1.0, 0.98) == 2.0 and tuning_lib._growth(0.1, 0.98) == 0.5


def test_steps_that_are_not_corrected_come_close_to_the_acceptance_that_is_allowed():
  tuning = _tune(sampler='uncalibrated_langevin', num_steps=200, dampings=[0.1, 1.0])
  first, second, third = tuning.trials[:3], tuning.trials[3:7], tuning.trials[7:]
  best = pilots_lib.best_of(first, 0.98)
  aim = best.step_size * tuning_lib._growth(best.acceptance, 0.98)
  assert {t.step_size for t in second} == {f * aim for f in (0.7, 1.0)}
  best = pilots_lib.best_of(second, 0.92)  # four times as many rejections
  aim = best.step_size * tuning_lib._growth(best.acceptance, 0.98)
  assert {t.step_size for t in third} == {f * aim for f in (0.7, 0.85, 1.0, 1.15)}
  assert {t.damping for t in third} == {best.damping}
  [chosen] = [t for t in third if tuning.is_chosen(t)]
  assert 0.98 <= chosen.acceptance < 0.995


def test_a_round_in_which_nothing_is_allowed_is_repeated_with_shorter_steps(monkeypatch, tmp_path):
  growth, too_much = tuning_lib._growth, [30.0]
  monkeypatch.setattr(tuning_lib, '_growth', lambda *a: too_much.pop() if too_much else growth(*a))
  path = tmp_path / 'tuning.json'
  tuning = _tune(sampler='uncalibrated_langevin', dampings=[0.1, 1.0], path=path)
  second = tuning.trials[3:7]
  assert all(t.acceptance < 0.92 for t in second) and len(tuning.trials) > 3 + 4 + 4
  assert max(t.step_size for t in tuning.trials[7:11]) < max(t.step_size for t in second)
  [chosen] = [t for t in tuning.trials[-4:] if tuning.is_chosen(t)]
  assert chosen.is_feasible
  assert _tune(sampler='uncalibrated_langevin', dampings=[0.1, 1.0], path=path) == tuning
  assert list(tmp_path.iterdir()) == [path]


def test_a_trial_that_is_too_bold_is_not_chosen_but_in_the_round_of_dampings():
  bold = pilots_lib.Trial(0.02, 0.01, 1, 0.96, 0.3, False)
  careful = pilots_lib.Trial(0.02, 1.0, 1, 0.99, 0.1, True)
  assert pilots_lib.best_of([bold, careful], least_acceptance=0.98) == careful
  assert pilots_lib.best_of([bold, careful], least_acceptance=0.92) == bold
  assert pilots_lib.best_of([bold], least_acceptance=0.98) == bold  # the closest there is


def test_a_budget_of_seconds_shortens_the_rounds():
  tuning = _tune(num_steps=10**6, max_seconds=1.0)
  assert len(tuning.trials) == 3 + 10 + 4
  assert tuning.step_size > 0


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


@pytest.mark.parametrize('name', ['num_steps', 'num_chains', 'num_integrator_steps'])
def test_counts_must_be_positive(name):
  with pytest.raises(ValueError, match=f'`{name}` must be a positive integer. .*{name}=0'):
    _tune(**{name: 0})
