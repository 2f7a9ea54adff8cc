"""What the posterior predicts: a mixture of Gaussians over draws."""

import functools
import math

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp
from numpy.typing import ArrayLike

from tfp_reprior import errors
from tfp_reprior.internal import checks

_BLOCK_SIZE = 2**20  # numbers at a time, to bound memory
# Of the integral for class probabilities: its points, how many standard deviations it reaches, and
# what stands for a variance of zero.
_NUM_POINTS = 49
_REACH = 8.0
_SMALLEST_VARIANCE = 1e-200


class Prediction:
  """The predictive distribution at `m` inputs, `k` outputs each.

  ```none
  p(f | D) = mean over components of N(f; means[i], variances[i])
  y = f + noise, of the scale of the component, if that is unknown
  ```

  A component is a draw of the weights, or, where the sampler allows it, of the hidden weights, with
  the readout integrated out.

  Args:
    means: `[s, m, k]`.
    variances: Variances of f given a component, `[s, m, k]`; zero for draws of all weights.
    noise_variance: Of an observation, a float, an array `[k]`, or, for unknown noise, an array
      `[s, 1, 1]`.
    moments: Pair of mean and variance of f, `[m, k]`, over more draws than there are components.
    functions: Of each component one draw of f, `[s, m, k]`, jointly over inputs, for `sample`; not
      needed if there are no variances.

  #### Examples

  ```python
  import numpy as np
  import tfp_reprior as tfr

  means = np.random.default_rng(0).normal(size=[50, 3, 1])  # of 50 draws, at three inputs
  prediction = tfr.sampling.Prediction(means, 0.1 * np.ones_like(means), noise_variance=0.01)
  prediction.mean, prediction.stddev  # [3, 1] each
  prediction.quantile([0.05, 0.95])  # [2, 3, 1], an interval for new observations
  ```
  """

  is_discrete = False  # an observation is a real number

  def __init__(
    self,
    means: ArrayLike,
    variances: ArrayLike,
    noise_variance: float | np.ndarray,
    moments: tuple[ArrayLike, ArrayLike] | None = None,
    functions: ArrayLike | None = None,
  ) -> None:
    self.means = np.asarray(means, np.float64)
    self._functions = None if functions is None else np.asarray(functions, np.float64)
    self.variances = np.asarray(variances, np.float64)
    self.noise_variance = noise_variance
    self._noise_variances = np.broadcast_to(noise_variance, self.means.shape)  # a view
    if moments is None:
      moments = np.mean(self.means, 0), np.mean(self.variances, 0) + np.var(self.means, 0)
    self.mean, self._variance = (np.asarray(a, np.float64) for a in moments)

  @property
  def stddev(self) -> np.ndarray:
    """Standard deviation of an observation, with its noise: `[m, k]`."""
    return np.sqrt(self._variance + np.mean(self._noise_variances, axis=0))

  @property
  def function_stddev(self) -> np.ndarray:
    """Standard deviation of f, without noise: `[m, k]`."""
    return np.sqrt(self._variance)

  def cdf(self, y: ArrayLike) -> np.ndarray:
    """Probability that an observation is at most `y` `[..., m, k]`."""
    y = check_observations(y, self.mean.shape, is_many=True)
    total = sum(np.sum(_standard_cdf((y - m) / s), axis=0) for m, s in self._blocks(y))
    return total / len(self.means)

  def log_prob(self, y: ArrayLike) -> np.ndarray:
    """Log-density of observations `y` `[m, k]`, each by itself: `[m, k]`."""
    y = check_observations(y, self.mean.shape)
    total = np.full(y.shape, -np.inf)
    for mean, scale in self._blocks(y):
      log_probs = -0.5 * ((y - mean) / scale) ** 2 - np.log(scale)
      total = np.logaddexp(total, tf.reduce_logsumexp(log_probs, axis=0))
    return total - math.log(len(self.means) * math.sqrt(2 * math.pi))

  def log_prob_each(self, y: ArrayLike) -> np.ndarray:
    """Log-density of observations `y` `[m, k]` given each component: `[s, m, k]`."""
    y = check_observations(y, self.mean.shape)
    scales = np.sqrt(self.variances + self._noise_variances)
    return -0.5 * ((y - self.means) / scales) ** 2 - np.log(scales * math.sqrt(2 * math.pi))

  def quantile(self, q: ArrayLike) -> np.ndarray:
    """Quantiles of an observation.

    Args:
      q: Float in (0, 1), or an array of them.

    Returns:
      `[*q.shape, m, k]`.
    """
    q = check_levels(q)
    scale = np.sqrt(self.variances + self.noise_variance)
    reach = 1 - float(tf.math.ndtri(min(q.min(), 1 - q.max())))
    shape = (*q.shape, *self.mean.shape)
    low = np.broadcast_to(np.min(self.means - reach * scale, 0), shape)
    high = np.broadcast_to(np.max(self.means + reach * scale, 0), shape)
    level = q[..., np.newaxis, np.newaxis]
    found = tfp.math.find_root_chandrupatla(
      lambda y: self.cdf(y) - level, tf.constant(low), tf.constant(high)
    )
    return found.estimated_root.numpy()

  def sample(self, num_samples: int, seed: int = 0, noise: bool = True) -> np.ndarray:
    """Draws observations jointly over inputs: of one function f each, plus noise.

    There is one function for each component. If more samples are asked for, functions repeat, with
    other noise.

    Args:
      num_samples: Positive integer.
      seed: Integer.
      noise: Whether to add noise, for observations, or not, for f.

    Returns:
      `[num_samples, m, k]`.
    """
    checks.positive_integer('num_samples', num_samples)
    rng = np.random.default_rng(checks.seed('seed', seed))
    return self._sample(choose(len(self.means), num_samples, rng), rng, noise)

  def sample_each(self, seed: int = 0) -> np.ndarray:
    """Draws one observation for each component, in their order: `[s, m, k]`."""
    return self._sample(slice(None), np.random.default_rng(checks.seed('seed', seed)), noise=True)

  @property
  def functions(self) -> np.ndarray:
    """Of each component one draw of f, `[s, m, k]`, jointly over inputs."""
    if self._functions is not None:
      return self._functions
    if np.any(self.variances):
      raise errors.InputError(
        'Samples are joint over inputs, which means and variances do not say: give `functions`, '
        'draws of f, to the prediction. Received: functions=None'
      )
    return self.means

  def _sample(self, chosen, rng, noise):
    """Observations, or functions without `noise`, of the chosen components."""
    f = self.functions[chosen]
    return f + np.sqrt(self._noise_variances[chosen]) * rng.standard_normal(f.shape) if noise else f

  @functools.cached_property
  def class_probabilities(self) -> np.ndarray:
    """Probability of each output to be the largest of f, `[m, k]`.

    Given a component the outputs are independent, so that

    ```none
    P(f_j is the largest) = integral of density_j(t) * product over i != j of cdf_i(t) dt
    ```

    which the trapezoidal rule gives to many digits, unless the variances differ by orders of
    magnitude.
    """
    total = np.zeros_like(self.mean)
    for mean, variance in zip(self.means, self.variances, strict=True):
      scale = np.sqrt(np.maximum(variance, _SMALLEST_VARIANCE))
      # All but a probability of Phi(-_REACH) of the largest output lies between these.
      low = np.max(mean - _REACH * scale, axis=-1)[:, np.newaxis, np.newaxis]
      high = np.max(mean + _REACH * scale, axis=-1)[:, np.newaxis, np.newaxis]
      points = low + (high - low) * np.linspace(0, 1, _NUM_POINTS)  # [m, 1, point]
      z = (points - mean[..., np.newaxis]) / scale[..., np.newaxis]  # [m, k, point]
      below = _standard_cdf(z)
      density = np.exp(-0.5 * z**2) / scale[..., np.newaxis]
      share = np.sum(density / below * np.prod(below, axis=-2, keepdims=True), axis=-1)
      total += share / np.sum(share, axis=-1, keepdims=True)
    return total / len(self.means)

  def _blocks(self, y):
    """Means and scales of components, some at a time, in shapes that broadcast with `y`."""
    size = max(1, _BLOCK_SIZE // y.size)
    shape = (-1, *[1] * (y.ndim - 2), *self.mean.shape)
    for first in range(0, len(self.means), size):
      block = slice(first, first + size)
      scales = np.sqrt(self.variances[block] + self._noise_variances[block])
      yield self.means[block].reshape(shape), scales.reshape(shape)

  def __repr__(self):
    s, m, k = self.means.shape
    return f'Prediction(num_components={s}, num_inputs={m}, num_outputs={k})'


def choose(num_components, num_samples, rng):
  """Numbers of components for samples: all of them before one comes again, in random order."""
  rounds = -(-num_samples // num_components)
  return np.concatenate([rng.permutation(num_components) for _ in range(rounds)])[:num_samples]


def check_observations(y, shape, is_many=False):
  """Observations for a prediction of a shape; with `is_many`, leading dimensions are taken too."""
  y = checks.reals('y', y)
  if y.shape == shape[:1] and shape[1:] == (1,):
    y = y[:, np.newaxis]
  if (y.shape[max(y.ndim - len(shape), 0) :] if is_many else y.shape) != shape:
    raise errors.InputError(
      f'`y` must have {"a shape that ends in" if is_many else "shape"} {shape}, that of the '
      f'prediction. Received: y of shape {y.shape}'
    )
  return y


def check_levels(q, name='q'):
  """Levels of quantiles, as an array; the `name` is what errors call them."""
  levels = checks.array(name, np.atleast_1d(q))
  if levels.dtype.kind != 'f' or not np.all((levels > 0) & (levels < 1)):
    raise errors.InputError(f'`{name}` must lie in (0, 1). Received: {name}={q}')
  return levels.astype(np.float64).reshape(np.shape(q))


def _standard_cdf(z):
  return 0.5 * tf.math.erfc(-z / math.sqrt(2)).numpy()
