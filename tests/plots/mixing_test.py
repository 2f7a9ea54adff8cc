"""Plots of chains: every number that they were given, for chains of any shape."""

import types

import numpy as np
import pytest

import tfp_reprior as tfr
from tfp_reprior.plots import drawing, mixing, svg


def _noise(*shape):
  return np.random.default_rng(3).standard_normal(shape).astype(np.float32)


def _texts(plot):
  return [text for _, _, text in plot.legend]


def test_medians_are_in_the_legend():
  groups = [
    ('first', np.array([1.0, 2.0, 30.0])),
    ('absent', ()),
    ('third', np.array([4.0, np.nan])),
    ('one number', np.array([5.0])),
  ]
  plot = mixing.effective_sample_sizes('ESS', groups, 'step')
  plot = svg.plot(plot)
  # The third keeps its color, whether or not there is a second.
  assert plot.legend == [('line', 'c0', 'first (median 2)'), ('line', 'c2', 'third (median 4)')]
  assert 'var(--c2)' in plot.content and 'var(--c1)' not in plot.content


def test_chains_that_did_not_move_have_no_plot():
  groups = [('a', np.full(3, np.nan)), ('b', ())]
  assert mixing.effective_sample_sizes('ESS', groups, 'second') is None


def test_r_hat_is_drawn_as_the_verdict_has_it(tick_labels):
  draws = _noise(50, 2, 3) + np.array([0, 2])[:, np.newaxis]
  plot = mixing.r_hat('R-hat', [('first', None, 1), ('second', draws, 1)])
  expected = np.max(tfr.diagnostics.r_hat(draws))
  assert _texts(plot) == [f'second ({expected:.3f})', 'good: 1.01']
  assert {'1.01', '1.1', '2'} <= set(tick_labels(svg.plot(plot)))


def test_chains_that_stand_still_have_an_r_hat_that_can_be_drawn():
  draws = np.ones([30, 2, 3]) + np.arange(2)[:, np.newaxis]
  plot = mixing.r_hat('R-hat', [('stuck', draws, 1)])
  assert 'over 100' in _texts(plot)[0] and svg.plot(plot).content


@pytest.mark.parametrize('shape', [(5, 1, 2), (5, 2, 1), (3000, 20, 2)])
def test_chains_of_any_shape_are_drawn(shape):
  traces, autocorrelations = mixing.projections('weights', _noise(*shape), np.arange(shape[2]), 10)
  one = shape[2] == 1
  expected = ['weights'] if one else ['slowest projection', 'typical projection']
  assert _texts(autocorrelations) == expected
  assert ('14 not shown' in _texts(traces)) == (shape[1] == 20)
  assert ('smallest' in traces.caption) != one
  assert all(len(svg.plot(plot).content) < 250e3 for plot in (traces, autocorrelations))


def _result(s, c, **attributes):
  trace = {'acceptance': np.full([s, c], 0.9), 'energy': _noise(s, c)}
  judged = tfr.diagnostics.judge({**trace, 'log_likelihood': _noise(s, c)})
  result = types.SimpleNamespace(trace=trace, settings={'thinning': 10}, num_chains=c)
  result.warmup_trace, result.verdict = {}, judged
  return types.SimpleNamespace(**vars(result) | attributes)


@pytest.mark.parametrize('shape', [(1, 1), (5, 2), (3000, 20)])
def test_histories_of_any_shape_are_drawn(shape):
  result = _result(*shape)
  energy = mixing.energy(result)
  for picture in (energy, mixing.acceptance(result)):
    assert len(svg.plot(picture).content) < 250e3
  assert ('14 not shown' in _texts(energy)) == (shape[1] == 20)


def test_warm_up_lies_left_of_zero(tick_labels):
  energy = _noise(20, 2)
  energy[0] = 1e6  # must not squeeze the rest
  # Transitions of different lengths, 400 steps in all.
  warmup = {'acceptance': np.ones([20, 2]), 'energy': energy, 'steps': np.repeat([10, 30], 10)}
  result = _result(40, 2, warmup_trace=warmup)
  for picture in (mixing.acceptance(result), mixing.energy(result)):
    labels = tick_labels(svg.plot(picture))
    assert '400' in labels and '\N{MINUS SIGN}400' in labels
    assert not any('600' in text or '000' in text for text in labels)


def test_a_guilty_chain_is_named_and_colored():
  trace = {'acceptance': np.full([60, 20], 0.9), 'log_likelihood': _noise(60, 20)}
  trace['log_likelihood'][:, 17] = 1.0
  result = _result(60, 20, verdict=tfr.diagnostics.judge(trace))
  assert result.verdict.guilty_chains == [17]
  for picture in (mixing.energy(result), mixing.acceptance(result)):
    assert ('line', drawing.FAULT, 'chain 18, at fault') in picture.legend
    assert 'var(--fault)' in svg.plot(picture).content
  assert ('line', drawing.FAULT, 'chain 18, at fault') not in mixing.energy(_result(60, 20)).legend


def test_energy_has_its_verdict():
  levels = {'Good': 0.0, 'Bad': 3.0}
  for word, apart in levels.items():
    trace = {'acceptance': np.full([400, 4], 0.9), 'log_likelihood': _noise(400, 4)}
    trace['energy'] = _noise(400, 4) + apart * np.arange(4)
    result = _result(400, 4, trace=trace, verdict=tfr.diagnostics.judge(trace))
    assert mixing.energy(result).caption.startswith(f'{word}: ')
