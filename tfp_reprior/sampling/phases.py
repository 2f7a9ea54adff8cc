"""Phases of a run, in pieces: after each a run can be saved, and stopped."""

import contextlib
import math
import time
import warnings

import numpy as np
import tensorflow as tf

from tfp_reprior.sampling import interrupts
from tfp_reprior.sampling import progress as progress_lib


class Phases:
  """Runs phases, and saves where they are.

  Args:
    workers: The `tfp_reprior.internal.workers.Workers`.
    folder: The folder of the run, or None.
    checkpoint_seconds: Positive float, the time between checkpoints.
    progress: Whether to show progress bars.

  Attributes:
    store: The `CheckpointStore`, or None.
  """

  def __init__(self, workers, folder, checkpoint_seconds, progress):
    self._workers = workers
    self._folder = folder
    self._checkpoint_seconds = checkpoint_seconds
    self._progress = progress and workers.is_chief
    self.store = None
    self._piece = 1  # how many draws to make at once
    self._saved_at = time.monotonic()

  @contextlib.contextmanager
  def interruptible(self, position):
    """A context that yields `Interrupts`, and saves where a run is when TensorFlow fails."""
    self._piece = 1  # the time of a draw is not known yet
    with interrupts.Interrupts() as interrupt:
      try:
        yield interrupt
      except tf.errors.OpError:  # of a worker that has gone, or of memory
        self.save(position)
        raise

  def progress_bar(self, phase, num_steps, num_done=0):
    """The `Progress` of a phase, to be closed."""
    folder = None
    if self._folder is not None and self._workers.is_chief:
      folder = self._folder / 'tensorboard'
    return progress_lib.Progress(phase, num_steps, num_done, self._progress, folder)

  def run(
    self,
    phase,
    phase_runner,
    total,
    position,
    interrupt,
    bar,
    steps_per_draw,
    keep_every=math.inf,
    keep_fn=None,
  ):
    """Goes on with a phase until it has `total` draws, or is interrupted.

    Args:
      phase: Its name.
      phase_runner: A `tfp_reprior.sampling.runner.Runner`.
      total: Positive integer.
      position: The `Position`, which is changed.
      interrupt: The `Interrupts`.
      bar: The `Progress`.
      steps_per_draw: Positive integer, for the bar.
      keep_every: Draws after which `keep_fn` is called.
      keep_fn: Function of the number of a draw and its state.
    """
    position.seconds.setdefault(phase, 0.0)
    if position.num_done[phase] >= total:
      return
    is_stopped = self._agree(phase, position, interrupt)
    if not is_stopped:
      phase_runner.prepare(position.carry)  # which is not sampling, and takes seconds
    while position.num_done[phase] < total and not is_stopped:
      done = position.num_done[phase]
      to_kept = keep_every - done % keep_every
      now = int(min(self._piece, total - done, to_kept, phase_runner.draws_per_call))
      begin = time.monotonic()
      position.carry, trace = phase_runner.advance(position.carry, done, now)
      elapsed = time.monotonic() - begin
      position.num_done[phase] = done + now
      position.traces[phase].append(trace)
      position.seconds[phase] += elapsed
      self._piece = phase_runner.next_length(self._piece, now, elapsed)
      if now == to_kept:
        keep_fn(done + now - 1, position.carry.state)
      bar.update(now * steps_per_draw, trace)
      if time.monotonic() - self._saved_at > self._checkpoint_seconds:
        self.save(position)
      is_stopped = self._agree(phase, position, interrupt)
    if is_stopped:
      self.save(position)

  def _agree(self, phase, position, interrupt):
    """Whether to stop; that, and the number of draws to make next, are the same for all workers."""
    names = ('acceptance', 'energy', 'log_prob')  # of the kernel: the rest follows from its state
    self._workers.check_same(
      'draws, from a `run_dir` that they share, on machines that are alike',
      np.array(list(position.num_done.values())),
      *(last[name][-1] for last in [position.traces[phase].last] if last for name in names),
    )
    decisions = self._workers.gather([self._piece, interrupt.is_set])
    self._piece = int(decisions[0, 0])
    return bool(np.any(decisions[:, 1]))

  def save(self, position):
    """Writes a checkpoint, if there is a folder for it."""
    self._saved_at = time.monotonic()
    if self.store is not None and self._workers.is_chief:
      number = sum(position.num_done.values())
      self.without_loss(lambda: self.store.save(number, position.to_arrays()))

  def restore(self, position, check_fn):
    """Goes on from the newest checkpoint that can be used, if there is one; see `Position`."""
    if self.store is not None:
      self.store.restore_newest(lambda arrays: position.restore(arrays, check_fn))

  def without_loss(self, write_fn):
    """Writes; if that fails, what was computed goes on."""
    try:
      write_fn()
    except OSError as e:
      warnings.warn(f'Could not write to {self._folder} ({e}); going on without.', stacklevel=2)
