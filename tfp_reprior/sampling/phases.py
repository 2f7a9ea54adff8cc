"""Phases of a run, in pieces: after each a run can be saved, and stopped."""

import contextlib
import math
import time
import warnings

import numpy as np
import tensorflow as tf

from tfp_reprior.internal import interrupts
from tfp_reprior.sampling import progress as progress_lib

_FIRST_STEPS = 10


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
    self._piece = None  # how many steps to take at once
    self._saved_at = time.monotonic()

  @contextlib.contextmanager
  def interruptible(self, position):
    """A context that yields `Interrupts`, and saves where a run is when TensorFlow fails."""
    self._piece = None  # the time of a step is not known yet
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
    if self._piece is None:
      self._piece = min(_FIRST_STEPS, phase_runner.thinning)
    is_stopped = self._agree(phase, position, interrupt)
    if not is_stopped:
      with interrupt.at_once():
        phase_runner.prepare(position.carry)  # which is not sampling, and takes seconds
    thinning, most = phase_runner.thinning, phase_runner.draws_per_call
    while position.num_done[phase] < total and not is_stopped:
      done, taken = position.num_done[phase], position.num_steps
      to_kept = keep_every - done % keep_every
      num_draws = int(min(self._piece // thinning, total - done, to_kept, most))
      # Whole draws, or what takes a second of one that takes longer.
      is_whole = num_draws and not taken
      steps = thinning * num_draws if is_whole else min(self._piece, thinning - taken)
      begin = time.monotonic()
      position.carry, trace = phase_runner.advance_steps(position.carry, done, taken, steps)
      elapsed = time.monotonic() - begin
      now, position.num_steps = divmod(taken + steps, thinning)
      position.num_done[phase] = done + now
      if now:
        position.traces[phase].append(trace)
      position.seconds[phase] += elapsed
      self._piece = phase_runner.next_length(self._piece, steps, elapsed, thinning * most)
      if now == to_kept:
        keep_fn(done + now - 1, position.carry.state)
      bar.update(steps * (steps_per_draw // thinning), trace if now else {})
      if time.monotonic() - self._saved_at > self._checkpoint_seconds:
        self.save(position)
      is_stopped = self._agree(phase, position, interrupt)
    if is_stopped:
      self.save(position)

  def _agree(self, phase, position, interrupt):
    """Whether to stop; that, and the number of steps to take next, are the same for all workers."""
    names = ('acceptance', 'energy', 'log_prob')  # of the kernel: the rest follows from its state
    self._workers.check_same(
      'draws, from a `run_dir` that they share, on machines that are alike',
      np.array(list(position.num_done.values())),
      *(
        last[name][-1]
        for last in [position.traces[phase].last or {}]
        for name in names
        if name in last
      ),
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
