"""Contestants run in turn, rounds to warm up do not count, and tables are written row by row."""

import json
import time

import tensorflow as tf

from tfp_reprior.benchmarks import timing


def test_contestants_run_in_turn_and_warm_up_twice():
  calls = []
  contestants = {name: lambda name=name: calls.append(name) or tf.zeros([]) for name in 'ab'}
  seconds = timing.alternate(contestants, num_rounds=3)
  assert calls == ['a', 'b'] * 5
  assert list(seconds) == ['a', 'b'] and all(s > 0 for s in seconds.values())


def test_slow_rounds_at_the_start_are_not_counted(monkeypatch):
  clock, waits = [0.0], iter([50.0, 50.0, 1.0, 3.0, 2.0])
  monkeypatch.setattr(time, 'perf_counter', lambda: clock[0])

  def run():
    clock[0] += next(waits)
    return tf.zeros([])

  assert timing.alternate({'a': run}, num_rounds=3) == {'a': 2.0}


def test_tables_are_written_after_each_row(tmp_path, capsys):
  path, written = tmp_path / 'rows.json', []

  def rows():
    for i in (1, 2):
      yield {'n': i, 'seconds': i / 3}
      written.append(json.loads(path.read_text()))

  done = timing.report(rows(), path, {'cores': 2})
  assert done == [{'n': 1, 'seconds': 1 / 3}, {'n': 2, 'seconds': 2 / 3}]
  assert [len(figures['rows']) for figures in written] == [1, 2]
  assert written[-1] == {'machine': {'cores': 2}, 'rows': done}
  table = '| n | seconds |\n| --- | --- |\n| 1 | 0.333 |\n| 2 | 0.667 |\n'
  assert capsys.readouterr().out == f"{{'cores': 2}} \n\n{table}"


def test_facts_say_what_figures_depend_on(monkeypatch):
  monkeypatch.setattr(timing, 'matmul_gflops', lambda: 12.34)
  facts = timing.machine_facts()
  assert facts['tensorflow'] == tf.__version__ and facts['matmul_gflops'] == 12.3
  assert facts == json.loads(json.dumps(facts))
