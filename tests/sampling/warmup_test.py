"""Warm-up: what it finds, on the chains themselves, and what it refuses."""

import functools
import math

import numpy as np
import pytest
import sampling_runs
import tensorflow as tf
import tensorflow_probability as tfp
import toys

import tfp_reprior as tfr
from tfp_reprior.mcmc import jittered
from tfp_reprior.sampling import planner as planner_lib
from tfp_reprior.sampling import rates as rates_lib
from tfp_reprior.sampling import samplers, warmup

BUDGET = 400


def _warm_up(**changes):
  return tfr.warm_up(
    changes.pop('model', None) or sampling_runs.make_model(),
    sampling_runs.X,
    changes.pop('y', sampling_runs.Y),
    **{'noise_scale': 0.2, 'num_warmup_steps': BUDGET, 'progress': False, **changes},
  )


def _warm_up_with(**changes):
  settings = dict(step_size=None, num_burnin_steps=0, num_warmup_steps=BUDGET, num_chains=3)
  return sampling_runs.sample(run=tfr.warm_up, **settings, **changes)


@functools.cache
def _warmed_up():
  """What is found with the first seed; not to be changed."""
  return _warm_up_with(seed=1, sampler='rotation')


# Warm-up corrects them all: without accept / reject no more than the acceptance it aims at differs,
# which one of the three shows.
SAMPLERS = {*samplers.NAMES[1:]} - {'uncalibrated_rotation', 'uncalibrated_standard'}


@pytest.mark.parametrize('name', sorted(SAMPLERS))
def test_every_sampler_is_warmed_up(name):
  found = _warm_up_with(seed=1, sampler=name)
  sampler = tfr.make_sampler(
    tfr.Posterior(sampling_runs.make_model(), sampling_runs.X, sampling_runs.Y, 0.2), name
  )
  low, high = warmup.BOUNDS[sampler.kind]
  assert all(low < a < high for a in found.blocks[-1].acceptance), found.table()
  assert 0 < found.step_size <= sampler.max_step_size
  assert math.isnan(found.damping) == (not sampler.has_damping)
  has_length = sampler.is_calibrated and sampler.has_damping
  assert found.num_integrator_steps == 1 or has_length
  assert found.num_gradients < 1.5 * BUDGET
  stages = [b.stage for b in found.blocks]
  assert stages[0] == 'first step' and stages[-1] == 'check' and 'cold' in stages
  assert [p.shape[0] for p in found.state] == [3] * len(found.state)
  assert found.table().count('\n') >= len(stages)


@pytest.mark.parametrize(
  'changes',
  [
    {'noise_scale': tfp.distributions.LogNormal(-1.5, 0.5)},
    {'model': sampling_runs.make_model('relu'), 'num_chains': 1, 'x_test': sampling_runs.X_TEST},
  ],
  ids=['unknown noise', 'one chain, relu'],
)
def test_any_noise_activation_and_number_of_chains_is_warmed_up(changes):
  found = _warm_up(**{'noise_scale': 0.1, **changes})
  assert all(0.4 < a < 0.995 for a in found.blocks[-1].acceptance), found.table()


@pytest.mark.optimized
@pytest.mark.parametrize('changes', [sampling_runs.categorical(), sampling_runs.bernoulli()])
def test_chains_of_classes_are_warmed_up_and_come_back_from_the_cold(changes):
  # Of the posterior of three classes or two yes or no, ten data: weights are close to their prior.
  found = _warm_up(**{'noise_scale': 0.1, **changes}, num_warmup_steps=800)
  assert all(0.4 < a < 0.995 for a in found.blocks[-1].acceptance), found.table()
  coldest = [b for b in found.blocks if b.inverse_temperature > 1.0][-1]
  assert found.step_size > coldest.step_size, found.table()
  assert found.blocks[-1].log_likelihood < coldest.log_likelihood - 1.0, found.table()
  assert all(np.mean(p**2) < 3.0 for p in found.state)


def test_a_seed_decides_everything_and_another_one_differs():
  again, other = (_warm_up_with(seed=seed, sampler='rotation') for seed in (1, 2))
  first = _warmed_up()
  assert first.step_size == again.step_size != other.step_size
  assert first.table() == again.table()
  for a, b, c in zip(first.state, again.state, other.state, strict=True):
    np.testing.assert_array_equal(a, b)
    assert np.all(a != c)


def test_in_the_prior_transitions_are_quarter_turns():
  # With huge noise phi is N(0, I): rotation is exact, and any angle is accepted.
  posterior = toys.tiny_posterior(noise_scale=1e3)
  found = tfr.warm_up(posterior, num_warmup_steps=BUDGET, progress=False)
  assert found.step_size == math.pi / 2 and found.num_integrator_steps == 1
  assert found.damping == 1.0


