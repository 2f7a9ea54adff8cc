"""The report page: figures of the run, whatever is missing, and nothing from elsewhere."""

import base64
import copy
import hashlib
import html
import html.parser
import re

import numpy as np
import pytest

import tfp_reprior as tfr
from tfp_reprior.diagnostics import verdict
from tfp_reprior.report import measures
from tfp_reprior.sampling import predicting


@pytest.fixture
def write(tmp_path):
  def write(*results, names=None):
    path = tfr.report.write_report(list(results), tmp_path / 'report.html', names)
    assert path == tmp_path / 'report.html' and list(tmp_path.iterdir()) == [path]
    return path.read_text(encoding='utf-8')

  return write


@pytest.fixture
def write_text(write, no_drawings):
  """As `write`, without drawings: for what the page says."""
  return write


def _tiles(page):
  tiles = re.findall(r'<div class="tile"><dt>(.*?)</dt><dd>(.*?)</dd>', page)
  return {name: float(value.replace(',', '')) for name, value in tiles if name != 'time'}


def _rows(page):
  """The cells of each row of all tables, by what it is called."""
  rows = re.findall(r'<tr><th scope="row">(.*?)</th>(.*?)</tr>', page)
  return {name: re.findall('<td>(.*?)</td>', cells) for name, cells in rows}


class _Outline(html.parser.HTMLParser):
  """Checks that tags are closed, and collects headings, ids, labels and text."""

  def __init__(self, page):
    super().__init__()
    self.open, self.levels, self.ids, self.tags = [], [], [], set()
    self.labels, self.text = [], ''
    self.feed(page)
    assert not self.open

  def handle_starttag(self, tag, attributes):
    self.tags.add(tag)
    self.ids += [value for name, value in attributes if name == 'id']
    self.labels += [value for name, value in attributes if name == 'aria-label']
    if re.fullmatch('h[1-6]', tag):
      self.levels.append(int(tag[1]))
    if tag != 'meta':
      self.open.append(tag)

  def handle_startendtag(self, tag, attributes):
    self.handle_starttag(tag, attributes)
    self.open.pop()

  def handle_endtag(self, tag):
    assert self.open.pop() == tag

  def handle_data(self, data):
    self.text += data


@pytest.fixture(scope='module')
def regression_page(regression, tmp_path_factory):
  path = tmp_path_factory.mktemp('page') / 'report.html'
  return tfr.report.write_report([regression], path).read_text(encoding='utf-8')


def test_figures_are_those_of_the_result(regression, regression_page):
  page = regression_page
  tiles = _tiles(page)
  mixing = regression.verdict.mixing.values()
  assert tiles['largest R-hat'] == pytest.approx(max(m.r_hat for m in mixing), abs=6e-4)
  fewest = min(m.bulk_ess for m in mixing)
  assert tiles['fewest effective samples'] == pytest.approx(fewest, rel=1e-2)
  rmse = np.sqrt(np.mean((regression.test_prediction.mean - regression.y_test) ** 2))
  assert tiles['test RMSE'] == pytest.approx(rmse, rel=1e-2)
  simple = np.sqrt(np.mean((np.mean(regression.training_data[1]) - regression.y_test) ** 2))
  assert [float(v) for v in _rows(page)['RMSE']] == pytest.approx([rmse, simple], rel=1e-2)
  assert f'predict the mean: {simple:#.3g}' in page
  milliseconds = 1000 * regression.seconds['sampling'] / 20
  assert float(re.search(r'([\d.,]+) ms for a step', page).group(1)) == pytest.approx(
    milliseconds, rel=1e-2
  )
  assert '<dt>num burnin steps</dt><dd>10</dd>' in page
  assert f'{regression.seconds["warm-up"]:,.1f} s' in page
  assert 'Warm-up found' not in page  # its step size was given


def test_the_page_begins_with_what_was_run_and_whether_to_trust_it(regression, regression_page):
  text = _Outline(regression_page).text
  assert '12 to train, 6 to test' in text and 'one hidden layer of width 16, 49 weights' in text
  assert regression.settings['date'] in text and '2 chains of 20 draws' in text
  parts = ['class="facts"', 'class="verdict', 'class="tiles"', '>Predictions<', '>Mixing<']
  places = [regression_page.index(part) for part in [*parts, '<summary>Settings<']]
  assert places == sorted(places)


def test_one_input_has_bands_and_intervals(regression_page):
  page = regression_page
  titles = re.findall(r'<figure class="card"><h4>(.*?)</h4>', page)
  assert titles[:5] == [
    'Prediction',
    'Coverage of predictive intervals',
    'Where observations fall (PIT)',
    'Error against uncertainty',
    'R-hat against steps',
  ]
  assert len(titles) == 4 + 5 + 6 == page.count('<svg ') == page.count('aria-label="', 1) - 4


