"""Drawings: self-contained, in the colors of the page, with every number that they were given."""

import re
import sys

import matplotlib
import numpy as np
import pytest

from tfp_reprior.report import drawing, measures, mixing_plots, prediction_plots, style
from tfp_reprior.sampling import prediction as prediction_lib


def _draw_line(ax):
  ax.plot([0.001, 0.002], [1.23456, 2], color=drawing.COLORS[0])
  ax.set(xlabel='time', ylabel='money')


def _plot(title='Title', legend=(('line', drawing.COLORS[0], 'mine'),), caption='caption'):
  return drawing.plot(title, _draw_line, list(legend), caption)


def _tick_labels(svg):
  return re.findall(r'<text[^>]*>([^<]*)</text>', svg)


def test_a_plot_says_what_it_shows():
  text = _plot()
  assert 'aria-label="Title: money against time. Shown: mine"' in text
  assert '<h4>Title</h4>' in text and '<figcaption>caption</figcaption>' in text
  assert re.search(r'<svg role="img" [^>]*viewBox="0 0 [\d.]+ [\d.]+">', text)


def test_colors_are_variables_of_the_style_sheet():
  text = _plot()
  assert not re.search('#[0-9a-f]{6}', text)
  for variable in re.findall(r'var\(--(\w+)\)', text):
    assert variable == 'key' or f'--{variable}: #' in style.CSS


def test_paths_are_rounded_and_tick_labels_are_not():
  text = _plot()
  assert '0.0012' in _tick_labels(text)
  assert not re.search(r' d="[^"]*\.\d\d', text)


def test_text_is_escaped():
  text = _plot('<b>', [('line', drawing.COLORS[0], '"<i>"')], '<u>')
  assert not re.search('<(b|i|u)>', text)
  assert 'aria-label="&lt;b&gt;: money against time. Shown: &quot;&lt;i&gt;&quot;"' in text


def test_names_in_different_plots_differ():
  first, second = (set(re.findall(r'\bid="([^"]*)"', _plot(title))) for title in 'ab')
  assert first and not first & second
  assert set(re.findall(r'(?:url\(#|href="#)([^")]*)', _plot('a'))) <= first


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
def test_logarithmic_axes_have_plain_numbers(high, label):
  def draw_fn(ax):
    ax.plot([0.01, high], [0, 1])
    drawing.log_scale(ax, 'x', [0.01, high])

  labels = _tick_labels(drawing.plot('a', draw_fn, [], ''))
  assert label in labels and not any('10^' in text or 'mathdefault' in text for text in labels)


def test_medians_and_ends_are_in_the_legend(noise):
  groups = [
    ('first', np.array([1.0, 2.0, 30.0])),
    ('absent', ()),
    ('third', np.array([4.0, np.nan])),
    ('one number', np.array([5.0])),
  ]
  text = mixing_plots.effective_sample_sizes('ESS', groups, 'step')
  assert 'first (median 2)' in text and 'third (median 4)' in text and 'absent' not in text
  assert 'one number' not in text
  # The third keeps its color, whether or not there is a second.
  assert 'var(--c2)' in text and 'var(--c1)' not in text
  draws = noise(50, 2, 3)
  expected = draws.mean(axis=0).var(axis=0) / draws.var(axis=0).mean(axis=0)
  text = mixing_plots.r_hat('R-hat', [('first', None, 1), ('second', draws, 1)])
  assert f'second ({expected.max():.3g} at the end)' in text and 'first' not in text


@pytest.mark.parametrize('shape', [(1, 1, 2), (5, 2, 1), (3000, 20, 2)])
def test_chains_of_any_shape_are_drawn(pretend, noise, shape):
  run = measures.Run(pretend(noise(*shape)), 'a')
  plots = mixing_plots.histories(run)
  plots += [plot for name in run.names for plot in mixing_plots.projections(run, name)]
  assert len(plots) == 2 + 2 * len(run.names)
  assert all(len(plot) < 250e3 for plot in plots)
  assert ('14 not shown' in plots[1]) == (shape[1] == 20)


def test_warm_up_lies_left_of_zero(pretend, noise):
  energy = noise(20, 2)
  energy[0] = 1e6  # must not squeeze the rest
  # Transitions of different lengths, 400 steps in all.
  warmup = {'acceptance': np.ones([20, 2]), 'energy': energy, 'steps': np.repeat([10, 30], 10)}
  run = measures.Run(pretend(noise(40, 2, 3), warmup_trace=warmup, settings={'thinning': 10}), 'a')
  for plot in mixing_plots.histories(run):
    labels = _tick_labels(plot)
    assert '400' in labels and '\N{MINUS SIGN}400' in labels
    assert not any('600' in text or '000' in text for text in labels)


def _prediction(means, noise_variance=0.25):
  return prediction_lib.Prediction(means, np.zeros_like(means), noise_variance)


def test_predictions_are_drawn_for_one_datum_and_for_many():
  rng = np.random.default_rng(0)
  for m in (1, 3000):
    prediction = _prediction(rng.standard_normal([5, m, 3]))
    y = np.eye(3)[rng.integers(3, size=m)] - 1 / 3
    observed = prediction.class_probabilities, np.argmax(y, axis=-1)
    for plot_fn, arguments in (
      (prediction_plots.reliability, observed),
      (prediction_plots.accuracy_of_surest, observed),
      (prediction_plots.true_classes, observed),
      (prediction_plots.coverage, (prediction, y)),
      (prediction_plots.errors, (prediction, y)),
    ):
      text = plot_fn(*arguments)
      assert '<svg' in text and len(text) < 250e3


def _channels(color):
  values = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
  return [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in values]


def _contrast(a, b):
  low, high = sorted(np.dot([0.2126, 0.7152, 0.0722], _channels(c)) for c in (a, b))
  return (high + 0.05) / (low + 0.05)


def test_colors_have_the_contrast_that_accessibility_guidelines_ask_for():
  themes = re.findall(r'--bg: .*?}', style.CSS, flags=re.DOTALL)
  assert len(themes) == 2
  for theme in themes:
    colors = dict(re.findall(r'--(\w+): (#\w+)', theme))
    colors = {k: v if len(v) == 7 else '#' + 2 * v[1:] for k, v in colors.items()}
    for name in ('ink', 'muted', 'good', 'unsure', 'failed'):
      for ground in ('bg', 'card'):
        assert _contrast(colors[name], colors[ground]) >= 4.5, (name, ground)
    for i in range(len(drawing.COLORS)):
      assert _contrast(colors[f'c{i}'], colors['card']) >= 3, i
    assert _contrast(colors['c0'], colors['bg']) >= 4.5  # of links