def test_given_settings_are_kept():
  found = _warm_up(num_integrator_steps=3, damping=0.7)
  assert (found.num_integrator_steps, found.damping) == (3, 0.7)
  assert {b.num_integrator_steps for b in found.blocks if b.stage != 'first step'} == {3}
  assert {b.damping for b in found.blocks} == {0.7}


@pytest.mark.parametrize(
  ('step_size', 'steps', 'expected'),
  [(0.1, 1, 1 - math.exp(-0.2)), (0.1, 5, 1 - math.exp(-1.0)), (0.2, 8, 1.0)],
)
def test_damping_goes_with_the_length(step_size, steps, expected):
  assert warmup.default_damping(step_size, steps) == pytest.approx(expected)


def _planner(
  log_likelihoods=None, acceptance_fn=None, budget=2000, name='rotation', longer_fn=None
):
  """A planner of pretended chains, and the list of blocks that it asks for.

  Args:
    log_likelihoods: Function of the numbers of the transitions `[s, 1]`; the mean of each chain.
    acceptance_fn: Function of `KernelSettings`; returns what each of the chains accepts.
    budget: Integer.
    name: Of the sampler.
    longer_fn: Function of a stage; by which factor its steps are longer for a gradient, with a map
      on every layer that is to be chosen; None for no such map.
  """
  rng = np.random.default_rng(0)
  asked = []

  def run_block(stage, settings, num_transitions):
    before = sum(n for _, _, n in asked)
    asked.append((stage, settings, num_transitions))
    scale = 1.0 if longer_fn is None else longer_fn(stage) * planner._sampler.num_stages

    def acceptance_at(step_size):
      return acceptance_fn(settings._replace(step_size=step_size / scale))

    acceptance = acceptance_at(float(settings.step_size))
    if settings.num_adaptation_steps:  # dual averaging finds 0.7
      step_size = float(settings.step_size)
      while np.mean(acceptance_at(step_size)) < 0.7:
        step_size *= 0.9
    else:
      step_size = float(settings.step_size)
    times = before + np.arange(num_transitions)[:, np.newaxis]
    level = np.zeros(4) if log_likelihoods is None else log_likelihoods(times, settings)
    noise = rng.normal(size=(num_transitions, 4)) * (np.asarray(acceptance) > 0)
    return {
      'acceptance': np.tile(acceptance, (num_transitions, 1)),
      'log_likelihood': level + noise,
      'log_prob': noise,
      'hidden': rng.normal(size=(num_transitions, 4, 8)),
    }, step_size

  sampler = arriving = tfr.make_sampler(toys.tiny_posterior(), name)
  if longer_fn is not None:
    sampler = tfr.make_sampler(toys.tiny_posterior(), name, layer_regularizer=10.0)
  planner = planner_lib.Planner(
    sampler, budget, run_block, arriving=arriving, is_open=longer_fn is not None
  )
  return planner, asked


def _smooth(settings):
  return np.exp(-((float(settings.step_size) / 0.3) ** 2)) * np.ones(4)


def test_the_first_step_is_halved_until_every_chain_moves():
  def acceptance(settings):
    return np.array([1.0, 1.0, 1.0, float(settings.step_size < 0.02)])

  planner, asked = _planner(acceptance_fn=acceptance)
  planner._find_first_step_size()
  steps = [float(s.step_size) for _, s, _ in asked]
  assert steps == [0.1, 0.05, 0.025, 0.0125] and planner._step_size == 0.0125


def test_the_first_step_is_doubled_while_every_chain_moves():
  planner, asked = _planner(acceptance_fn=_smooth)
  planner._find_first_step_size()
  assert [float(s.step_size) for _, s, _ in asked] == [0.1, 0.2, 0.4]
  assert planner._step_size == 0.2


@pytest.mark.parametrize(('longer', 'is_kept'), [(2.5, True), (1.5, False)])
def test_a_map_on_every_layer_stays_where_steps_are_twice_as_long(longer, is_kept):
  with_map = ('placing', 'measuring', 'adapting', 'check') if is_kept else ('placing',)
  planner, asked = _planner(
    acceptance_fn=_smooth, longer_fn=lambda stage: longer if stage in with_map else 1.0
  )
  found = planner.run()
  stages = list(dict.fromkeys(stage for stage, _, _ in asked))
  assert stages[:4] == ['first step', 'settling', 'cold', 'placing']
  assert ('removing' in stages) == (not is_kept)
  assert found.layer_regularizer == ([10.0] if is_kept else None)
  # Steps of 0.18 are accepted at 0.7 without the map, and have three gradients each with it.
  assert found.step_size == pytest.approx(0.18 * (3 * longer if is_kept else 1.0), rel=0.25)
  assert found.num_gradients <= 1.3 * 2000
  num_gradients = [
    (3 if stage in with_map else 1) * s.num_integrator_steps * n + 1 for stage, s, n in asked
  ]
  assert found.num_gradients == sum(num_gradients)


