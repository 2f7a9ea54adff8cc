"""The posterior in phi for Gaussian noise, with the readout integrated out."""

import math

import tensorflow as tf

from tfp_reprior.bijectors import factorization, gradients
from tfp_reprior.internal import checks, random
from tfp_reprior.internal import parts as parts_lib


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

  Args:
    posterior: A `tfp_reprior.Posterior` with Gaussian likelihood.
    chunk_size: Positive integer, the number of data that go through the network at once; by
      default all.
    linalg_dtype: `tf.float64` to add up and factorize the Gram matrix of a float32 network in
      float64; by default the dtype of the model. `docs/performance.md` has the errors of both.
    space: `'feature'`, `'data'`, or `'auto'` for the smaller of n and d.

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

  def __init__(self, posterior, chunk_size=None, linalg_dtype=None, space='auto'):
    if not posterior.likelihood.is_conjugate:
      raise ValueError(
        'Only Gaussian noise of one scale leaves a readout that can be integrated out. Received: '
        f'{posterior.likelihood!r}'
      )
    if chunk_size is not None:
      checks.positive_integer('chunk_size', chunk_size)
      if checks.one_of('space', space, factorization.SPACES) == 'data':
        raise ValueError(
          "Chunks need the sums over data of the feature space. Received: space='data', "
          f'chunk_size={chunk_size}'
        )
    self.posterior = posterior
    self._split = posterior.split
    self._chunk_size = chunk_size
    self._linalg_dtype = tf.as_dtype(linalg_dtype or self._split.dtype)
    checks.one_of('linalg_dtype', self._linalg_dtype, (tf.float32, tf.float64))
    self._space = space

  @property
  def log_constant(self):
    """`log p(y | hidden) + V(hidden) = -n k / 2 * log(2 pi)`, as a Python float."""
    return -self.posterior.y.shape.num_elements() / 2 * math.log(2 * math.pi)

  def log_likelihood_fn(self, *hidden_parts):
    """`-V(hidden)`: the likelihood with respect to the prior N(0, I) of phi, `[*chains]`.

    Takes the hidden parts, or all parts of phi: it does not depend on the readout.
    """
    if len(hidden_parts) == len(self._split.event_shapes):
      hidden_parts = hidden_parts[: self._split.num_hidden]
    log_likelihood = (
      self._whole_log_likelihood(hidden_parts)
      if self._num_chunks <= 1
      else self._chunked_log_likelihood(self._split.check_parts(hidden_parts, hidden=True))
    )
    # The determinant of K / s2 becomes that of K.
    log_noise_scale = self._cast(self.posterior.likelihood_given(hidden_parts).log_noise_scale)
    shift = self.posterior.y.shape.num_elements() * log_noise_scale
    return tf.cast(log_likelihood - shift, self._split.dtype)

  def target_log_prob_fn(self, *phi_parts):
    """`log N(phi; 0, I) + prior_entropy - V(hidden)`: `[*chains]`."""
    return self.posterior.log_prior(*phi_parts) + self.log_likelihood_fn(*phi_parts)

  def sample_readout(self, hidden_parts, seed=None):
    """Draws the readout from its exact posterior given the hidden parts.

    Args:
      hidden_parts: List of tensors `[*chains, *event_shape]`.
      seed: A seed of TFP.

    Returns:
      List of the readout parts, `[*chains, width, k]` and, if there is a bias, `[*chains, k]`.
    """
    factor = self._factor(hidden_parts)
    mean = factor.mean()
    [phi_out] = random.normal_parts([tf.shape(mean)], mean.dtype, seed)
    return self._unstack(factor.forward(phi_out))

  def readout_mean(self, hidden_parts):
    """The mean of the readout given the hidden parts: a list like that of `sample_readout`."""
    return self._unstack(self._factor(hidden_parts).mean())

  def predict(self, hidden_parts, x):
    """Mean and variance of the outputs f(x) given the hidden parts, over the readout.

    The variance is that of f, without the noise, and the same for all outputs.

    Args:
      hidden_parts: List of tensors `[*chains, *event_shape]`.
      x: Inputs `[m, ...]`.

    Returns:
      mean: `[*chains, m, k]`.
      variance: `[*chains, m, k]`.
    """
    factor = self._factor(hidden_parts)
    psi = self._cast(self._split.embed(hidden_parts, x))  # [*chains, m, d]
    mean = tf.matmul(psi, factor.mean())
    root = factor.root_transpose_matmul(tf.linalg.matrix_transpose(psi))  # S.T @ psi.T
    variance = tf.reduce_sum(tf.square(root), axis=-2)[..., tf.newaxis]  # diag(psi Sigma psi.T)
    variance = tf.broadcast_to(variance, tf.shape(mean))
    return tf.cast(mean, self._split.dtype), tf.cast(variance, self._split.dtype)

  @property
  def _num_chunks(self):
    n = self.posterior.y.shape[0]
    return 1 if self._chunk_size is None else -(-n // self._chunk_size)

  def _cast(self, value):
    """A tensor or a number in the dtype of the linear algebra."""
    if tf.is_tensor(value):
      return tf.cast(value, self._linalg_dtype)
    return tf.constant(value, self._linalg_dtype)

  def _unstack(self, theta_out):
    theta_out = tf.cast(theta_out, self._split.dtype)
    return parts_lib.unstack_readout(theta_out, self._split.has_bias)

  def _scaled(self, hidden_parts, x, y):
    """Scaled features and targets of some of the data, in the dtype of the linear algebra."""
    psi = self._cast(self._split.embed(hidden_parts, x))
    noise_variance = self._cast(self.posterior.likelihood_given(hidden_parts).noise_variance)
    return factorization.scale(psi, self._cast(y), noise_variance)

  def _factor(self, hidden_parts):
    if self._num_chunks > 1:
      return factorization.FeatureFactor(*self._sums(hidden_parts))
    a, b = self._scaled(hidden_parts, self.posterior.x, self.posterior.y)
    return factorization.make_factor(a, b, factorization.choose_space(a, self._space))

  def _whole_log_likelihood(self, hidden_parts):
    a, b = self._scaled(hidden_parts, self.posterior.x, self.posterior.y)
    return gradients.marginal_log_likelihood(a, b, factorization.choose_space(a, self._space))

  def _chunked_log_likelihood(self, hidden_parts):
    """As `gradients.marginal_log_likelihood`, but down to the hidden parts, in two passes."""

    @tf.custom_gradient
    def value(*hidden_parts):
      factor = factorization.FeatureFactor(*self._sums(hidden_parts))
      mu = factor.mean()
      matrix = gradients.precision_matrix(factor.chol, mu)

      def add_chunk(sums, x, y):
        residual_squares, *grads = sums
        with tf.GradientTape() as tape:
          tape.watch(hidden_parts)
          a, b = self._scaled(hidden_parts, x, y)
        alpha = b - tf.matmul(a, mu)
        residual_squares += gradients.sum_squares(alpha)
        cotangents = [gradients.cotangent_rows(a, b, mu, matrix), -alpha]
        chunk_grads = tape.gradient([a, b], hidden_parts, output_gradients=cotangents)
        return residual_squares, *(g + c for g, c in zip(grads, chunk_grads, strict=True))

      zeros = [tf.zeros_like(h) for h in hidden_parts]
      sums = (tf.zeros(tf.shape(mu)[:-2], mu.dtype), *zeros)
      residual_squares, *grads = self._fold(add_chunk, sums)

      def backward(upstream):
        upstream = tf.cast(upstream, self._split.dtype)
        return [
          parts_lib.expand_chains(upstream, g) * gradients.once_differentiable(g) for g in grads
        ]

      k = mu.shape[-1]
      squares = residual_squares + gradients.sum_squares(mu)
      return -0.5 * squares + k * factor.log_det(), backward

    return value(*hidden_parts)

  def _sums(self, hidden_parts):
    """`a.T @ a` `[*chains, d, d]` and `a.T @ b` `[*chains, d, k]`, chunk by chunk."""

    def add_chunk(sums, x, y):
      a, b = self._scaled(hidden_parts, x, y)
      return (
        sums[0] + tf.matmul(a, a, transpose_a=True),
        sums[1] + tf.matmul(a, b, transpose_a=True),
      )

    chains = tf.shape(hidden_parts[0])[: hidden_parts[0].shape.rank - self._split.event_ndims[0]]
    d, k = self._split.num_features, self._split.num_outputs
    zeros = [
      tf.zeros(tf.concat([chains, shape], axis=0), self._linalg_dtype) for shape in ((d, d), (d, k))
    ]
    return self._fold(add_chunk, tuple(zeros))

  def _fold(self, add_chunk, sums):
    """Runs `sums = add_chunk(sums, x, y)` over chunks of the data, the last one maybe smaller."""
    x, y, size = self.posterior.x, self.posterior.y, self._chunk_size
    num_whole = y.shape[0] // size

    def add_whole_chunk(i, sums):
      def chunk(rows):  # not `rows[i * size : ...]`, whose size XLA does not know
        begin = [i * size] + [0] * (rows.shape.rank - 1)
        return tf.slice(rows, begin, [size, *rows.shape[1:]])

      return i + 1, add_chunk(sums, chunk(x), chunk(y))

    # One chunk at a time: iterations that run ahead would keep their activations.
    _, sums = tf.while_loop(
      lambda i, _: i < num_whole, add_whole_chunk, (tf.constant(0), sums), parallel_iterations=1
    )
    if y.shape[0] > num_whole * size:
      sums = add_chunk(sums, x[num_whole * size :], y[num_whole * size :])
    return sums

  def __repr__(self):
    return (
      f'CollapsedPosterior({self.posterior!r}, chunk_size={self._chunk_size}, '
      f'linalg_dtype={self._linalg_dtype.name}, space={self._space!r})'
    )
