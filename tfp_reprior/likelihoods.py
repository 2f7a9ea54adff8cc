"""Likelihoods: the density of targets given the outputs of the network.

The repriorisation needs Gaussian noise. For other likelihoods a Gaussian stands in, the surrogate,
in the map alone: the log-density is exact, and only how close the posterior gets to N(0, I)
depends on the surrogate. By default it is what the log-likelihood looks like near zero outputs,
to second order.
"""

import abc
import math

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

from tfp_reprior import noise_prior
from tfp_reprior.internal import checks


class Likelihood(abc.ABC):
  """What the rest of the package asks of a likelihood.

  A likelihood may have parameters of its own, state parts with prior N(0, 1) beside the weights.

  Attributes:
    event_shapes: Tuple of the shapes of these parts.
  """

  event_shapes = ()

  @property
  def is_conjugate(self):
    """Whether the readout can be integrated out: Gaussian noise, the same for all outputs."""
    return False

  @property
  @abc.abstractmethod
  def settings(self):
    """The arguments of the constructor, a dict for JSON."""

  def to_dict(self):
    """What `from_dict` makes the likelihood from, a dict for JSON."""
    return {'name': type(self).__name__, **self.settings}

  def given(self, parts):
    """The likelihood, without parameters, that this one is for given `parts` of its own."""
    del parts  # none
    return self

  @abc.abstractmethod
  def check_targets(self, y, num_outputs, dtype):
    """The targets as a tensor `[n, ...]`; what this likelihood cannot be about is refused."""

  @abc.abstractmethod
  def mean(self, outputs):
    """The mean of targets given outputs f `[..., n, k]`; of classes, that of one-hot vectors."""

  @abc.abstractmethod
  def log_prob(self, outputs, targets):
    """Log-density of all targets.

    Args:
      outputs: f `[..., n, k]`.
      targets: What `check_targets` returned, `[n, ...]`.

    Returns:
      `[...]`.
    """

  @abc.abstractmethod
  def surrogate(self, targets, num_outputs, dtype):
    """The Gaussian that stands in: targets `[n, k]`, and the variance of the noise, a float.

    The variance is None if it is not known before the parts of the likelihood are.
    """


