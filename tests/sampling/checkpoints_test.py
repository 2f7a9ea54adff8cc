"""Files that are whole or not there: checkpoints, kept draws."""

import os
import re
import shutil
import types
import warnings

import numpy as np
import pytest

import tfp_reprior as tfr
from tfp_reprior.internal import files
from tfp_reprior.sampling import checkpoints, draws, traces


def _arrays(value=1.0):
  return {
    'carry/0000': np.full([2, 3], value, np.float32),
    'carry/0001': np.array([True, False]),
    'counts': np.array('{"num_done": 3}'),
  }


def _assert_equal(actual, expected):
  assert set(actual) == set(expected)
  for name, values in expected.items():
    assert actual[name].dtype == values.dtype
    np.testing.assert_array_equal(actual[name], values)


def _load_newest(store):
  loaded = []
  assert store.restore_newest(loaded.append) == bool(loaded)
  return loaded[0] if loaded else None


def test_arrays_come_back_as_they_were(tmp_path):
  files.save_arrays(tmp_path / 'a.npz', _arrays())
  _assert_equal(files.load_arrays(tmp_path / 'a.npz'), _arrays())


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
  path = tmp_path / 'a.npz'
  files.save_arrays(path, _arrays())

  def fail(file):
    file.write(b'half')
    raise OSError('No space left')

  with pytest.raises(OSError, match='No space left'):
    files.write_atomically(path, fail)
  _assert_equal(files.load_arrays(path), _arrays())
  assert os.listdir(tmp_path) == ['a.npz']


def test_the_newest_checkpoints_are_kept(tmp_path):
  store = checkpoints.CheckpointStore(tmp_path / 'made' / 'here')
  assert _load_newest(store) is None
  for number in (1, 2, 5, 9, 30):
    store.save(number, _arrays(number))
  assert store.numbers() == [5, 9, 30]
  _assert_equal(_load_newest(store), _arrays(30))


def _newest(folder):
  return max(folder.iterdir())


