"""The style of plots, whatever the user's, and axes with plain numbers."""

import re
import sys

import matplotlib
import numpy as np
import pytest

from tfp_reprior.plots import drawing, pictures, svg


def _draw_line(ax):
  ax.plot([1, 2], [3, 4], label='mine', **drawing.line_style(0))


def _plot():
  return svg.plot(pictures.Picture('title', _draw_line, [], ''))


def test_settings_of_matplotlib_are_neither_used_nor_changed():
  expected = _plot()
  with matplotlib.rc_context({'font.size': 40, 'axes.facecolor': 'red'}):
    before = dict(matplotlib.rcParams)
    assert _plot() == expected
    assert dict(matplotlib.rcParams) == before


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch):
  monkeypatch.setitem(sys.modules, 'matplotlib', None)
  with pytest.raises(ImportError, match=re.escape('pip install tfp-reprior[plot]')):
    _plot()


@pytest.mark.parametrize(
  'values, expected',
  [([1.0, 2.0], (0.98, 2.02)), ([2.0, np.nan], (1.96, 2.04)), ([], (-0.02, 1.02))],
)
def test_limits_hold_all_finite_values(values, expected):
  np.testing.assert_allclose(drawing.limits(np.array(values)), expected)


@pytest.mark.parametrize('high, label', [(0.3, '0.05'), (1e3, '100')])
def test_logarithmic_axes_have_plain_numbers(high, label, tick_labels):
  def draw_fn(ax):
    ax.plot([0.01, high], [0, 1])
    drawing.log_scale(ax, 'x', [0.01, high])

  labels = tick_labels(svg.plot(pictures.Picture('a', draw_fn, [], '')))
  assert label in labels and not any('10^' in text or 'mathdefault' in text for text in labels)


def test_both_axes_are_logarithmic_with_ticks_at_the_data(tick_labels):
  def draw_fn(ax):
    drawing.curve_with_band(ax, [3, 7], [1.0, 2.0], [0.5, 1.0], [2.0, 4.0], color='C0')
    drawing.log_log(ax, [7, 3], [1.0, 2.0])

  assert {'3', '7', '1', '2'} <= set(tick_labels(svg.plot(pictures.Picture('a', draw_fn, [], ''))))


def test_numbers_at_an_axis_leave_each_other_room():
  widths = [32, 64, 128, 384, 512, 768, 1024]
  with drawing.canvas(4, 2) as figure:
    ax = figure.subplots()
    drawing.log_log(ax, widths, [1.0, 2.0])
    assert ax.get_xticks().tolist() == widths
    texts = [label.get_text() for label in ax.get_xticklabels()]
    assert texts == ['32', '64', '128', '', '512', '', '1024']


def test_panels_share_one_legend():
  with drawing.canvas(4, 2) as figure:
    for ax in figure.subplots(1, 2):
      _draw_line(ax)
    drawing.legend(figure)
    [legend] = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ['mine']


def test_samplers_have_the_style_of_where_they_move():
  for name in ('standard', 'uncalibrated_standard', 'nuts_standard'):
    assert drawing.sampler_style(name) == drawing.STANDARD
  for name in ('rotation', 'uncalibrated_langevin', 'nuts_repriorised'):
    assert drawing.sampler_style(name) == drawing.REPRIORISED
  for name in ('auto', 'auto@1', 'auto:inf@2'):
    assert drawing.sampler_style(name) == drawing.DATA_SPACE
  samplers = (drawing.STANDARD, drawing.REPRIORISED, drawing.DATA_SPACE)
  assert not {style['color'] for style in samplers} & set(drawing.QUANTITY_COLORS)
