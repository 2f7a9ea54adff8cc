"""Files that are whole or not there: checkpoints, kept draws."""

import os
import re
import shutil
import types
import warnings

import numpy as np
import pytest

from tfp_reprior.internal import files
from tfp_reprior.sampling import checkpoints, draws


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
  assert store.load_newest() is None
  for number in (1, 2, 5, 9, 30):
    store.save(number, _arrays(number))
  assert store.numbers() == [5, 9, 30]
  _assert_equal(store.load_newest(), _arrays(30))


def test_files_of_killed_processes_are_removed(tmp_path):
  (tmp_path / 'checkpoint-0000000007.npz.tmp').write_bytes(b'half')
  store = checkpoints.CheckpointStore(tmp_path)
  assert store.numbers() == [] and os.listdir(tmp_path) == []


def _newest(folder):
  return max(folder.iterdir())


def test_a_damaged_checkpoint_is_passed_over_with_a_warning(tmp_path):
  store = checkpoints.CheckpointStore(tmp_path)
  for number in (1, 2):
    store.save(number, _arrays(number))
  raw = _newest(tmp_path).read_bytes()
  _newest(tmp_path).write_bytes(raw[: len(raw) // 2])
  with pytest.warns(UserWarning, match=r'checkpoint-0000000002.npz is damaged \(.*going on from'):
    _assert_equal(store.load_newest(), _arrays(1))


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
      arrays = store.load_newest()
    if arrays is None:
      num_noticed += 1
      assert ['is damaged' in str(w.message) for w in caught] == [True]
    else:
      _assert_equal(arrays, _arrays())
  assert num_noticed > len(positions) / 3


def test_a_run_that_went_back_keeps_its_new_checkpoints(tmp_path):
  store = checkpoints.CheckpointStore(tmp_path)
  for number in (10, 20, 30):
    store.save(number, _arrays(number))
  for path in tmp_path.iterdir():
    path.write_bytes(b'nonsense')
  with pytest.warns(UserWarning, match='is damaged'):
    assert store.load_newest() is None
  store.save(5, _arrays(5))
  _assert_equal(store.load_newest(), _arrays(5))
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
  old, new = draws.Draws(tmp_path / 'a'), draws.Draws()
  for number in (1, 2, 3):
    old.add(number, [np.zeros(1)])
  new.add(2, [np.ones(1)])
  new.copy_to(tmp_path / 'a')
  copied = draws.Draws(tmp_path / 'a')
  assert copied.numbers == [2]
  np.testing.assert_array_equal(copied[0][0], [1.0])
  copied.copy_to(tmp_path / '..' / tmp_path.name / 'a')  # to itself: nothing to do
  assert draws.Draws(tmp_path / 'a').numbers == [2]
