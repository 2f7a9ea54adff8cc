"""The verdict: each thing that can go wrong is named, and what is good is not."""

import numpy as np
import pytest

import tfp_reprior as tfr

NUM_DRAWS = 400


def _trace(seed=0, num_draws=NUM_DRAWS, num_chains=4, rho=0.0):
  """The trace of chains that mixed: independent draws, or autoregressive ones."""
  rng = np.random.default_rng(seed)

  def draws(*shape):
    values = rng.normal(size=(num_draws, num_chains, *shape))
    for i in range(1, num_draws):
      values[i] = rho * values[i - 1] + np.sqrt(1 - rho**2) * values[i]
    return values

  return {
    'acceptance': np.full((num_draws, num_chains), 0.8),
    'log_likelihood': draws(),
    'log_prob': draws(),
    'energy': draws(),
    'theta': draws(5),
    'hidden': draws(5),
    'f': draws(5),
    'squared_norms': draws(3),
  }


def _changed(fn, names=('log_likelihood', 'log_prob', 'energy', 'theta', 'hidden', 'f'), **kwargs):
  """A trace in which `fn` changed some quantities, in place."""
  trace = _trace(**kwargs)
  for name in names:
    fn(trace[name])
  return trace


def _freeze(x):
  x[:, 2] = x[0, 2]


def _freeze_late(x):
  x[150:, 1] = x[150, 1]


def _break(x):
  x[300:, 3] = np.nan


def _separate(x):
  x[:, 1] += 4.0


def _two_and_two(x):
  x[:, :2] += 4.0


def _drift(x):
  x += np.linspace(0, 4, len(x)).reshape(-1, *[1] * (x.ndim - 1))


def test_chains_that_mixed_are_good():
  # Of 20 seeds each: R-hat of 1,600 independent draws, the largest of 21 quantities, is 1.005
  # with a deviation of 0.002, and 400 effective samples are far away.
  for seed in range(20):
    verdict = tfr.diagnostics.judge(_trace(seed, num_draws=1000))
    assert verdict.level == 'good' and verdict.reasons == [] and verdict.advice == []
    assert str(verdict) == 'The chains mixed.'


@pytest.mark.parametrize(
  ('fn', 'text', 'not_advised'),
  [
    (_freeze, 'Chain 3 never moved.', 'run longer'),
    (_freeze_late, 'Chain 2 stood still from draw 151 to 400 of 400.', 'run longer'),
    (_break, 'Chain 4 left the range of floating point numbers.', 'run longer'),
    (_separate, 'Chain 2 stays apart from the others', 'smaller step_size'),
    (_two_and_two, 'The chains stay apart', 'smaller step_size'),
    (_drift, 'The chains still drift', 'smaller step_size'),
  ],
)
def test_what_is_wrong_is_named_and_the_advice_fits(fn, text, not_advised):
  for seed in range(5):
    verdict = tfr.diagnostics.judge(_changed(fn, seed=seed))
    assert verdict.level == 'failed', str(verdict)
    assert text in str(verdict)
    assert not_advised not in ' '.join(verdict.advice).lower()
    assert verdict.headline.startswith('Sampling failed')


def test_a_single_chain_that_drifts_is_seen_too():
  trace = _changed(_drift, num_chains=1)
  verdict = tfr.diagnostics.judge(trace)
  assert verdict.level == 'failed' and 'The chain still drifts' in str(verdict)
  assert tfr.diagnostics.judge(_trace(num_chains=1, num_draws=2000)).level == 'good'


def test_slow_chains_are_called_slow():
  # Which of 24 quantities is worst is chance, and so is what it looks like: mostly slow.
  verdicts = [tfr.diagnostics.judge(_trace(seed, rho=0.97, num_draws=300)) for seed in range(8)]
  assert all(v.level == 'failed' for v in verdicts)
  slow = [v for v in verdicts if 'The chains are slow' in str(v)]
  assert len(slow) >= 4
  assert all('longer (num_results)' in str(v) for v in slow)


