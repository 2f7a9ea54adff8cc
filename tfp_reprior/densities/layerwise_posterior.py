"""The posterior in phi with a map on every layer."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tfp_reprior.bijectors import layer_maps
from tfp_reprior.densities import collapsed_posterior, composed_posterior
from tfp_reprior.densities import posterior as posterior_lib
from tfp_reprior.internal import parts as parts_lib
from tfp_reprior.internal.types import Parts


class LayerwisePosterior:
  """The density of a posterior in the coordinates of `tfp_reprior.LayerwiseReprior`.

  ```none
  target_log_prob_fn(*phi) = readout density + sum over layers of change
  change = log N(v; 0, lam I + psi @ psi.T) - log N(v; psi @ theta, lam I)
  ```

  with the density of a `tfp_reprior.CollapsedPosterior` if the readout can be integrated out, else
  of a `ComposedPosterior`; up to the constants of these. One pass of the network, one factor a
  layer; the gradient of the map is in closed form, there is no back-propagation through a factor
  (`tfp_reprior.bijectors.gradients`).

  Args:
    posterior: A `tfp_reprior.Posterior`.
    anchor: As of `tfp_reprior.LayerwiseReprior`.
    regularizer: As of `tfp_reprior.LayerwiseReprior`, of hidden layers.
    readout_regularizer: As of `tfp_reprior.Posterior.reprior`.
    num_directions: As of `tfp_reprior.LayerwiseReprior`.

  Attributes:
    anchor: List of its hidden parts.

  #### Examples

  ```python
  import numpy as np
  import tensorflow_probability as tfp
  import tfp_reprior as tfr

  x = np.linspace(-1, 1, 20, dtype=np.float32)[:, np.newaxis]
  posterior = tfr.Posterior(tfr.models.fcn((1,), 1, width=8), x, np.sin(3 * x))
  density = tfr.LayerwisePosterior(posterior, posterior.sample_prior(4, seed=1), regularizer=10.0)
  phi = posterior.sample_prior(4, seed=2)
  value, gradient = tfp.math.value_and_gradient(density.target_log_prob_fn, phi)
  theta = density.to_theta(phi)
  ```
  """

  def __init__(
    self,
    posterior: posterior_lib.Posterior,
    anchor: Parts,
    regularizer: float | Sequence[float] = 10.0,
    readout_regularizer: float | str | None = None,
    num_directions: int | None = None,
  ) -> None:
    self.posterior = posterior
    self._split = posterior.split
    self._maps = layer_maps.LayerMaps(self._split, posterior.x, regularizer, num_directions)
    readout_regularizer = readout_regularizer or posterior.likelihood.default_regularizer
    is_noise = readout_regularizer == 'noise'
    self.readout_density: Any = (
      collapsed_posterior.CollapsedPosterior(posterior)
      if is_noise and posterior.likelihood.is_conjugate
      else composed_posterior.ComposedPosterior(posterior, readout_regularizer)
    )
    self._targets = None
    self.move_anchor(anchor)

  @property
  def layer_regularizers(self) -> dict[str, float]:
    """`lam` of each layer that could have a map, by name."""
    return dict(zip(self._maps.names, self._maps.regularizers, strict=True))

  def move_anchor(self, anchor: Parts) -> None:
    """Takes another anchor, of the same shapes, in graphs that were made before too.

    This is another map: states have other coordinates from now on (`from_theta`).
    """
    targets = self._maps.targets_of(anchor)
    self.anchor = [tf.convert_to_tensor(p) for p in anchor[: self._split.num_hidden]]
    if not tf.executing_eagerly():
      self._targets = targets
    elif self._targets is None or _shapes(self._targets) != _shapes(targets):
      self._targets = tf.nest.map_structure(lambda t: tf.Variable(t, trainable=False), targets)
    else:
      tf.nest.map_structure(lambda variable, t: variable.assign(t), self._targets, targets)

  def target_log_prob_fn(self, *phi_parts: tf.Tensor) -> tf.Tensor:
    """Log of the density in phi, up to a constant: `[*chains]`."""
    return self.posterior.log_prior_fn(*phi_parts) + self.log_likelihood_fn(*phi_parts)

  def log_likelihood_fn(
    self, *phi_parts: tf.Tensor, inverse_temperature: float | tf.Tensor = 1.0
  ) -> tf.Tensor:
    """Log of the density with respect to N(0, I): `[*chains]`.

    Takes all parts, or the hidden ones if the readout is integrated out. With an
    `inverse_temperature` that power of the likelihood, not of what maps change.
    """
    hidden = self._split.check_parts(phi_parts[: self._split.num_hidden], hidden=True)
    psi, change = self._maps.features_and_change(hidden, self._targets)
    log_likelihood = self.readout_density.log_likelihood_fn(
      *phi_parts, inverse_temperature=inverse_temperature, psi=psi
    )
    return log_likelihood + change

  def readout_log_likelihood_fn(self, hidden_parts: Parts) -> Callable[..., tf.Tensor]:
    """`log_likelihood_fn` as a function of the readout parts alone, up to a constant."""
    hidden, psi, _ = self.to_hidden(hidden_parts)
    return self.readout_density.readout_log_likelihood_fn(hidden, psi)

  def to_theta(self, phi_parts: Parts) -> list[tf.Tensor]:
    """The weights of a state, as `LayerwiseReprior.forward`."""
    hidden, psi, _ = self.to_hidden(phi_parts)
    return self.readout_density.to_theta([*hidden, *phi_parts[self._split.num_hidden :]], psi)

  def to_hidden(self, phi_parts: Parts) -> tuple[list[tf.Tensor], tf.Tensor, tf.Tensor]:
    """The hidden layers of a state.

    Returns:
      theta: List of hidden parts.
      psi: Readout features `[*chains, n, d]`.
      change: The part of `log_likelihood_fn` that is not likelihood, `[*chains]`.
    """
    phi = self._split.check_parts(list(phi_parts[: self._split.num_hidden]), hidden=True)
    psi, theta, log_det = self._maps.forward(phi, self._targets)
    squares = [
      parts_lib.sum_events((t - p) * (t + p), log_det.shape.rank)
      for t, p in zip(theta, phi, strict=True)
    ]
    return theta, psi, log_det - 0.5 * parts_lib.add_up(squares)

  def from_theta(self, hidden_parts: Parts) -> list[tf.Tensor]:
    """The hidden parts of phi for those of theta, a list."""
    hidden = self._split.check_parts(hidden_parts, hidden=True)
    return self._maps.inverse(hidden, self._targets)[1]

  def __repr__(self):
    shown = ', '.join(f'{name}: {lam:g}' for name, lam in self.layer_regularizers.items())
    return f'LayerwisePosterior({self.readout_density!r}, {{{shown}}})'


def _shapes(targets):
  return [t.shape for t in tf.nest.flatten(targets)]
