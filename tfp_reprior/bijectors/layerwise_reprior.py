"""The repriorisation of every layer, as a bijector."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
import tensorflow_probability as tfp

from tfp_reprior.bijectors import caching, layer_maps
from tfp_reprior.internal.types import Parts


class LayerwiseReprior(tfp.bijectors.Bijector):
  """Maps phi to the weights of a network, with the map of the readout on hidden layers too.

  `tfp_reprior.ReadoutReprior` changes the readout alone. Here each fully connected hidden layer
  `z = psi @ theta` is mapped in the same way, with the pre-activations v of a state, the anchor, in
  place of targets:

  ```none
  forward                    theta = mu + S @ phi     S @ S.T = inv(I + psi.T @ psi / lam)
  inverse                    phi   = inv(S) @ (theta - mu)     mu = S @ S.T @ psi.T @ v / lam
  forward_log_det_jacobian   sum over layers of w log|det(S)|
  inverse_log_det_jacobian   the negative of that
  ```

  with psi `[n, d]` the scaled inputs of the layer, at the weights of the layers below, and w its
  units. When a layer below moves, psi does, and theta follows so that `psi @ theta` stays near v:
  what the data have pinned down stays, and steps can be long. Any anchor and regularizer give an
  exact bijector; how well chains mix depends on them. The readout is mapped by its own targets.

  Mapped are layers that are fully connected, act once, and on one vector for each input; other
  parts pass through. Layers in data space are mapped if their inputs are constant. Their factors
  are made once, in float64. Other layers follow the leading directions of the data alone,
  `Omega @ psi` and `Omega @ v` in place of psi and v, with Omega `[m, n]` from the anchor: S then
  comes from one Cholesky factor of size m.

  `tfp_reprior.LayerwisePosterior` is the density in phi, cheaper than the composition.

  Args:
    posterior: A `tfp_reprior.Posterior`.
    anchor: List of parts of a state, or of its hidden parts, `[*event_shape]`; or with the chain
      dimensions of the states that are to be mapped, then each chain has its own.
    regularizer: `lam` of hidden layers: positive float, or one for each layer that could have a
      map, in the order in which they act; infinity for the identity.
    readout_regularizer: That of the readout, as of `tfp_reprior.Posterior.reprior`.
    num_directions: Positive integer, the most directions of the data that a layer follows, the
      leading ones of its inputs at the anchor. By default as many as have eigenvalues above a third
      of `lam` at a draw of the prior; the map does next to nothing in others. Layers with constant
      inputs follow all.
    validate_args: Whether to check values at run time.
    name: Name of the operations.

  #### Examples

  ```python
  import numpy as np
  import tfp_reprior as tfr

  x = np.linspace(-1, 1, 20, dtype=np.float32)[:, np.newaxis]
  posterior = tfr.Posterior(tfr.models.fcn((1,), 1, width=8), x, np.sin(3 * x))
  anchor = posterior.sample_prior(seed=1)
  reprior = tfr.LayerwiseReprior(posterior, anchor, regularizer=10.0)
  theta = reprior.forward(posterior.sample_prior(4, seed=2))
  phi = reprior.inverse(theta)
  ```

  #### References

  S. Ober and L. Aitchison. Global inducing point variational posteriors for Bayesian neural
  networks and deep Gaussian processes. ICML 2021. They use the same conditional, with
  pseudo-targets that are learnt, as a variational family.
  """

  _cache = caching.Uncached()

  def __init__(
    self,
    posterior: Any,
    anchor: Parts,
    regularizer: float | Sequence[float] = 10.0,
    readout_regularizer: float | str | None = None,
    num_directions: int | None = None,
    validate_args: bool = False,
    name: str = 'layerwise_reprior',
  ) -> None:
    parameters = dict(locals())
    with tf.name_scope(name) as name:
      split = posterior.split
      self._num_hidden = split.num_hidden
      self._readout = posterior.reprior(readout_regularizer, validate_args=validate_args)
      self._maps = layer_maps.LayerMaps(split, posterior.x, regularizer, num_directions)
      self._targets = self._maps.targets_of(anchor)
      super().__init__(
        forward_min_event_ndims=split.event_ndims,
        dtype=split.dtype,
        validate_args=validate_args,
        parameters=parameters,
        name=name,
      )

  @property
  def layer_names(self) -> list[str]:
    """The layers that could have a map, in the order in which they act."""
    return self._maps.names

  @property
  def layer_regularizers(self) -> list[float]:
    """`lam` of each of them; infinity if it has none."""
    return self._maps.regularizers

  @property
  def layer_directions(self) -> list[int]:
    """How many directions of the data each of them follows, if its inputs are not constant."""
    return self._maps.nums_directions

  @property
  def _parts_interact(self):
    return True

  def _forward(self, x):
    psi, theta, _ = self._maps.forward(list(x[: self._num_hidden]), self._targets)
    return self._readout.forward_given(psi, [*theta, *x[self._num_hidden :]])

  def _inverse(self, y):
    hidden = list(y[: self._num_hidden])
    psi, phi, _ = self._maps.inverse(hidden, self._targets)
    mapped = self._readout.inverse_given(psi, y)
    return [*phi, *mapped[self._num_hidden :]]

  def _forward_log_det_jacobian(self, x):
    psi, theta, log_det = self._maps.forward(list(x[: self._num_hidden]), self._targets)
    return log_det + self._readout.log_det_given(psi, theta)

  def _inverse_log_det_jacobian(self, y):
    hidden = list(y[: self._num_hidden])
    psi, _, log_det = self._maps.inverse(hidden, self._targets)
    return -(log_det + self._readout.log_det_given(psi, hidden))

  def __repr__(self):
    pairs = zip(self.layer_names, self.layer_regularizers, strict=True)
    shown = ', '.join(f'{name}: {lam:g}' for name, lam in pairs)
    return (
      f"tfr.LayerwiseReprior('{self.name}', {{{shown}}}, "
      f'num_parts={len(self.forward_min_event_ndims)}, dtype={self.dtype.name})'
    )

  __str__ = __repr__
