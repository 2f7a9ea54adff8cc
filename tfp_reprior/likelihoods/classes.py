"""Likelihoods of classes: one of several, or yes and no."""

import math
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp
from numpy.typing import ArrayLike

from tfp_reprior import errors
from tfp_reprior.internal import checks
from tfp_reprior.internal.types import Scale
from tfp_reprior.likelihoods import likelihood


class _Classes(likelihood.Likelihood):
  """Likelihoods that a Gaussian stands in for, with its scale and variance as settings."""

  # Outputs of an unknown scale are far from what a Gaussian at zero expects of them: chains mixed
  # ten times faster without the map on every table, docs/samplers.md.
  sampler_regularizer = math.inf

  def __init__(
    self,
    surrogate_scale: float | None = None,
    surrogate_variance: float | None = None,
    output_scale: Scale | None = None,
  ) -> None:
    if output_scale is None:
      output_scale = tfp.distributions.LogNormal(1.0, 1.0)
    self._set_scale('output_scale', output_scale)
    self.surrogate_scale = _optional('surrogate_scale', surrogate_scale)
    self.surrogate_variance = _optional('surrogate_variance', surrogate_variance)

  @property
  def settings(self) -> dict[str, Any]:
    return {
      'surrogate_scale': self.surrogate_scale,
      'surrogate_variance': self.surrogate_variance,
      'output_scale': self._scale_setting('output_scale'),
    }

  def __repr__(self):
    given = {n: v for n, v in self.settings.items() if v is not None} | self.priors
    return f'{type(self).__name__}({", ".join(f"{n}={v}" for n, v in given.items())})'


