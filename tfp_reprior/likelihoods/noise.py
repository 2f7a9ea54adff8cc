"""Noise that is not the same Gaussian everywhere: heavy tails, and scales that depend on inputs."""

import abc
import math
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp
from numpy.typing import ArrayLike

from tfp_reprior import errors
from tfp_reprior.internal import checks
from tfp_reprior.internal.types import Scale
from tfp_reprior.likelihoods import from_distribution, likelihood, parameter_prior

tfd = tfp.distributions


class _Noise(from_distribution.FromDistribution):
  """Noise of one scale, known or not, with a variance for the map that follows from it."""

  default_regularizer = 'noise'
  has_units = True
  noise_scale: Any = None

  def __init__(self, noise_scale: Scale | None, output_scale: Scale) -> None:
    self.has_default_noise = noise_scale is None
    if noise_scale is None:
      noise_scale = self._default_noise_scale()
    is_unknown = parameter_prior.is_given(noise_scale)
    priors = {'noise_scale': noise_scale} if is_unknown else None
    super().__init__(self._distribution, priors, output_scale)
    if not is_unknown:
      self._set_scale('noise_scale', noise_scale)

  @staticmethod
  def _default_noise_scale():
    return tfd.LogNormal(-1.0, 1.0)

  @abc.abstractmethod
  def _distribution(self, outputs, noise_scale=None):
    """That of the targets, for `FromDistribution`."""

  @property
  def settings(self) -> dict[str, Any]:
    return {
      'noise_scale': self._scale_setting('noise_scale'),
      'output_scale': self._scale_setting('output_scale'),
    }

  def check_targets(self, y: ArrayLike, num_outputs: int, dtype: tf.DType) -> tf.Tensor:
    """Targets `[n, t]`, floating point; `[n]` is taken as `[n, 1]` if t is one."""
    y = checks.finite_floats('y', y, dtype)
    meaning = 'a row of {} targets for each input'
    return likelihood.as_matrix(y, self.num_targets(num_outputs), meaning)

  def in_units_of(self, units: np.ndarray) -> '_Noise':
    """The same noise of targets that are divided by `units` `[t]`, all equal."""
    if self.has_default_noise:
      return self
    is_unknown = 'noise_scale' in self.priors
    unit = float(units[0])
    noise_scale = (
      self.priors['noise_scale'].divided(unit) if is_unknown else self.noise_scale / unit
    )
    return type(self)(**{**self.settings, 'noise_scale': noise_scale})

  def _scale(self, noise_scale):
    return self.noise_scale if noise_scale is None else noise_scale

  @property
  def noise_variance(self) -> float | tf.Tensor:
    """That of the Gaussian that stands in, of known noise: a float or `[*chains]`."""
    return self._surrogate_variance(self._known.get('noise_scale', self.noise_scale))

  @abc.abstractmethod
  def _surrogate_variance(self, noise_scale):
    """That of the Gaussian that stands in, for this scale of the noise."""

  def surrogate(
    self, targets: tf.Tensor, num_outputs: int, dtype: tf.DType
  ) -> tuple[tf.Tensor, float | None]:
    return targets, None if 'noise_scale' in self.priors else float(self.noise_variance)

  def __repr__(self):
    given = {**self.settings, **self.priors}
    return f'{type(self).__name__}({", ".join(f"{n}={v}" for n, v in given.items())})'