CLASS_PLOTS = [
  'Reliability of class probabilities',
  'Accuracy of the surest',
  'Probability of the true class',
]


@pytest.mark.parametrize(
  ('kind', 'first'), [('categorical', 'Probabilities, 6 of 8'), ('bernoulli', 'Probabilities')]
)
def test_likelihoods_of_classes_have_probabilities(kind, first, write_text, request):
  result = request.getfixturevalue(kind)
  page = write_text(result)
  titles = re.findall(r'<figure class="card"><h4>(.*?)</h4>', page)
  assert titles[:5] == [first, 'What is taken for what', *CLASS_PLOTS]
  tiles, figures = _tiles(page), result.evaluate()
  assert len(figures) == 3
  for name, value in figures.items():
    assert tiles[f'test {name.replace("_", " ")}'] == pytest.approx(value, rel=1e-2, abs=1e-9)
  assert f'<dd>{kind.capitalize()}(' in page and 'RMSE' not in page
  assert '<dt>regularizer</dt><dd>n*noise</dd>' in page


def test_likelihoods_are_compared_by_what_they_share(write_text, classes, categorical):
  page = write_text(classes, categorical, names=['a', 'b'])
  row = re.search('Test class negative log likelihood</th>(.*?)</tr>', page).group(1)
  cells = re.findall('<td>(.*?)</td>', row)
  losses = [r.evaluate()['class_negative_log_likelihood'] for r in (classes, categorical)]
  assert [float(c) for c in cells[:2]] == pytest.approx(losses, rel=1e-2)
  assert float(cells[2]) == pytest.approx(losses[1] - losses[0], rel=2e-2)  # logarithms subtract


def test_without_test_targets_classes_have_probabilities_only(write_text, categorical):
  result = copy.copy(categorical)
  result._y_test = None
  page = write_text(result)
  titles = re.findall(r'<figure class="card"><h4>(.*?)</h4>', page)
  assert titles[0].startswith('Probabilities') and 'has no test targets' in page
  assert 'What is taken for what' not in titles


def test_classes_have_reliability_and_warm_up(write_text, classes):
  page = write_text(classes)
  titles = re.findall(r'<figure class="card"><h4>(.*?)</h4>', page)
  assert titles[:5] == ['What is taken for what', *CLASS_PLOTS, 'Error against uncertainty']
  accuracy = classes.evaluate()['accuracy']
  assert _tiles(page)['test accuracy'] == pytest.approx(accuracy, rel=1e-2)
  rows = _rows(page)
  assert rows['first step'] == ['0.300', '–', '1', '1', '0.00 to 0.50', '-200', '–']
  assert rows['measuring'] == ['0.100', '0.200', '8', '1,500', '0.62 to 0.75', '-4.50', '40.0']
  assert 'Warm-up found step size 0.100 with 12,001 gradients of each chain' in page
  best = np.max(classes.test_prediction.class_probabilities, axis=-1)
  first = int(np.argmin(best))
  expected = [f'{value:.4g}' for value in classes.x_test[first]]
  assert rows[str(first + 1)][:2] == expected and rows[str(first + 1)][3] == f'{best[first]:.2f}'


def test_the_page_is_well_formed_and_needs_nothing_else(write, categorical, classes):
  page = write(categorical, classes)
  outline = _Outline(page)
  assert outline.levels[0] == 1 and outline.levels.count(1) == 1
  assert np.max(np.diff(outline.levels)) == 1
  assert len(outline.ids) == len(set(outline.ids))
  assert not outline.tags & {'script', 'link', 'img', 'iframe', 'object', 'base'}
  assert 'http:' not in page and 'https:' not in page and '@import' not in page
  assert set(re.findall(r'(?:url\(|href=")(.)', page)) == {'#'}
  [style] = re.findall(r'<style>(.*?)</style>', page, re.DOTALL)
  digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
  policy = f"content=\"default-src 'none'; style-src-elem 'sha256-{digest}'; style-src-attr 'unsafe"
  assert policy in html.unescape(page) and page.count('<style') == 1
  assert '<html lang="en">' in page and '<title>Posterior sampling: ' in page


def test_names_are_escaped(write, pretend, noise):
  name = '\'"><script>alert("x")</script>&'
  result = pretend(noise(20, 2, 3), settings={'model': name}, draws=[])
  for page in (write(result), write(result, result, names=[name, 'b'])):
    outline = _Outline(page)
    assert '<script' not in page and 'script' not in outline.tags
    assert name in outline.text  # as it was, to those who read
    assert outline.labels and all('<' not in x or name in x for x in outline.labels)


