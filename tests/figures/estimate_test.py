"""Times of figures before they are made, and while."""

import importlib

import pytest

import tfp_reprior as tfr
from tfp_reprior.figures import estimate, linear_map, making, recipes


def _work(width, num_gradients=10, **settings):
  return estimate.Work(
    num_gradients, 5, settings.pop('model', 'fcn'), {'width': width, 'depth': 2}, (4,), **settings
  )


def test_sizes_grow_as_the_products_of_a_gradient_do():
  assert _work(8).size == 5 * (4 * 8 + 8 * 8)
  assert _work(8, num_chains=3).size == 3 * _work(8).size
  assert _work(16, model='cnn').size == 4 * _work(8, model='cnn').size


def test_times_lie_on_a_line_through_the_smallest_and_the_largest(monkeypatch):
  measured = []

  def seconds_of_gradient(work):
    measured.append(work.network['width'])
    return 1.0 + work.size

  monkeypatch.setattr(estimate, 'seconds_of_gradient', seconds_of_gradient)
  works = [_work(8, 3), None, _work(2), _work(32), _work(16, 7)]
  seconds = estimate.seconds_of(works)
  assert sorted(measured) == [2, 32]
  fixed = estimate._SECONDS_A_PIECE
  for i in (0, 2, 3, 4):
    work = works[i]
    assert seconds[i] == pytest.approx(fixed + work.num_gradients * (1.0 + work.size))
  assert seconds[1] < fixed


def test_one_size_is_measured_as_it_is(monkeypatch):
  monkeypatch.setattr(estimate, 'seconds_of_gradient', lambda work: 2.0)
  assert estimate.seconds_of([_work(8)]) == [estimate._SECONDS_A_PIECE + 20.0]


def test_a_gradient_is_timed_on_the_network_that_is_asked_for(monkeypatch):
  asked, target = [], tfr.Posterior.target_log_prob_fn

  def spy(posterior, *parts):
    asked.append((posterior.x.shape[0], parts[0].shape[:2].as_list()))
    return target(posterior, *parts)

  monkeypatch.setattr(tfr.Posterior, 'target_log_prob_fn', spy)
  assert 0.0 < estimate.seconds_of_gradient(_work(3, num_chains=2)) < 5.0
  assert (5, [2, 4]) in asked


def test_what_is_left_is_corrected_by_what_was_taken():
  clock = estimate.Clock([10.0, 20.0, 30.0])
  assert clock.seconds_left == 60.0
  clock.finish(20.0)  # twice as long as expected
  assert clock.seconds_left == 100.0
  clock.finish(10.0)
  assert clock.seconds_left == 30.0


@pytest.mark.parametrize(
  ('seconds', 'text'),
  [(0.2, 'about 1 seconds'), (90, 'about 90 seconds'), (600, 'about 10 minutes')]
  + [(7300, 'about 2 hours')],
)
def test_times_are_told_in_units_that_suit_them(seconds, text):
  assert estimate.as_text(seconds) == text


@pytest.mark.parametrize('name', sorted({*tfr.figures.FIGURES} - {'linear-map'}))
@pytest.mark.parametrize('scale', tfr.figures.SCALES)
def test_every_figure_says_what_it_consists_of(name, scale):
  recipe = importlib.import_module(f'tfp_reprior.figures.{making.FIGURES[name][0]}').RECIPES[name]
  for piece in recipe.pieces(scale, {'data': 'digits', 'seed': 1}):
    work = recipe.work(piece)
    assert work.num_gradients > 0 and work.size > 0 and work.model in estimate.MODELS


def test_the_time_is_told_before_and_pieces_that_are_done_are_not_counted(
  monkeypatch, tmp_path, capsys
):
  recipe = recipes.Recipe(
    lambda scale, shared: [{'i': i} for i in range(3)],
    lambda piece, context: {'square': piece['i'] ** 2},
    lambda figure, rows: None,
  )
  monkeypatch.setitem(making.FIGURES, 'squares', ('linear_map', 'squares'))
  monkeypatch.setitem(linear_map.RECIPES, 'squares', recipe)
  tfr.figures.make_figure('squares', 'smoke', tmp_path)
  text = capsys.readouterr().err
  assert 'squares, scale smoke: 3 pieces, 0 of them done before; about 6 seconds for' in text
  assert '3 of 3 pieces' in text and 'left' in text
  next((tmp_path / 'pieces').glob('*.json')).unlink()
  tfr.figures.make_figure('squares', 'smoke', tmp_path)
  assert '3 pieces, 2 of them done before; about 2 seconds for' in capsys.readouterr().err
  tfr.figures.make_figure('squares', 'smoke', tmp_path)
  assert capsys.readouterr().err == ''  # nothing is left to do
