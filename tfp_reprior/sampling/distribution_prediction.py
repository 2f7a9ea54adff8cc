"""What the posterior predicts with any observation model: a mixture of distributions over draws."""

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp
from numpy.typing import ArrayLike

from tfp_reprior.internal import checks
from tfp_reprior.sampling import prediction

_FEWEST_SAMPLES = 100  # for a first bracket of quantiles
_MOST_DOUBLINGS = 60


class DistributionPrediction:
  """The predictive distribution at `m` inputs, by a distribution for each draw of the weights.

  ```none
  p(y | D) = mean over components of p(y | component)
  ```

  Args:
    distribution: A distribution of `tfp.distributions` with shape `[s, m, ...]`: batch and event
      together, for s draws of the weights.
    moments: Pair of mean and variance over draws of the mean of an observation, `[m, ...]`, over
      more draws than there are components.
    shift, scale: Numbers, or arrays that broadcast with observations: these are
      `shift + scale * y` of y that the distribution is of.

  Attributes:
    means: Of every component, `[s, m, ...]`; NaN if the distribution has none.
    mean: `[m, ...]`.

  #### Examples

  ```python
  import numpy as np
  import tensorflow_probability as tfp
  import tfp_reprior as tfr

  log_rates = np.random.default_rng(0).normal(size=[50, 3, 1])  # of 50 draws, at three inputs
  counts = tfp.distributions.Poisson(log_rate=log_rates)
  prediction = tfr.sampling.DistributionPrediction(counts)
  prediction.mean, prediction.stddev  # [3, 1] each
  prediction.quantile(0.9)  # [3, 1]
  prediction.sample(5)  # [5, 3, 1], each of one draw of the weights
  ```
  """

  is_discrete = False  # an observation is no class

  def __init__(
    self,
    distribution: tfp.distributions.Distribution,
    moments: tuple[ArrayLike, ArrayLike] | None = None,
    shift: ArrayLike = 0.0,
    scale: ArrayLike = 1.0,
  ) -> None:
    self.distribution = distribution
    self._shift, self._scale = np.asarray(shift, np.float64), np.asarray(scale, np.float64)
    shape = tuple(distribution.batch_shape + distribution.event_shape)
    self._is_by_number = distribution.event_shape.rank == 0  # densities are of single numbers
    self.means = self._shift + self._scale * _moment(distribution.mean, shape)
    self._variances = self._scale**2 * _moment(distribution.variance, shape)
    if moments is None:
      moments = np.mean(self.means, axis=0), np.var(self.means, axis=0)
    self.mean, self._variance = (np.asarray(a, np.float64) for a in moments)

  @property
  def stddev(self) -> np.ndarray:
    """Standard deviation of an observation: `[m, ...]`."""
    return np.sqrt(self._variance + np.mean(self._variances, axis=0))

  @property
  def function_stddev(self) -> np.ndarray:
    """Standard deviation over draws of the mean of an observation: `[m, ...]`."""
    return np.sqrt(self._variance)

  @property
  def class_probabilities(self) -> np.ndarray:
    """How many draws have each output as their largest, `[m, k]`."""
    largest = np.argmax(self.means, axis=-1)
    return np.mean(np.eye(self.means.shape[-1])[largest], axis=0)

  def log_prob(self, y: ArrayLike) -> np.ndarray:
    """Log-density of observations `y`, of the shape of `mean`, each by itself."""
    log_probs = self.log_prob_each(y)
    return tf.reduce_logsumexp(log_probs, axis=0).numpy() - np.log(len(log_probs))

  def log_prob_each(self, y: ArrayLike) -> np.ndarray:
    """Log-density of observations `y` given each component: `[s, *y.shape]`."""
    y = prediction.check_observations(y, self.mean.shape)
    value = self.distribution.log_prob(self._standard(y)).numpy().astype(np.float64)
    return value - np.log(np.broadcast_to(self._scale, y.shape)) if self._is_by_number else value

  def cdf(self, y: ArrayLike) -> np.ndarray:
    """Probability that an observation is at most `y` `[..., *mean.shape]`."""
    y = prediction.check_observations(y, self.mean.shape, is_many=True)
    rows = y.reshape([-1, *self.mean.shape])
    values = [np.mean(self.distribution.cdf(self._standard(row)).numpy(), axis=0) for row in rows]
    return np.reshape(np.asarray(values, np.float64), y.shape)

  def quantile(self, q: ArrayLike) -> np.ndarray:
    """Quantiles of an observation; of whole numbers the smallest that reaches the level.

    Args:
      q: Float in (0, 1), or an array of them.

    Returns:
      `[*q.shape, *mean.shape]`.
    """
    q = prediction.check_levels(q)
    shape = (*q.shape, *self.mean.shape)
    level = np.broadcast_to(q.reshape([*q.shape, *[1] * self.mean.ndim]), shape)
    samples = self.sample(max(_FEWEST_SAMPLES, len(self.means)))
    is_whole = np.array_equal(samples, np.round(samples))
    # Between whole numbers some distributions interpolate.
    cdf = (lambda y: self.cdf(np.floor(y))) if is_whole else self.cdf
    low, high = (np.broadcast_to(f(samples, axis=0), shape) for f in (np.min, np.max))
    reach = high - low + 1.0
    for _ in range(_MOST_DOUBLINGS):
      is_above, is_below = cdf(low) >= level, cdf(high) < level
      if not np.any(is_above | is_below):
        break
      low, high = np.where(is_above, low - reach, low), np.where(is_below, high + reach, high)
      reach = 2 * reach
    found = tfp.math.find_root_chandrupatla(
      lambda y: cdf(y) - level, tf.constant(low), tf.constant(high), max_iterations=100
    )
    root = found.estimated_root.numpy()
    return np.round(root) + 0.0 if is_whole else root

  def sample(self, num_samples: int, seed: int = 0, noise: bool = True) -> np.ndarray:
    """Draws observations jointly, those of a sample all of one draw of the weights.

    Args:
      num_samples: Positive integer.
      seed: Integer.
      noise: Whether to draw observations, or their means given the weights.

    Returns:
      `[num_samples, *mean.shape]`.
    """
    checks.positive_integer('num_samples', num_samples)
    rng = np.random.default_rng(checks.seed('seed', seed))
    chosen = prediction.choose(len(self.means), num_samples, rng)
    if not noise:
      return self.means[chosen]
    draws = self._draw(-(-num_samples // len(self.means)), rng)
    return draws[np.arange(num_samples) // len(self.means), chosen]

  def sample_each(self, seed: int = 0) -> np.ndarray:
    """Draws one observation for each component, in their order: `[s, *mean.shape]`."""
    return self._draw(1, np.random.default_rng(checks.seed('seed', seed)))[0]

  def _draw(self, num_rounds, rng):
    """Observations `[num_rounds, s, *mean.shape]`."""
    words = tf.constant(rng.integers(2**31, size=2), tf.int32)  # of a sampler without a state
    draws = self.distribution.sample(num_rounds, seed=words).numpy().astype(np.float64)
    return self._shift + self._scale * draws

  def _standard(self, y):
    return tf.cast((y - self._shift) / self._scale, self.distribution.dtype)

  def __repr__(self):
    s, m = self.means.shape[:2]
    name = type(self.distribution).__name__
    return f'DistributionPrediction({name}, num_components={s}, num_inputs={m})'


def _moment(moment_fn, shape):
  try:
    return moment_fn().numpy().astype(np.float64)
  except NotImplementedError:
    return np.full(shape, np.nan)
