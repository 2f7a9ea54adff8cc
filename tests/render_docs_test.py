"""Tables of the pages are those of the results, whatever either says."""

import json

import pytest
import script_modules

render_docs = script_modules.load('render_docs')

ROWS = [
  {'sampler': 'a', 'n': 64, 'steps': 1, 'ess': 10.0, 'made': {'commit': 'x'}},
  {'sampler': 'a', 'n': 64, 'steps': 2, 'ess': 1500.4, 'made': {'commit': 'x'}},
  {'sampler': 'b', 'n': 64, 'steps': 2, 'ess': 0.12345, 'made': {'commit': 'y'}},
  {'sampler': 'a', 'n': 256, 'steps': 1000, 'other': 3.0},
]
MARKER = '<!-- results: rows.json\n{}\n-->\n'


# Tables of numbers that nothing measures: page, and how the heading begins.
NOT_MEASURED = {
  ('versions.md', '| Python | TensorFlow |'): 'versions of packages',
  ('warmup.md', '| width | settled before'): 'read off what the command before it prints',
}


@pytest.fixture
def render(tmp_path):
  (tmp_path / 'rows.json').write_text(json.dumps(ROWS))

  def render(lines, old='', end='<!-- end -->'):
    return render_docs.render(f'Before\n\n{MARKER.format(lines)}{old}{end}\n\nAfter\n', tmp_path)

  return render


@pytest.mark.parametrize('page', render_docs.pages(), ids=lambda page: page.name)
def test_the_page_has_the_tables_of_the_results(page):
  # `python scripts/render_docs.py` writes them.
  text = page.read_text()
  assert render_docs.render(text, render_docs.ROOT / 'docs' / 'results') == text


@pytest.mark.parametrize('page', render_docs.pages(), ids=lambda page: page.name)
def test_no_figures_are_typed_by_hand(page):
  # Write them to docs/results, and say in a comment what to show of them: see render_docs.py.
  known = tuple(heading for name, heading in NOT_MEASURED if name == page.name)
  typed = render_docs.typed_tables(page.read_text())
  assert [heading for heading in typed if not heading.startswith(known)] == []


def test_typed_figures_are_told_from_words_and_from_results(render):
  rows = '| 8 | 0.5 |\n| 1,024 | 1.2e+03 (5 to 7) |\n| **3** | 4 ms |\n'
  assert render_docs.typed_tables(f'Text\n\n| a | b |\n| - | - |\n{rows}\n') == ['| a | b |']
  words = '| 8 | what it is |\n| `x` | [y](z.md) |\n'
  assert render_docs.typed_tables(f'| a | b |\n| - | - |\n{words}') == []
  assert render_docs.typed_tables(render('by: n\ncolumn: ess\ncolumn: steps')) == []


def test_ratios_are_those_to_the_baseline_with_the_same_keys(render):
  # Of 0.12345 over the mean of 10 and 1500.4; no row of the other n has the baseline's key.
  lines = 'baseline: sampler = a by n\nby: sampler, n\ncolumn: ratio = ess / baseline'
  text = render(lines)
  assert '| b | 64 | 0.000163 |\n| a | 256 |  |' in text
  assert '| a | 64 | 1 (0.0132 to 1.99) |' in text


def test_tables_without_results_say_so(tmp_path):
  text = render_docs.render(f'{MARKER.format("by: n")}| 1 |\n<!-- end -->\n', tmp_path)
  assert 'Not measured yet' in text and '| 1 |' not in text


def test_single_numbers_are_rendered_too(tmp_path):
  (tmp_path / 'rows.json').write_text(json.dumps(ROWS))
  value = '<!-- value: rows.json; n = 64, sampler = {} -->{}<!-- end value -->'
  text = render_docs.render(f'x {value.format("a; ess", "old")} y', tmp_path)
  assert text == f'x {value.format("a; ess", 755)} y'
  assert '-->755 (10 to 1,500)<' in render_docs.render(value.format('a; ess; range', ''), tmp_path)
  spec = 'b; ess / baseline; sampler = a by n'
  assert '-->0.000163<' in render_docs.render(value.format(spec, ''), tmp_path)


def test_groups_have_the_mean_and_the_range_of_numbers_and_all_whole_ones(render):
  lines = 'where: n = 64\nby: sampler\ncolumn: steps\ncolumn: effective = ess'
  table = (
    '| sampler | steps | effective |\n| --- | --- | --- |\n'
    '| a | 1, 2 | 755 (10 to 1,500) |\n| b | 2 | 0.123 |\n'
  )
  expected = f'Before\n\n{MARKER.format(lines)}{table}<!-- end -->\n\nAfter\n'
  assert render(lines) == expected
  assert render(lines, old='| stale |\n') == expected


def test_rows_with_one_of_several_values_can_be_chosen(render):
  assert '| a |' in render('where: sampler = a or b, n = 64\nby: sampler\ncolumn: ess')
  assert '| a |' not in render('where: sampler = b or c, n = 64\nby: sampler\ncolumn: ess')


def test_keys_can_be_missing_or_inside_of_others(render):
  text = render('by: n, made.commit\ncolumn: ess\ncolumn: steps')
  assert '| 64 | y | 0.123 | 2 |\n| 256 |  |  | 1,000 |\n' in text


@pytest.mark.parametrize(
  'lines, end, message',
  [
    ('by: sampler', '', 'lacks its `<!-- end -->`'),
    ('where: n = 3\nby: sampler', '<!-- end -->', r"No row of the results has \[\['n', '3'\]\]"),
    ('of: sampler', '<!-- end -->', "where, by, column and baseline. Received: 'of: sampler'"),
  ],
)
def test_markers_that_make_no_table_are_refused(render, lines, end, message):
  with pytest.raises(ValueError, match=message):
    render(lines, end=end)