class Gaussian(Likelihood):
  """Independent Gaussian noise on every output.

  ```none
  log_prob(f, y) = -1/2 sum((y - f)**2 / noise_scale**2) - sum(log(noise_scale)) - n k / 2 log(2 pi)
  ```

  With a noise scale for each output, the map uses their geometric mean.

  If the scale is not known, it may have a prior. Then the state has one more part, a number
  `u ~ N(0, 1)` of which the scale is a function: `exp(loc + scale * u)` for
  `tfd.LogNormal(loc, scale)`, and `prior.quantile(Phi(u))` for other priors.

  Args:
    noise_scale: Positive float, the standard deviation of the noise, or `k` of them; or its prior,
      a distribution of `tfp.distributions` over positive numbers, with a quantile.

  #### Examples

  ```python
  import tensorflow_probability as tfp
  import tfp_reprior as tfr

  likelihood = tfr.likelihoods.Gaussian(tfp.distributions.LogNormal(-2.0, 1.0))
  likelihood.given([0.5]).noise_scale  # ==> exp(-1.5)
  ```
  """

  def __init__(self, noise_scale=0.1):
    self.noise_prior = None
    if isinstance(noise_scale, dict):  # of `settings`
      noise_scale = noise_prior.from_dict(noise_scale)
    if isinstance(noise_scale, tfp.distributions.Distribution):
      self.noise_prior = noise_prior.NoisePrior(noise_scale)
      self.noise_scale, self.event_shapes = noise_scale, ((),)
      return
    scale = np.asarray(checks.positive('noise_scale', noise_scale), np.float64)
    if scale.ndim > 1:
      raise ValueError(
        '`noise_scale` must be a number, or one for each output. Received: noise_scale of shape '
        f'{scale.shape}'
      )
    self.noise_scale = float(scale) if scale.ndim == 0 else scale
    self.log_noise_scale = np.log(self.noise_scale)

  def given(self, parts):
    """The same with a known scale, `[*chains]` if the parts `[u]` have chains."""
    if self.noise_prior is None:
      return self
    return _GaussianByChain(self.noise_prior.log_scale(tf.convert_to_tensor(parts[0])))

  @property
  def noise_variance(self):
    """The square of `noise_scale`."""
    return self.noise_scale**2

  @property
  def is_conjugate(self):
    return self.noise_prior is not None or isinstance(self.noise_scale, float)

  @property
  def settings(self):
    if self.noise_prior is not None:
      return {'noise_scale': self.noise_prior.to_dict()}
    return {'noise_scale': np.asarray(self.noise_scale).tolist()}

  def check_targets(self, y, num_outputs, dtype):
    """Targets `[n, k]`, floating point; `[n]` is taken as `[n, 1]` if there is one output."""
    if not self.is_conjugate and len(self.noise_scale) != num_outputs:
      raise ValueError(
        f'`noise_scale` must have one entry for each of the {num_outputs} outputs. Received: '
        f'noise_scale={self.noise_scale}'
      )
    y = checks.finite_floats('y', y, dtype)
    return _matrix(y, num_outputs, 'a row of {} outputs for each input')

  def mean(self, outputs):
    return outputs

  def log_prob(self, outputs, targets):
    outputs, targets = tf.convert_to_tensor(outputs), tf.convert_to_tensor(targets)
    residuals = (targets - outputs) / tf.constant(self.noise_scale, targets.dtype)
    mean_log_scale = float(np.mean(self.log_noise_scale))
    log_scale = targets.shape.num_elements() * (mean_log_scale + math.log(2 * math.pi) / 2)
    return -0.5 * tf.reduce_sum(tf.square(residuals), axis=[-2, -1]) - log_scale

  def surrogate(self, targets, num_outputs, dtype):
    if self.noise_prior is not None:
      return targets, None
    return targets, float(np.exp(np.mean(np.log(self.noise_variance))))

  def __repr__(self):
    if self.noise_prior is not None:
      return f'Gaussian(noise_scale={self.noise_prior!r})'
    scales = np.atleast_1d(self.noise_scale)
    text = ', '.join(f'{s:g}' for s in scales)
    return f'Gaussian(noise_scale={text if self.is_conjugate else f"[{text}]"})'


class _GaussianByChain(Gaussian):
  """Gaussian noise with a scale for each chain, where its prior is no longer needed.

  Args:
    log_noise_scale: `[*chains]`.
  """

  def __init__(self, log_noise_scale):
    self.noise_prior = None
    self.log_noise_scale = log_noise_scale
    self.noise_scale = tf.exp(log_noise_scale)

  def log_prob(self, outputs, targets):
    squares = tf.reduce_sum(tf.square(targets - outputs), axis=[-2, -1])
    log_scale = self.log_noise_scale + math.log(2 * math.pi) / 2
    return -0.5 * squares / self.noise_variance - targets.shape.num_elements() * log_scale


class _Surrogate(Likelihood):
  """Likelihoods that a Gaussian stands in for, with its scale and variance as settings."""

  def __init__(self, surrogate_scale=None, surrogate_variance=None):
    self.surrogate_scale = _optional('surrogate_scale', surrogate_scale)
    self.surrogate_variance = _optional('surrogate_variance', surrogate_variance)

  @property
  def settings(self):
    return {'surrogate_scale': self.surrogate_scale, 'surrogate_variance': self.surrogate_variance}

  def __repr__(self):
    given = ', '.join(f'{name}={value}' for name, value in self.settings.items())
    return f'{type(self).__name__}({given})'


