"""Random one-dimensional projections of lists of parts."""

import math
from collections.abc import Sequence

import tensorflow as tf

from tfp_reprior.internal import checks, random
from tfp_reprior.internal import parts as parts_lib
from tfp_reprior.internal.types import Seed, State

# Up to this many numbers, directions are dense and Gaussian, as in the paper.
_LARGEST_DENSE = 2**24
MOST = 10**6  # projections: more would only take memory


class RandomProjections:
  """Random one-dimensional projections of a list of parts, fixed by a seed.

  ```none
  projections[r] = sum(w[r] * parts)
  ```

  For small states w[r] is Gaussian, with variance 1 / (number of weights). For large ones it has
  random signs at every `num_projections`-th weight and is zero elsewhere: then all projections
  together take one pass over the weights, and the memory of one state, not of a hundred. Either
  way the projections of N(0, I) have unit variance.

  Args:
    event_shapes: List of the shapes of the parts, without leading dimensions.
    num_projections: Positive integer.
    seed: A seed of TFP.
    dtype: Of the parts.

  #### Examples

  ```python
  import tensorflow as tf
  import tfp_reprior as tfr

  project = tfr.diagnostics.RandomProjections([(3, 2), (2,)], num_projections=100, seed=1)
  project([tf.ones([4, 3, 2]), tf.ones([4, 2])]).shape  # ==> [4, 100]
  ```
  """

  def __init__(
    self,
    event_shapes: Sequence[Sequence[int]],
    num_projections: int = 100,
    seed: Seed = 0,
    dtype: tf.DType = tf.float32,
  ) -> None:
    r = checks.positive_integer('num_projections', num_projections, MOST)
    self._event_shapes = [tuple(shape) for shape in event_shapes]
    sizes = [math.prod(shape) for shape in event_shapes]
    self._num_projections = r
    self._is_dense = sum(sizes) * r <= _LARGEST_DENSE
    if self._is_dense:
      directions = random.normal_parts([(size, r) for size in sizes], dtype, seed)
      scale = math.sqrt(sum(sizes))
    else:
      directions = random.sign_parts([(n,) for n in sizes], dtype, seed)
      scale = math.sqrt(sum(sizes) / r)
    self._directions = [w / scale for w in directions]

  def __call__(self, parts: State) -> tf.Tensor:
    """Projects parts `[..., *event_shape]` (a list, or one tensor) to `[..., r]`."""
    triples = zip(parts_lib.to_list(parts), self._event_shapes, self._directions, strict=True)
    return parts_lib.add_up(
      [self._project(tf.convert_to_tensor(part), shape, w) for part, shape, w in triples]
    )

  def __repr__(self):
    num_weights = sum(math.prod(shape) for shape in self._event_shapes)
    return (
      f'RandomProjections(num_projections={self._num_projections}, '
      f'num_parts={len(self._event_shapes)}, num_weights={num_weights})'
    )

  def _project(self, part, shape, w):
    leading = tf.shape(part)[: part.shape.rank - len(shape)]
    flat = tf.reshape(part, tf.concat([leading, [w.shape[0]]], axis=0))
    if self._is_dense:
      return tf.linalg.matvec(w, flat, transpose_a=True)
    rows = -(-w.shape[0] // self._num_projections)
    padding = [[0, 0]] * (flat.shape.rank - 1) + [[0, rows * self._num_projections - w.shape[0]]]
    signed = tf.pad(flat * w, padding)
    table = tf.reshape(signed, tf.concat([leading, [rows, self._num_projections]], axis=0))
    return tf.reduce_sum(table, axis=-2)
