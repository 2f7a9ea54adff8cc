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


def test_groups_have_the_mean_and_the_range_of_numbers_and_all_whole_ones(render):
  lines = 'where: n = 64\nby: sampler\ncolumn: steps\ncolumn: effective = ess'
  table = (
    '| sampler | steps | effective |\n| --- | --- | --- |\n'
    '| a | 1, 2 | 755 (10 to 1,500) |\n| b | 2 | 0.123 |\n'
  )
  expected = f'Before\n\n{MARKER.format(lines)}{table}<!-- end -->\n\nAfter\n'
  assert render(lines) == expected
  assert render(lines, old='| stale |\n') == expected


def test_keys_can_be_missing_or_inside_of_others(render):
  text = render('by: n, made.commit\ncolumn: ess\ncolumn: steps')
  assert '| 64 | y | 0.123 | 2 |\n| 256 |  |  | 1,000 |\n' in text


@pytest.mark.parametrize(
  'lines, end, message',
  [
    ('by: sampler', '', 'lacks its `<!-- end -->`'),
    ('where: n = 3\nby: sampler', '<!-- end -->', r"No row of the results has \[\['n', '3'\]\]"),
    ('of: sampler', '<!-- end -->', "where, by and column. Received: 'of: sampler'"),
  ],
)
def test_markers_that_make_no_table_are_refused(render, lines, end, message):
  with pytest.raises(ValueError, match=message):
    render(lines, end=end)