def test_without_test_inputs_there_are_no_plots_of_predictions(write_text, pretend, noise):
  page = write_text(pretend(noise(20, 2, 3), _x_test=None, _y_test=None))
  assert 'no plots of predictions, because the run has no test inputs (x_test)' in page
  assert 'Error against uncertainty' not in page and 'outputs at x_test' not in page


def test_without_test_targets_there_are_bands_alone(write_text, pretend):
  page = write_text(pretend(_y_test=None))
  assert '<h4>Prediction</h4>' in page and 'The run has no test targets (y_test).' in page
  assert 'Coverage' not in page and 'test RMSE' not in page


def test_without_kept_draws_the_page_says_so(write_text, pretend):
  assert 'because the run has no kept draws' in write_text(pretend(draws=[]))


def test_one_chain_has_an_r_hat_of_its_halves_and_no_curve(write_text, pretend, noise):
  result = pretend(noise(50, 1, 3), draws=[])
  page = write_text(result)
  r_hat = max(m.r_hat for m in result.verdict.mixing.values())
  assert _tiles(page)['largest R-hat'] == pytest.approx(r_hat, abs=6e-4)
  assert 'R-hat against' not in page


def test_the_page_says_what_the_verdict_says(write_text, pretend, noise):
  drifting = noise(400, 4, 3) + np.arange(4)[:, np.newaxis]
  for level, theta in (
    ('good', noise(400, 4, 3)),
    ('unsure', noise(20, 4, 3)),
    ('failed', drifting),
  ):
    result = pretend(theta, draws=[])
    page = write_text(result)
    judged = result.verdict
    assert judged.level == level
    [(shown, headline, rest)] = re.findall(
      r'<div class="verdict (\w+)"><b>(.*?)</b>(.*?)</div>', page
    )
    assert (shown, headline) == (level, judged.headline)
    reasons = re.findall('<li>(.*?)</li>', rest)
    assert [html.unescape(r) for r in reasons] == [r.text for r in judged.reasons]
    assert all(advice in html.unescape(rest) for advice in judged.advice)


def test_tables_have_all_that_was_judged_and_every_chain(regression, regression_page):
  rows = _rows(regression_page)
  mixing = regression.verdict.mixing
  assert {'hidden', 'theta', 'f', 'energy', 'squared_norms'} <= set(mixing)
  for name, m in mixing.items():
    r_hat, bulk, tail = map(float, rows[verdict.NAMES[name]])
    assert r_hat == pytest.approx(m.r_hat, abs=6e-4)
    assert (bulk, tail) == pytest.approx((m.bulk_ess, m.tail_ess), rel=1e-2)
  for c in range(2):
    [cells] = [v for name, v in rows.items() if name.split(',')[0] == f'chain {c + 1}']
    acceptance, level = map(float, cells)
    assert acceptance == pytest.approx(np.mean(regression.trace['acceptance'][:, c]), rel=1e-2)
    assert level == pytest.approx(np.mean(regression.trace['log_likelihood'][:, c]), rel=1e-2)


def test_of_many_chains_a_table_shows_some(write_text, pretend, noise):
  page = write_text(pretend(noise(20, 30, 2), draws=[]))
  assert 'chain 12' in _rows(page) and 'chain 13' not in _rows(page)
  assert '30 chains in all, with an acceptance from 0.900 to 0.900.' in page


def _with_nan(draws):
  draws[10:, 1] = np.nan
  return draws


@pytest.mark.parametrize(
  'make, text',
  [
    (lambda noise: noise(1, 2, 3), 'Chains of 1 draws are too short to judge.'),
    (lambda noise: noise(4, 2, 1), 'effective samples of 8 draws'),
    (lambda noise: np.ones([30, 2, 3], np.float32), 'effective samples of 60 draws'),
    (lambda noise: _with_nan(noise(30, 2, 3)), 'Chain 2 left the range of floating point numbers.'),
  ],
)
def test_pathological_chains_have_a_page_too(write, pretend, noise, make, text):
  page = write(pretend(make(noise), draws=[]))
  assert text in page
  _Outline(page)


def test_an_interrupted_run_is_called_so(write_text, pretend):
  page = write_text(pretend(is_complete=False, settings={'num_results': 500}, draws=[]))
  assert '<li>The run was interrupted after 20 of 500 draws.' in page


