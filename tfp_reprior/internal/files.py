"""Files that are written whole or not at all, and folders that one process has to itself."""

import contextlib
import hashlib
import json
import mmap
import os
import pathlib
import zipfile

import numpy as np

from tfp_reprior import errors

try:
  import fcntl
except ImportError:  # not on Windows
  fcntl = None

_TEMPORARY = 'tmp'  # what names of unfinished files end in, before the number of the process
_DIGEST, _RUN = 'digest', 'run'
_AT_ONCE = 2**22  # bytes
_UNREADABLE = (FileNotFoundError, PermissionError, IsADirectoryError)


def write_atomically(path, write_fn):
  """Writes a file so that at any moment `path` holds the old content or the new, never a part.

  Args:
    path: The file.
    write_fn: Function of an open binary file.
  """
  path = pathlib.Path(os.path.realpath(path))  # of a link, what it leads to
  if path.exists() and not path.is_file():  # as /dev/null, which must not be replaced
    raise errors.InputError(f'{path} must be a file to write to, and is something else')
  temporary = temporary_path(path)
  try:
    with open(temporary, 'wb') as file:
      write_fn(file)
      file.flush()
      os.fsync(file.fileno())
    os.replace(temporary, path)
    sync_folder(path.parent)
  except OSError as e:
    if e.errno is not None and e.filename is None:
      e.filename = str(path)  # that of a full disk has none
    raise
  finally:
    temporary.unlink(missing_ok=True)


def temporary_path(path, suffix=''):
  """Where a file is written before it gets its name, by this process alone."""
  return path.with_name(f'{path.name}.{_TEMPORARY}{os.getpid()}{suffix}')


def remove_temporary(folder, patterns):
  """Deletes what processes that were killed left of files with such names."""
  for pattern in patterns:
    for path in pathlib.Path(folder).glob(f'{pattern}.{_TEMPORARY}[0-9]*'):
      path.unlink(missing_ok=True)


def make_folder(path):
  """Makes a folder, and those above it, that stay where they are if the machine stops."""
  path = pathlib.Path(path)
  made = [p for p in (path, *path.parents) if not p.exists()]
  path.mkdir(parents=True, exist_ok=True)
  for folder in made:
    sync_folder(folder.parent)


@contextlib.contextmanager
def writing_to(name, folder):
  """A context in which a folder, the argument `name`, is refused if writing to it fails."""
  try:
    yield
  except OSError as e:
    raise errors.InputError(
      f'`{name}` must be a folder that can be written to ({e.strerror}). Received: '
      f'{name}={str(folder)!r}'
    ) from e


def sync_folder(folder):
  """Makes the operating system remember what the folder holds, where it can."""
  with contextlib.suppress(OSError):  # Windows has none of this
    descriptor = os.open(folder, os.O_RDONLY)
    try:
      os.fsync(descriptor)
    finally:
      os.close(descriptor)


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


def save_arrays(path, arrays, run=''):
  """Writes a dict of arrays as `.npz`, atomically, with its digest and the run that it is of.

  Returns:
    The digest.
  """
  seal = digest(arrays, run)
  sealed = {**arrays, _RUN: np.array(run), _DIGEST: np.array(seal)}
  write_atomically(path, lambda file: _write_archive(file, sealed))
  return seal


def _write_archive(file, arrays):
  """As `numpy.savez`, in pieces, whatever the arrays are of."""
  with zipfile.ZipFile(file, 'w', allowZip64=True) as archive:
    for name, array in arrays.items():
      array = np.asarray(array)
      header = {'descr': array.dtype.str, 'fortran_order': False, 'shape': array.shape}
      with archive.open(f'{name}.npy', 'w', force_zip64=True) as member:
        np.lib.format.write_array_header_1_0(member, header)
        for piece in pieces(array):
          member.write(piece.tobytes())


