"""Data on several devices, in the standard parametrisation."""

import tensorflow as tf
import tensorflow_probability as tfp

from tfp_reprior.bijectors import gradients
from tfp_reprior.densities import posterior as posterior_lib
from tfp_reprior.internal import distribution


class SplitData:
  """A posterior of the weights that evaluates some of the data on each device.

  For any likelihood. Values and gradients are added up over devices, in one exchange for each
  gradient. In the coordinates of the repriorisation there is the `strategy` of
  `tfp_reprior.CollapsedPosterior` instead.

  Args:
    posterior: A `tfp_reprior.Posterior`.
    strategy: A `tf.distribute.Strategy`, whose replicas share the data.

  #### Examples

  ```python
  import numpy as np
  import tensorflow as tf
  import tfp_reprior as tfr

  x = np.linspace(-1, 1, 20, dtype=np.float32)[:, np.newaxis]
  posterior = tfr.Posterior(tfr.models.fcn((1,), 1, width=64), x, np.sin(3 * x))
  strategy = tf.distribute.MirroredStrategy(['CPU:0'])  # without arguments: all GPUs
  density = tfr.densities.SplitData(posterior, strategy)
  density.target_log_prob_fn(*posterior.sample_prior(4, seed=1)).shape  # ==> [4]
  ```
  """

  def __init__(self, posterior: posterior_lib.Posterior, strategy: tf.distribute.Strategy) -> None:
    self.posterior = posterior
    self._strategy = strategy
    self._data = distribution.Shards(strategy, [posterior.x, posterior.y], posterior.split.dtype)

  def target_log_prob_fn(self, *parts: tf.Tensor) -> tf.Tensor:
    """As that of the posterior: `[*chains]`."""
    return self.posterior.log_prior_fn(*parts) + self.log_likelihood_fn(*parts)

  def log_likelihood_fn(self, *parts: tf.Tensor) -> tf.Tensor:
    """As that of the posterior: `[*chains]`."""
    parts = self.posterior.split.check_parts(parts)
    return gradients.explicit(lambda *p: self._data.run(self._value_and_gradients, *p), parts)

  def _value_and_gradients(self, shard, *parts):
    x, y, *counts = shard.rows

    def log_likelihood(*parts):
      likelihood = self.posterior.likelihood_given(parts)
      outputs = self.posterior.split.apply(parts, x)  # [*chains, m, k]
      value = likelihood.log_prob(outputs, y)
      for count in counts:  # rows that do not count repeat the last one
        num_repeated = tf.reduce_sum(1.0 - count)
        value -= num_repeated * likelihood.log_prob(outputs[..., -1:, :], y[-1:])
      return value

    value, grads = tfp.math.value_and_gradient(log_likelihood, list(parts))
    value, *grads = shard.all_sum([value, *grads])
    return value, grads

  def __repr__(self):
    return f'SplitData({self.posterior!r}, strategy={type(self._strategy).__name__})'
