"""Gaussians that stand in for a likelihood in the map, fitted to each datum."""

import warnings
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tfp_reprior import errors
from tfp_reprior.internal import random

_NUM_NETWORKS = 8  # that the kernel is the mean of
_NUM_OUTPUTS = 64  # draws that expectations are the mean of
_NUM_ROUNDS = 300  # most take fewer than 100
# Directions with eigenvalues below this are left out: the map would shrink them by 0.87 at most.
# Their number is rounded up, as networks differ from the mean of several.
_LEAST_EIGENVALUE = 1 / 3
_MULTIPLE = 8
_DAMPING = 0.25  # with 0.5 outputs of scale 20 swing between two states
_TOLERANCE = 1e-4  # of `targets / variances`, which are of the order of one


class Sites(NamedTuple):
  """A Gaussian for each datum, `targets ~ N(f, variances)`, that stands in for its likelihood.

  Attributes:
    targets: `[n, k]`.
    variances: `[n]`, the same for all outputs, so that one factor serves them all.
    projection: `[m, n]`, the directions in which they say something, over the noise: the leading
      eigenvectors of `R @ K @ R`, with `R = 1 / sqrt(variances)`, times R. In the others the map
      would do next to nothing, so it leaves them out.
  """

  targets: tf.Tensor
  variances: tf.Tensor
  projection: tf.Tensor


def fit(posterior: Any) -> Sites:
  """Fits sites to the likelihood of a posterior.

  Outputs of a wide network are Gaussian under the prior, `f ~ N(0, K)` for each of them, with K the
  mean of `psi @ psi.T` over random networks. With Gaussian sites in place of the likelihood they
  are Gaussian under the posterior, too. Sites are right if, in the mean over that, they have the
  gradient and the curvature of the likelihood:

  ```none
  q(f_i) = N(m_i, v_i I)                                        by K and all sites
  1 / variances_i  = E_q[curvature_i(f_i)]
  targets_i        = m_i + variances_i * E_q[gradient_i(f_i)]
  ```

  which is the stationary point of a variational Gaussian, up to one variance for all outputs. It is
  found by damped rounds of these equations; each costs a Cholesky factor of size n. Expectations
  are by draws that are the same in every round and for every datum. Where the likelihood has
  unknown parameters, these are at the median of their prior.

  Args:
    posterior: A `tfp_reprior.Posterior`, whose likelihood has `expand`.

  Returns:
    `Sites`, in the dtype of the network. A warning says so if the rounds have not converged.
  """
  likelihood, y = posterior.likelihood, posterior.y
  y = y if y.dtype.is_integer else tf.cast(y, tf.float64)
  n, k = posterior.x.shape[0], posterior.split.num_outputs
  if likelihood.expand(tf.zeros([n, k], tf.float64), y) is None:
    raise errors.InputError(
      f"`regularizer='sites'` is for classes. Received: likelihood={likelihood!r}"
    )
  kernel = mean_kernel(posterior)
  xi = standard_outputs(k)

  def new_sites(mean, variance):
    f = mean + tf.sqrt(variance)[:, tf.newaxis] * xi
    gradient, curvature = (tf.reduce_mean(v, axis=0) for v in likelihood.expand(f, y))
    return curvature, curvature[:, tf.newaxis] * mean + gradient

  def one_round(i, _, precision, shift):
    precision_now, shift_now = new_sites(*posterior_moments(kernel, precision, shift))
    change = tf.reduce_max(tf.abs(shift_now - shift))
    precision += _DAMPING * (precision_now - precision)
    return i + 1, change, precision, shift + _DAMPING * (shift_now - shift)

  prior = tf.zeros([n, k], tf.float64), tf.linalg.diag_part(kernel)
  start = 0, tf.constant(np.inf, tf.float64), *new_sites(*prior)
  _, change, precision, shift = tf.while_loop(
    lambda i, change, *_: change > _TOLERANCE, one_round, start, maximum_iterations=_NUM_ROUNDS
  )
  if tf.executing_eagerly() and not change <= _TOLERANCE:
    warnings.warn(
      f"The sites of `regularizer='sites'` have not converged in {_NUM_ROUNDS} rounds: the last "
      f'one changed `targets / variances` by {float(change):.2g}, not {_TOLERANCE}. '
      'Draws stay exact, chains may be slower. Compare with `regularizer=math.inf`, no map.',
      stacklevel=2,
    )
  found = shift / precision[:, tf.newaxis], 1.0 / precision, _projection(kernel, precision)
  return Sites(*(tf.cast(values, posterior.split.dtype) for values in found))


def _projection(kernel, precision):
  root = tf.sqrt(precision)[:, tf.newaxis]
  values, vectors = tf.linalg.eigh(root * kernel * tf.transpose(root))  # ascending
  n = kernel.shape[0]
  num = n  # in graphs, where values are not known yet
  if tf.executing_eagerly():
    num = int(np.sum(values > _LEAST_EIGENVALUE))
    num = min(n, _MULTIPLE * (num // _MULTIPLE + 1))
  return tf.transpose(root * vectors[:, n - num :])


def standard_outputs(k):
  """Draws `[s, 1, k]` of N(0, I) that expectations over outputs are the means of, in pairs."""
  xi = np.random.default_rng(0).normal(size=[_NUM_OUTPUTS // 2, 1, k])
  return tf.constant(np.concatenate([xi, -xi]))


def mean_kernel(posterior):
  """The mean of `psi @ psi.T` over random networks, `[n, n]` in float64."""
  split, total = posterior.split, 0.0
  for seed in random.split_seed(0, _NUM_NETWORKS):
    hidden = split.sample_prior(seed=seed)[: split.num_hidden]
    first = split.num_hidden - len(posterior.likelihood.event_shapes)
    hidden[first:] = [tf.zeros_like(part) for part in hidden[first:]]
    psi = tf.cast(posterior.features_fn(*hidden), tf.float64)
    total += tf.matmul(psi, psi, transpose_b=True) / _NUM_NETWORKS
  return total


def posterior_moments(kernel, precision, shift):
  """Means `[n, k]` and variances `[n]` of outputs given sites with `shift = precision * targets`.

  ```none
  mean       = K @ shift - A.T @ A @ shift
  covariance = K - A.T @ A,    A = inv(L) @ R @ K,  L @ L.T = I + R @ K @ R,  R = sqrt(precision)
  ```
  """
  root = tf.sqrt(precision)[:, tf.newaxis]
  gram = root * kernel * tf.transpose(root)
  chol = tf.linalg.cholesky(gram + tf.eye(tf.shape(kernel)[0], dtype=kernel.dtype))
  a = tf.linalg.triangular_solve(chol, root * kernel)
  mean = tf.matmul(kernel, shift) - tf.matmul(a, tf.matmul(a, shift), transpose_a=True)
  return mean, tf.linalg.diag_part(kernel) - tf.reduce_sum(tf.square(a), axis=0)
