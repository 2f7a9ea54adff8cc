"""Kullback-Leibler divergences from the prior, at finite width and in the limit."""

from typing import NamedTuple

import numpy as np
import tensorflow as tf
from numpy.typing import ArrayLike

from tfp_reprior import errors
from tfp_reprior.densities import collapsed_posterior, composed_posterior
from tfp_reprior.densities import posterior as posterior_lib
from tfp_reprior.internal import checks
from tfp_reprior.internal.types import Seed
from tfp_reprior.theory import prior_draws


class KLEstimate(NamedTuple):
  """A divergence estimated from draws.

  Attributes:
    value: The estimate, float.
    standard_error: By the jackknife.
    bias: What the jackknife took off the plain estimate; if it is not small next to the value, or
      `effective_sample_size` is of single digits, only more draws help.
    effective_sample_size: Of the weights exp(-V) that estimate the normalizer: as many equal ones
      would vary as little.
    num_draws: Integer.

  #### Examples

  ```python
  import numpy as np
  import tfp_reprior as tfr

  x = np.linspace(-1, 1, 5, dtype=np.float32)[:, np.newaxis]
  posterior = tfr.Posterior(tfr.models.fcn((1,), 1, width=64), x, np.sin(3 * x), noise_scale=0.5)
  estimate = tfr.theory.kl_to_prior(posterior, num_draws=50)
  if estimate.effective_sample_size < 10:
    print('Take more draws.')
  ```
  """

  value: float
  standard_error: float
  bias: float
  effective_sample_size: float
  num_draws: int


def kl_to_prior(
  posterior: posterior_lib.Posterior,
  num_draws: int = 1000,
  coordinates: str = 'phi',
  seed: Seed = 0,
) -> KLEstimate:
  """Estimates `KL(N(0, I) || posterior)`, in phi or in theta.

  With `-V(phi)` the log-likelihood with respect to N(0, I) (`CollapsedPosterior`; for likelihoods
  other than Gaussian `ComposedPosterior`) and `Z = E[exp(-V)]`, all expectations under N(0, I):

  ```none
  phi     KL = E[V] + log(Z)
  theta   KL = E[-log p(y | theta)] + log(p(y)),   p(y) = (2 pi)^(-n k / 2) Z
  ```

  In phi it tends to 0 as the network gets wider, like 1 / width, because V has a standard deviation
  of the order of width^(-1/2), and `KL = var(V) / 2` plus higher cumulants. In theta it tends to
  `kl_limit`. There the first expectation is over the hidden parts only: over the readout it is

  ```none
  E[-log p(y | theta) | hidden] = (sum(y**2) + k sum(psi**2)) / (2 s2) + n k / 2 log(2 pi s2)
  ```

  Bias: the logarithm of a mean of s draws is too low by about `var(exp(-V)) / (2 s Z^2)`. The
  jackknife, which leaves out each draw in turn, estimates this and takes it off, up to O(1 / s^2).
  It cannot know of rare draws that it has not seen: where V varies by much more than 1 (networks
  that are narrow, or data that are many), Z hangs on a few draws, and the estimate is too low,
  whatever its standard error says. `effective_sample_size` shows that. With likelihoods other than
  Gaussian the weights may have heavy tails at any width, where the surrogate is more certain than
  the likelihood: then the same holds.

  Args:
    posterior: A `tfp_reprior.Posterior`; in theta with Gaussian noise of one scale.
    num_draws: Integer, at least 3.
    coordinates: `'phi'` or `'theta'`.
    seed: A seed of TFP.

  Returns:
    A `KLEstimate`.

  #### Examples

  ```python
  import numpy as np
  import tfp_reprior as tfr

  x = np.linspace(-1, 1, 5, dtype=np.float32)[:, np.newaxis]
  for width in (16, 64):
    posterior = tfr.Posterior(tfr.models.fcn((1,), 1, width), x, np.sin(3 * x), noise_scale=0.5)
    print(width, tfr.theory.kl_to_prior(posterior, num_draws=100))
  ```
  """
  checks.one_of('coordinates', coordinates, ('phi', 'theta'))
  if checks.positive_integer('num_draws', num_draws) < 3:
    raise errors.InputError(f'`num_draws` must be at least 3. Received: num_draws={num_draws}')
  is_conjugate = posterior.likelihood.is_conjugate
  if coordinates == 'theta' and not is_conjugate:
    raise errors.InputError(
      f"`coordinates='theta'` needs Gaussian noise of one scale. Received: {posterior.likelihood!r}"
    )
  if is_conjugate:
    density = collapsed_posterior.CollapsedPosterior(posterior)
  else:
    density = composed_posterior.ComposedPosterior(posterior)
  squares = np.sum(np.square(posterior.y.numpy(), dtype=np.float64)) if is_conjugate else None

  def energies_and_log_weights(parts):
    log_weights = density.log_likelihood_fn(*parts)
    if coordinates == 'phi':
      return -log_weights, log_weights
    psi = posterior.features_fn(*parts[: posterior.split.num_hidden])
    k, noise = posterior.split.num_outputs, posterior.likelihood_given(parts)  # known, or drawn
    sums = squares + k * tf.reduce_sum(tf.square(psi), axis=[-2, -1])
    # The 2 pi of p(y | theta) and of p(y) cancel.
    energies = sums / (2 * noise.noise_variance) + psi.shape[-2] * k * noise.log_noise_scale
    return energies, log_weights

  batches = prior_draws.map_prior(energies_and_log_weights, posterior.split, num_draws, seed)
  energies, log_weights = (
    np.concatenate(values).astype(np.float64) for values in zip(*batches, strict=True)
  )
  return _jackknife(energies, log_weights)


