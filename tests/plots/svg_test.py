"""Plots for a page: self-contained, in its colors, with text that says what they show."""

import re

from tfp_reprior.plots import drawing, pictures, svg


def _draw_line(ax):
  ax.plot([0.001, 0.002], [1.23456, 2], color=drawing.COLORS[0])
  ax.set(xlabel='time', ylabel='money')


def _plot(title='Title'):
  legend = [('line', drawing.COLORS[0], 'mine')]
  return svg.plot(pictures.Picture(title, _draw_line, legend, 'caption'))


def test_a_plot_says_what_it_shows():
  plot = _plot()
  assert plot.label == 'Title: money against time. Shown: mine'
  assert (plot.title, plot.caption, plot.legend) == ('Title', 'caption', [('line', 'c0', 'mine')])
  assert re.fullmatch(r'0 0 [\d.]+ [\d.]+', plot.view_box)


def test_the_content_is_what_an_element_holds():
  content = _plot().content
  assert '<svg' not in content and '</svg' not in content and '<?xml' not in content
  assert content.count('<g') == content.count('</g>') > 0


def test_colors_are_variables():
  content = _plot().content
  assert 'var(--c0)' in content and 'var(--muted)' in content
  assert not re.search('#[0-9a-f]{6}', content)


def test_paths_are_rounded_and_tick_labels_are_not(tick_labels):
  plot = _plot()
  assert '0.0012' in tick_labels(plot)
  assert not re.search(r' d="[^"]*\.\d\d', plot.content)


def test_names_in_different_plots_differ():
  first, second = (set(re.findall(r'\bid="([^"]*)"', _plot(title).content)) for title in 'ab')
  assert first and not first & second
  assert set(re.findall(r'(?:url\(#|href="#)([^")]*)', _plot('a').content)) <= first
