"""What the posterior predicts of targets that are in logarithms."""

import functools

import numpy as np
import tensorflow_probability as tfp
from numpy.typing import ArrayLike

from tfp_reprior.data import logarithms
from tfp_reprior.internal import checks
from tfp_reprior.sampling import prediction

_SMALLEST_STDDEV = 1e-100  # what stands for zero


class LogPrediction:
  """The predictive distribution at `m` inputs of `k` positive targets, by that of their logarithms.

  ```none
  t = log(y)                                     y <= log_below
  t = log(log_below) + (y - log_below) / log_below     y > log_below
  ```

  has the distribution that is given, a mixture of Gaussians over draws, and what is here follows
  from it without approximation; `function_stddev` is that of one function for each component.

  Args:
    logarithms: The `Prediction` of t.
    log_below: `[k]`, the largest training targets.

  Attributes:
    means: Of every component, `[s, m, k]`.
    mean: `[m, k]`.

  #### Examples

  ```python
  import numpy as np
  import tfp_reprior as tfr

  means = np.random.default_rng(0).normal(size=[50, 3, 1])  # of logarithms
  of_logs = tfr.sampling.Prediction(means, np.zeros_like(means), noise_variance=0.01)
  prediction = tfr.sampling.LogPrediction(of_logs, log_below=[20.0])
  prediction.mean, prediction.stddev  # [3, 1] each
  prediction.quantile([0.05, 0.95])  # [2, 3, 1], positive
  ```
  """

  is_discrete = False  # an observation is a real number

  def __init__(self, logarithms: prediction.Prediction, log_below: ArrayLike) -> None:
    self.logarithms = logarithms
    self._largest = np.asarray(log_below, np.float64)
    self._noise_variances = np.broadcast_to(logarithms.noise_variance, logarithms.means.shape)
    variances = logarithms.variances + self._noise_variances
    self.means, self._variances = self._moments(logarithms.means, variances)
    self.mean = np.mean(self.means, axis=0)

  def _moments(self, means, variances):
    """Mean and variance of y for Gaussian t of these, `[s, m, k]`."""
    stddev = np.maximum(np.sqrt(variances), _SMALLEST_STDDEV)
    # y / log_below = exp(u) for u = t - log(log_below) < 0, and 1 + u beyond.
    u = means - np.log(self._largest)
    normal = tfp.distributions.Normal(np.float64(0), np.float64(1))
    above, density = normal.cdf(u / stddev).numpy(), normal.prob(u / stddev).numpy()

    def below(power):  # E[exp(power * u); u < 0]
      log_share = normal.log_cdf(-u / stddev - power * stddev).numpy()
      return np.exp(power * u + 0.5 * (power * stddev) ** 2 + log_share)

    mean = below(1) + (1 + u) * above + stddev * density
    square = below(2) + ((1 + u) ** 2 + stddev**2) * above + (2 + u) * stddev * density
    return self._largest * mean, self._largest**2 * np.maximum(square - mean**2, 0)

  @property
  def stddev(self) -> np.ndarray:
    """Standard deviation of an observation, with its noise: `[m, k]`."""
    return np.sqrt(np.mean(self._variances, axis=0) + np.var(self.means, axis=0))

  @functools.cached_property
  def function_stddev(self) -> np.ndarray:
    """Standard deviation of the mean of an observation given the weights, over draws: `[m, k]`."""
    return np.std(self._functions, axis=0)

  @functools.cached_property
  def _functions(self):
    """The mean of an observation given the weights, of one draw for each component."""
    return self._moments(self.logarithms.functions, self._noise_variances)[0]

  def cdf(self, y: ArrayLike) -> np.ndarray:
    """Probability that an observation is at most `y` `[..., m, k]`."""
    y = prediction.check_observations(y, self.mean.shape, is_many=True)
    return np.where(y > 0, self.logarithms.cdf(self._take(y)), 0.0)

  def log_prob(self, y: ArrayLike) -> np.ndarray:
    """Log-density of observations `y` `[m, k]`, each by itself: `[m, k]`."""
    return self._log_prob(y, self.logarithms.log_prob)

  def log_prob_each(self, y: ArrayLike) -> np.ndarray:
    """Log-density of observations `y` `[m, k]` given each component: `[s, m, k]`."""
    return self._log_prob(y, self.logarithms.log_prob_each)

  def _log_prob(self, y, log_prob_fn):
    y = prediction.check_observations(y, self.mean.shape)
    slope = logarithms.log_slope(np.where(y > 0, y, 1.0), self._largest)
    return np.where(y > 0, log_prob_fn(self._take(y)) + slope, -np.inf)

  def _take(self, y):
    return logarithms.take(np.where(y > 0, y, 1.0), self._largest)

  def quantile(self, q: ArrayLike) -> np.ndarray:
    """Quantiles of an observation, `[*q.shape, m, k]`, for a float in (0, 1) or an array."""
    return logarithms.undo(self.logarithms.quantile(q), self._largest)

  def sample(self, num_samples: int, seed: int = 0, noise: bool = True) -> np.ndarray:
    """Draws observations jointly over inputs, as `Prediction.sample` does.

    Args:
      num_samples: Positive integer.
      seed: Integer.
      noise: Whether to draw observations, or their means given the weights.

    Returns:
      `[num_samples, m, k]`.
    """
    if noise:
      return logarithms.undo(self.logarithms.sample(num_samples, seed), self._largest)
    checks.positive_integer('num_samples', num_samples)
    rng = np.random.default_rng(checks.seed('seed', seed))
    return self._functions[prediction.choose(len(self.means), num_samples, rng)]

  def sample_each(self, seed: int = 0) -> np.ndarray:
    """Draws one observation for each component, in their order: `[s, m, k]`."""
    return logarithms.undo(self.logarithms.sample_each(seed), self._largest)

  def __repr__(self):
    s, m, k = self.means.shape
    return f'LogPrediction(num_components={s}, num_inputs={m}, num_outputs={k})'
