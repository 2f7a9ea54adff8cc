"""Any observation model: a distribution of TensorFlow Probability as a function of the outputs."""

import copy
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp
from numpy.typing import ArrayLike

from tfp_reprior import errors
from tfp_reprior.internal.types import Parts, Scale
from tfp_reprior.likelihoods import likelihood, parameter_prior

tfd = tfp.distributions

_NUM_NEWTON_STEPS = 25
_LARGEST_OUTPUT = 6.0  # prior deviations that a surrogate target may be from zero
_SMALLEST_PRECISION = 1e-3


class FromDistribution(likelihood.Likelihood):
  """Targets that have a distribution of `tfp.distributions`, given the outputs of the network.

  ```none
  log_prob(f, y) = sum(fn(f, **parameters).log_prob(y))
  ```

  Any function will do: outputs may be a mean, a log-rate, logits, or several of these. The target
  of chains is exact; the map uses a Gaussian that stands in, with the mode and mean curvature of
  each datum's `log_prob(f, y) - |f|^2 / 2`, for parameters at the medians of their priors.

  Args:
    fn: Function of outputs f `[..., n, k]` and parameters by name; returns a distribution whose
      batch shape begins with `[..., n]`. Parameters that are one number come as `[..., 1, 1]`, and
      those of shape `[p]` as `[..., 1, p]`, to broadcast with f.
    priors: Dict of the priors of unknown parameters by name: distributions of `tfp.distributions`
      over numbers, or arrays of independent numbers, that have a quantile. Each is a state part.
    output_scale: Positive float, what the outputs of the network are multiplied by; or its prior.

  #### Examples

  ```python
  import numpy as np
  import tensorflow as tf
  import tensorflow_probability as tfp
  import tfp_reprior as tfr

  tfd = tfp.distributions
  counts = tfr.likelihoods.FromDistribution(lambda f: tfd.Poisson(log_rate=f))
  laplace = tfr.likelihoods.FromDistribution(  # heavy tails, of unknown scale
    lambda f, scale: tfd.Laplace(f, scale), priors={'scale': tfd.LogNormal(-1.0, 1.0)}
  )
  x = np.linspace(-1, 1, 20, dtype=np.float32)[:, np.newaxis]
  model = tfr.models.fcn((1,), 1, width=16)
  posterior = tfr.Posterior(model, x, np.arange(20) // 4, likelihood=counts)
  ```
  """

  def __init__(
    self,
    fn: Callable[..., tfp.distributions.Distribution],
    priors: Mapping[str, Any] | None = None,
    output_scale: Scale = 1.0,
  ) -> None:
    if not callable(fn):
      raise errors.InputError(f'`fn` must be a function of outputs. Received: fn={fn!r}')
    self._fn = fn
    self._known: dict[str, Any] = {}
    self.priors = {
      name: parameter_prior.ParameterPrior(name, prior, is_scale=name == 'noise_scale')
      for name, prior in (priors or {}).items()
    }
    self._set_scale('output_scale', output_scale)

  @property
  def settings(self) -> dict[str, Any]:
    """Without the function, which files cannot hold."""
    priors = {n: p.to_dict() for n, p in self.priors.items() if n != 'output_scale'}
    return {'priors': priors, 'output_scale': self._scale_setting('output_scale')}

  def given(self, parts: Parts) -> 'FromDistribution':
    """The same with known parameters, `[*chains, ...]` if the parts have chains."""
    known = copy.copy(self)
    known._known = self.values(parts)
    known._known.pop('output_scale', None)
    return known

  def distribution(self, outputs: tf.Tensor) -> tfp.distributions.Distribution:
    """What `fn` returns for outputs `[..., n, k]` and the known parameters."""
    known = {}
    for name, value in self._known.items():
      shape = self.priors[name].shape
      end = value.shape.rank - len(shape)
      ones = [1] * max(1, 2 - len(shape))
      known[name] = tf.reshape(value, [*value.shape[:end], *ones, *shape])
    return self._fn(tf.convert_to_tensor(outputs), **known)

  def check_targets(self, y: ArrayLike, num_outputs: int, dtype: tf.DType) -> tf.Tensor:
    """Targets of the shape and dtype of the distribution; `[n]` may stand for `[n, 1]`."""
    values: Any = y if tf.is_tensor(y) else np.asarray(y)
    medians = [tf.zeros(p.shape, dtype) for p in self.priors.values()]
    n = values.shape[0] if len(values.shape) else 0
    given = self.given(medians)
    shapes = []
    for chains in ([], [2]):
      parts = [tf.broadcast_to(u, [*chains, *u.shape]) for u in medians]
      distribution = self.given(parts).distribution(tf.zeros([*chains, n, num_outputs], dtype))
      if not isinstance(distribution, tfd.Distribution):
        raise errors.InputError(
          f'`fn` must return a distribution of `tfp.distributions`. Received: {distribution!r}'
        )
      shapes.append(distribution.batch_shape + distribution.event_shape)
    if shapes[0][:1] != [n] or shapes[1][:2] != [2, n]:
      raise errors.InputError(
        '`fn` must return a distribution whose batch shape begins with [..., n] for outputs '
        f'[..., n, {num_outputs}]. Received: shapes {shapes[0]} and {shapes[1]} for outputs of '
        f'shapes {(n, num_outputs)} and {(2, n, num_outputs)}'
      )
    wanted = given.distribution(tf.zeros([n, num_outputs], dtype)).dtype
    targets = tf.cast(values, wanted)
    if targets.shape.rank == 1 and shapes[0][1:] == [1]:
      targets = targets[:, tf.newaxis]
    if targets.shape != shapes[0]:
      raise errors.InputError(
        f'`y` must have shape {tuple(shapes[0])}, that of the distribution of `fn`. Received: y of '
        f'shape {tuple(targets.shape)}'
      )
    self._check_density(given, targets, num_outputs, dtype)
    return targets

  @staticmethod
  def _check_density(given, y, num_outputs, dtype):
    value = given.log_prob(tf.zeros([y.shape[0], num_outputs], dtype), y)
    known = tf.get_static_value(value) if not tf.executing_eagerly() else value.numpy()
    if known is not None and not np.isfinite(known):
      raise errors.InputError(
        f'`y` must have a positive density for outputs of zero. Received: a log-density of {known}'
      )

  def mean(self, outputs: tf.Tensor) -> tf.Tensor:
    """The mean of the distribution; NaN if it has none."""
    distribution = self.distribution(outputs)
    try:
      return tf.cast(distribution.mean(), outputs.dtype)
    except NotImplementedError:
      shape = distribution.batch_shape + distribution.event_shape
      return tf.fill(shape, tf.constant(math.nan, outputs.dtype))

  def log_prob(self, outputs: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
    log_probs = self.distribution(outputs).log_prob(targets)  # [..., n] or [..., n, k]
    chain_ndims = len(outputs.shape) - 2
    return tf.reduce_sum(log_probs, axis=list(range(chain_ndims, log_probs.shape.rank)))

  def surrogate(
    self, targets: tf.Tensor, num_outputs: int, dtype: tf.DType
  ) -> tuple[tf.Tensor, float | None]:
    given = self.given([tf.zeros(p.shape, dtype) for p in self.priors.values()])
    f = tf.zeros([targets.shape[0], num_outputs], dtype)
    for _ in range(_NUM_NEWTON_STEPS):
      gradient, precision = _slope_and_precision(given, f, targets)
      f += (gradient - f) / (precision + 1.0)
      f = tf.clip_by_value(f, -_LARGEST_OUTPUT, _LARGEST_OUTPUT)
    gradient, precision = _slope_and_precision(given, f, targets)
    variance = 1.0 / tf.reduce_mean(precision)
    known = tf.get_static_value(variance)
    return f + variance * gradient, variance if known is None else float(known)

  def __repr__(self):
    given = {'fn': getattr(self._fn, '__name__', repr(self._fn)), **self.priors}
    return f'{type(self).__name__}({", ".join(f"{n}={v}" for n, v in given.items())})'


def _slope_and_precision(given, f, targets):
  """First derivative of the log-density at outputs f `[n, k]`, and minus the second, positive."""
  with tf.GradientTape(persistent=True) as outer:
    outer.watch(f)
    with tf.GradientTape() as inner:
      inner.watch(f)
      value = given.log_prob(f, targets)
    gradient = inner.gradient(value, f, unconnected_gradients='zero')
    columns = tf.unstack(gradient, axis=-1)
  curvature = tf.stack(
    [
      outer.gradient(column, f, unconnected_gradients='zero')[:, i]
      for i, column in enumerate(columns)
    ],
    axis=-1,
  )
  return gradient, tf.maximum(-curvature, _SMALLEST_PRECISION)
