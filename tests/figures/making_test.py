"""Figures as a whole: every smoke run, files, resumption, and numbers that are known."""

import importlib
import json

import numpy as np
import pytest

import tfp_reprior as tfr
from tfp_reprior.figures import architectures, linear_map, making, mixing, recipes
from tfp_reprior.plots import drawing


@pytest.fixture(scope='module')
def out(tmp_path_factory):
  """A folder that all figures share, because some have pieces in common."""
  return tmp_path_factory.mktemp('figures')


def _folders(out):
  return [path.name for path in (out / 'pieces').iterdir() if path.is_dir()]


def _rows(name, out):
  tfr.figures.make_figure(name, 'smoke', out, progress=False)
  return json.loads((out / f'{name}-smoke.json').read_text())['rows']


@pytest.mark.parametrize('name', tfr.figures.FIGURES)
def test_smoke_run_writes_picture_and_numbers(name, out):
  path = tfr.figures.make_figure(name, 'smoke', out, progress=False)
  assert path == out / f'{name}-smoke.png'
  assert path.read_bytes().startswith(b'\x89PNG')
  assert path.with_suffix('.pdf').read_bytes().startswith(b'%PDF')
  numbers = json.loads(path.with_suffix('.json').read_text())
  assert numbers['figure'] == name and numbers['scale'] == 'smoke' and numbers['rows']
  for row in numbers['rows']:
    assert {'version', 'commit', 'date', 'processor', 'seconds'} <= row['made'].keys()
  assert _folders(out) == []  # what runs left is removed


@pytest.mark.parametrize('name', tfr.figures.FIGURES)
@pytest.mark.parametrize('scale', tfr.figures.SCALES)
def test_every_scale_has_pieces_that_differ(name, scale):
  family, text = making.FIGURES[name]
  recipe = importlib.import_module(f'tfp_reprior.figures.{family}').RECIPES[name]
  pieces = recipe.pieces(scale, {'data': 'digits', 'seed': 1})
  texts = [json.dumps(p, sort_keys=True) for p in pieces]
  assert texts and len(set(texts)) == len(texts) and text
  assert json.loads(json.dumps(pieces)) == pieces  # so that rows of files are found again


def test_posterior_of_the_linear_model_is_standard_normal_after_the_map(out):
  [row] = _rows('linear-map', out)
  u, v = np.meshgrid(row['axis'], row['axis'])
  after = row['log_densities']['phi']['posterior']
  np.testing.assert_allclose(after, -(u**2 + v**2) / 2, atol=1e-10)
  before = np.array(row['log_densities']['theta']['posterior'])
  direct = -(u**2 + v**2) / 2 - (0.9 * u + 0.5 * v - 2.0) ** 2 / 0.2
  np.testing.assert_allclose(before - np.max(before), direct - np.max(direct), atol=1e-10)


def test_functions_come_closer_to_the_limit_with_width(out):
  narrow, wide = _rows('function-convergence', out)
  errors = [np.max(np.abs(np.subtract(r['stddev'], r['limit_stddev']))) for r in (narrow, wide)]
  assert errors[1] < 0.5 * errors[0]


def test_chains_say_what_they_are_worth(out):
  for row in _rows('samplers', out):
    assert row['level'] == 'unsure' and row['verdict'].startswith('Too few effective samples')


@pytest.mark.parametrize('family', ['mixing', 'sampler_comparison', 'architectures'])
@pytest.mark.parametrize('scale', tfr.figures.SCALES)
def test_settings_of_chains_are_settings_of_the_package(family, scale):
  module = importlib.import_module(f'tfp_reprior.figures.{family}')
  for recipe in module.RECIPES.values():
    for piece in recipe.pieces(scale, {'data': 'digits', 'seed': 1}):
      settings = tfr.sampling.Settings(**piece['run'])
      laptop = 1500 if family == 'mixing' else 500
      expected = {'smoke': 0, 'laptop': laptop, 'paper': 20_000}[scale]
      assert settings.warmup_budget == expected


def _use(monkeypatch, name, recipe):
  monkeypatch.setitem(making.FIGURES, name, ('linear_map', name))
  monkeypatch.setitem(linear_map.RECIPES, name, recipe)


def test_interrupted_figures_go_on(monkeypatch, tmp_path):
  computed, interrupts = [], [KeyboardInterrupt]

  def compute(piece, context):
    context.run_dir.mkdir(exist_ok=True)
    if piece['i'] == 1 and interrupts:
      raise interrupts.pop()
    computed.append(piece['i'])
    return {'square': piece['i'] ** 2}

  recipe = recipes.Recipe(
    lambda scale, shared: [{'i': i, **shared} for i in (0, 1)],
    compute,
    lambda figure, rows: figure.subplots().plot([row['square'] for row in rows]),
  )
  _use(monkeypatch, 'squares', recipe)

  def make(seed):
    tfr.figures.make_figure('squares', 'smoke', tmp_path, seed=seed, progress=False)

  with pytest.raises(KeyboardInterrupt):
    make(seed=1)
  assert computed == [0] and not list(tmp_path.glob('*.*'))
  make(seed=1)
  assert computed == [0, 1] and _folders(tmp_path) == []
  make(seed=1)
  assert computed == [0, 1]
  make(seed=2)
  assert computed == [0, 1, 0, 1]


