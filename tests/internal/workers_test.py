"""Runs of two workers: two processes, which meet on loopback."""

import contextlib
import json
import pathlib
import re
import socket
import subprocess
import sys
import warnings

import numpy as np
import pytest
import sampling_runs
import script_modules

import tfp_reprior as tfr
from tfp_reprior.internal import files, workers

_PROGRAM = pathlib.Path(__file__).with_name('worker.py')


def _free_ports(count):
  with contextlib.ExitStack() as stack:
    sockets = [stack.enter_context(socket.create_server(('127.0.0.1', 0))) for _ in range(count)]
    return [s.getsockname()[1] for s in sockets]


def _run_pair(what, folder, seconds=400):
  """Runs a function of `worker.py` in two processes. Returns exit code, stdout, stderr of each."""
  cluster = {'worker': [f'127.0.0.1:{port}' for port in _free_ports(2)]}
  logs = [(folder / f'stdout {i}', folder / f'stderr {i}') for i in range(2)]
  with contextlib.ExitStack() as stack:
    children = []
    for i, paths in enumerate(logs):
      config = json.dumps({'cluster': cluster, 'task': {'type': 'worker', 'index': i}})
      stdout, stderr = (stack.enter_context(open(path, 'w')) for path in paths)
      child = subprocess.Popen(
        [sys.executable, str(_PROGRAM), what, str(folder)],
        env={**script_modules.several_threads(), 'TF_CONFIG': config, 'TF_CPP_MIN_LOG_LEVEL': '2'},
        stdout=stdout,
        stderr=stderr,
      )
      stack.callback(child.wait)
      stack.callback(child.kill)  # SIGKILL: TensorFlow catches others
      children.append(child)
    codes = [child.wait(seconds) for child in children]
  return [(code, *(p.read_text() for p in paths)) for code, paths in zip(codes, logs, strict=True)]


def _expected(**changes):
  """The run of one process."""
  model = tfr.models.fcn((1,), 2, width=8, depth=1, dtype='float64')
  x, y = sampling_runs.X[:9], sampling_runs.Y[:9]
  return sampling_runs.sample(model, x, y, **changes)


def _assert_same(path, expected):
  actual = np.load(path)
  for name, values in expected.trace.items():
    np.testing.assert_allclose(actual[name], values, rtol=0, atol=1e-8, err_msg=name)
  for i, part in enumerate(expected.draws[-1]):
    np.testing.assert_allclose(actual[f'theta {i}'], part, rtol=0, atol=1e-8)


def _assert_equal(one, other):
  one, other = np.load(one), np.load(other)
  assert set(one) == set(other)
  for name in one:
    np.testing.assert_array_equal(one[name], other[name], err_msg=name)


def test_two_workers_have_the_draws_of_one_and_the_chief_alone_writes(tmp_path):
  (chief_code, chief_out, chief_err), (code, out, err) = _run_pair('run_and_go_on', tmp_path)
  assert (chief_code, code) == (0, 0), chief_err + err
  _assert_same(tmp_path / '0.npz', _expected(num_burnin_steps=0))
  _assert_equal(tmp_path / '0.npz', tmp_path / '1.npz')
  assert json.loads((tmp_path / '0.json').read_text())  # so that writing is seen
  assert not json.loads((tmp_path / '1.json').read_text())
  events = list((tmp_path / 'run' / 'tensorboard').iterdir())
  assert len(events) == 4  # warm-up and sampling, twice
  assert 'sampling: 100%' in chief_err and 'sampling' not in err


@pytest.mark.slow
def test_the_command_line_runs_on_two_workers(tmp_path):
  (chief_code, chief_out, chief_err), (code, out, err) = _run_pair('run_command', tmp_path)
  assert (chief_code, code) == (0, 0), chief_err + err
  assert 'toy:' in chief_out and 'acceptance by chain' in chief_out and 'The report is' in chief_out
  assert not out and 'sampling' not in err
  assert json.loads((tmp_path / 'settings.json').read_text())['num_replicas'] == 2


@pytest.mark.slow
def test_a_worker_that_fails_alone_ends_the_other(tmp_path):
  (chief_code, _, chief_err), (code, _, err) = _run_pair('fail_alone', tmp_path)
  assert (chief_code, code) == (1, 1)
  assert 'nothing.csv' in err
  assert 'error: Another worker of this run has ended' in chief_err


def test_a_tensorflow_that_cannot_tell_other_workers_is_a_warning(monkeypatch):
  from tensorflow.python.eager import context

  monkeypatch.delattr(context.Context, 'report_error_to_cluster')
  with pytest.warns(UserWarning, match='Cannot tell the other workers'):
    workers._tell_others()


@pytest.mark.slow
def test_ctrl_c_on_one_worker_stops_both(tmp_path):
  ends = _run_pair('interrupt', tmp_path)
  assert [code for code, _, _ in ends] == [0, 0], ends
  results = [json.loads((tmp_path / f'{i}.json').read_text()) for i in range(2)]
  assert results[0] == results[1]
  is_complete, num_draws = results[0]
  assert not is_complete and 0 < num_draws < 12


@pytest.mark.slow
def test_the_other_worker_ends_in_time_and_the_pair_goes_on(tmp_path):
  (chief_code, chief_out, chief_err), (code, _, _) = _run_pair('die', tmp_path)
  assert (chief_code, code) == (3, -9), chief_err
  assert re.match(r'Another worker of this run has ended, .* TensorFlow received: .+', chief_out)
  with warnings.catch_warnings():
    warnings.simplefilter('error')  # as of a damaged one
    [*_, newest] = sorted((tmp_path / 'run' / 'checkpoints').glob('*.npz'))
    saved = files.load_arrays(newest)
  num_done = json.loads(str(saved['counts']))['num_done']
  assert num_done['warm-up'] == 2 and 0 < num_done['sampling'] < 12
  ends = _run_pair('run_to_the_end', tmp_path)
  assert [code for code, _, _ in ends] == [0, 0], ends
  _assert_same(tmp_path / '0.npz', _expected())
  _assert_equal(tmp_path / '0.npz', tmp_path / '1.npz')
  with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter('always')
    result = _expected(run_dir=tmp_path / 'run', num_results=15)
  assert any('goes on with 1 device(s) after 2' in str(w.message) for w in caught)
  for name, values in _expected(num_results=15).trace.items():
    np.testing.assert_allclose(result.trace[name], values, rtol=0, atol=1e-8, err_msg=name)


@pytest.mark.slow
def test_two_workers_split_chains_and_warm_up_to_the_same_settings(tmp_path):
  ends = _run_pair('split_chains_and_warm_up', tmp_path)
  assert [code for code, _, _ in ends] == [0, 0], ends
  _assert_same(tmp_path / '0.npz', _expected(sampler='langevin', regularizer=0.5))
  _assert_equal(tmp_path / '0.npz', tmp_path / '1.npz')
  _assert_equal(tmp_path / 'warmed 0.npz', tmp_path / 'warmed 1.npz')


@pytest.mark.slow
def test_what_workers_must_have_in_common(tmp_path):
  ends = _run_pair('refuse', tmp_path)
  assert [code for code, _, _ in ends] == [0, 0], ends
  messages = [json.loads((tmp_path / f'{i}.json').read_text()) for i in range(2)]
  for first, _ in messages:
    assert first == (
      'All workers must have the same data, model and settings. Received: other ones than those of '
      'the chief on worker 1'
    )
  (_, chief), (_, other) = messages
  assert re.match('Another worker of this run has ended', chief)
  assert re.match('`run_dir` must be a folder that all workers share. Received: run_dir=', other)
