"""Weights that are kept: in memory, or in a folder."""

import pathlib
import re
import uuid

from tfp_reprior import errors
from tfp_reprior.internal import files


class Draws:
  """A list of kept draws, each a list of parts `[c, *event_shape]`.

  Args:
    folder: Where to keep them, one file each, read when asked for; by default they stay in memory.
    is_writer: Whether this process writes there, or only reads what another one writes.
    run: The run that they are of; by default one without a name, which is like no other.

  Attributes:
    run: As above.
  """

  def __init__(self, folder=None, is_writer=True, run=None):
    self._folder = None if folder is None else pathlib.Path(folder)
    self._is_writer = is_writer
    self.run = uuid.uuid4().hex if run is None else run
    self._parts = {}
    if self._folder is not None:
      if is_writer:
        files.make_folder(self._folder)
      matches = (re.fullmatch(r'draw-(\d+)\.npz', p.name) for p in self._folder.glob('*'))
      self._parts = {int(m.group(1)): None for m in matches if m}

  @property
  def numbers(self):
    """Which draws of the chain these are, in ascending order."""
    return sorted(self._parts)

  def add(self, number, parts):
    """Keeps draw `number` of the chain."""
    arrays = {f'part_{i:04d}': p for i, p in enumerate(parts)}
    if self._folder is not None:
      if self._is_writer:
        files.save_arrays(self._path(number), arrays, self.run)
      arrays = None
    self._parts[number] = arrays

  def drop_from(self, number):
    """Forgets draw `number` and later ones."""
    for later in [m for m in self._parts if m >= number]:
      del self._parts[later]
      if self._folder is not None and self._is_writer:
        self._path(later).unlink(missing_ok=True)

  def check_present(self, numbers):
    """Refuses if other numbers than these are there."""
    for number in sorted({*numbers} ^ {*self._parts}):
      is_extra = number in self._parts
      problem = 'is not of this result' if is_extra else 'is missing'
      raise errors.InputError(
        f'{self._path(number)} {problem}: if this is a `run_dir`, run the same again'
      )

  def check(self, numbers):
    """Refuses if one of these numbers is missing, damaged, or of another run."""
    for number in numbers:
      if number not in self._parts:
        raise errors.InputError(f'{self._path(number)} is missing')
      self[self.numbers.index(number)]

  def copy_to(self, folder):
    """Makes a folder hold these draws and no others."""
    folder = pathlib.Path(folder)
    if self._folder is None or self._folder.resolve() != folder.resolve():
      copy = Draws(folder, run=self.run)
      copy.drop_from(0)
      for i, number in enumerate(self.numbers):
        copy.add(number, self[i])

  def __len__(self):
    return len(self._parts)

  def __getitem__(self, i):
    number = self.numbers[i]
    arrays = self._parts[number]
    if arrays is None:
      arrays = files.load_arrays(self._path(number), self.run)
    return [arrays[name] for name in sorted(arrays)]

  def __repr__(self):
    return f'Draws({len(self)} kept in {"memory" if self._folder is None else "files"})'

  def _path(self, number):
    return self._folder / f'draw-{number:010d}.npz'
