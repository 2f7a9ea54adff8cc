"""Checkpoints on disk: whole or not at all, several kept, checked when read."""

import hashlib
import pathlib
import re
import shutil
import tempfile
import warnings

import numpy as np

from tfp_reprior import errors
from tfp_reprior.internal import files

_NUM_KEPT = 3
_DIGEST = 'digest'


class CheckpointStore:
  """A folder of checkpoints, each a dict of arrays with a number that grows with the run.

  Args:
    folder: Where they are; made if it is not there.
    is_writer: Whether this process writes there, or only reads.
  """

  def __init__(self, folder, is_writer=True):
    self._folder = pathlib.Path(folder)
    if not is_writer:
      return
    self._folder.mkdir(parents=True, exist_ok=True)
    for path in self._folder.glob('*.tmp'):  # of a process that was killed while it wrote
      path.unlink(missing_ok=True)

  def numbers(self):
    """The numbers of the checkpoints in the folder, in ascending order."""
    matches = (re.fullmatch(r'checkpoint-(\d+)\.npz', p.name) for p in self._folder.glob('*'))
    return sorted(int(m.group(1)) for m in matches if m)

  def save(self, number, arrays):
    """Saves a checkpoint, and deletes the oldest ones and any that were passed over as damaged."""
    files.save_arrays(self._path(number), {**arrays, _DIGEST: np.array(_digest(arrays))})
    before = [m for m in self.numbers() if m <= number]
    for other in set(self.numbers()) - set(before[-_NUM_KEPT:]):
      self._path(other).unlink(missing_ok=True)

  def load_newest(self):
    """The arrays of the newest checkpoint that can be read, or None if there is none.

    A damaged one is passed over with a warning.
    """
    for number in reversed(self.numbers()):
      path = self._path(number)
      try:
        arrays = files.load_arrays(path)
        # The checksums of the file format leave out its table of contents.
        if str(arrays.pop(_DIGEST)) != _digest(arrays):
          raise errors.InputError('its checksum is wrong')
        return arrays
      except Exception as e:  # what is damaged can fail in any way
        warnings.warn(
          f'The checkpoint {path} is damaged ({e}); going on from the one before.', stacklevel=2
        )
    return None

  def _path(self, number):
    return self._folder / f'checkpoint-{number:010d}.npz'


def _digest(arrays):
  digest = hashlib.blake2b(digest_size=16)
  for name, array in sorted(arrays.items()):
    digest.update(f'{name} {array.shape} {array.dtype} '.encode() + array.tobytes())
  return digest.hexdigest()


def check_room(folder, num_bytes):
  """Makes a folder and refuses it if it cannot be written to, or has not `num_bytes` left."""
  folder = pathlib.Path(folder)
  try:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder):
      pass
  except OSError as e:
    raise errors.InputError(
      f'`run_dir` must be a folder that can be written to ({e.strerror}). Received: '
      f'run_dir={str(folder)!r}'
    ) from e
  free = shutil.disk_usage(folder).free
  if free < num_bytes:
    raise errors.InputError(
      '`run_dir` must have room for checkpoints and kept draws, about '
      f'{num_bytes / 2**20:.0f} MiB. Received: run_dir={str(folder)!r} with '
      f'{free / 2**20:.0f} MiB left'
    )
