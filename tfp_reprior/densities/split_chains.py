"""Chains on several devices."""

import functools

import tensorflow as tf
import tensorflow_probability as tfp

from tfp_reprior import errors
from tfp_reprior.bijectors import gradients
from tfp_reprior.densities import collapsed_posterior, composed_posterior
from tfp_reprior.densities import posterior as posterior_lib
from tfp_reprior.internal import distribution


class SplitChains:
  """A density that evaluates some of the chains on each device.

  Chains are independent, so nothing is exchanged but their states, values and gradients. The loop
  over steps, and everything random in it, stay in one place: draws are those of one device, for
  the same seed, up to rounding.

  For data that are too many for one device there is the `strategy` of
  `tfp_reprior.CollapsedPosterior` instead, which splits the data.

  Args:
    density: A density of this package: a `tfp_reprior.CollapsedPosterior`, `ComposedPosterior` or
      `Posterior`.
    strategy: A `tf.distribute.Strategy`, whose replicas share the chains.

  #### Examples

  ```python
  import numpy as np
  import tensorflow as tf
  import tfp_reprior as tfr

  x = np.linspace(-1, 1, 20, dtype=np.float32)[:, np.newaxis]
  posterior = tfr.Posterior(tfr.models.fcn((1,), 1, width=64), x, np.sin(3 * x))
  strategy = tf.distribute.MirroredStrategy(['CPU:0'])  # without arguments: all GPUs
  density = tfr.densities.SplitChains(tfr.CollapsedPosterior(posterior), strategy)
  density.target_log_prob_fn(*posterior.sample_prior(4, seed=1)).shape  # ==> [4]
  ```
  """

  def __init__(
    self,
    density: collapsed_posterior.CollapsedPosterior
    | composed_posterior.ComposedPosterior
    | posterior_lib.Posterior,
    strategy: tf.distribute.Strategy,
  ) -> None:
    self._density = density
    self._strategy = distribution.check_strategy(strategy)
    split = (
      density.split if isinstance(density, posterior_lib.Posterior) else density.posterior.split
    )
    self._event_ndims = split.event_ndims

  def target_log_prob_fn(self, *parts: tf.Tensor) -> tf.Tensor:
    """As that of the density: `[*chains]`, at least one chain dimension."""
    return self._evaluate(self._density.target_log_prob_fn, parts)

  def log_likelihood_fn(
    self, *parts: tf.Tensor, inverse_temperature: float | tf.Tensor = 1.0
  ) -> tf.Tensor:
    """As that of the density: `[*chains]`, at least one chain dimension."""
    tempered = functools.partial(
      self._density.log_likelihood_fn, inverse_temperature=inverse_temperature
    )
    return self._evaluate(tempered, parts)

  def _evaluate(self, log_prob_fn, parts):
    if parts[0].shape.rank == self._event_ndims[0]:
      raise errors.InputError(
        '`parts` must have a chain dimension, to be split over devices. Received: parts of shapes '
        f'{[tuple(p.shape) for p in parts]}'
      )

    is_moved = []  # whether the density depends on a part: replicas return tensors only

    def evaluate(*some):
      value, grads = tfp.math.value_and_gradient(log_prob_fn, list(some))
      is_moved.clear()
      is_moved.extend(g is not None for g in grads)
      return [value, *(g for g in grads if g is not None)]

    def value_and_gradients(*parts):
      value, *grads = distribution.map_rows(self._strategy, evaluate, parts, axis=0)
      grads = iter(grads)
      return value, [next(grads) if is_one else None for is_one in is_moved]

    return gradients.explicit(value_and_gradients, list(parts))

  def __repr__(self):
    return f'SplitChains({self._density!r}, strategy={type(self._strategy).__name__})'