class Categorical(_Surrogate):
  """One of `k` classes, with the outputs as logits.

  ```none
  log_prob(f, y) = sum(log(softmax(f))[y])
  ```

  The surrogate has targets `surrogate_scale * (one_hot(y) - 1/k)` and noise variance
  `surrogate_variance`. By default both are `k`, the second-order expansion at `f = 0`, where the
  Hessian of `-log(softmax)` is `(I - 1/k) / k`.

  Args:
    surrogate_scale: Positive float, or None for `k`.
    surrogate_variance: Positive float, or None for `k`.
  """

  def check_targets(self, y, num_outputs, dtype):
    """Labels `[n]`, integers from 0 to `k - 1`."""
    y = y if tf.is_tensor(y) else np.asarray(y)
    source = tf.as_dtype(y.dtype)
    if len(y.shape) != 1 or not source.is_integer:
      raise ValueError(
        '`y` must be a vector of integer labels. Received: y of dtype '
        f'{source.name} and shape {tuple(y.shape)}'
      )
    if num_outputs < 2:
      raise ValueError(f'Classes need two outputs or more. Received: a model with {num_outputs}')
    known = checks.static_value(y)
    bad = [] if known is None else np.flatnonzero((known < 0) | (known >= num_outputs))
    if len(bad):
      raise ValueError(
        f'`y` must hold labels from 0 to {num_outputs - 1}. Received: y[{bad[0]}]={known[bad[0]]}, '
        f'and {len(bad)} such labels in all'
      )
    return tf.cast(y, tf.int32)

  def mean(self, outputs):
    """The probabilities of the classes, `softmax(outputs)`."""
    return tf.nn.softmax(outputs)

  def log_prob(self, outputs, targets):
    outputs, targets = tf.convert_to_tensor(outputs), tf.convert_to_tensor(targets)
    one_hot = tf.one_hot(targets, outputs.shape[-1], dtype=outputs.dtype)
    return tf.reduce_sum(tf.nn.log_softmax(outputs) * one_hot, axis=[-2, -1])

  def surrogate(self, targets, num_outputs, dtype):
    scale = float(num_outputs) if self.surrogate_scale is None else self.surrogate_scale
    variance = float(num_outputs) if self.surrogate_variance is None else self.surrogate_variance
    return scale * (tf.one_hot(targets, num_outputs, dtype=dtype) - 1.0 / num_outputs), variance


class Bernoulli(_Surrogate):
  """Yes or no for every output, with the outputs as log-odds.

  ```none
  log_prob(f, y) = sum(y f - log(1 + exp(f)))
  ```

  The surrogate has targets `surrogate_scale * (y - 1/2)` and noise variance `surrogate_variance`.
  By default both are 4, the second-order expansion at `f = 0`.

  Args:
    surrogate_scale: Positive float, or None for 4.
    surrogate_variance: Positive float, or None for 4.
  """

  def check_targets(self, y, num_outputs, dtype):
    """Targets `[n, k]` (`[n]` for one output), each 0 or 1."""
    y = y if tf.is_tensor(y) else np.asarray(y)
    known = checks.static_value(y)
    if known is not None and not np.all((known == 0) | (known == 1)):
      bad = known[(known != 0) & (known != 1)][0]
      raise ValueError(f'`y` must hold zeros and ones. Received: an entry {bad!r}')
    return _matrix(tf.cast(y, dtype), num_outputs, 'a row of {} zeros or ones for each input')

  def mean(self, outputs):
    """The probabilities of one, `sigmoid(outputs)`."""
    return tf.nn.sigmoid(outputs)

  def log_prob(self, outputs, targets):
    outputs, targets = tf.convert_to_tensor(outputs), tf.convert_to_tensor(targets)
    return tf.reduce_sum(targets * outputs - tf.nn.softplus(outputs), axis=[-2, -1])

  def surrogate(self, targets, num_outputs, dtype):
    scale = 4.0 if self.surrogate_scale is None else self.surrogate_scale
    variance = 4.0 if self.surrogate_variance is None else self.surrogate_variance
    return scale * (targets - 0.5), variance


KINDS = (Gaussian, Categorical, Bernoulli)


def from_dict(values):
  """The likelihood that `Likelihood.to_dict` was called of."""
  settings = dict(values)
  name = checks.one_of('name', settings.pop('name'), [kind.__name__ for kind in KINDS])
  return {kind.__name__: kind for kind in KINDS}[name](**settings)


def _matrix(y, num_outputs, meaning):
  if y.shape.rank == 1 and num_outputs == 1:
    y = y[:, tf.newaxis]
  if y.shape.rank != 2 or y.shape[1] != num_outputs:
    raise ValueError(
      f'`y` must have shape [n, {num_outputs}], {meaning.format(num_outputs)}. Received: y of '
      f'shape {tuple(y.shape)}'
    )
  return y


def _optional(name, value):
  return None if value is None else float(checks.positive(name, value))
