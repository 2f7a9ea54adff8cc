"""The posterior in phi for any likelihood and any regularizer."""

from collections.abc import Callable

import tensorflow as tf

from tfp_reprior.bijectors import factorization, gradients
from tfp_reprior.densities import posterior as posterior_lib
from tfp_reprior.internal import checks
from tfp_reprior.internal import parts as parts_lib
from tfp_reprior.internal.types import Parts


class ComposedPosterior:
  """The density of a repriorised posterior as a composition, with one evaluation of everything.

  ```none
  target_log_prob_fn(*phi) = posterior.target_log_prob_fn(*theta) + k * log|det(S)|
  theta                    = posterior.reprior(regularizer).forward(phi)
  ```

  exactly, constants included. What `tfp.mcmc.TransformedTransitionKernel` computes in three network
  evaluations is done here in one, with a closed-form gradient of map and log-determinant instead
  of back-propagation through the Cholesky factor. `CollapsedPosterior` is cheaper still, for
  Gaussian noise with the regularizer at its variance.

  Args:
    posterior: A `tfp_reprior.Posterior`.
    regularizer: As of `tfp_reprior.Posterior.reprior`.
    space: `'feature'`, `'data'`, or `'auto'` for the smaller of n and d.

  #### Examples

  ```python
  import numpy as np
  import tensorflow_probability as tfp
  import tfp_reprior as tfr

  x = np.linspace(-1, 1, 20, dtype=np.float32)[:, np.newaxis]
  posterior = tfr.Posterior(tfr.models.fcn((1,), 1, width=64), x, np.sin(3 * x))
  composed = tfr.ComposedPosterior(posterior, regularizer=0.2)
  phi = posterior.sample_prior(4, seed=1)
  value, gradient = tfp.math.value_and_gradient(composed.target_log_prob_fn, phi)
  ```
  """

  def __init__(
    self,
    posterior: posterior_lib.Posterior,
    regularizer: float | str | None = None,
    space: str = 'auto',
  ) -> None:
    self.posterior = posterior
    self.regularizer = posterior.regularizer(regularizer)
    self._regularizer_text = (
      repr(regularizer or posterior.likelihood.default_regularizer)
      if callable(self.regularizer) or regularizer == 'sites'
      else f'{self.regularizer:g}'
    )
    self._reprior = posterior.reprior(regularizer, space)
    self._space = checks.one_of('space', space, factorization.SPACES)

  def target_log_prob_fn(self, *phi_parts: tf.Tensor) -> tf.Tensor:
    """Log of the density in phi, up to the constant of `Posterior.log_prior_fn`: `[*chains]`."""
    return self.posterior.log_prior_fn(*phi_parts) + self.log_likelihood_fn(*phi_parts)

  def log_likelihood_fn(
    self,
    *phi_parts: tf.Tensor,
    inverse_temperature: float | tf.Tensor = 1.0,
    psi: tf.Tensor | None = None,
  ) -> tf.Tensor:
    """Log of the density with respect to N(0, I): `[*chains]`.

    ```none
    log_likelihood(theta) + k * log|det(S)| - 1/2 sum(theta_out**2 - phi_out**2)
    ```

    With an `inverse_temperature`, which the first term is multiplied by, it is that of the prior of
    theta times a power of the likelihood. A power of the whole would be no density. With `psi`,
    features that are known.
    """
    posterior, split = self.posterior, self.posterior.split
    phi_parts = split.check_parts(phi_parts)
    hidden = phi_parts[: split.num_hidden]
    psi = posterior.features_fn(*hidden) if psi is None else psi
    a, b = self._reprior.scaled(hidden, psi)
    # A mean over outputs that the map keeps is one that the likelihood does not depend on.
    phi_out, _ = self._reprior.take_mean(parts_lib.stack_readout(phi_parts[split.num_hidden :]))
    space = factorization.choose_space(a, self._space)
    theta_out, log_det = gradients.map_and_log_det(a, b, phi_out, space)
    likelihood = posterior.likelihood_given(hidden)
    log_likelihood = likelihood.log_prob(tf.matmul(psi, theta_out), posterior.y)
    change = tf.reduce_sum((theta_out - phi_out) * (theta_out + phi_out), axis=[-2, -1])
    log_det *= self._reprior.num_mapped
    return inverse_temperature * log_likelihood + log_det - 0.5 * change

  def readout_log_likelihood_fn(
    self, hidden_parts: Parts, psi: tf.Tensor | None = None
  ) -> Callable[..., tf.Tensor]:
    """`log_likelihood_fn` as a function of the readout parts alone, up to a constant."""
    posterior = self.posterior
    psi = posterior.features_fn(*hidden_parts) if psi is None else psi
    likelihood = posterior.likelihood_given(hidden_parts)
    factor = self._reprior.factor_given(psi, hidden_parts)

    def log_likelihood_fn(*phi_parts, inverse_temperature=1.0):
      phi_out, _ = self._reprior.take_mean(parts_lib.stack_readout(phi_parts))
      theta_out = factor.forward(phi_out)
      outputs = tf.matmul(psi, theta_out)
      change = tf.reduce_sum((theta_out - phi_out) * (theta_out + phi_out), axis=[-2, -1])
      return inverse_temperature * likelihood.log_prob(outputs, posterior.y) - 0.5 * change

    return log_likelihood_fn

  def to_theta(self, phi_parts: Parts, psi: tf.Tensor | None = None) -> list[tf.Tensor]:
    """The weights of a state: as `posterior.reprior(regularizer, space).forward`.

    Args:
      phi_parts: List of tensors `[*chains, *event_shape]`.
      psi: What `posterior.features_fn` is of the hidden ones, if that is known.
    """
    if psi is None:
      psi = self.posterior.features_fn(*phi_parts[: self.posterior.split.num_hidden])
    return self._reprior.forward_given(psi, phi_parts)

  def __repr__(self):
    return (
      f'ComposedPosterior({self.posterior!r}, regularizer={self._regularizer_text}, '
      f'space={self._space!r})'
    )
