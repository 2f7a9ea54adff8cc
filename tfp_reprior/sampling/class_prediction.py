"""What the posterior predicts of classes: probabilities, averaged over draws."""

import abc

import numpy as np
from numpy.typing import ArrayLike

from tfp_reprior import errors, likelihoods
from tfp_reprior.internal import checks
from tfp_reprior.sampling import prediction

# As far as float32 tells a probability from 1.
_SMALLEST_PROBABILITY = 2.0**-24


class ClassPrediction(abc.ABC):
  """The predictive distribution at `m` inputs, `k` outputs each, by probabilities.

  An observation is a vector of zeros and ones: a one-hot vector for classes, or a yes or no for
  every output. Given a draw of the weights, its mean is that draw's probabilities, so that

  ```none
  mean               = mean over draws of probabilities
  stddev**2          = mean * (1 - mean)             = function_stddev**2 + what no draw explains
  function_stddev**2 = variance over draws of probabilities
  ```

  Args:
    probabilities: Of every draw, `[s, m, k]`.
    moments: Pair of their mean and variance `[m, k]`, over more draws than are given.

  Attributes:
    probabilities: `[s, m, k]`.
    mean: `[m, k]`.

  Its subclasses have examples: `CategoricalPrediction` and `BernoulliPrediction`.
  """

  is_discrete = True  # an observation is a class

  def __init__(
    self, probabilities: ArrayLike, moments: tuple[ArrayLike, ArrayLike] | None = None
  ) -> None:
    self.probabilities = np.asarray(probabilities, np.float64)
    if moments is None:
      moments = np.mean(self.probabilities, axis=0), np.var(self.probabilities, axis=0)
    self.mean, self._variance = (np.asarray(a, np.float64) for a in moments)

  @property
  def stddev(self) -> np.ndarray:
    """Standard deviation of an observation: `[m, k]`."""
    return np.sqrt(self.mean * (1 - self.mean))

  @property
  def function_stddev(self) -> np.ndarray:
    """Standard deviation of the probabilities over draws, how unsure they are: `[m, k]`."""
    return np.sqrt(self._variance)

  @property
  @abc.abstractmethod
  def class_probabilities(self) -> np.ndarray:
    """Probabilities of the classes of each observation."""

  @abc.abstractmethod
  def labels(self, y: ArrayLike) -> np.ndarray:
    """The classes of observations `y`, one for each row of `class_probabilities`."""

  @abc.abstractmethod
  def log_prob(self, y: ArrayLike) -> np.ndarray:
    """Log-probability of observations `y`, each by itself."""

  @abc.abstractmethod
  def log_prob_each(self, y: ArrayLike) -> np.ndarray:
    """Log-probability of observations `y` given each draw: `[s, *y.shape]`."""

  @abc.abstractmethod
  def sample(self, num_samples: int, seed: int = 0, noise: bool = True) -> np.ndarray:
    """Draws observations, those of a sample all with the probabilities of one draw.

    Without `noise`, these probabilities, `[num_samples, m, k]`.
    """

  def sample_each(self, seed: int = 0) -> np.ndarray:
    """Draws an observation of every input for each draw of the weights, in their order."""
    return self._observe(self.probabilities, np.random.default_rng(checks.seed('seed', seed)))

  @staticmethod
  @abc.abstractmethod
  def _observe(probabilities, rng):
    """Observations with given probabilities."""

  def __repr__(self):
    s, m, k = self.probabilities.shape
    return f'{type(self).__name__}(num_components={s}, num_inputs={m}, num_outputs={k})'

  def _check(self, y, likelihood):
    """Targets for these inputs; anything else is refused."""
    y = likelihood.check_targets(y, self.mean.shape[1], np.float64).numpy()
    if len(y) != len(self.mean):
      raise errors.InputError(
        f'`y` must hold a target for each of the {len(self.mean)} inputs. Received: y of shape '
        f'{y.shape}'
      )
    return y

  def _choose(self, num_samples, seed):
    """A generator, and the probabilities of draws chosen with it, `[num_samples, m, k]`."""
    checks.positive_integer('num_samples', num_samples)
    rng = np.random.default_rng(checks.seed('seed', seed))
    return rng, self.probabilities[prediction.choose(len(self.probabilities), num_samples, rng)]