def test_several_runs_are_compared_with_the_first(write_text, pretend, noise):
  draws = noise(400, 4, 3)
  slow = pretend(draws[:, ::-1], seconds={'sampling': 4.0}, acceptance=0.4)
  fast = pretend(draws, seconds={'sampling': 1.0}, acceptance=0.8)
  page = write_text(slow, fast, names=['slow', 'fast'])
  assert page.index('id="comparison"') < page.index('id="run-1"') < page.index('id="run-2"')
  rows = _rows(page)
  for name, ratio in (
    ('ESS per second, weights, median', '4.00'),
    ('ESS per step, weights, median', '1.00'),
    ('R-hat, weights, largest', '1.00'),
    ('Acceptance, mean', '2.00'),
    ('Milliseconds per step of all chains', '0.250'),
    ('Test RMSE', '1.00'),
  ):
    assert rows[name][-1] == f'×{ratio}', name
  assert rows['Test negative log likelihood'][-1] == '+0.00'
  assert 'Effective samples per second against slow: fast ×4.00 (weights), ×4.00 (log-' in page
  assert '<b>slow: The chains mixed. · fast: The chains mixed.</b>' in page
  assert '<h4>R-hat of weights</h4>' in page and '<h4>ESS per second, weights</h4>' in page


def test_runs_without_a_figure_leave_its_place_empty(write_text, pretend, noise):
  one = pretend(noise(50, 1, 3), draws=[])
  two = pretend(noise(50, 2, 3), noise(50, 2, 3), draws=[])
  for results in ([one, two], [two, one]):
    page = write_text(*results)
    assert _rows(page)['R-hat, outputs at x_test, largest'][-1] == '–' and '×–' not in page


def test_a_run_that_failed_is_not_compared(write_text, pretend, noise):
  good, other = (pretend(noise(400, 4, 3), seconds={'sampling': s}, draws=[]) for s in (4.0, 1.0))
  stuck = pretend(0 * noise(400, 4, 3) + np.arange(4)[:, np.newaxis], draws=[])
  stuck.trace['log_likelihood'] = np.ones([400, 4])
  assert stuck.verdict.level == 'failed'
  page = write_text(good, stuck, other, names=['good', 'stuck', 'other'])
  assert '<div class="verdict failed"><b>stuck failed: do not use these draws.</b>' in page
  assert '<li>stuck: Chains 1, 2, 3 and 4 never moved.</li>' in page
  assert '<th scope="col">not compared: stuck failed</th>' in page
  assert 'Not compared: stuck failed.' in page and '×–' not in page
  for name in ('Acceptance, mean', 'R-hat, weights, largest'):
    assert _rows(page)[name][2] == ''
  assert _rows(page)['R-hat, weights, largest'][1] == 'over 100'
  assert _rows(page)['ESS per second, weights, median'][-1] == '×4.00'
  assert 'against good: other ×4.00 (weights), ' in page

  page = write_text(stuck, good, names=['stuck', 'good'])
  assert '<th scope="col">not compared: stuck failed</th>' in page
  assert not re.search(r'×\d', page)


def test_runs_of_one_name_are_numbered(write_text, pretend, noise):
  result = pretend(noise(20, 2, 3), draws=[])
  page = write_text(result, result)
  assert '<h2 id="run-1">1. fcn, ' in page and '<h2 id="run-2">2. fcn, ' in page


def test_long_runs_make_a_small_page(write, pretend, noise):
  draws = noise(5000, 8, 4)
  assert len(write(pretend(draws, draws))) < 0.4e6, 'eight of them should stay below 3 MB'


def test_the_same_result_gives_the_same_page(write, regression, regression_page):
  assert write(regression) == regression_page


def test_slow_figures_are_computed_once(write_text, pretend, noise, monkeypatch):
  calls = []
  result = pretend(noise(20, 2, 3))
  kind = type(result)
  slow = {'evaluate': kind, 'effective_sample_size': kind, 'predict': predicting.Predictor}
  for name, owner in slow.items():
    original = getattr(owner, name)

    def counted(self, *args, original=original, name=name, **kwargs):
      calls.append(name)
      return original(self, *args, **kwargs)

    monkeypatch.setattr(owner, name, counted)
  write_text(result, pretend(noise(30, 2, 3)))
  assert sorted(calls) == ['effective_sample_size'] * 4 + ['evaluate'] * 2 + ['predict'] * 2


def test_no_results_are_refused(tmp_path):
  with pytest.raises(ValueError, match='`results` must hold one result or more'):
    tfr.report.write_report([], tmp_path / 'report.html')


def test_names_must_be_as_many_as_results(tmp_path, regression):
  with pytest.raises(ValueError, match=r"each of the 1 results. Received: names=\['a', 'b'\]"):
    tfr.report.write_report([regression], tmp_path / 'report.html', ['a', 'b'])


def test_metrics_have_readable_names(regression):
  names = measures.Run(regression, 'a').metrics
  assert 'RMSE' in names and 'coverage of 90 % intervals' in names