class Categorical(_Classes):
  """One of `k` classes, with the outputs as logits.

  ```none
  log_prob(f, y) = sum(log(softmax(f))[y])
  ```

  How large logits are, so how sure a network can be, is unknown by default: outputs of the network
  are multiplied by an `output_scale` with a prior, a state part `u ~ N(0, 1)` beside the weights.

  The surrogate has targets `surrogate_scale * (one_hot(y) - 1/k)` and noise variance
  `surrogate_variance`. By default both are `k`, the second-order expansion at `f = 0`, where the
  Hessian of `-log(softmax)` is `(I - 1/k) / k`.

  Args:
    surrogate_scale: Positive float, or None for `k`.
    surrogate_variance: Positive float, or None for `k`.
    output_scale: Positive float, or a prior, a distribution of `tfp.distributions` over positive
      numbers with a quantile; by default `tfd.LogNormal(1, 1)`, 90 % of which lies between 0.5
      and 14.

  #### Examples

  ```python
  import numpy as np
  import tfp_reprior as tfr

  likelihood = tfr.likelihoods.Categorical()
  logits = np.array([[2.0, 0.0, 0.0], [0.0, 1.0, 0.0]])  # of two inputs, three classes
  likelihood.mean(logits)  # the probabilities
  likelihood.log_prob(logits, targets=[0, 1])  # ==> about -0.79
  ```
  """

  ignores_mean = True

  def check_targets(self, y: ArrayLike, num_outputs: int, dtype: tf.DType) -> tf.Tensor:
    """Labels `[n]`, integers from 0 to `k - 1`."""
    y = _as_array(y)
    source = tf.as_dtype(y.dtype)
    if len(y.shape) != 1 or not source.is_integer:
      raise errors.InputError(
        '`y` must be a vector of integer labels. Received: y of dtype '
        f'{source.name} and shape {tuple(y.shape)}'
      )
    if num_outputs < 2:
      raise errors.InputError(
        f'Classes need two outputs or more. Received: a model with {num_outputs}'
      )
    known = checks.static_value(y)
    bad: Any = [] if known is None else np.flatnonzero((known < 0) | (known >= num_outputs))
    if len(bad):
      raise errors.InputError(
        f'`y` must hold labels from 0 to {num_outputs - 1}. Received: y[{bad[0]}]={known[bad[0]]}, '
        f'and {len(bad)} such labels in all'
      )
    return tf.cast(y, tf.int32)

  def mean(self, outputs: tf.Tensor) -> tf.Tensor:
    """The probabilities of the classes, `softmax(outputs)`."""
    return tf.nn.softmax(outputs)

  def log_prob(self, outputs: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
    outputs, targets = tf.convert_to_tensor(outputs), tf.convert_to_tensor(targets)
    one_hot = tf.one_hot(targets, outputs.shape[-1], dtype=outputs.dtype)
    return tf.reduce_sum(tf.nn.log_softmax(outputs) * one_hot, axis=[-2, -1])

  def surrogate(
    self, targets: tf.Tensor, num_outputs: int, dtype: tf.DType
  ) -> tuple[tf.Tensor, float]:
    scale = float(num_outputs) if self.surrogate_scale is None else self.surrogate_scale
    variance = float(num_outputs) if self.surrogate_variance is None else self.surrogate_variance
    return scale * (tf.one_hot(targets, num_outputs, dtype=dtype) - 1.0 / num_outputs), variance

  def expand(self, outputs: tf.Tensor, targets: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    # The Hessian is p p.T - diag(p), with trace sum(p**2) - 1.
    p, k = tf.nn.softmax(outputs), outputs.shape[-1]
    gradient = tf.one_hot(targets, k, dtype=outputs.dtype) - p
    return gradient, tf.reduce_sum(p * (1.0 - p), axis=-1) / (k - 1)


class Bernoulli(_Classes):
  """Yes or no for every output, with the outputs as log-odds.

  ```none
  log_prob(f, y) = sum(y f - log(1 + exp(f)))
  ```

  How large log-odds are is unknown by default, as for `Categorical`.

  The surrogate has targets `surrogate_scale * (y - 1/2)` and noise variance `surrogate_variance`.
  By default both are 4, the second-order expansion at `f = 0`.

  Args:
    surrogate_scale: Positive float, or None for 4.
    surrogate_variance: Positive float, or None for 4.
    output_scale: As of `Categorical`.

  #### Examples

  ```python
  import numpy as np
  import tfp_reprior as tfr

  x = np.linspace(-1, 1, 20, dtype=np.float32)[:, np.newaxis]
  posterior = tfr.Posterior(
    tfr.models.fcn((1,), 1, width=16), x, x > 0, likelihood=tfr.likelihoods.Bernoulli()
  )
  ```
  """

  def check_targets(self, y: ArrayLike, num_outputs: int, dtype: tf.DType) -> tf.Tensor:
    """Targets `[n, k]` (`[n]` for one output), each 0 or 1."""
    y = _as_array(y)
    known = checks.static_value(y)
    if known is not None and not np.all((known == 0) | (known == 1)):
      bad = known[(known != 0) & (known != 1)][0]
      raise errors.InputError(f'`y` must hold zeros and ones. Received: an entry {bad!r}')
    meaning = 'a row of {} zeros or ones for each input'
    return likelihood.as_matrix(tf.cast(y, dtype), num_outputs, meaning)

  def mean(self, outputs: tf.Tensor) -> tf.Tensor:
    """The probabilities of one, `sigmoid(outputs)`."""
    return tf.nn.sigmoid(outputs)

  def log_prob(self, outputs: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
    outputs, targets = tf.convert_to_tensor(outputs), tf.convert_to_tensor(targets)
    return tf.reduce_sum(targets * outputs - tf.nn.softplus(outputs), axis=[-2, -1])

  def surrogate(
    self, targets: tf.Tensor, num_outputs: int, dtype: tf.DType
  ) -> tuple[tf.Tensor, float]:
    scale = 4.0 if self.surrogate_scale is None else self.surrogate_scale
    variance = 4.0 if self.surrogate_variance is None else self.surrogate_variance
    return scale * (targets - 0.5), variance

  def expand(self, outputs: tf.Tensor, targets: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    p = tf.nn.sigmoid(outputs)
    return targets - p, tf.reduce_mean(p * (1.0 - p), axis=-1)


def _optional(name, value):
  return None if value is None else float(checks.positive(name, value))


def _as_array(y):
  """A tensor as it is, known or not; else an array."""
  return y if tf.is_tensor(y) else checks.array('y', y)