def test_energy_alone_is_enough_to_fail():
  # As with little damping, when linear projections mix and nothing else does.
  trace = _changed(_separate, names=('energy',))
  verdict = tfr.diagnostics.judge(trace)
  assert verdict.level == 'failed' and 'energy' in str(verdict)
  assert verdict.mixing['energy'].r_hat > 1.2 and verdict.mixing['theta'].r_hat < 1.05


def test_weights_may_disagree_where_outputs_do_not():
  verdict = tfr.diagnostics.judge(_changed(_separate, names=('hidden', 'theta')))
  assert verdict.level == 'unsure'
  assert 'Rely on predictions, not on averages of weights.' in ' '.join(verdict.advice)
  # Without test inputs nothing says that outputs agree.
  trace = _changed(_separate, names=('hidden', 'theta'))
  del trace['f']
  assert tfr.diagnostics.judge(trace).level == 'failed'


def test_runs_with_few_effective_samples_are_unsure():
  verdict = tfr.diagnostics.judge(_trace(rho=0.8))
  assert verdict.level == 'unsure'
  assert 'effective samples of 1,600 draws; 400 are good' in str(verdict)
  assert 'run longer (num_results)' in str(verdict)


@pytest.mark.parametrize('num_draws', [1, 3, 10, 40])
def test_short_runs_are_not_called_failures(num_draws):
  for seed in range(10):
    assert tfr.diagnostics.judge(_trace(seed, num_draws=num_draws)).level == 'unsure'


def test_short_runs_that_never_moved_are():
  verdict = tfr.diagnostics.judge(_changed(_freeze, num_draws=10))
  assert verdict.level == 'failed' and 'Chain 3 never moved.' in str(verdict)


@pytest.mark.parametrize(
  ('acceptance', 'text'),
  [(0.1, 'Chain 1 accepts only 0.100'), (0.999, 'Chain 1 accepts as much as 0.999')],
)
def test_acceptance_out_of_bounds_is_told(acceptance, text):
  trace = _trace(num_draws=1000)
  trace['acceptance'][:, 0] = acceptance
  verdict = tfr.diagnostics.judge(trace, acceptance_bounds=(0.4, 0.99))
  assert verdict.level == 'unsure' and text in str(verdict)


def test_interrupted_runs_say_so():
  verdict = tfr.diagnostics.judge(_trace(num_draws=1000), num_planned=2000)
  assert verdict.level == 'unsure'
  assert 'interrupted after 1,000 of 2,000 draws' in str(verdict)


def test_the_worst_reason_comes_first_and_doubts_count():
  doubt = tfr.diagnostics.Reason('unsure', 'A doubt.', 'Think.')
  verdict = tfr.diagnostics.judge(_changed(_freeze), doubts=[doubt])
  assert [r.level for r in verdict.reasons] == ['failed', 'unsure']
  assert tfr.diagnostics.judge(_trace(num_draws=1000), doubts=[doubt]).level == 'unsure'


def test_advice_is_not_repeated():
  doubt = tfr.diagnostics.Reason('unsure', 'A.', 'Warm up longer (num_warmup_steps).')
  verdict = tfr.diagnostics.judge(_changed(_drift), doubts=[doubt])
  assert str(verdict).count('Warm up longer') == 1


def test_measures_are_the_worst_of_each_kind():
  trace = {'f': np.random.default_rng(1).normal(size=(100, 4, 3)), 'other': np.zeros((100, 4))}
  [(name, mixing)] = tfr.diagnostics.measure(trace).items()
  assert name == 'f'
  sizes = tfr.diagnostics.bulk_effective_sample_size(trace['f'])
  assert (mixing.bulk_ess, mixing.mean_ess) == (np.min(sizes), pytest.approx(np.mean(sizes)))
  assert mixing.r_hat == np.max(tfr.diagnostics.r_hat(trace['f']))
  assert mixing.tail_ess == np.min(tfr.diagnostics.tail_effective_sample_size(trace['f']))
