"""Plots of chains: every number that they were given, for chains of any shape."""

import types

import numpy as np
import pytest

from tfp_reprior.plots import mixing


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
  # The third keeps its color, whether or not there is a second.
  assert plot.legend == [('line', 'c0', 'first (median 2)'), ('line', 'c2', 'third (median 4)')]
  assert 'var(--c2)' in plot.content and 'var(--c1)' not in plot.content


def test_chains_that_did_not_move_have_no_plot():
  groups = [('a', np.full(3, np.nan)), ('b', ())]
  assert mixing.effective_sample_sizes('ESS', groups, 'second') is None


def test_the_last_r_hat_is_in_the_legend():
  draws = _noise(50, 2, 3)
  expected = draws.mean(axis=0).var(axis=0) / draws.var(axis=0).mean(axis=0)
  plot = mixing.r_hat('R-hat', [('first', None, 1), ('second', draws, 1)])
  assert _texts(plot) == [f'second ({expected.max():.3g} at the end)']


@pytest.mark.parametrize('shape', [(5, 1, 2), (5, 2, 1), (3000, 20, 2)])
def test_chains_of_any_shape_are_drawn(shape):
  traces, autocorrelations = mixing.projections('weights', _noise(*shape), np.arange(shape[2]), 10)
  one = shape[2] == 1
  expected = ['weights'] if one else ['slowest projection', 'typical projection']
  assert _texts(autocorrelations) == expected
  assert ('14 not shown' in _texts(traces)) == (shape[1] == 20)
  assert ('smallest' in traces.caption) != one
  assert all(len(plot.content) < 250e3 for plot in (traces, autocorrelations))


def _result(s, c, **attributes):
  trace = {'acceptance': np.full([s, c], 0.9), 'energy': _noise(s, c)}
  settings = {'thinning': 10}
  result = types.SimpleNamespace(trace=trace, settings=settings, num_chains=c, warmup_trace={})
  return types.SimpleNamespace(**vars(result) | attributes)


@pytest.mark.parametrize('shape', [(1, 1), (5, 2), (3000, 20)])
def test_histories_of_any_shape_are_drawn(shape):
  acceptance, energy = mixing.histories(_result(*shape))
  assert len(acceptance.content) < 250e3 and len(energy.content) < 250e3
  assert ('14 not shown' in _texts(energy)) == (shape[1] == 20)


def test_warm_up_lies_left_of_zero(tick_labels):
  energy = _noise(20, 2)
  energy[0] = 1e6  # must not squeeze the rest
  # Transitions of different lengths, 400 steps in all.
  warmup = {'acceptance': np.ones([20, 2]), 'energy': energy, 'steps': np.repeat([10, 30], 10)}
  for plot in mixing.histories(_result(40, 2, warmup_trace=warmup)):
    labels = tick_labels(plot)
    assert '400' in labels and '\N{MINUS SIGN}400' in labels
    assert not any('600' in text or '000' in text for text in labels)