def test_a_climb_is_noticed_and_given_time_within_the_budget():
  def climbing(times, settings):
    return 30.0 * times * np.ones(4)

  def level(times, settings):
    return np.zeros(4)

  ended = []
  for log_likelihoods in (level, climbing):
    planner, asked = _planner(log_likelihoods, _smooth)
    made = planner.run()
    ended.append(sum(stage == 'settling' for stage, *_ in asked))
    assert made.num_gradients < 1.2 * 2000
  assert ended[1] > ended[0]
  planner, _ = _planner(level, _smooth)
  assert planner.run().doubts == []


def test_a_climb_at_the_end_is_a_doubt(monkeypatch):
  planner, _ = _planner(acceptance_fn=_smooth)
  monkeypatch.setattr(planner, '_climbs', lambda: True)
  [doubt] = planner.run().doubts
  assert doubt.level == 'unsure' and 'still climbed' in doubt.text


def test_chains_that_settle_elsewhere_after_the_cold_are_a_doubt():
  was_cold = []

  def two_regions(times, settings):
    if settings.inverse_temperature > 1:
      was_cold.append(True)
    return np.array([0.0, 0.0, 100.0 if was_cold else 0.0, 0.0])

  planner, _ = _planner(two_regions, _smooth)
  [doubt] = planner.run().doubts
  assert 'chain 3 had settled' in doubt.text and 'regions' in doubt.text


def test_a_chain_out_of_bounds_makes_the_check_back_off():
  calls = []

  def acceptance(settings):
    # What dual averaging did not see: in the check one chain needs steps half as long.
    is_check = settings.num_adaptation_steps == 0 and settings.inverse_temperature == 1.0
    step_size = float(settings.step_size)
    calls.append(step_size)
    is_stiff = is_check and len(calls) > 20 and step_size > 0.1
    return np.array([0.8, 0.8, 0.8, 0.1 if is_stiff else 0.8])

  planner, asked = _planner(acceptance_fn=acceptance)
  planner._step_size = 0.15
  calls.extend([0.0] * 20)
  planner._run('adapting', 4, 8)
  planner._check(4)
  steps = [float(s.step_size) for stage, s, _ in asked if stage == 'check']
  assert len(steps) == 3 and steps[-1] == pytest.approx(0.15 * 0.49)


def test_a_chain_that_moves_with_no_step_is_an_error():
  planner, _ = _planner(acceptance_fn=lambda _: np.array([1.0, 0.0, 1.0, 1.0]))
  with pytest.raises(
    tfr.sampling.WarmupError, match='No step size makes every chain move.*chain 2'
  ):
    planner.run()


def test_a_chain_that_stands_still_in_every_check_is_an_error():
  planner, _ = _planner(acceptance_fn=lambda _: np.array([0.8, 0.8, 0.0, 0.8]))
  with pytest.raises(tfr.sampling.WarmupError, match='with which chain 3 moves'):
    planner._check(4)


def test_raw_units_raise_and_say_what_is_wrong():
  x = np.linspace(0, 1e30, 20, dtype=np.float32)[:, np.newaxis]
  model = tfr.models.fcn((1,), 1, width=8)
  with pytest.raises(
    tfr.sampling.WarmupError, match=r'not finite .*x has numbers up to 1e\+30.*standardize'
  ):
    tfr.sample_posterior(
      model, x, x / np.float32(1e30), noise_scale=0.1, standardize=False, progress=False
    )


@pytest.mark.parametrize('name', ['standard', 'auto'])
def test_no_chain_is_frozen(name):
  # The toy of which `standard` once froze at least one chain of six in four of seven seeds, so that
  # twelve chains would have passed once in five; with the default budget.
  data = tfr.data.load('toy')
  result = tfr.sample_posterior(
    tfr.models.fcn((1,), 1, width=32, depth=2),
    data.x_train,
    data.y_train,
    sampler=name,
    num_chains=12,
    num_results=20,
    num_burnin_steps=0,  # from where warm-up ends
    num_kept_draws=0,
    seed=1,
    progress=False,
    noise_scale=0.1,
  )
  acceptance = np.mean(result.trace['acceptance'], axis=0)
  assert np.all((acceptance > 0.4) & (acceptance < 0.99)), acceptance
  assert np.all(np.ptp(result.trace['log_likelihood'], axis=0) > 0)


