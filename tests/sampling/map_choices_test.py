"""How a run chooses its map."""

import math

import numpy as np
import pytest
import sampling_runs

import tfp_reprior as tfr
from tfp_reprior.sampling import map_choices, planner, settings

X = np.linspace(-1, 1, 40, dtype=np.float32)[:, np.newaxis]


def test_candidates_are_maps_with_all_else_equal():
  regularizers = map_choices.candidates(settings.Settings(regularizer='tuned'))
  assert [s.regularizer for s in regularizers] == ['noise', 'n*noise', np.inf]
  plain = settings.Settings()
  assert map_choices.candidates(plain) == [plain]


@pytest.mark.parametrize(
  ('changes', 'expected'),
  [
    ({}, True),
    (dict(depth=1), False),  # one layer, whose inputs are constant
    (dict(width=200), False),
    (dict(n=3), False),
    (dict(num_warmup_steps=700), False),
    (dict(num_warmup_steps=700, layer_regularizer='tuned'), True),
    (dict(layer_regularizer=math.inf), False),
    (dict(layer_regularizer=3.0), False),
    (dict(sampler='rotation'), False),
    (dict(step_size=0.1), False),
    (dict(regularizer='n*noise'), False),
    (dict(chunk_size=5), False),
  ],
)
def test_a_map_on_every_layer_is_tried_where_it_may_pay(changes, expected):
  width, depth, n = (changes.get(k, v) for k, v in dict(width=8, depth=2, n=40).items())
  given = {k: v for k, v in changes.items() if k not in ('width', 'depth', 'n', 'chunk_size')}
  model = tfr.models.fcn((1,), 1, width, depth)
  chunk_size = changes.get('chunk_size')
  posterior = tfr.Posterior(model, X[:n], np.sin(X[:n]), chunk_size=chunk_size)
  chosen = settings.Settings(**given)
  sampler = tfr.make_sampler(
    posterior,
    chosen.sampler,
    regularizer=chosen.regularizer,
    layer_regularizer=chosen.known_layer_regularizer,
  )
  assert map_choices.tries_layers(chosen, sampler) == expected


def test_classes_have_no_map_on_every_layer_unless_asked():
  model, categorical = tfr.models.fcn((1,), 2, width=8, depth=2), tfr.likelihoods.Categorical()
  posterior = tfr.Posterior(model, X, (X[:, 0] > 0).astype(int), likelihood=categorical)
  assert not map_choices.tries_layers(settings.Settings(), tfr.make_sampler(posterior))


@pytest.mark.filterwarnings('ignore::tfp_reprior.diagnostics.SamplingWarning')
@pytest.mark.parametrize('is_kept', [True, False])
def test_a_run_samples_with_the_map_that_it_chose(is_kept, tmp_path, monkeypatch):
  monkeypatch.setattr(planner, '_LONGER', 1e-9 if is_kept else 1e9)
  changes = dict(
    step_size=None,
    num_burnin_steps=0,
    num_results=4,
    num_warmup_steps=100,
    layer_regularizer='tuned',
    run_dir=tmp_path,
  )
  with sampling_runs.shared_graphs('tuned'):
    result = tfr.sample_posterior(
      sampling_runs.make_model(),
      sampling_runs.X,
      sampling_runs.Y,
      **{**sampling_runs.SETTINGS, **changes},
    )
  expected = [10.0] if is_kept else None
  assert result.settings['layer_regularizer'] == result.warmup.layer_regularizer == expected
  assert (result.anchor is not None) == is_kept
  assert result.settings['num_stages'] == (3 if is_kept else 1)
  blocks = result.warmup.blocks
  stages = [b.stage for b in blocks]
  assert ('removing' in stages) == (not is_kept)
  assert sum(b.num_transitions for b in blocks) == len(result.warmup_trace['steps'])
  mapped = {'placing', *(stages if is_kept else [])} - {'first step', 'settling', 'cold'}
  num_gradients = [
    (3 if b.stage in mapped else 1) * b.num_integrator_steps * b.num_transitions for b in blocks
  ]
  assert np.sum(result.warmup_trace['steps']) == sum(num_gradients)
  assert result.warmup.num_gradients == sum(num_gradients) + len(blocks)
  # Weights stay where they are when a map is put on or taken off: so does the log-likelihood.
  log_likelihood = result.warmup_trace['log_likelihood'].mean(axis=1)
  ends = np.cumsum([b.num_transitions for b in blocks])
  spread = np.abs(np.diff(log_likelihood)).max()
  for stage in {'placing', 'removing'} & set(stages):
    first = ends[stages.index(stage) - 1]
    assert abs(log_likelihood[first] - log_likelihood[first - 1]) <= spread
