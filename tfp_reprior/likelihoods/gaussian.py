"""Gaussian noise, of known or unknown scale."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp
from numpy.typing import ArrayLike

from tfp_reprior import errors
from tfp_reprior.internal import checks
from tfp_reprior.internal.types import NoiseScale, Parts, Scale
from tfp_reprior.likelihoods import likelihood, parameter_prior

_MOST_SHOWN = 4  # scales, in the text of a likelihood


class Gaussian(likelihood.Likelihood):
  """Independent Gaussian noise on every output.

  ```none
  log_prob(f, y) = -1/2 sum((y - f)**2 / noise_scale**2) - sum(log(noise_scale)) - n k / 2 log(2 pi)
  ```

  With a noise scale for each output, the map uses their geometric mean.

  If a scale is not known, it may have a prior. Then the state has one more part, a number
  `u ~ N(0, 1)` of which the scale is a function: `exp(loc + scale * u)` for
  `tfd.LogNormal(loc, scale)`, and `prior.quantile(Phi(u))` for other priors.

  Args:
    noise_scale: Positive float, the standard deviation of the noise, or `k` of them; or its prior,
      a distribution of `tfp.distributions` over positive numbers, with a quantile. By default
      `tfd.LogNormal(-1, 1)`, for targets with a standard deviation of about one: 90 % of it lies
      between 0.07 and 1.9.
    output_scale: Positive float, what the outputs of the network are multiplied by; or its prior.

  #### Examples

  ```python
  import tensorflow_probability as tfp
  import tfp_reprior as tfr

  likelihood = tfr.likelihoods.Gaussian(tfp.distributions.LogNormal(-2.0, 1.0))
  likelihood.given([0.5]).noise_scale  # ==> exp(-1.5)
  ```
  """

  has_units = True
  default_regularizer = 'noise'

  def __init__(
    self,
    noise_scale: NoiseScale | Mapping[str, Any] | None = None,
    output_scale: Scale = 1.0,
  ) -> None:
    self.has_default_noise = noise_scale is None
    if noise_scale is None:
      noise_scale = tfp.distributions.LogNormal(-1.0, 1.0)
    if parameter_prior.is_given(noise_scale):
      self._set_scale('noise_scale', noise_scale)
    else:
      self._set_known_noise(noise_scale)
    self._set_scale('output_scale', output_scale)

  def _set_known_noise(self, noise_scale):
    scale = np.asarray(checks.positive('noise_scale', noise_scale), np.float64)
    if scale.ndim > 1:
      raise errors.InputError(
        '`noise_scale` must be a number, or one for each output. Received: noise_scale of shape '
        f'{scale.shape}'
      )
    self.noise_scale = float(scale) if scale.ndim == 0 else scale
    self.log_noise_scale = np.log(self.noise_scale)

  def given(self, parts: Parts) -> 'Gaussian':
    """The same with known noise, `[*chains]` if the parts have chains."""
    if 'noise_scale' not in self.priors:
      return self
    return _GaussianByChain(self.priors['noise_scale'].log_value(tf.convert_to_tensor(parts[0])))

  @property
  def noise_variance(self) -> float | np.ndarray | tf.Tensor:
    """The square of `noise_scale`."""
    return self.noise_scale**2

  @property
  def is_conjugate(self) -> bool:
    return 'noise_scale' in self.priors or isinstance(self.noise_scale, float)

  def in_units_of(self, units: np.ndarray) -> 'Gaussian':
    """The same noise of targets that are divided by `units` `[k]`, all equal for one noise."""
    output_scale = self._scale_setting('output_scale')  # of standardized targets in any case
    if self.has_default_noise:
      return self
    if 'noise_scale' in self.priors:
      return Gaussian(self.priors['noise_scale'].divided(float(units[0])), output_scale)
    return Gaussian(self.noise_scale / (units[0] if self.is_conjugate else units), output_scale)

  @property
  def settings(self) -> dict[str, Any]:
    noise_scale = self._scale_setting('noise_scale')
    if not isinstance(noise_scale, dict):
      noise_scale = np.asarray(noise_scale).tolist()
    settings = {'noise_scale': noise_scale}
    if self.output_scale != 1.0 or 'output_scale' in self.priors:
      settings['output_scale'] = self._scale_setting('output_scale')
    return settings

  def check_targets(self, y: ArrayLike, num_outputs: int, dtype: tf.DType) -> tf.Tensor:
    """Targets `[n, k]`, floating point; `[n]` is taken as `[n, 1]` if there is one output."""
    if not self.is_conjugate and len(self.noise_scale) != num_outputs:
      raise errors.InputError(
        f'`noise_scale` must have one entry for each of the {num_outputs} outputs. Received: '
        f'noise_scale={self.noise_scale}'
      )
    y = checks.finite_floats('y', y, dtype)
    return likelihood.as_matrix(y, num_outputs, 'a row of {} outputs for each input')

  def mean(self, outputs: tf.Tensor) -> tf.Tensor:
    return outputs

  def log_prob(self, outputs: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
    outputs, targets = tf.convert_to_tensor(outputs), tf.convert_to_tensor(targets)
    residuals = (targets - outputs) / tf.constant(self.noise_scale, targets.dtype)
    mean_log_scale = float(np.mean(self.log_noise_scale))
    log_scale = targets.shape.num_elements() * (mean_log_scale + math.log(2 * math.pi) / 2)
    return -0.5 * tf.reduce_sum(tf.square(residuals), axis=[-2, -1]) - log_scale

  def surrogate(
    self, targets: tf.Tensor, num_outputs: int, dtype: tf.DType
  ) -> tuple[tf.Tensor, float | None]:
    if 'noise_scale' in self.priors:
      return targets, None
    return targets, float(np.exp(np.mean(np.log(self.noise_variance))))

  def __repr__(self):
    if 'noise_scale' in self.priors:
      text = repr(self.priors['noise_scale'])
    else:
      scales = np.atleast_1d(self.noise_scale)
      text = ', '.join(f'{s:g}' for s in scales[:_MOST_SHOWN])
      text += ', ...' if len(scales) > _MOST_SHOWN else ''
      text = text if self.is_conjugate else f'[{text}]'
    if 'output_scale' in self.settings:
      text += f', output_scale={self.priors.get("output_scale", self.output_scale)}'
    return f'Gaussian(noise_scale={text})'


class _GaussianByChain(Gaussian):
  """Gaussian noise with a scale for each chain, where its prior is no longer needed.

  Args:
    log_noise_scale: `[*chains]`.
  """

  def __init__(self, log_noise_scale):
    self.log_noise_scale = log_noise_scale
    self.noise_scale = tf.exp(log_noise_scale)

  def log_prob(self, outputs, targets):
    squares = tf.reduce_sum(tf.square(targets - outputs), axis=[-2, -1])
    log_scale = self.log_noise_scale + math.log(2 * math.pi) / 2
    return -0.5 * squares / self.noise_variance - targets.shape.num_elements() * log_scale
