"""Traces: what is recorded of draws, in memory, or appended to a file."""

import contextlib
import hashlib
import json
import os
import pathlib

import numpy as np

from tfp_reprior import errors
from tfp_reprior.internal import files

_MOST_PENDING = 2**22  # bytes that wait in memory for the file
_READ_AT_ONCE = 2**22


class Trace:
  """The trace of a phase: dicts of arrays `[s, ...]`, piece by piece.

  In a file there is one record for each draw, so that a longer run only appends, and takes no more
  memory. The file is not read to go on: a checkpoint has its length and a checksum, by `mark`, and
  what was written after it is overwritten.

  Args:
    path: The file; by default everything stays in memory.
    is_writer: Whether this process writes it, or only reads what another one wrote.
  """

  def __init__(self, path=None, is_writer=True):
    self._path = None if path is None else pathlib.Path(path)
    self._is_writer = is_writer
    self._dtype = None  # of a record
    self._num_written = 0
    self._digest = hashlib.blake2b(digest_size=16)
    self._pending = []
    self.last = None

  def append(self, piece):
    """Adds the trace of some draws."""
    self.last = piece
    if self._dtype is None:
      self._dtype = np.dtype([(name, v.dtype.str, v.shape[1:]) for name, v in piece.items()])
    records = np.empty(len(next(iter(piece.values()))), self._dtype)
    for name, values in piece.items():
      records[name] = values
    self._pending.append(records)
    if self._in_file and sum(r.nbytes for r in self._pending) > _MOST_PENDING:
      with contextlib.suppress(OSError):  # of a full disk: they wait
        self.write()

  @property
  def _in_file(self):
    return self._path is not None and self._is_writer

  def write(self):
    """Writes what waits in memory to the file; if that fails, it goes on waiting."""
    if not self._in_file or not self._pending:
      return
    content = b''.join(r.tobytes() for r in self._pending)
    if not self._num_written:
      # Neither emptied nor cut: a result of this process may still have the old one mapped.
      self._path.unlink(missing_ok=True)
    with open(self._path, 'r+b' if self._num_written else 'xb') as file:
      file.seek(self._num_bytes)
      file.write(content)
      file.flush()
      os.fsync(file.fileno())
    if not self._num_written:
      files.sync_folder(self._path.parent)
    self._digest.update(content)
    self._num_written += len(content) // self._dtype.itemsize
    self._pending = []

  @property
  def _num_bytes(self):
    return 0 if self._dtype is None else self._num_written * self._dtype.itemsize

  def mark(self):
    """Where the trace is, after `write`: text for a checkpoint."""
    self.write()
    fields = None if self._dtype is None else self._dtype.descr
    return json.dumps([self._num_written, self._digest.hexdigest(), fields])

  def restore(self, mark):
    """Goes back to a mark, or refuses if the file does not hold it."""
    num_written, seal, fields = json.loads(mark)
    dtype = None if fields is None else np.dtype([(n, t, *map(tuple, s)) for n, t, *s in fields])
    digest = hashlib.blake2b(digest_size=16)
    if num_written:
      self._read(num_written * dtype.itemsize, digest)
    if digest.hexdigest() != seal:
      raise errors.InputError(f'{self._path} is damaged (its checksum is wrong)')
    self.__init__(self._path, self._is_writer)
    self._dtype, self._num_written, self._digest = dtype, num_written, digest
    if num_written and not self._is_writer:
      self._pending = [np.array(self._written())]

  def _read(self, num_bytes, digest):
    """Counts the beginning of the file in."""
    try:
      with open(self._path, 'rb') as file:
        while piece := file.read(min(num_bytes, _READ_AT_ONCE)):
          digest.update(piece)
          num_bytes -= len(piece)
    except OSError as e:
      raise errors.InputError(f'{self._path} cannot be read ({e.strerror})') from e

  def arrays(self):
    """Dict of arrays `[s, ...]`; of a file they are read when they are used."""
    if self._dtype is None:
      return {}
    with contextlib.suppress(OSError):
      self.write()
    pieces = [self._written()] if self._num_written and self._is_writer else []
    pieces += self._pending
    if len(pieces) > 1:
      pieces = [np.concatenate(pieces)]
      if not self._in_file:
        self._pending = pieces
    return {name: pieces[0][name] for name in self._dtype.names} if pieces else {}

  def _written(self):
    return files.map_records(self._path, self._dtype, self._num_written)
