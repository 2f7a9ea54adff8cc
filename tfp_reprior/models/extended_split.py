"""A split with state parts that are no weights."""

import tensorflow as tf

from tfp_reprior.models import readout_split


class ExtendedSplit(readout_split.ReadoutSplit):
  """A `ReadoutSplit` with further parts, N(0, 1) as all, on which the network does not depend.

  They are the last of the hidden parts: the list is `[*hidden, *further, kernel, bias]`.

  Args:
    split: A `ReadoutSplit`, not changed.
    event_shapes: The shapes of the further parts.

  Attributes:
    inner: The `split`.
  """

  def __init__(self, split, event_shapes):
    vars(self).update(vars(split))
    self.inner = split
    self._further_shapes = list(event_shapes)
    first = split.num_hidden
    self.num_hidden = first + len(self._further_shapes)
    self.event_shapes = [
      *split.event_shapes[:first],
      *self._further_shapes,
      *split.event_shapes[first:],
    ]

  @property
  def network(self):
    inner = self.inner.network
    return self if inner is self.inner else type(self)(inner, self._further_shapes)

  @property
  def layer_spaces(self):
    return self.inner.layer_spaces

  def in_chunks(self, chunk_size):
    # Of the split that embeds: a copy of this one alone would go on with the chunks of that.
    return type(self)(self.inner.in_chunks(chunk_size), self._further_shapes)

  def embed(self, hidden_parts, x):
    return self.inner.embed(self._take_out(hidden_parts, hidden=True)[0], x)

  def embed_new(self, hidden_parts, x, seed=None):
    return self.inner.embed_new(self._take_out(hidden_parts, hidden=True)[0], x, seed)

  def to_weights(self, parts, seed=None):
    parts, further = self._take_out(parts)
    return self._put_in(self.inner.to_weights(parts, seed), further)

  def from_weights(self, parts):
    parts, further = self.network._take_out(parts)
    return self._put_in(self.inner.from_weights(parts), further)

  def assign(self, parts):
    self.inner.assign(self._take_out(parts)[0])

  def current_parts(self):
    """The parts that the variables of the model hold now, and zeros for the further ones."""
    further = [tf.zeros(shape, self.dtype) for shape in self._further_shapes]
    return self._put_in(self.inner.current_parts(), further)

  def _take_out(self, parts, hidden=False):
    """Parts without the further ones, and these."""
    parts = self.check_parts(parts, hidden)
    first = self.inner.num_hidden
    return parts[:first] + parts[self.num_hidden :], parts[first : self.num_hidden]

  def _put_in(self, parts, further):
    first = len(parts) - 1 - self.has_bias
    return [*parts[:first], *further, *parts[first:]]