class CategoricalPrediction(ClassPrediction):
  """Predicts one of `k` classes for each of `m` inputs; see `ClassPrediction`.

  #### Examples

  ```python
  import numpy as np
  import tfp_reprior as tfr

  logits = np.random.default_rng(0).normal(size=[50, 2, 3])  # 50 draws, two inputs, three classes
  weights = np.exp(logits)
  prediction = tfr.sampling.CategoricalPrediction(weights / weights.sum(axis=-1, keepdims=True))
  prediction.class_probabilities  # [2, 3], averaged over draws
  prediction.log_prob([0, 2])  # [2], of the labels
  ```
  """

  @property
  def class_probabilities(self) -> np.ndarray:
    """`mean`, `[m, k]`."""
    return self.mean

  def labels(self, y: ArrayLike) -> np.ndarray:
    """Labels `[m]`, as they are if they are integers from 0 to `k - 1`."""
    return self._check(y, likelihoods.Categorical())

  def log_prob(self, y: ArrayLike) -> np.ndarray:
    """Log-probability of labels `y` `[m]`: `[m]`."""
    labels = self.labels(y)
    return np.log(self.mean[np.arange(len(labels)), labels])

  def log_prob_each(self, y: ArrayLike) -> np.ndarray:
    """Log-probability of labels `y` `[m]` given each draw: `[s, m]`."""
    labels = self.labels(y)
    chosen = self.probabilities[:, np.arange(len(labels)), labels]
    return np.log(np.maximum(chosen, _SMALLEST_PROBABILITY))

  def sample(self, num_samples: int, seed: int = 0, noise: bool = True) -> np.ndarray:
    """Draws labels `[num_samples, m]`, those of a sample all with one draw's probabilities."""
    rng, probabilities = self._choose(num_samples, seed)
    return self._observe(probabilities, rng) if noise else probabilities

  @staticmethod
  def _observe(probabilities, rng):
    u = rng.random((*probabilities.shape[:-1], 1))
    # The last sum is 1, whatever rounding says.
    return np.sum(u > np.cumsum(probabilities, axis=-1)[..., :-1], axis=-1)


class BernoulliPrediction(ClassPrediction):
  """Predicts a yes or no, 1 or 0, for every output; see `ClassPrediction`.

  #### Examples

  ```python
  import numpy as np
  import tfp_reprior as tfr

  prediction = tfr.sampling.BernoulliPrediction([[[0.9], [0.2]], [[0.7], [0.4]]])  # two draws
  prediction.mean  # ==> [[0.8], [0.3]]
  prediction.function_stddev  # ==> 0.1 each: how far the draws disagree
  ```
  """

  @property
  def class_probabilities(self) -> np.ndarray:
    """Probabilities of no and yes, for the outputs of each input in turn: `[m * k, 2]`."""
    yes = np.clip(self.mean, _SMALLEST_PROBABILITY, 1 - _SMALLEST_PROBABILITY)
    return np.stack([1 - yes, yes], axis=-1).reshape([-1, 2])

  def labels(self, y: ArrayLike) -> np.ndarray:
    """Zeros and ones `[m * k]`, of `y` `[m, k]` (or `[m]` for one output)."""
    return self._check(y, likelihoods.Bernoulli()).astype(int).ravel()

  def log_prob(self, y: ArrayLike) -> np.ndarray:
    """Log-probability of zeros and ones `y` `[m, k]`: `[m, k]`."""
    labels = self.labels(y)
    chosen = self.class_probabilities[np.arange(len(labels)), labels]
    return np.log(chosen).reshape(self.mean.shape)

  def log_prob_each(self, y: ArrayLike) -> np.ndarray:
    """Log-probability of zeros and ones `y` `[m, k]` given each draw: `[s, m, k]`."""
    is_yes = self.labels(y).reshape(self.mean.shape) == 1
    chosen = np.where(is_yes, self.probabilities, 1 - self.probabilities)
    return np.log(np.maximum(chosen, _SMALLEST_PROBABILITY))

  def sample(self, num_samples: int, seed: int = 0, noise: bool = True) -> np.ndarray:
    """Draws zeros and ones `[num_samples, m, k]`, each sample with one draw's probabilities."""
    rng, probabilities = self._choose(num_samples, seed)
    return self._observe(probabilities, rng) if noise else probabilities

  @staticmethod
  def _observe(probabilities, rng):
    return (rng.random(probabilities.shape) < probabilities).astype(int)