def test_several_seeds_give_means_and_their_range(monkeypatch, tmp_path):
  figures = [{'min': 0.0, 'mean': m, 'max': 9.0} for m in (2.0, 3.0, 7.0)]
  assert recipes.over_seeds(figures) == {'min': 2.0, 'mean': 4.0, 'max': 7.0}
  assert recipes.over_seeds(figures[:1]) == figures[0]  # over projections
  seen = []
  recipe = recipes.Recipe(
    lambda scale, shared: [shared],
    lambda piece, context: {'spread': {'min': 0.0, 'mean': float(piece['seed']), 'max': 9.0}},
    lambda figure, rows: seen.extend(row['seed'] for row in rows),
    takes_seeds=True,
  )
  _use(monkeypatch, 'seeds', recipe)
  tfr.figures.make_figure('seeds', 'smoke', tmp_path, seed=[3, 5], progress=False)
  assert seen == [3, 5]


def test_rows_of_known_numbers_are_not_computed_again(monkeypatch, tmp_path):
  computed = []

  def compute(piece, context):
    computed.append(piece['seed'])
    return {'square': piece['seed'] ** 2}

  recipe = recipes.Recipe(
    lambda scale, shared: [{**shared, 'run': {'lengths': [1, 2]}}],
    compute,
    lambda figure, rows: figure.subplots().plot([row['square'] for row in rows]),
    takes_seeds=True,
  )
  _use(monkeypatch, 'squares', recipe)

  def make(folder, seeds, **kwargs):
    path = tfr.figures.make_figure('squares', 'smoke', folder, None, seeds, False, **kwargs)
    return path.with_suffix('.json')

  known = make(tmp_path / 'first', [1, 2])
  again = make(tmp_path / 'second', [1, 2, 3], known=known)
  assert computed == [1, 2, 3]
  rows = json.loads(again.read_text())['rows']
  assert rows[:2] == json.loads(known.read_text())['rows']
  monkeypatch.setattr(making, '__version__', '0')  # whose figures may differ
  make(tmp_path / 'third', [1], known=known)
  make(tmp_path / 'third', [1], known=tmp_path / 'none.json')
  assert computed == [1, 2, 3, 1]
  with pytest.raises(ValueError, match="the numbers of 'squares', and not of 'linear-map'"):
    tfr.figures.make_figure('linear-map', 'smoke', tmp_path, progress=False, known=known)
  known.write_text('{"rows": [')
  with pytest.raises(ValueError, match='has no numbers of a figure to go on from'):
    make(tmp_path / 'fourth', [1], known=known)


def test_curves_go_through_the_means_over_seeds_at_each_width():
  rows = [
    {
      'data': 'digits',
      'num_train': 6,
      'seed': seed,
      'network': {'width': width},
      'run': {'sampler': sampler},
      'ess_per_step': dict.fromkeys(
        ('theta', 'f'), {'min': 0.0, 'mean': width * seed, 'max': 99.0}
      ),
    }
    for width in (8, 4)
    for seed in (1.0, 3.0)
    for sampler in ('uncalibrated_standard', 'uncalibrated_langevin', 'auto')
  ]
  with drawing.canvas(4, 4) as figure:
    mixing.RECIPES['ess-width'].draw(figure, rows)
    for ax in figure.axes:
      assert len(ax.get_lines()) == 3
      for line in ax.get_lines():
        np.testing.assert_allclose(line.get_xydata(), [[4, 8000], [8, 16000]])


def test_curves_of_architectures_are_means_over_seeds_for_each_map():
  def row(model, num_train, sampler, regularizer, seed):
    values = [{'min': 0.1, 'mean': seed * i, 'max': 99.0} for i in (1.0, 2.0)]
    curve = {'steps': [10, 20], 'r_hat_squared_minus_1': values}
    run = {'sampler': sampler, 'regularizer': regularizer}
    return {
      'data': 'digits',
      'model': model,
      'num_train': num_train,
      'run': run,
      'curves': {'theta': curve, 'f': curve},
    }

  recipe = architectures.RECIPES['rhat']
  pieces = [
    (p['model'], p['num_train'], p['run']['sampler'], p['run']['regularizer'])
    for p in recipe.pieces('laptop', {'data': 'digits'})
  ]
  assert len(pieces) == 9  # three numbers of data by two samplers; two maps beside `standard`
  rows = [row(*piece, seed) for seed in (1.0, 3.0) for piece in pieces]
  with drawing.canvas(4, 4) as figure:
    recipe.draw(figure, rows)
    assert [len(ax.get_lines()) for ax in figure.axes] == [6, 3, 6, 3]
    for ax in figure.axes:
      for line in ax.get_lines():
        np.testing.assert_allclose(line.get_xydata(), [[10, 2], [20, 4]])
    texts = [text.get_text() for text in figure.axes[1].get_legend().get_texts()]
    assert texts == ['n = 32', 'n = 32, λ without n']


@pytest.mark.parametrize(
  'arguments, message',
  [
    ({'name': 'ess-depth'}, "`name` must be one of 'linear-map', .*Received: name='ess-depth'"),
    ({'name': 'linear-map', 'scale': 'huge'}, "'laptop', 'paper'. Received: scale='huge'"),
    (
      {'name': 'linear-map', 'seed': [1, 2]},
      r"'linear-map' takes one `seed`. Received: seed=\[1, 2",
    ),
  ],
)
def test_bad_arguments_are_refused(arguments, message, tmp_path):
  with pytest.raises(ValueError, match=message):
    tfr.figures.make_figure(out=tmp_path, **arguments)
