"""The repriorisation of the readout, as a bijector."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
import tensorflow_probability as tfp
from numpy.typing import ArrayLike

from tfp_reprior import errors
from tfp_reprior.bijectors import caching, factorization, prior_network
from tfp_reprior.internal import checks
from tfp_reprior.internal import parts as parts_lib
from tfp_reprior.internal.types import Parts


class ReadoutReprior(tfp.bijectors.Bijector):
  """Maps phi, in which the posterior of a wide network is close to N(0, I), to its weights.

  Only the readout changes: given the hidden parts it becomes a draw of its exact conditional
  posterior under Gaussian noise of variance `lam`. With features `psi(hidden)` `[n, d]`, targets
  y `[n, k]` and the stacked readout `theta_out = [kernel; bias]` `[d, k]`

  ```none
  Sigma = inv(I + psi.T @ psi / lam) = S @ S.T,     mu = Sigma @ psi.T @ y / lam

  forward                    theta_out = mu + S @ phi_out              hidden parts pass through
  inverse                    phi_out   = inv(S) @ (theta_out - mu)
  forward_log_det_jacobian   k * log|det(S)| = -k/2 * log|det(I + psi.T @ psi / lam)|
  inverse_log_det_jacobian   the negative of that
  ```

  S comes from one Cholesky factor, in feature space (cost `n d^2 + d^3/3`) or in data space
  (`n^2 d + n^3/3`); see `tfp_reprior.bijectors.factorization`. For `lam -> infinity` the map
  is the identity. With `lam` the variance of Gaussian noise, phi_out is exactly N(0, I) and
  independent of the hidden parts under the posterior.

  Cost in a chain: `forward` and `forward_log_det_jacobian` each evaluate features and factor, and
  share nothing. A step of `tfp.mcmc.TransformedTransitionKernel` evaluates them twice for each
  gradient and once more to transform the new state: three times for a kernel with one gradient a
  step. `tfp_reprior.ComposedPosterior` and `tfp_reprior.CollapsedPosterior` are densities in phi
  that evaluate them once for each gradient.

  The bijector keeps nothing from one call to the next, and does not use the cache of TFP. So
  `inverse(forward(x))` is computed, and every gradient tape sees all of it.

  Args:
    features_fn: Callable, `features_fn(*hidden_parts) -> psi` `[*chains, n, d]`. If there is a
      readout bias, the last column of psi multiplies it.
    targets: y, floating point `[n, k]`.
    regularizer: Positive scalar `lam`; or a callable, `regularizer(*hidden_parts) -> lam`
      `[*chains]`.
    event_ndims: List of integers, the ranks of all parts without chain dimensions: those of the
      hidden parts, then 2 for the readout kernel, then 1 if there is a readout bias.
    space: `'feature'`, `'data'`, or `'auto'` for the smaller of n and d.
    part_scales: List of positive numbers or arrays, one for each part and of a shape that
      broadcasts to it: the prior standard deviations, for parts that are not N(0, 1) a priori. The
      map then ends in a multiplication by them. `features_fn` takes the hidden parts as they are,
      and psi counts in units of the readout's prior: its columns are multiplied by those scales.
    keeps_mean: Whether the mean of the readout over the k outputs passes through, for targets of
      mean zero and likelihoods that do not depend on it, such as that of softmax. Then `k - 1`
      stands in for k in the log-determinants.
    projection: Omega, floating point `[m, n]`: the map is that of `Omega @ psi` in place of psi,
      with targets `[m, k]`. Rows can be directions in which the data say something, divided by the
      scale of the noise there; its factor is of size m.
    validate_args: Whether to check values at run time: the regularizer, and that psi is finite.
    name: Name of the operations.

  #### Examples

  Bayesian linear regression, where one draw of N(0, I) gives one of the exact posterior:

  ```python
  import numpy as np
  import tfp_reprior as tfr

  psi = np.array([[0.9, 0.5]])
  reprior = tfr.ReadoutReprior(lambda: psi, targets=np.array([[2.0]]), regularizer=0.1,
                               event_ndims=[2])
  [theta] = reprior.forward([np.random.default_rng(1).normal(size=[2, 1])])
  ```

  A Keras model: `tfp_reprior.Posterior(...).reprior()`. A network of your own, with its prior in
  TFP: `ReadoutReprior.from_network`.

  #### References

  J. Hron, R. Novak, J. Pennington and J. Sohl-Dickstein. Wide Bayesian neural networks have a
  simple weight posterior: theory and accelerated sampling. ICML 2022.
  """

  _cache = caching.Uncached()

  def __init__(
    self,
    features_fn: Callable[..., tf.Tensor],
    targets: ArrayLike,
    regularizer: float | Callable[..., tf.Tensor],
    event_ndims: Sequence[int],
    space: str = 'auto',
    part_scales: Sequence[ArrayLike] | None = None,
    keeps_mean: bool = False,
    projection: ArrayLike | None = None,
    validate_args: bool = False,
    name: str = 'readout_reprior',
  ) -> None:
    parameters = dict(locals())
    with tf.name_scope(name) as name:
      if not callable(features_fn):
        raise errors.InputError(
          f'`features_fn` must be callable. Received: {type(features_fn).__name__}'
        )
      targets = tf.convert_to_tensor(targets, name='targets')
      if not targets.dtype.is_floating or targets.shape.rank != 2:
        raise errors.InputError(
          '`targets` must be floating point of shape [n, k]. Received: targets of dtype '
          f'{targets.dtype.name} and shape {tuple(targets.shape)}'
        )
      if not callable(regularizer):
        checks.positive('regularizer', regularizer)
        regularizer = tf.convert_to_tensor(regularizer, targets.dtype, name='regularizer')
      event_ndims = list(event_ndims)
      if event_ndims[-1:] != [2] and event_ndims[-2:] != [2, 1]:
        raise errors.InputError(
          '`event_ndims` must end in 2 (readout kernel) or 2, 1 (kernel and bias). Received: '
          f'event_ndims={event_ndims}'
        )
      self._features_fn = features_fn
      self._targets = targets
      self._regularizer = regularizer
      self._space = checks.one_of('space', space, factorization.SPACES)
      self._keeps_mean = keeps_mean
      if projection is not None:
        projection = tf.convert_to_tensor(projection, targets.dtype, name='projection')
      self._projection = projection
      self._has_bias = event_ndims[-1] == 1
      self._num_hidden = len(event_ndims) - 1 - self._has_bias
      self._part_scales = self._check_scales(part_scales, event_ndims)
      super().__init__(
        forward_min_event_ndims=event_ndims,
        dtype=targets.dtype,
        validate_args=validate_args,
        parameters=parameters,
        name=name,
      )

  @classmethod
  def from_network(
    cls,
    network_fn: Callable[..., tf.Tensor],
    x: ArrayLike,
    y: ArrayLike,
    prior: tfp.distributions.Distribution | Sequence[tfp.distributions.Distribution],
    noise_scale: float,
    **kwargs: Any,
  ) -> 'ReadoutReprior':
    """The map for a network of your own, with a prior in TFP.

    ```none
    y = network_fn(x, *parts) + noise_scale * N(0, 1),    parts ~ prior
    ```

    The features are those outputs that the network has with the identity as its readout, so there
    is no function to write for them; that costs one product of `[n, d]` and `[d, d]`. Every part is
    divided by its prior standard deviation. So where the prior of the readout is normal, phi_out is
    exactly N(0, I) under the posterior, and independent of the hidden parts.

    Args:
      network_fn: Callable, `network_fn(x, *parts) -> outputs` `[*chains, n, k]`, linear in the last
        parts: the readout kernel `[width, k]` and, if the last part is a vector, its bias `[k]`. It
        must take any number of outputs k, and parts with leading chain dimensions if chains have
        them.
      x: Training inputs `[n, ...]`, handed to `network_fn`.
      y: Targets, floating point `[n, k]`.
      prior: A `tfd.JointDistributionSequential` of independent distributions (or its autobatched
        form), or a list of distributions, one for each part.
      noise_scale: Positive float, the standard deviation of the noise.
      **kwargs: `space`, `validate_args`, `name`, and `regularizer`, if it is to be another than
        `noise_scale**2`.

    Returns:
      A `ReadoutReprior` from phi to the parts of `network_fn`.

    Raises:
      ValueError: If the network is not linear in its readout, or the prior cannot be used.

    #### Examples

    ```python
    import numpy as np
    import tensorflow as tf
    import tensorflow_probability as tfp
    import tfp_reprior as tfr

    tfd = tfp.distributions
    x = np.linspace(-1, 1, 20, dtype=np.float32)[:, np.newaxis]
    y = np.sin(3 * x)
    shapes, stds = [[1, 32], [32], [32, 1], [1]], [1.5, 0.5, 32**-0.5, 0.1]
    prior = tfd.JointDistributionSequential(
      [tfd.Sample(tfd.Normal(0.0, std), shape) for shape, std in zip(shapes, stds)]
    )

    def network(x, w1, b1, w2, b2):
      return tf.tanh(x @ w1 + b1[..., tf.newaxis, :]) @ w2 + b2[..., tf.newaxis, :]

    def target_log_prob_fn(*parts):
      likelihood = tfd.Independent(tfd.Normal(network(x, *parts), 0.1), 2)
      return prior.log_prob(parts) + likelihood.log_prob(y)

    reprior = tfr.ReadoutReprior.from_network(network, x, y, prior, noise_scale=0.1)
    inner = tfp.mcmc.HamiltonianMonteCarlo(target_log_prob_fn, step_size=0.1, num_leapfrog_steps=3)
    kernel = tfp.mcmc.TransformedTransitionKernel(inner, reprior)
    phi = [tf.random.stateless_normal([2, *shape], seed=(0, i)) for i, shape in enumerate(shapes)]
    start = reprior.forward(phi)  # two chains; each readout fits the data
    parts = tfp.mcmc.sample_chain(2, start, kernel=kernel, trace_fn=None, seed=(1, 2))
    ```
    """
    checks.positive('noise_scale', noise_scale)
    network = prior_network.PriorNetwork(network_fn, x, prior)
    network.check_linear()
    return cls(
      **{
        'features_fn': network.features,
        'targets': network.check_targets(y),
        'regularizer': noise_scale**2,
        'event_ndims': network.event_ndims,
        'part_scales': network.part_scales,
        **kwargs,
      }
    )

  @property
  def targets(self) -> tf.Tensor:
    """The targets `[n, k]`."""
    return self._targets

  @property
  def regularizer(self) -> tf.Tensor | Callable[..., tf.Tensor]:
    """The scalar `lam`, or the function that it is."""
    return self._regularizer

  @property
  def num_mapped(self) -> int:
    """How many combinations of outputs the map moves: k, or `k - 1` if it keeps their mean."""
    return self._targets.shape[1] - self._keeps_mean

  @property
  def space(self) -> str:
    """`'feature'`, `'data'` or `'auto'`."""
    return self._space

  @property
  def _parts_interact(self):
    return True

  def forward_given(self, psi: tf.Tensor, parts: Parts) -> list[tf.Tensor]:
    """As `forward`, for known features psi `[*chains, n, d]`."""
    hidden, phi_out = self._split(parts)
    factor = self.factor_given(psi, self._scale(hidden))
    phi_out, mean = self.take_mean(phi_out)
    return self._scale(self._join(hidden, factor.forward(phi_out) + mean))

  def inverse_given(self, psi: tf.Tensor, parts: Parts) -> list[tf.Tensor]:
    """As `inverse`, for known features psi `[*chains, n, d]`."""
    hidden, theta_out = self._split(self._unscale(parts))
    factor = self.factor_given(psi, list(parts)[: self._num_hidden])
    theta_out, mean = self.take_mean(theta_out)
    return self._join(hidden, factor.inverse(theta_out) + mean)

  def log_det_given(self, psi: tf.Tensor, hidden_parts: Parts) -> tf.Tensor:
    """As `forward_log_det_jacobian`, for known features psi `[*chains, n, d]`: `[*chains]`.

    With `part_scales`, without the constant that they add.
    """
    return self.num_mapped * self.factor_given(psi, hidden_parts).log_det()

  def factor_given(
    self, psi: tf.Tensor, hidden_parts: Parts
  ) -> factorization.FeatureFactor | factorization.DataFactor:
    """The affine map of the readout, for known features psi `[*chains, n, d]`."""
    a, b = self.scaled(hidden_parts, self._checked_features(psi))
    return factorization.make_factor(a, b, factorization.choose_space(a, self._space))

  def scaled(self, hidden_parts: Parts, psi: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Features and targets over the root of `lam`; with a projection, m rows in place of n."""
    lam = self._regularizer(*hidden_parts) if callable(self._regularizer) else self._regularizer
    if self._projection is not None:
      psi = tf.matmul(self._projection, psi)
    return factorization.scale(psi, self._targets, lam)

  def take_mean(self, readout: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor | float]:
    """A readout `[*chains, d, k]` without what passes through, and that."""
    mean = tf.reduce_mean(readout, axis=-1, keepdims=True) if self._keeps_mean else 0.0
    return readout - mean, mean

  def _forward(self, x):
    hidden = self._scale(list(x)[: self._num_hidden])
    return self.forward_given(self._features_fn(*hidden), x)

  def _inverse(self, y):
    hidden = list(y)[: self._num_hidden]
    return self.inverse_given(self._features_fn(*hidden), y)

  def _forward_log_det_jacobian(self, x):
    return self._log_det(x, self._scale(list(x)[: self._num_hidden]))

  def _inverse_log_det_jacobian(self, y):
    return -self._log_det(y, list(y)[: self._num_hidden])  # of the same hidden parts

  def _log_det(self, parts, hidden):
    """Features are computed anew in each call: a gradient tape must see all of it."""
    log_det = self.log_det_given(self._features_fn(*hidden), hidden)
    if self._part_scales is None:
      return log_det
    return log_det + sum(
      tf.reduce_sum(tf.broadcast_to(tf.math.log(scale), tf.shape(part)[tf.rank(part) - ndims :]))
      for scale, part, ndims in zip(
        self._part_scales, parts, self.forward_min_event_ndims, strict=True
      )
    )

  def _scale(self, parts):
    """All parts, or the first of them."""
    if self._part_scales is None:
      return parts
    return [s * p for s, p in zip(self._part_scales, parts, strict=False)]

  def _unscale(self, parts):
    if self._part_scales is None:
      return parts
    return [p / s for s, p in zip(self._part_scales, parts, strict=True)]

  def _split(self, parts):
    parts = list(parts)
    readout = parts[self._num_hidden :]
    k = self._targets.shape[1]
    for part in readout:
      if not part.shape[-1:].is_compatible_with([k]):
        raise errors.InputError(
          f'The readout parts must have as many outputs as the targets, {k}. Received: a part of '
          f'shape {tuple(part.shape)}'
        )
    return parts[: self._num_hidden], parts_lib.stack_readout(readout)

  def _join(self, hidden, readout):
    # Identities, because the new readout depends on the hidden parts: a derivative with respect
    # to the parts returned here must not follow that path (as it does in the first step of
    # `TransformedTransitionKernel` otherwise).
    hidden = [tf.identity(h) for h in hidden]
    return [*hidden, *parts_lib.unstack_readout(readout, self._has_bias)]

  def _check_scales(self, scales, event_ndims):
    if scales is None:
      return None
    if len(scales) != len(event_ndims):
      raise errors.InputError(
        f'`part_scales` must have one entry for each of {len(event_ndims)} parts. Received: '
        f'{len(scales)}'
      )
    return [
      tf.convert_to_tensor(checks.positive(f'part_scales[{i}]', scale), self._targets.dtype)
      for i, scale in enumerate(scales)
    ]

  def _checked_features(self, psi):
    psi = tf.convert_to_tensor(psi)
    if psi.dtype != self._targets.dtype:
      raise errors.InputError(
        'The features must have the dtype of the targets. Received: psi of dtype '
        f'{psi.dtype.name}, targets of dtype {self._targets.dtype.name}'
      )
    n = self._targets.shape[0] if self._projection is None else self._projection.shape[1]
    if psi.shape.rank < 2 or not psi.shape[-2:-1].is_compatible_with([n]):
      raise errors.InputError(
        f'The features must have shape [*chains, {n}, d], a row for each target. Received: psi of '
        f'shape {tuple(psi.shape)}'
      )
    if not self.validate_args:
      return psi
    return tf.debugging.check_numerics(psi, 'The features `psi` must be finite.')

  def _parameter_control_dependencies(self, is_init):
    if not self.validate_args or not is_init or callable(self._regularizer):
      return []
    return [
      tf.debugging.assert_positive(self._regularizer, message='`regularizer` must be positive.')
    ]

  def __repr__(self):
    n, k = self._targets.shape
    lam = None if callable(self._regularizer) else checks.static_value(self._regularizer)
    lam = f'{lam:g}' if lam is not None else '?'
    return (
      f"tfr.ReadoutReprior('{self.name}', n={n}, k={k}, regularizer={lam}, "
      f"space='{self._space}', num_parts={len(self.forward_min_event_ndims)}, "
      f'dtype={self.dtype.name})'
    )

  __str__ = __repr__
