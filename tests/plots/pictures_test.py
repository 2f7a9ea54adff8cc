"""Pictures on axes of matplotlib: those of the user, or of a new figure."""

import matplotlib
import pytest
from matplotlib import figure, pyplot

from tfp_reprior.plots import drawing, pictures


def _draw_line(ax):
  ax.plot([1, 2], [3, 4])
  ax.set(xlabel='time')


PICTURE = pictures.Picture(
  'Title',
  _draw_line,
  [(kind, drawing.COLORS[0], kind) for kind in ('line', 'dash', 'dot', 'band')],
  'caption',
)


def test_axes_of_the_user_are_drawn_on():
  ax = figure.Figure().subplots()
  assert pictures.show(PICTURE, ax) is ax
  assert ax.get_title() == 'Title' and ax.get_xlabel() == 'time' and len(ax.lines) == 1
  assert [t.get_text() for t in ax.get_legend().get_texts()] == ['line', 'dash', 'dot', 'band']


def test_without_axes_there_is_a_new_figure_in_our_style():
  with matplotlib.rc_context({'backend': 'agg', 'axes.spines.top': True}):
    ax = pictures.show(PICTURE)
    assert ax.figure.number in pyplot.get_fignums() and not ax.spines['top'].get_visible()
    pyplot.close(ax.figure)


def test_several_rows_do_not_fit_one_pair_of_axes():
  with pytest.raises(ValueError, match='has one row. Received: Title'):
    pictures.show(PICTURE._replace(num_rows=2))


def test_keys_go_on_with_dashes_after_the_last_color():
  num_colors = len(drawing.COLORS)
  assert pictures.line_key(0, 'a') == ('line', drawing.COLORS[0], 'a')
  assert pictures.line_key(num_colors + 1, 'b') == ('dash', drawing.COLORS[1], 'b')
  assert drawing.line_style(num_colors + 1) == {'color': drawing.COLORS[1], 'linestyle': '--'}