def kl_limit(kernel: ArrayLike, y: ArrayLike, noise_scale: float) -> float:
  """The limit of `KL(N(0, I) || posterior)` in theta as the width grows, for Gaussian noise.

  ```none
  (sum(y**2) + k tr(K)) / (2 s2) - 1/2 tr(y.T @ inv(K + s2 I) @ y) - k/2 log|det(I + K / s2)|
  ```

  It is not zero: in theta prior and posterior differ, however wide the network. In phi the limit
  is zero.

  Args:
    kernel: Of the training inputs, `[n, n]`, such as that of `nngp_kernel`.
    y: Targets `[n, k]`.
    noise_scale: Positive float, the root of s2.

  Returns:
    Float.

  #### Examples

  ```python
  import numpy as np
  import tfp_reprior as tfr

  x = np.linspace(-1, 1, 5)[:, np.newaxis]
  kernel = tfr.theory.nngp_kernel(tfr.models.fcn((1,), 1, width=8), x)
  tfr.theory.kl_limit(kernel, np.sin(3 * x), noise_scale=0.5)
  ```
  """
  checks.positive('noise_scale', noise_scale)
  kernel, y = np.asarray(kernel, np.float64), np.asarray(y, np.float64)
  if y.ndim != 2 or kernel.shape != (len(y), len(y)):
    raise errors.InputError(
      '`kernel` must have shape [n, n] for `y` of shape [n, k]. Received: kernel of shape '
      f'{kernel.shape}, y of shape {y.shape}'
    )
  k, s2 = y.shape[1], noise_scale**2
  chol = np.linalg.cholesky(np.eye(len(y)) + kernel / s2)
  fitted = np.sum(np.linalg.solve(chol, y) ** 2)  # s2 tr(y.T @ inv(K + s2 I) @ y)
  misfit = np.sum(y**2) + k * np.trace(kernel) - fitted
  return float(misfit / (2 * s2) - k * np.sum(np.log(np.diag(chol))))


def _jackknife(energies, log_weights):
  """`mean(energies) + log(mean(exp(log_weights)))` of independent draws, as a `KLEstimate`."""
  s = len(energies)
  left = np.logaddexp.accumulate(log_weights)
  right = np.logaddexp.accumulate(log_weights[::-1])[::-1]
  # The sum of all weights but one, without taking that one off again: it may be nearly all.
  others = np.concatenate([right[1:2], np.logaddexp(left[:-2], right[2:]), left[-2:-1]])
  plain = np.mean(energies) + left[-1] - np.log(s)
  without_one = (np.sum(energies) - energies) / (s - 1) + others - np.log(s - 1)
  bias = (s - 1) * (np.mean(without_one) - plain)
  return KLEstimate(
    value=float(plain - bias),
    standard_error=float(np.sqrt((s - 1) * np.var(without_one))),
    bias=float(bias),
    effective_sample_size=float(np.exp(-np.logaddexp.reduce(2 * (log_weights - left[-1])))),
    num_draws=s,
  )
