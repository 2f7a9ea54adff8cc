"""Where a run is."""

import copy
import json

import numpy as np
import tensorflow as tf

from tfp_reprior.sampling import traces


class Position:
  """Where a run is: everything that a checkpoint holds.

  Args:
    start: The state that chains start from.
    dtype: Of its parts.
    anchor: The `Anchor` that the coordinates of the chains depend on, or None.
    store: The `CheckpointStore` of the run, beside whose checkpoints traces are kept; or `None`.

  Attributes:
    carry: The `runner.Carry`, which begins with the state; None before `begin`.
    phase: The phase that the carry is of.
    num_done: Dict of the draws made in each phase.
    num_steps: Steps taken since the last draw.
    traces: Dict of the `Trace` of each phase.
    seconds: Dict of the time that each took.
  """

  def __init__(self, start, dtype, anchor=None, store=None):
    self._start = start
    self._anchor = anchor
    self.dtype = dtype
    self.carry = None
    self.phase = None
    self._saved = None  # the tensors of a carry, which wait for its structure
    self.num_done = {'optimization': 0, 'warm-up': 0, 'sampling': 0}
    self.num_steps = 0
    self.traces = {phase: _new_trace(store, phase) for phase in self.num_done}
    self.seconds = {}

  @property
  def state(self):
    """Where the chains are."""
    if self.carry is not None:
      return self.carry.state
    return self._start if self._saved is None else self._saved[: len(self._start)]

  def begin(self, phase, start_fn, is_new):
    """Makes the carry that of a phase.

    Args:
      phase: Its name.
      start_fn: Function of a state; returns the carry that the phase begins with.
      is_new: Whether to begin with that, or to go on with the carry that there is.
    """
    if is_new:
      self.carry, self.num_steps = start_fn(self.state), 0
    elif self.carry is None:
      self.carry = tf.nest.pack_sequence_as(start_fn(self._start), self._saved)
    self.phase, self._saved = phase, None

  def trace(self, phase):
    """The trace of a phase, in one piece."""
    return self.traces[phase].arrays()

  def to_arrays(self):
    """Everything, for a checkpoint; traces are written first, and it refers to them."""
    tensors = self._saved if self.carry is None else tf.nest.flatten(self.carry)
    arrays = {f'carry/{i:04d}': t.numpy() for i, t in enumerate(tensors or [])}
    if self._anchor is not None:
      arrays |= {f'anchor/{i:04d}': p.numpy() for i, p in enumerate(self._anchor.parts)}
    counts = {'phase': self.phase, 'num_done': self.num_done, 'seconds': self.seconds}
    counts['num_steps'] = self.num_steps
    counts['traces'] = {phase: trace.mark() for phase, trace in self.traces.items()}
    arrays['counts'] = np.array(json.dumps(counts))
    return arrays

  def restore(self, arrays, check_fn):
    """Takes over what `to_arrays` gave, all of it or nothing; `begin` makes a carry of it.

    Args:
      arrays: As of `to_arrays`.
      check_fn: Function of `num_done`; raises an `errors.InputError` if it cannot be used.
    """

    def group(prefix):
      return [arrays[name] for name in sorted(arrays) if name.startswith(prefix)]

    counts = json.loads(str(arrays['counts']))
    check_fn(counts['num_done'])
    restored = {phase: copy.copy(trace) for phase, trace in self.traces.items()}
    for phase, trace in restored.items():
      trace.restore(counts['traces'][phase])
    self.traces = restored
    self._saved = [tf.constant(a) for a in group('carry/')] or None
    if self._anchor is not None:
      self._anchor.place(group('anchor/'))
    self.phase = counts['phase']
    self.num_done, self.seconds = counts['num_done'], counts['seconds']
    self.num_steps = counts['num_steps']
    self.carry = None


def _new_trace(store, phase):
  if store is None:
    return traces.Trace()
  return traces.Trace(store.folder / f'trace-{phase}.bin', store.is_writer)
