"""Checkpoints on disk: whole or not at all, several kept, checked when read."""

import contextlib
import pathlib
import re
import shutil
import tempfile
import warnings

from tfp_reprior import errors
from tfp_reprior.internal import files

_NUM_KEPT = 3


class CheckpointStore:
  """A folder of checkpoints, each a dict of arrays with a number that grows with the run.

  Args:
    folder: Where they are; made if it is not there.
    is_writer: Whether this process writes there, or only reads.
    run: The run that they are of.
  """

  def __init__(self, folder, is_writer=True, run=''):
    self.folder = pathlib.Path(folder)
    self.is_writer = is_writer
    self._run = run
    if is_writer:
      files.make_folder(self.folder)

  def numbers(self):
    """The numbers of the checkpoints in the folder, in ascending order."""
    matches = (re.fullmatch(r'checkpoint-(\d+)\.npz', p.name) for p in self.folder.glob('*'))
    return sorted(int(m.group(1)) for m in matches if m)

  def save(self, number, arrays):
    """Saves a checkpoint, and deletes the oldest ones and any that were passed over as damaged."""
    files.save_arrays(self._path(number), arrays, self._run)
    before = [m for m in self.numbers() if m <= number]
    for other in set(self.numbers()) - set(before[-_NUM_KEPT:]):
      self._path(other).unlink(missing_ok=True)

  def restore_newest(self, restore_fn):
    """Calls `restore_fn` with the arrays of the newest checkpoint that it can go on from.

    One that is damaged, of another run, or that `restore_fn` refuses by an `errors.InputError`, is
    passed over with a warning.

    Returns:
      Whether there was one.
    """
    for number in reversed(self.numbers()):
      try:
        restore_fn(files.load_arrays(self._path(number), self._run))
        return True
      except errors.InputError as e:
        warnings.warn(f'{e}; going on from the checkpoint before, or from the start.', stacklevel=2)
    return False

  def _path(self, number):
    return self.folder / f'checkpoint-{number:010d}.npz'


@contextlib.contextmanager
def held(folder, num_bytes):
  """A context in which a folder is this run's alone: refused if in use, and by `check_room`."""
  check_room(folder, num_bytes)
  with contextlib.ExitStack() as stack:
    try:
      stack.enter_context(files.held(folder))
    except BlockingIOError as e:
      raise errors.InputError(
        '`run_dir` is in use: another process samples to it. Choose another folder, or wait. '
        f'Received: run_dir={str(folder)!r}'
      ) from e
    yield


def check_room(folder, num_bytes):
  """Makes a folder and refuses it if it cannot be written to, or has not `num_bytes` left.

  What was made for a folder that is refused goes again.
  """
  folder = pathlib.Path(folder)
  with files.writing_to('run_dir', folder):
    made = [p for p in (folder, *folder.parents) if not p.exists()]
    files.make_folder(folder)
    with tempfile.TemporaryFile(dir=folder):
      pass
  free = shutil.disk_usage(folder).free
  if free < num_bytes:
    for path in made:
      path.rmdir()
    raise errors.InputError(
      '`run_dir` must have room for checkpoints, traces and kept draws, about '
      f'{num_bytes / 2**20:.0f} MiB. Received: run_dir={str(folder)!r} with '
      f'{free / 2**20:.0f} MiB left'
    )
