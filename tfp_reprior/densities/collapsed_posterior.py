"""The posterior in phi for Gaussian noise, with the readout integrated out."""

import math
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from numpy.typing import ArrayLike

from tfp_reprior import errors
from tfp_reprior.bijectors import factorization, gradients
from tfp_reprior.densities import conditional, row_sums
from tfp_reprior.densities import posterior as posterior_lib
from tfp_reprior.internal import checks, distribution
from tfp_reprior.internal.types import Parts, Seed


class CollapsedPosterior:
  """The density of a repriorised posterior, at the cost of one network gradient and one factor.

  For Gaussian noise of variance s2, and the regularizer at that value, the posterior in phi
  factorizes:

  ```none
  log p(phi | D) = log N(phi; 0, I) - V(hidden) + constant
  V(hidden)      = 1/2 tr(y.T @ inv(K) @ y) + k/2 log|det(K)|,   K = s2 I_n + psi @ psi.T
  ```

  If the noise is unknown, its coordinate u is one of the hidden parts, and s2 a function of it.

  So phi_out is N(0, I) and independent of the hidden parts, the weights theta are not needed to
  evaluate the density, and predictions can average over the readout exactly. The gradient of V
  with respect to psi has a closed form (`tfp_reprior.bijectors.gradients`); there is no
  back-propagation through the factorization, and there are no second derivatives.

  `target_log_prob_fn(*phi) = posterior.target_log_prob_fn(*theta) + log|det(d theta / d phi)|
  - log_constant`, with `theta = posterior.reprior().forward(phi)`.

  Memory: with `chunk_size` the data go through the network in chunks, twice: once to add up
  `psi.T @ psi` and `psi.T @ y`, once more to send each chunk its part of the gradient. The result
  is the same up to rounding, the activations of one chunk are all that is kept, and a gradient
  costs one more forward pass. Chunks use the feature space.

  Devices: with a `strategy` of `tf.distribute` the data are split over its replicas in the same
  way: the sums of the first pass are added up over replicas, then those of the second, in two
  exchanges for each gradient, of `d^2 + d k` numbers and as many as there are hidden weights. The
  result is again the same up to rounding, and the same kernels and loops sample from it. Test
  inputs of `predict` are split too.

  Args:
    posterior: A `tfp_reprior.Posterior` with Gaussian likelihood.
    chunk_size: Positive integer, the number of data that go through the network at once; by
      default all.
    linalg_dtype: `tf.float64` to add up and factorize the Gram matrix of a float32 network in
      float64; by default the dtype of the model. `docs/performance.md` has the errors of both.
    space: `'feature'`, `'data'`, or `'auto'` for the smaller of n and d.
    strategy: A `tf.distribute.Strategy`, to split the data over its replicas.

  #### Examples

  ```python
  import numpy as np
  import tensorflow_probability as tfp
  import tfp_reprior as tfr

  x = np.linspace(-1, 1, 20, dtype=np.float32)[:, np.newaxis]
  posterior = tfr.Posterior(tfr.models.fcn((1,), 1, width=64), x, np.sin(3 * x))
  collapsed = tfr.CollapsedPosterior(posterior)
  hidden = posterior.sample_prior(4, seed=1)[: posterior.split.num_hidden]
  mean, variance = collapsed.predict(hidden, x)  # [4, 20, 1] each, exact given the hidden parts
  ```
  """

  def __init__(
    self,
    posterior: posterior_lib.Posterior,
    chunk_size: int | None = None,
    linalg_dtype: tf.DType | None = None,
    space: str = 'auto',
    strategy: tf.distribute.Strategy | None = None,
  ) -> None:
    if not posterior.likelihood.is_conjugate:
      raise errors.InputError(
        'Only Gaussian noise of one scale leaves a readout that can be integrated out. Received: '
        f'{posterior.likelihood!r}'
      )
    if chunk_size is not None:
      checks.positive_integer('chunk_size', chunk_size)
    checks.one_of('space', space, factorization.SPACES)
    if space == 'data' and not (chunk_size is None and strategy is None):
      raise errors.InputError(
        'Chunks and strategies need the sums over data of the feature space. Received: '
        f"space='data', chunk_size={chunk_size}, strategy={strategy}"
      )
    self.posterior = posterior
    self._split = posterior.split
    self._chunk_size = chunk_size
    self._linalg_dtype = tf.as_dtype(linalg_dtype or self._split.dtype)
    checks.one_of('linalg_dtype', self._linalg_dtype, (tf.float32, tf.float64))
    self._space = space
    self._strategy = strategy
    rows = [posterior.x, posterior.y]
    self._data = (
      distribution.Shard(rows)
      if strategy is None
      else distribution.Shards(strategy, rows, self._linalg_dtype)
    )
    self._has_sums = strategy is not None or (chunk_size or math.inf) < posterior.y.shape[0]
    self._sums = row_sums.RowSums(self._split, self._scaled, self._linalg_dtype, chunk_size)

  @property
  def log_constant(self) -> float:
    """`log p(y | hidden) + V(hidden) = -n k / 2 * log(2 pi)`, as a Python float."""
    return -self.posterior.y.shape.num_elements() / 2 * math.log(2 * math.pi)

  def log_likelihood_fn(
    self,
    *hidden_parts: tf.Tensor,
    inverse_temperature: float | tf.Tensor = 1.0,
    psi: tf.Tensor | None = None,
  ) -> tf.Tensor:
    """`-V(hidden)`: the likelihood with respect to the prior N(0, I) of phi, `[*chains]`.

    Takes the hidden parts, or all parts of phi: it does not depend on the readout. With an
    `inverse_temperature` that power of it. With `psi`, features that are known.
    """
    if len(hidden_parts) == len(self._split.event_shapes):
      hidden_parts = hidden_parts[: self._split.num_hidden]
    hidden_parts = self._split.check_parts(hidden_parts, hidden=True)
    if self._has_sums and psi is None:
      log_likelihood = gradients.explicit(
        lambda *parts: self._data.run(self._sums.value_and_gradients, *parts), hidden_parts
      )
    else:
      psi = self.posterior.features_fn(*hidden_parts) if psi is None else psi
      a, b = self._scale(hidden_parts, psi, self.posterior.y)
      space = factorization.choose_space(a, self._space)
      log_likelihood = gradients.marginal_log_likelihood(a, b, space)
    # The determinant of K / s2 becomes that of K.
    log_noise_scale = self._cast(self.posterior.likelihood_given(hidden_parts).log_noise_scale)
    shift = self.posterior.y.shape.num_elements() * log_noise_scale
    return inverse_temperature * tf.cast(log_likelihood - shift, self._split.dtype)

  def target_log_prob_fn(self, *phi_parts: tf.Tensor) -> tf.Tensor:
    """`log N(phi; 0, I) + prior_entropy - V(hidden)`: `[*chains]`.

    Takes all parts of phi; `hidden_target_log_prob_fn` is for the hidden ones alone.
    """
    if len(phi_parts) == self._split.num_hidden:
      raise errors.InputError(
        '`target_log_prob_fn` takes all parts of phi. For the hidden parts alone there is '
        f'`hidden_target_log_prob_fn`. Received: {len(phi_parts)} parts for the shapes '
        f'{self._split.event_shapes}'
      )
    return self.posterior.log_prior_fn(*phi_parts) + self.log_likelihood_fn(*phi_parts)

  def hidden_target_log_prob_fn(self, *hidden_parts: tf.Tensor) -> tf.Tensor:
    """`log N(hidden; 0, I) - V(hidden)`, up to a constant: `[*chains]`.

    The marginal posterior of the hidden parts. Any gradient-based kernel of TFP can take it, NUTS
    and the trajectory-length adaptation of ChEES among them, over a state without the readout;
    `sample_readout` draws that afterwards.

    #### Examples

    ```python
    import numpy as np
    import tensorflow_probability as tfp
    import tfp_reprior as tfr

    x = np.linspace(-1, 1, 8, dtype=np.float32)[:, np.newaxis]
    posterior = tfr.Posterior(tfr.models.fcn((1,), 1, width=16, depth=1), x, x**2, noise_scale=0.1)
    collapsed = tfr.CollapsedPosterior(posterior)
    hidden = posterior.sample_prior(2, seed=1)[: posterior.split.num_hidden]
    kernel = tfp.mcmc.HamiltonianMonteCarlo(
      collapsed.hidden_target_log_prob_fn, step_size=0.2, num_leapfrog_steps=3
    )
    hidden = tfp.mcmc.sample_chain(2, hidden, kernel=kernel, trace_fn=None, seed=(1, 2))
    theta = hidden + collapsed.sample_readout(hidden, seed=(3, 4))  # all weights, [2, 2, ...] each
    ```
    """
    log_prior = self.posterior.log_hidden_prior_fn(*hidden_parts)
    return log_prior + self.log_likelihood_fn(*hidden_parts)

  def given(
    self, hidden_parts: Parts, psi: tf.Tensor | None = None
  ) -> conditional.ReadoutConditional:
    """The posterior of the readout given the hidden parts, a `ReadoutConditional`.

    Args:
      hidden_parts: List of tensors `[*chains, *event_shape]`.
      psi: What `posterior.features_fn(*hidden_parts)` is, if that is known.
    """
    hidden_parts = self._split.check_parts(hidden_parts, hidden=True)
    factor = self._factor(hidden_parts, psi)
    return conditional.ReadoutConditional(self._split, hidden_parts, factor, self._data.map_rows)

  def sample_readout(self, hidden_parts: Parts, seed: Seed = None) -> list[tf.Tensor]:
    """Draws the readout from its exact posterior given the hidden parts.

    Args:
      hidden_parts: List of tensors `[*chains, *event_shape]`.
      seed: A seed of TFP.

    Returns:
      List of the readout parts, `[*chains, width, k]` and, if there is a bias, `[*chains, k]`.
    """
    return self.given(hidden_parts).sample(seed)

  def to_theta(self, phi_parts: Parts, psi: tf.Tensor | None = None) -> list[tf.Tensor]:
    """The weights of a state: as `posterior.reprior(space=space).forward`, data split or not.

    With chunks or a strategy the map is that of the feature space.

    Args:
      phi_parts: List of tensors `[*chains, *event_shape]`.
      psi: What `posterior.features_fn` is of the hidden ones, if that is known.
    """
    num_hidden = self._split.num_hidden
    hidden_parts, readout_parts = list(phi_parts[:num_hidden]), phi_parts[num_hidden:]
    return hidden_parts + self.given(hidden_parts, psi).forward(readout_parts)

  def predict(
    self, hidden_parts: Parts, x: ArrayLike, seed: Seed = None
  ) -> tuple[tf.Tensor, tf.Tensor]:
    """Mean and variance of the outputs f(x) given the hidden parts, over the readout.

    The variance is that of f, without the noise, and the same for all outputs.

    Args:
      hidden_parts: List of tensors `[*chains, *event_shape]`.
      x: Inputs `[m, ...]`.
      seed: As of `tfp_reprior.models.DataSpaceSplit.embed_new`.

    Returns:
      mean: `[*chains, m, k]`.
      variance: `[*chains, m, k]`.
    """
    return self.given(hidden_parts).predict(x, seed=seed)

  def run_on_replicas(self, fn: Callable[..., Any], *arguments: Any) -> Any:
    """Runs `fn(density, *arguments)` on every replica of the strategy, a whole loop if need be.

    `density` is this one for use on the replica, where each evaluation meets those of the others.
    This is for TPUs, which run a program of their own, and for `OneDeviceStrategy`;
    `MirroredStrategy` and `MultiWorkerMirroredStrategy` cannot have exchanges in loops, and need
    none: there the loop goes around `target_log_prob_fn`.

    Args:
      fn: Function of a density and `arguments`; returns the same on all replicas.
      *arguments: Tensors, or lists of them.

    Returns:
      What `fn` returns.
    """

    if not distribution.takes_loops(self._strategy):
      raise errors.InputError(
        '`run_on_replicas` needs a density with a `TPUStrategy` or a `OneDeviceStrategy`. '
        f'Received: strategy={self._strategy!r}'
      )

    def run_shard(shard, *arguments):
      # In place, so that whatever else evaluates this density in `fn` does so on the replica.
      data, self._data = self._data, shard
      try:
        return fn(self, *arguments)
      finally:
        self._data = data

    return self._data.run(run_shard, *arguments)

  def _cast(self, value):
    """A tensor or a number in the dtype of the linear algebra."""
    if tf.is_tensor(value):
      return tf.cast(value, self._linalg_dtype)
    return tf.constant(value, self._linalg_dtype)

  def _scaled(self, hidden_parts, x, y, counts=None):
    """Scaled features and targets of some of the data, in the dtype of the linear algebra."""
    return self._scale(hidden_parts, self._split.embed(hidden_parts, x), y, counts)

  def _scale(self, hidden_parts, psi, y, counts=None):
    psi, y = self._cast(psi), self._cast(y)
    if counts is not None:  # zero for rows that are there for their shape only
      psi, y = counts * psi, counts * y
    noise_variance = self._cast(self.posterior.likelihood_given(hidden_parts).noise_variance)
    return factorization.scale(psi, y, noise_variance)

  def _factor(self, hidden_parts, psi=None):
    if self._has_sums:
      return factorization.FeatureFactor(*self._data.run(self._sums.gram_and_rhs, *hidden_parts))
    psi = self.posterior.features_fn(*hidden_parts) if psi is None else psi
    a, b = self._scale(hidden_parts, psi, self.posterior.y)
    return factorization.make_factor(a, b, factorization.choose_space(a, self._space))

  def __repr__(self):
    settings = []  # those that are not the default
    if self._chunk_size is not None:
      settings.append(f'chunk_size={self._chunk_size}')
    if self._linalg_dtype != self._split.dtype:
      settings.append(f'linalg_dtype={self._linalg_dtype.name}')
    if self._space != 'auto':
      settings.append(f'space={self._space!r}')
    if self._strategy is not None:
      settings.append(f'strategy={type(self._strategy).__name__}')
    return f'CollapsedPosterior({", ".join([repr(self.posterior), *settings])})'
