"""Likelihoods: the density of targets given the outputs of the network."""

import math

import tensorflow as tf

from tfp_reprior.internal import checks


class Gaussian:
  """Independent Gaussian noise on every output.

  ```none
  log_prob(f, y) = -1/2 sum((y - f)**2) / noise_scale**2 - n k / 2 * log(2 pi noise_scale**2)
  ```

  Args:
    noise_scale: Positive float, the standard deviation of the noise.
  """

  def __init__(self, noise_scale=0.1):
    self.noise_scale = float(checks.positive('noise_scale', noise_scale))

  @property
  def noise_variance(self):
    """The square of `noise_scale`."""
    return self.noise_scale**2

  def log_prob(self, outputs, targets):
    """Log-density of all targets.

    Args:
      outputs: f `[..., n, k]`.
      targets: y `[n, k]`.

    Returns:
      `[...]`.
    """
    outputs, targets = tf.convert_to_tensor(outputs), tf.convert_to_tensor(targets)
    residuals = (targets - outputs) / self.noise_scale
    log_scale = targets.shape.num_elements() * (
      math.log(self.noise_scale) + math.log(2 * math.pi) / 2
    )
    return -0.5 * tf.reduce_sum(tf.square(residuals), axis=[-2, -1]) - log_scale

  def __repr__(self):
    return f'Gaussian(noise_scale={self.noise_scale:g})'
