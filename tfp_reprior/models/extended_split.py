"""A split with state parts that are no weights, and outputs of another scale."""

import tensorflow as tf

from tfp_reprior.models import readout_split


class ExtendedSplit(readout_split.ReadoutSplit):
  """A `ReadoutSplit` with further parts, N(0, 1) as all, and outputs multiplied by a scale of them.

  They are the last of the hidden parts: the list is `[*hidden, *further, kernel, bias]`. Features
  are multiplied by the scale, and so is the readout that `assign` writes to the Keras model.

  Args:
    split: A `ReadoutSplit`, not changed.
    event_shapes: The shapes of the further parts.
    scale_fn: Function of the further parts; returns what outputs are multiplied by, a float or a
      tensor `[*chains]`.

  Attributes:
    inner: The `split`.
  """

  def __init__(self, split, event_shapes, scale_fn):
    vars(self).update(vars(split))
    self.inner = split
    self._further_shapes = list(event_shapes)
    self._scale_fn = scale_fn
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
    return self if inner is self.inner else self._around(inner)

  @property
  def layer_spaces(self):
    return self.inner.layer_spaces

  def in_chunks(self, chunk_size):
    # Of the split that embeds: a copy of this one alone would go on with the chunks of that.
    return self._around(self.inner.in_chunks(chunk_size))

  def embed(self, hidden_parts, x):
    hidden = self._take_out(hidden_parts, hidden=True)[0]
    return self.scale_features(hidden_parts, self.inner.embed(hidden, x))

  def embed_new(self, hidden_parts, x, seed=None):
    hidden = self._take_out(hidden_parts, hidden=True)[0]
    return self.scale_features(hidden_parts, self.inner.embed_new(hidden, x, seed))

  def scale_features(self, hidden_parts, psi):
    scale = self._scale_fn(self._take_out(hidden_parts, hidden=True)[1])
    if tf.is_tensor(scale):
      return scale[..., tf.newaxis, tf.newaxis] * psi
    return psi if scale == 1.0 else scale * psi

  def to_weights(self, parts, seed=None):
    parts, further = self._take_out(parts)
    return self._put_in(self.inner.to_weights(parts, seed), further)

  def from_weights(self, parts):
    parts, further = self.network._take_out(parts)
    return self._put_in(self.inner.from_weights(parts), further)

  def assign(self, parts):
    parts, further = self._take_out(parts)
    self.inner.assign(self._scale_readout(parts, self._scale_fn(further)))

  def current_parts(self):
    """The parts that the variables of the model hold now, and zeros for the further ones."""
    further = [tf.zeros(shape, self.dtype) for shape in self._further_shapes]
    parts = self._scale_readout(self.inner.current_parts(), 1.0 / self._scale_fn(further))
    return self._put_in(parts, further)

  def _around(self, split):
    return type(self)(split, self._further_shapes, self._scale_fn)

  def _scale_readout(self, parts, scale):
    """Parts of the inner split, without chains, with another readout."""
    first = self.inner.num_hidden
    return list(parts[:first]) + [scale * p for p in parts[first:]]

  def _take_out(self, parts, hidden=False):
    """Parts without the further ones, and these."""
    parts = self.check_parts(parts, hidden)
    first = self.inner.num_hidden
    return parts[:first] + parts[self.num_hidden :], parts[first : self.num_hidden]

  def _put_in(self, parts, further):
    first = len(parts) - 1 - self.has_bias
    return [*parts[:first], *further, *parts[first:]]
