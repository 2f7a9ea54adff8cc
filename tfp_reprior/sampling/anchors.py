"""Anchors of maps on every layer: where they are, and when they move."""

import numpy as np
import tensorflow as tf


class Anchor:
  """The anchors of the chains of a sampler.

  Args:
    density: A `tfp_reprior.LayerwisePosterior`.
    to_parts: Function of a state of the sampler; returns parts in the coordinates of the density.
    to_state: The inverse of that.
  """

  def __init__(self, density, to_parts, to_state):
    self._density = density
    self._to_parts, self._to_state = to_parts, to_state
    self._num_hidden = density.posterior.split.num_hidden
    self._to_hidden = tf.function(density.to_hidden, autograph=False)

  @property
  def parts(self):
    """Hidden parts of theta, a list of tensors `[c, *event_shape]`."""
    return self._density.anchor

  def place(self, hidden_parts):
    """Moves it to hidden parts of theta, of which each chain has its own."""
    self._density.move_anchor([tf.convert_to_tensor(p) for p in hidden_parts])

  def start(self, state, hidden_parts=None):
    """Moves it to the hidden parts of a state without such maps; returns the state with them.

    With `hidden_parts`, of theta, it moves to these.
    """
    return self._move(self._to_parts(state), hidden_parts)

  def renew(self, state):
    """Moves it to where the chains are; returns their state in the new coordinates.

    The weights stay as they are, and so does the readout in its coordinates: given the hidden
    weights, its map is the same.
    """
    parts = self._to_parts(state)
    hidden, *_ = self._to_hidden(parts)
    return self._move([*hidden, *parts[self._num_hidden :]])

  def _move(self, parts, anchor=None):
    hidden, readout = parts[: self._num_hidden], parts[self._num_hidden :]
    self.place(hidden if anchor is None else anchor)
    return self._to_state([*self._density.from_theta(hidden), *readout])


def to_arrays(anchor):
  """The parts of an anchor as arrays; None for none."""
  return None if anchor is None else [np.asarray(p) for p in anchor.parts]
