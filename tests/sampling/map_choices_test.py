"""How a run chooses its map, from traces whose autocorrelation is known."""

import numpy as np
import pytest
import sampling_runs

import tfp_reprior as tfr
from tfp_reprior.sampling import map_choices, settings, warmup

TUNED = settings.Settings(layer_regularizer='tuned')
NUM_STEPS = 3


def _warmed(gradients_per_draw, num_transitions=300, is_measured=True, seed=1):
  """A `Warmup` and its trace; values forget themselves in so many gradients, by a factor of e."""
  rng = np.random.default_rng(seed)
  keep = np.exp(-NUM_STEPS / gradients_per_draw)
  values = [rng.normal(size=[4, 8])]
  for _ in range(num_transitions):
    values.append(keep * values[-1] + np.sqrt(1 - keep**2) * rng.normal(size=[4, 8]))
  # Before it, a block of four single steps that have other values.
  trace = {name: np.concatenate([np.full([4, 4, 8], 9.0), values[1:]]) for name in ('hidden', 'f')}
  trace['steps'] = np.array([1] * 4 + [NUM_STEPS] * num_transitions)
  blocks = [
    warmup.Block('first step', 0.1, 0.5, 1, 1.0, 4, [0.7] * 4, 0.0),
    warmup.Block(
      'measuring' if is_measured else 'check', 0.1, 0.5, NUM_STEPS, 1.0, num_transitions, [0.7], 0.0
    ),
  ]
  return warmup.Warmup(0.1, 0.5, NUM_STEPS, 1000, blocks, []), trace


# Four chains of eight quantities and 300 transitions: a rate is known to about a tenth, so that
# rates that differ from the threshold of 1.5 by 1.5 are told apart in all but one of 10,000 cases.
@pytest.mark.parametrize('every, best', [(20.0, 1), (45.0, 0), (90.0, 0)])
def test_a_map_on_every_layer_must_be_worth_its_time(every, best):
  warmups, traces = zip(_warmed(45.0), _warmed(every, seed=2), strict=True)
  assert map_choices.fastest(TUNED, warmups, traces) == best


def test_what_was_not_measured_is_not_chosen():
  warmups, traces = zip(_warmed(45.0), _warmed(10.0, is_measured=False), strict=True)
  assert map_choices.fastest(TUNED, warmups, traces) == 0


def test_candidates_are_maps_with_all_else_equal():
  plain, every = map_choices.candidates(TUNED)
  assert plain == settings.Settings() and every == settings.Settings(layer_regularizer=10.0)
  regularizers = map_choices.candidates(settings.Settings(regularizer='tuned'))
  assert [s.regularizer for s in regularizers] == ['noise', 'n*noise', np.inf]
  assert map_choices.candidates(plain) == [plain]


@pytest.mark.filterwarnings('ignore::tfp_reprior.diagnostics.SamplingWarning')
def test_a_run_samples_with_the_map_that_it_chose(monkeypatch):
  seen = []

  def second(_, warmups, traces):
    seen.extend(zip(warmups, traces, strict=True))
    return 1

  monkeypatch.setattr(map_choices, 'fastest', second)
  result = tfr.sample_posterior(
    sampling_runs.make_model(),
    sampling_runs.X,
    sampling_runs.Y,
    **{
      **sampling_runs.SETTINGS,
      'step_size': None,
      'num_burnin_steps': 0,
      'num_results': 4,
      'num_warmup_steps': 100,
      'layer_regularizer': 'tuned',
    },
  )
  assert result.settings['layer_regularizer'] == result.warmup.layer_regularizer == [10.0]
  assert result.anchor is not None
  assert [w.layer_regularizer for w, _ in seen] == [None, [10.0]]
  for found, trace in seen:
    assert sum(b.num_transitions for b in found.blocks) == len(trace['steps'])
  # Chains arrive as with the readout map, up to the rounding of the start, and get the other there.
  (plain, _), (every, _) = seen
  stages = [b.stage for b in every.blocks]
  first = stages.index('placing')
  assert 'settling' in stages[:first] and stages[-1] == 'check'
  assert set(stages[first:]) <= {'placing', 'measuring', 'adapting', 'check'}
  for block, other in zip(every.blocks[:first], plain.blocks, strict=False):
    assert block.log_likelihood == pytest.approx(other.log_likelihood, rel=1e-3)
