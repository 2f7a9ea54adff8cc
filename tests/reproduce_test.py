"""Commands of the pages are run, in order, and go on; the pages' results have commands."""

import json
import pathlib

import pytest
import script_modules

from tfp_reprior.figures import making

reproduce = script_modules.load('reproduce')
render_docs = script_modules.load('render_docs')

WRITE = 'python -c \'import sys; open(sys.argv[1][7:], "w").write("[]")\''
SLEEP = "python -c 'import time; time.sleep(60)'"


@pytest.fixture
def make_root(tmp_path):
  def make(*lines, **seconds):
    (tmp_path / 'docs' / 'results').mkdir(parents=True)
    block = '\n'.join(lines)
    (tmp_path / 'README.md').write_text(f'Text\n\n```bash\npip install x\n{block}\n```\n')
    log = {
      c: {'seconds': s, 'is_done': True} for c, s in zip(lines, seconds.values(), strict=False)
    }
    (tmp_path / reproduce.LOG).write_text(json.dumps(log))
    return tmp_path

  return make


def test_commands_that_write_results_are_found_with_their_continued_lines(make_root):
  root = make_root('python a.py --x=1 \\\n  --json=docs/results/a.json  # a table', 'python b.py')
  assert reproduce.commands(root) == {'python a.py --x=1 --json=docs/results/a.json': 'README.md'}


def test_commands_are_run_once_and_again_if_their_result_is_gone(make_root):
  root = make_root(f'{WRITE} --json=docs/results/a.json')
  assert list(reproduce.plan(root, None).values()) == ['to do']
  assert list(reproduce.reproduce(root).values()) == ['done']
  assert list(reproduce.plan(root, None).values()) == ['done']
  (root / 'docs/results/a.json').unlink()
  assert list(reproduce.plan(root, None).values()) == ['to do']


def test_files_that_were_made_without_the_script_are_told_and_completed(make_root):
  root = make_root(f'{WRITE} --json=docs/results/a.json')
  (root / 'docs/results/a.json').write_text('[]')
  assert list(reproduce.plan(root, None).values()) == ['file is there']
  assert list(reproduce.reproduce(root).values()) == ['done']


def test_the_cheapest_is_first_and_what_was_never_run_last(make_root):
  a, b, c = (f'python {x}.py --json=docs/results/{x}.json' for x in 'abc')
  root = make_root(a, b, c, a=7, b=3)
  assert list(reproduce.plan(root, None)) == [b, a, c]


@pytest.mark.parametrize(
  ('program', 'hours', 'expected'),
  [("python -c '1/0'", 1.0, 'FAILED'), (SLEEP, 1 / 3600, 'stopped')],
)
def test_failures_and_the_end_of_time_are_told_and_not_taken_for_done(
  program, hours, expected, make_root
):
  root = make_root(f'{program} --json=docs/results/a.json')
  assert list(reproduce.reproduce(root, hours=hours).values()) == [expected]
  assert list(reproduce.plan(root, None).values()) == ['to do']


def test_time_left_is_that_of_the_last_time_and_the_median_where_there_is_none():
  log = {c: {'seconds': s, 'is_done': True} for c, s in {'a': 60, 'b': 120, 'c': 600}.items()}
  log['d'] = {'seconds': 9000, 'is_done': False}  # stopped: it takes longer than that
  assert reproduce.time_left(['a', 'c'], log) == 'about 11 min left for 2'
  text = reproduce.time_left(['a', 'd', 'e'], log)
  assert text == 'about 5 min left for 3, 2 of them never timed: as the median of the others'
  assert reproduce.time_left(['a', 'c'], log, speed=2.0) == 'about 22 min left for 2'
  assert reproduce.time_left(['e'], {}) == 'no command was timed yet; 1 to do'


def test_seconds_of_a_command_that_goes_on_add_up(make_root):
  root = make_root()
  reproduce.keep_time(root, 'a', 10.0, is_done=False)
  reproduce.keep_time(root, 'a', 5.0, is_done=True)
  assert reproduce.load_log(root)['a']['seconds'] == 15
  reproduce.keep_time(root, 'a', 4.0, is_done=True)  # made again
  assert reproduce.load_log(root)['a']['seconds'] == 4


def test_the_line_before_a_command_and_the_summary_tell_what_is_left(make_root, capsys):
  a, b = (f'{WRITE} --json=docs/results/{x}.json' for x in 'ab')
  root = make_root(a, b, a=120)
  status = reproduce.reproduce(root)
  lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith('[')]
  never = ', 1 of them never timed: as the median of the others'
  assert lines[0] == f'[1/2] about 4 min left for 2{never}'
  assert lines[1].startswith('[2/2] about 0 min left for 1')  # at the speed of the first
  *_, last = reproduce.summary(status, reproduce.load_log(root))
  assert last == '2 done'


def test_figures_of_the_paper_are_among_the_commands():
  names = {c.split()[2] for c in reproduce.commands(reproduce.ROOT) if 'tfp-reprior figure' in c}
  assert names >= set(making.FIGURES)


def test_only_some_commands_are_taken(make_root):
  a, b = (f'python {x}.py --json=docs/results/{x}.json' for x in 'ab')
  root = make_root(a, b)
  assert list(reproduce.plan(root, None, only='b.json')) == [b]


def test_commands_with_data_wait_for_their_folder(make_root):
  root = make_root('python a.py --data_dir=tfds --json=docs/results/a.json')
  assert list(reproduce.plan(root, None).values()) == ['needs --data_dir']
  assert list(reproduce.plan(root, '/data').values()) == ['to do']


def test_every_table_of_the_pages_has_a_command():
  written = {reproduce._RESULT.search(c)[1] for c in reproduce.commands(reproduce.ROOT)}
  for page in render_docs.pages():
    for match in render_docs._TABLE.finditer(page.read_text()):
      assert str(pathlib.Path('docs/results', match['file'])) in written, (page, match['file'])