def test_a_damaged_checkpoint_is_passed_over_with_a_warning(tmp_path):
  store = checkpoints.CheckpointStore(tmp_path)
  for number in (1, 2):
    store.save(number, _arrays(number))
  raw = _newest(tmp_path).read_bytes()
  _newest(tmp_path).write_bytes(raw[: len(raw) // 2])
  with pytest.warns(UserWarning, match=r'checkpoint-0000000002.npz is damaged \(.*going on from'):
    _assert_equal(_load_newest(store), _arrays(1))


def test_any_flipped_bit_is_noticed_or_does_no_harm(tmp_path):
  store = checkpoints.CheckpointStore(tmp_path)
  store.save(1, _arrays())
  path = _newest(tmp_path)
  raw = path.read_bytes()
  num_noticed = 0
  # Every seventh byte, one bit each, and the table of contents at the end in full.
  table = raw.index(b'PK\x01\x02')
  positions = [*range(0, table, 7), *range(table, len(raw))]
  for i in positions:
    damaged = bytearray(raw)
    damaged[i] ^= 1 << (i % 8)
    path.write_bytes(damaged)
    with warnings.catch_warnings(record=True) as caught:
      warnings.simplefilter('always')
      arrays = _load_newest(store)
    if arrays is None:
      num_noticed += 1
      assert ['is damaged' in str(w.message) for w in caught] == [True]
    else:
      _assert_equal(arrays, _arrays())
  assert num_noticed > len(positions) / 3


def test_checkpoints_of_another_run_and_those_that_are_refused_are_passed_over(tmp_path):
  checkpoints.CheckpointStore(tmp_path, run='a').save(1, _arrays())
  checkpoints.CheckpointStore(tmp_path, run='b').save(2, _arrays())
  with pytest.warns(UserWarning, match="0002.npz is of another run .'b', and not 'a'.; going on"):
    _assert_equal(_load_newest(checkpoints.CheckpointStore(tmp_path, run='a')), _arrays())

  def refuse(_):
    raise tfr.errors.InputError('a draw is missing')

  with pytest.warns(UserWarning) as caught:
    assert not checkpoints.CheckpointStore(tmp_path, run='b').restore_newest(refuse)
  assert 'a draw is missing; going on from' in str(caught[0].message)


@pytest.mark.parametrize('is_on_disk', [True, False])
def test_traces_go_back_to_a_mark_and_on(tmp_path, is_on_disk):
  def piece(first, num):
    draws = np.arange(first, first + num)
    return {'f': np.stack([draws, draws + 0.5], -1), 'n': draws.astype(np.int32)}

  trace = traces.Trace(tmp_path / 'trace.bin' if is_on_disk else None)
  assert trace.arrays() == {}
  trace.append(piece(0, 3))
  if is_on_disk:
    mark = trace.mark()
    trace.append(piece(100, 4))
    trace.write()
    trace = traces.Trace(tmp_path / 'trace.bin')
    trace.restore(mark)
  trace.append(piece(3, 2))
  trace.append(piece(5, 1))
  _assert_equal(trace.arrays(), piece(0, 6))
  if is_on_disk:
    raw = (tmp_path / 'trace.bin').read_bytes()[: 6 * (2 * 8 + 4)]  # what follows is of no mark
    reader = traces.Trace(tmp_path / 'trace.bin', is_writer=False)
    reader.restore(trace.mark())
    reader.append(piece(6, 1))  # stays in memory
    _assert_equal(reader.arrays(), piece(0, 7))
    for damaged in (raw[:-1], raw[:50] + b'x' + raw[51:], b''):
      (tmp_path / 'trace.bin').write_bytes(damaged)
      with pytest.raises(tfr.errors.InputError, match='trace.bin is damaged'):
        traces.Trace(tmp_path / 'trace.bin').restore(trace.mark())


def test_traces_that_cannot_be_written_wait_in_memory(tmp_path):
  trace = traces.Trace(tmp_path / 'none' / 'trace.bin')
  trace.append({'n': np.arange(3)})
  with pytest.raises(OSError):
    trace.write()
  _assert_equal(trace.arrays(), {'n': np.arange(3)})
  (tmp_path / 'none').mkdir()
  trace.append({'n': np.arange(3, 5)})
  _assert_equal(trace.arrays(), {'n': np.arange(5)})
  assert (tmp_path / 'none' / 'trace.bin').stat().st_size == 5 * 8


def test_a_run_that_went_back_keeps_its_new_checkpoints(tmp_path):
  store = checkpoints.CheckpointStore(tmp_path)
  for number in (10, 20, 30):
    store.save(number, _arrays(number))
  for path in tmp_path.iterdir():
    path.write_bytes(b'nonsense')
  with pytest.warns(UserWarning, match='is damaged'):
    assert _load_newest(store) is None
  store.save(5, _arrays(5))
  _assert_equal(_load_newest(store), _arrays(5))
  assert store.numbers() == [5]


def test_folders_that_cannot_be_written_to_are_refused(tmp_path):
  (tmp_path / 'file').write_text('')
  for path in (tmp_path / 'file', tmp_path / 'file' / 'below', '/dev/null/x'):
    with pytest.raises(ValueError, match=f'`run_dir` must be a folder.*{re.escape(str(path))}'):
      checkpoints.check_room(path, 0)


def test_full_disks_are_refused(tmp_path, monkeypatch):
  monkeypatch.setattr(
    shutil, 'disk_usage', lambda _: types.SimpleNamespace(total=2**30, used=2**29, free=2**20)
  )
  checkpoints.check_room(tmp_path, 2**20)
  with pytest.raises(ValueError, match='must have room .* about 2 MiB.*with 1 MiB left'):
    checkpoints.check_room(tmp_path, 2**21)


@pytest.mark.parametrize('is_on_disk', [True, False])
def test_draws_are_kept_in_order_and_dropped_from_a_number_on(tmp_path, is_on_disk):
  kept = draws.Draws(tmp_path / 'draws' if is_on_disk else None)
  for number in (11, 3, 7):
    kept.add(number, [np.full([2], number), np.array([[number]])])
  assert kept.numbers == [3, 7, 11] and len(kept) == 3
  np.testing.assert_array_equal(kept[-1][0], [11, 11])
  np.testing.assert_array_equal(kept[0][1], [[3]])
  kept.drop_from(7)
  assert kept.numbers == [3]
  if is_on_disk:
    assert draws.Draws(tmp_path / 'draws').numbers == [3]


def test_a_copy_of_draws_replaces_what_was_there(tmp_path):
  old, new = draws.Draws(tmp_path / 'a', run='r'), draws.Draws(run='r')
  for number in (1, 2, 3):
    old.add(number, [np.zeros(1)])
  new.add(2, [np.ones(1)])
  new.copy_to(tmp_path / 'a')
  copied = draws.Draws(tmp_path / 'a', run='r')
  assert copied.numbers == [2]
  np.testing.assert_array_equal(copied[0][0], [1.0])
  copied.copy_to(tmp_path / '..' / tmp_path.name / 'a')  # to itself: nothing to do
  assert draws.Draws(tmp_path / 'a', run='r').numbers == [2]
