"""A split with state parts that are no weights."""

import tensorflow as tf

from tfp_reprior.models import readout_split


class ExtendedSplit(readout_split.ReadoutSplit):
  """A `ReadoutSplit` with further parts, N(0, 1) as all, on which the network does not depend.

  They are the last of the hidden parts: the list is `[*hidden, *further, kernel, bias]`.

  Args:
    split: A `ReadoutSplit`, not changed.
    event_shapes: The shapes of the further parts.
  """

  def __init__(self, split, event_shapes):
    vars(self).update(vars(split))
    self._weights = split
    self._further_shapes = list(event_shapes)
    first = split.num_hidden
    self.num_hidden = first + len(self._further_shapes)
    self.event_shapes = [
      *split.event_shapes[:first],
      *self._further_shapes,
      *split.event_shapes[first:],
    ]

  @property
  def weights(self):
    """The `ReadoutSplit` of the weights alone."""
    return self._weights

  def in_chunks(self, chunk_size):
    # Of the split that embeds: a copy of this one alone would go on with the chunks of that.
    return type(self)(self._weights.in_chunks(chunk_size), self._further_shapes)

  def embed(self, hidden_parts, x):
    hidden_parts = self.check_parts(hidden_parts, hidden=True)
    return self._weights.embed(hidden_parts[: self._weights.num_hidden], x)

  def assign(self, parts):
    parts = self.check_parts(parts)
    self._weights.assign(parts[: self._weights.num_hidden] + parts[self.num_hidden :])

  def current_parts(self):
    """The parts that the variables of the model hold now, and zeros for the further ones."""
    parts = self._weights.current_parts()
    further = [tf.zeros(shape, self.dtype) for shape in self._further_shapes]
    first = self._weights.num_hidden
    return parts[:first] + further + parts[first:]
