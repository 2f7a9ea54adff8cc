"""Figures know where they come from, and what a file has is not measured again."""

import json

import pytest

import tfp_reprior as tfr
from tfp_reprior.benchmarks import results


def _measure(path, cases, calls):
  def measure(case):
    calls.append(case['n'])
    return {'seconds': 10 * case['n'] + len(calls)}

  return list(results.measured(cases, measure, path))


def test_rows_of_a_file_are_kept_and_the_others_measured(tmp_path):
  path, calls = tmp_path / 'rows.json', []
  settings = {'settings': {'num_rounds': 3}}
  first = _measure(path, [{'n': 1, **settings}, {'n': 2, **settings}], calls)
  second = _measure(path, [{'n': 2, **settings}, {'n': 3, **settings}], calls)
  assert calls == [1, 2, 3]
  assert [row['seconds'] for row in first + second] == [11, 22, 22, 33]
  assert results.load(path) == [*first, second[1]]  # the row of the first command stays
  _measure(path, [{'n': 3, 'settings': {'num_rounds': 4}}], calls)
  assert calls == [1, 2, 3, 3]  # other settings are another row


def test_a_row_is_written_before_the_next_is_measured(tmp_path):
  path = tmp_path / 'rows.json'
  rows = results.measured([{'n': 1}, {'n': 2}], lambda case: {}, path)
  next(rows)
  assert [row['n'] for row in json.loads(path.read_text())] == [1]


def test_rows_that_another_command_writes_meanwhile_are_kept(tmp_path):
  path = tmp_path / 'rows.json'
  rows = results.measured([{'n': 1}, {'n': 2}], lambda case: {}, path)
  next(rows)
  list(results.measured([{'n': 3}], lambda case: {}, path))
  next(rows)
  assert [row['n'] for row in results.load(path)] == [1, 3, 2]


def test_rows_say_where_they_come_from():
  [row] = results.measured([{'n': 1}], lambda case: {})
  made = row['made']
  assert made['version'] == tfr.__version__ and made['cores'] >= 1 and made['processor']
  assert set(made) == {'version', 'commit', 'date', 'processor', 'cores', 'seconds'}


@pytest.mark.parametrize(
  ('changed', 'commit'), [('', 'abc1234'), (' M scripts/demo.py', 'abc1234-dirty')]
)
def test_a_commit_is_marked_where_code_differs_from_it(monkeypatch, changed, commit):
  calls = []

  def git(folder, verb, *words):
    calls.append(words)
    return {'describe': 'abc1234', 'status': changed}[verb]

  monkeypatch.setattr(results, '_git', git)
  assert results.provenance()['commit'] == commit
  assert calls[-1][-2:] == ('tfp_reprior', 'scripts')  # docs may change while a campaign runs


def test_rows_with_facts_of_the_machine_are_read_too(tmp_path):
  path = tmp_path / 'rows.json'
  path.write_text(json.dumps({'machine': {'cores': 2}, 'rows': [{'n': 1}]}))
  assert results.load(path) == [{'n': 1}]
