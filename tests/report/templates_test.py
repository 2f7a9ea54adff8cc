"""The templates of the page: installed, strict, and in colors that can be told apart."""

import ast
import pathlib
import re
import sys

import numpy as np
import pytest

import tfp_reprior as tfr
from tfp_reprior.plots import drawing, pictures, svg

ROOT = pathlib.Path(__file__).parents[2]
TEMPLATES = ROOT / 'tfp_reprior/report/templates'
CSS = (TEMPLATES / 'style.css').read_text()


def test_all_templates_are_data_of_the_package():
  [call] = [
    node
    for node in ast.walk(ast.parse((ROOT / 'setup.py').read_text()))
    if isinstance(node, ast.keyword) and node.arg == 'package_data'
  ]
  patterns = ast.literal_eval(call.value)['tfp_reprior.report']
  folder = ROOT / 'tfp_reprior' / 'report'
  installed = {path for pattern in patterns for path in folder.glob(pattern)}
  expected = {path for path in TEMPLATES.rglob('*') if path.is_file()}
  assert installed == expected and TEMPLATES / 'page.html' in expected


def test_without_jinja2_the_error_says_what_to_install(regression, tmp_path, monkeypatch):
  monkeypatch.setitem(sys.modules, 'jinja2', None)
  with pytest.raises(ImportError, match=re.escape('Jinja2: pip install tfp-reprior[plot]')):
    tfr.report.write_report([regression], tmp_path / 'report.html')
  assert not list(tmp_path.iterdir())


def test_colors_of_plots_are_variables_of_the_style_sheet():
  def draw_fn(ax):
    others = (drawing.MUTED, drawing.INK, drawing.LINE, drawing.FAULT)
    for i, color in enumerate((*drawing.COLORS, *others)):
      ax.plot([0, 1], [i, i], color=color)

  picture = pictures.Picture('a', draw_fn, [], '')
  variables = set(re.findall(r'var\(--(\w+)\)', svg.plot(picture).content))
  assert len(variables) == 10
  for variable in variables:
    assert CSS.count(f'--{variable}: #') == 2, variable  # light and dark


def _channels(color):
  values = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
  return [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in values]


def _contrast(a, b):
  low, high = sorted(np.dot([0.2126, 0.7152, 0.0722], _channels(c)) for c in (a, b))
  return (high + 0.05) / (low + 0.05)


def test_colors_have_the_contrast_that_accessibility_guidelines_ask_for():
  themes = re.findall(r'--bg: .*?}', CSS, flags=re.DOTALL)
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
