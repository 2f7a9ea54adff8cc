"""Where a run is."""

import dataclasses
import json

import numpy as np
import tensorflow as tf

from tfp_reprior.mcmc import runner


@dataclasses.dataclass
class Position:
  """Where a run is: everything that a checkpoint holds."""

  carry: runner.Carry
  num_done: dict = dataclasses.field(default_factory=lambda: {'burn-in': 0, 'sampling': 0})
  traces: dict = dataclasses.field(default_factory=lambda: {'burn-in': [], 'sampling': []})
  seconds: dict = dataclasses.field(default_factory=dict)

  def trace(self, phase):
    """The trace of a phase, in one piece."""
    pieces = self.traces[phase]
    if len(pieces) > 1:
      names = pieces[0].keys()
      self.traces[phase] = pieces = [{k: np.concatenate([p[k] for p in pieces]) for k in names}]
    return pieces[0] if pieces else {}

  def to_arrays(self):
    arrays = {f'carry/{i:04d}': t.numpy() for i, t in enumerate(tf.nest.flatten(self.carry))}
    for phase in self.traces:
      arrays |= {f'{phase}/{name}': values for name, values in self.trace(phase).items()}
    arrays['counts'] = np.array(json.dumps({'num_done': self.num_done, 'seconds': self.seconds}))
    return arrays

  def restore(self, arrays):
    """Takes over what `to_arrays` gave; the carry must have the right structure already."""

    def group(prefix):
      return {k.removeprefix(prefix): arrays[k] for k in sorted(arrays) if k.startswith(prefix)}

    tensors = [tf.constant(a) for a in group('carry/').values()]
    self.carry = tf.nest.pack_sequence_as(self.carry, tensors)
    for phase in self.traces:
      self.traces[phase] = [group(f'{phase}/')] if group(f'{phase}/') else []
    counts = json.loads(str(arrays['counts']))
    self.num_done, self.seconds = counts['num_done'], counts['seconds']