def load_arrays(path, run=None):
  """Reads what `save_arrays` wrote.

  Args:
    path: The file.
    run: The run that it must be of; `None` for any.

  Raises:
    errors.InputError: If it is not there, damaged, or of another run.
  """
  try:
    # Opened here, because NumPy leaves a damaged file open.
    with open(path, 'rb') as file, np.load(file, allow_pickle=False) as loaded:
      arrays = {name: loaded[name] for name in loaded.files}
    saved, seal = str(arrays.pop(_RUN)), str(arrays.pop(_DIGEST))
  except _UNREADABLE as e:
    raise errors.InputError(f'{path} cannot be read ({e.strerror})') from e
  except Exception as e:  # what is damaged can fail in any way
    raise errors.InputError(f'{path} is damaged ({e})') from e
  # The checksums of the file format leave out its table of contents.
  _check(path, seal, digest(arrays, saved), saved, run)
  return arrays


def save_json(path, fields, run=''):
  """Writes a dict as JSON, atomically, with its digest and the run that it is of."""
  sealed = {**fields, _RUN: run}
  sealed[_DIGEST] = _text_digest(sealed)
  text = json.dumps(sealed, indent=1)
  write_atomically(path, lambda file: file.write(text.encode()))


def load_json(path, run=None):
  """Reads what `save_json` wrote; returns the dict, and the run that it is of.

  Raises:
    errors.InputError: As `load_arrays`.
  """
  try:
    sealed = json.loads(pathlib.Path(path).read_bytes())
    seal = sealed.pop(_DIGEST)
  except _UNREADABLE as e:
    raise errors.InputError(f'{path} cannot be read ({e.strerror})') from e
  except Exception as e:  # what is damaged can fail in any way
    raise errors.InputError(f'{path} is damaged ({e})') from e
  _check(path, seal, _text_digest(sealed), sealed.get(_RUN), run)
  saved = sealed.pop(_RUN)
  return sealed, saved


def _check(path, seal, found, saved, run):
  if seal != found:
    raise errors.InputError(f'{path} is damaged (its checksum is wrong)')
  if run is not None and saved != run:
    raise errors.InputError(f'{path} is of another run ({saved!r}, and not {run!r})')


def digest(arrays, run=''):
  """A checksum of a dict of arrays."""
  hashed = hashlib.blake2b(run.encode(), digest_size=16)
  for name, array in sorted(arrays.items()):
    array = np.asarray(array)
    hashed.update(f'{name} {array.shape} {array.dtype} '.encode())
    for piece in pieces(array):
      hashed.update(piece.tobytes())
  return hashed.hexdigest()


def map_records(path, dtype, length):
  """The first records of a file, an array that is read where it is used."""
  with open(path, 'rb') as file:
    mapped = mmap.mmap(file.fileno(), length * dtype.itemsize, access=mmap.ACCESS_READ)
  return np.frombuffer(mapped, dtype)


def pieces(array):
  """Yields an array piece by piece; of one by `map_records` no more than that is in memory."""
  rows, mapped = np.atleast_1d(array), _mapping(array)
  at_once = max(1, _AT_ONCE // max(1, abs(rows.strides[0])))
  for first in range(0, len(rows), at_once):
    yield rows[first : first + at_once]
    if mapped is not None:
      mapped.madvise(mmap.MADV_DONTNEED)


def _mapping(array):
  """The `mmap` that an array is a part of, or `None`; also where it can't be told to let go."""
  while isinstance(array, np.ndarray):
    array = array.base
  array = array.obj if isinstance(array, memoryview) else array
  return array if isinstance(array, mmap.mmap) and hasattr(mmap, 'MADV_DONTNEED') else None


def file_digest(path):
  """A checksum of a file, or `None` if there is none."""
  if not pathlib.Path(path).exists():
    return None
  hashed = hashlib.blake2b(digest_size=16)
  with open(path, 'rb') as file:
    while piece := file.read(_AT_ONCE):
      hashed.update(piece)
  return hashed.hexdigest()


def _text_digest(fields):
  text = json.dumps(fields, sort_keys=True)
  return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
