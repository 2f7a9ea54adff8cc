"""Diagnostics of the paper: effective sample size and R-hat of random projections."""

import contextlib
import logging
import math

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

from tfp_reprior.internal import checks, random
from tfp_reprior.internal import parts as parts_lib

# Up to this many numbers, directions are dense and Gaussian, as in the paper.
_LARGEST_DENSE = 2**24
# Where autocorrelations relative to a known variance are cut.
_SMALLEST_RHO = 0.05


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

  def __init__(self, event_shapes, num_projections=100, seed=0, dtype=tf.float32):
    r = checks.positive_integer('num_projections', num_projections)
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

  def __call__(self, parts):
    """Projects parts `[..., *event_shape]` (a list, or one tensor) to `[..., r]`."""
    return sum(
      self._project(tf.convert_to_tensor(part), shape, w)
      for part, shape, w in zip(
        parts_lib.to_list(parts), self._event_shapes, self._directions, strict=True
      )
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


def effective_sample_size(draws):
  """Effective sample size of each chain, `tfp.mcmc` as the paper uses it.

  The sum of autocorrelations is cut at the first negative one.

  Args:
    draws: `[s, c, ...]`, draws by chains.

  Returns:
    `[c, ...]`.
  """
  with _without_cast_warnings():
    return tfp.mcmc.effective_sample_size(draws, filter_threshold=0.0)


@contextlib.contextmanager
def _without_cast_warnings():
  """Hides what TF logs when TFP takes the real part of a Fourier transform by a cast."""

  def is_other(record):
    return 'casting an input of type complex' not in record.getMessage()

  logger = logging.getLogger('tensorflow')
  logger.addFilter(is_other)
  try:
    yield
  finally:
    logger.removeFilter(is_other)


def effective_sample_size_of_known_variance(draws, variance=1.0):
  """Effective sample size of a chain, by autocorrelations relative to a known variance.

  ```none
  rho[t] = 1 - mean((draws[s + t] - draws[s])**2) / (2 variance)
  s / (1 + 2 sum((1 - t/s) rho[t]))     summed up to the first rho below 0.05
  ```

  Short runs of a slow chain look like they mix if they are judged by their own variance, which
  leaves out all that they have not seen. Judged by the variance of the target they do not: a chain
  that stays where it is has an effective sample size of one. The mean is over chains and
  quantities too, so that a dozen draws of a hundred projections are enough to compare settings.
  The tail that is cut is a twentieth or so of the sum; but a variance that is not quite that of the
  draws moves all of rho, and would add up in it.

  Args:
    draws: `[s, ...]`, draws by chains, quantities or both, all of the same variance.
    variance: Of the target, positive float.

  Returns:
    Float, for one chain.
  """
  draws = np.asarray(draws, np.float64)
  num_draws = len(draws)
  total = 0.0
  for t in range(1, num_draws):
    rho = 1 - np.mean((draws[t:] - draws[:-t]) ** 2) / (2 * variance)
    if rho < _SMALLEST_RHO:
      break
    total += (1 - t / num_draws) * rho
  return float(num_draws / (1 + 2 * total))


def r_hat_squared(draws):
  """Total variance over variance within chains, the paper's square of R-hat.

  ```none
  (within + between) / within,   within = mean over chains of the variance of a chain
                                 between = variance of the means of the chains
  ```

  Args:
    draws: `[s, c, ...]`, draws by chains, at least two chains.

  Returns:
    `[...]`, at least 1; 1 for chains that agree.
  """
  draws = tf.convert_to_tensor(draws)
  if draws.shape.rank < 2 or draws.shape[1] is not None and draws.shape[1] < 2:
    raise ValueError(
      '`draws` must have shape [s, c, ...] with two chains or more. Received: draws of shape '
      f'{tuple(draws.shape)}'
    )
  within = tf.reduce_mean(tf.math.reduce_variance(draws, axis=0), axis=0)
  between = tf.math.reduce_variance(tf.reduce_mean(draws, axis=0), axis=0)
  return (within + between) / within
