"""Files that are written whole or not at all, and folders that one process has to itself."""

import contextlib
import os
import pathlib

import numpy as np

try:
  import fcntl
except ImportError:  # not on Windows
  fcntl = None


def write_atomically(path, write_fn):
  """Writes a file so that at any moment `path` holds the old content or the new, never a part.

  Args:
    path: The file.
    write_fn: Function of an open binary file.
  """
  path = pathlib.Path(path)
  temporary = path.with_name(path.name + '.tmp')
  try:
    with open(temporary, 'wb') as file:
      write_fn(file)
      file.flush()
      os.fsync(file.fileno())
    os.replace(temporary, path)
  finally:
    temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def held(folder):
  """A context in which no one else can hold `folder`.

  The operating system lets go of it when the process ends, however it ends. Where it knows no such
  locks, as on some file systems of networks, nothing is held.

  Args:
    folder: An existing folder.

  Raises:
    BlockingIOError: If someone holds it.
  """
  if fcntl is None:
    yield
    return
  descriptor = os.open(folder, os.O_RDONLY)
  try:
    try:
      fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
      raise
    except OSError:
      pass  # no locks here
    yield
  finally:
    os.close(descriptor)


def save_arrays(path, arrays):
  """Writes a dict of arrays as `.npz`, atomically."""
  write_atomically(path, lambda file: np.savez(file, **arrays))


def load_arrays(path):
  """Reads what `save_arrays` wrote."""
  # Opened here, because NumPy leaves a damaged file open.
  with open(path, 'rb') as file, np.load(file, allow_pickle=False) as arrays:
    return {name: arrays[name] for name in arrays.files}