class StudentT(_Noise):
  """Noise with heavy tails, for targets with outliers.

  ```none
  y = f + noise_scale * t,    t with a Student distribution
  ```

  Args:
    noise_scale: Positive float, or its prior; by default `tfd.LogNormal(-1, 1)`, as of `Gaussian`.
    degrees_of_freedom: Positive float, above 2; the smaller, the heavier are the tails.
    output_scale: Positive float, what the outputs of the network are multiplied by; or its prior.

  #### Examples

  ```python
  import numpy as np
  import tfp_reprior as tfr

  x = np.linspace(-1, 1, 20, dtype=np.float32)[:, np.newaxis]
  y = np.where(np.arange(20)[:, np.newaxis] == 7, 5.0, np.sin(3 * x))  # an outlier
  posterior = tfr.Posterior(
    tfr.models.fcn((1,), 1, width=16), x, y, likelihood=tfr.likelihoods.StudentT()
  )
  ```
  """

  def __init__(
    self,
    noise_scale: Scale | None = None,
    degrees_of_freedom: float = 4.0,
    output_scale: Scale = 1.0,
  ) -> None:
    if not checks.positive('degrees_of_freedom', degrees_of_freedom) > 2:
      raise errors.InputError(
        '`degrees_of_freedom` must be above 2, for the noise to have a variance. Received: '
        f'degrees_of_freedom={degrees_of_freedom}'
      )
    self.degrees_of_freedom = float(degrees_of_freedom)
    super().__init__(noise_scale, output_scale)

  @property
  def settings(self) -> dict[str, Any]:
    return {**super().settings, 'degrees_of_freedom': self.degrees_of_freedom}

  def _distribution(self, outputs, noise_scale=None):
    return tfd.StudentT(self.degrees_of_freedom, outputs, self._scale(noise_scale))

  def _surrogate_variance(self, noise_scale):
    # The inverse of the Fisher information of the location.
    return noise_scale**2 * (self.degrees_of_freedom + 3) / (self.degrees_of_freedom + 1)


class Heteroscedastic(_Noise):
  """Gaussian noise whose scale depends on the input, by further outputs of the network.

  ```none
  y = f[:t] + noise_scale * exp(f[t:]) * N(0, 1)
  ```

  For t targets the network has `2 t` outputs: means, then logarithms of relative noise scales. The
  prior of the latter says how unsure the level of the noise is. A prior of `noise_scale` as well
  would leave chains a long way to go along which only the product counts.

  Args:
    noise_scale: Positive float, or its prior; by default `exp(-1)`, the median of that of
      `Gaussian`.
    output_scale: Positive float, what the outputs of the network are multiplied by; or its prior.

  #### Examples

  ```python
  import numpy as np
  import tfp_reprior as tfr

  rng = np.random.default_rng(1)
  x = np.linspace(-1, 1, 50, dtype=np.float32)[:, np.newaxis]
  y = np.sin(3 * x) + np.where(x > 0, 0.5, 0.05) * rng.normal(size=x.shape)
  model = tfr.models.fcn((1,), num_outputs=2, width=16)  # mean and log-noise
  posterior = tfr.Posterior(model, x, y, likelihood=tfr.likelihoods.Heteroscedastic())
  ```
  """

  outputs_per_target = 2

  @staticmethod
  def _default_noise_scale():
    return math.exp(-1.0)

  def __init__(self, noise_scale: Scale | None = None, output_scale: Scale = 1.0) -> None:
    super().__init__(noise_scale, output_scale)

  def num_targets(self, num_outputs: int) -> int:
    if num_outputs % 2:
      raise errors.InputError(
        'Noise that depends on inputs needs two outputs for each target, a mean and a logarithm of '
        f'its noise. Received: a model with {num_outputs} outputs'
      )
    return num_outputs // 2

  def _distribution(self, outputs, noise_scale=None):
    mean, log_scale = tf.split(outputs, 2, axis=-1)
    return tfd.Normal(mean, self._scale(noise_scale) * tf.exp(log_scale))

  def _surrogate_variance(self, noise_scale):
    # Of the mean noise_scale**2, of the logarithm 1/2: their geometric mean.
    return noise_scale * math.sqrt(0.5)

  def surrogate(
    self, targets: tf.Tensor, num_outputs: int, dtype: tf.DType
  ) -> tuple[tf.Tensor, float | None]:
    targets, variance = super().surrogate(targets, num_outputs, dtype)
    return tf.concat([targets, tf.zeros_like(targets)], axis=-1), variance