def _autoregressive(rng, rho, shape):
  chain = rng.normal(size=shape)
  for i in range(1, len(chain)):
    chain[i] = rho * chain[i - 1] + np.sqrt(1 - rho**2) * chain[i]
  return chain


def test_rates_of_known_variance_see_what_a_run_has_not_seen():
  rng = np.random.default_rng(0)
  fast = rng.normal(size=(200, 4, 20))
  slow = np.cumsum(0.05 * rng.normal(size=(200, 4, 20)), axis=0)
  a, b = rates_lib.mixing_rates([{'f': fast}, {'f': slow}], [1, 1], lag=1)
  assert a['f'] > 0.75 and b['f'] < 0.05, 'slow has its own small variance, and looks mixed by that'


def test_the_rate_of_an_autoregressive_chain():
  # The estimate of 80 chains has a relative deviation below 1 %.
  chain = _autoregressive(np.random.default_rng(1), 0.9, (2000, 4, 20))
  [rates] = rates_lib.mixing_rates([{'f': chain}], [3], lag=15)
  rho = 0.9**5
  assert rates['f'] == pytest.approx((1 - rho) / (1 + rho) / 15, rel=0.05)


def test_what_decays_slowly_counts():
  rng = np.random.default_rng(3)
  chain = rng.normal(size=(500, 4, 20)) + _autoregressive(rng, 0.99, (500, 4, 20))
  [rates] = rates_lib.mixing_rates([{'f': chain}], [1], lag=1)
  assert rates['f'] < 0.15, 'half of the variance is gone after one entry, and would give 0.33'


@pytest.mark.parametrize('short_rate, is_better', [(0.057, False), (0.12, True)])
def test_short_runs_tell_which_length_mixes_better(short_rate, is_better):
  # Four chains of 105 gradients each, in transitions of five steps with 84 effective samples per
  # 1,000 gradients of seven quantities, and in single steps: with 57, as on 64 images of CIFAR-10
  # at width 512, and with 120. The least of the rates would take single steps in 0.15 of the first.
  rng = np.random.default_rng(4)
  num_tries = 400
  long = _autoregressive(rng, (1 - 0.42) / (1 + 0.42), (21, 4 * num_tries, 7))
  short = _autoregressive(rng, (1 - short_rate) / (1 + short_rate), (105, 4 * num_tries, 7))
  num_short = 0
  for i in range(num_tries):
    traces = [{'squared_norms': run[:, 4 * i : 4 * i + 4]} for run in (long, short)]
    by_long, by_short = map(rates_lib.overall_rate, rates_lib.mixing_rates(traces, [5, 1], lag=5))
    num_short += by_short > 1.2 * by_long
  # Shares in simulations: 0.01 and 0.8. The bounds fail by chance with a probability below 1e-6.
  assert num_short >= 0.68 * num_tries if is_better else num_short <= 0.05 * num_tries


def test_layers_are_judged_one_by_one():
  norms = np.random.default_rng(2).normal(size=(100, 4, 2))
  norms[:, :, 1] = np.cumsum(norms[:, :, 1], axis=0)
  [rates] = rates_lib.mixing_rates([{'squared_norms': norms}], [1], lag=1)
  assert rates['squared norm 1'] > 5 * rates['squared norm 2']


def test_the_adaptive_kernel_is_pulled_down_by_one_stuck_chain():
  # Three chains accept everything, one nothing, at any step size: the step size falls.
  class Pretended:
    is_calibrated = has_damping = True
    max_step_size = math.inf
    kind = 'corrected'

    def kernel_fn(self, step_size, damping, num_steps, inverse_temperature, is_calibrated):
      del num_steps, inverse_temperature, is_calibrated
      return tfr.mcmc.UnderdampedLangevin(self._log_prob, step_size, damping)

    def _log_prob(self, x):
      return tf.reduce_sum(tf.where(tf.range(4) == 3, math.nan, 0.0) * x, axis=-1) * x[..., 0]

  kernel = warmup.adaptive_kernel(Pretended())
  state = tf.ones([4, 4])
  settings = tfr.mcmc.KernelSettings(step_size=0.1, num_adaptation_steps=20)
  results = kernel.bootstrap_with(state, jittered.as_tensors(settings, tf.float32))
  for i in range(5):
    _, results = kernel.one_step(state, results, seed=[0, i])
  assert results.inner_results.new_step_size < 0.1


def test_what_was_found_can_be_saved():
  found = _warmed_up()
  loaded = warmup.Warmup.from_dict(found.to_dict())
  assert loaded.state is None and loaded.table() == found.table()
  assert loaded[:4] == found[:4]
