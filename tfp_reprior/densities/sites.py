"""Gaussians that stand in for a likelihood in the map, fitted to each datum."""

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tfp_reprior import errors
from tfp_reprior.internal import random

_NUM_NETWORKS = 8  # that the kernel is the mean of
_NUM_OUTPUTS = 64  # draws that expectations are the mean of
_NUM_ROUNDS = 50
_DAMPING = 0.5


class Sites(NamedTuple):
  """A Gaussian for each datum, `targets ~ N(f, variances)`, that stands in for its likelihood.

  Attributes:
    targets: `[n, k]`.
    variances: `[n]`, the same for all outputs, so that one factor serves them all.
  """

  targets: tf.Tensor
  variances: tf.Tensor


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
    `Sites`, in the dtype of the network.
  """
  likelihood, n, k = posterior.likelihood, posterior.x.shape[0], posterior.split.num_outputs
  if likelihood.expand(tf.zeros([n, k], tf.float64), _in_float64(posterior.y)) is None:
    raise errors.InputError(
      f"`regularizer='sites'` is for classes. Received: likelihood={likelihood!r}"
    )
  kernel = _mean_kernel(posterior)
  xi = np.random.default_rng(0).normal(size=[_NUM_OUTPUTS // 2, 1, k])
  xi = tf.constant(np.concatenate([xi, -xi]))
  mean, variance = tf.zeros([n, k], tf.float64), tf.linalg.diag_part(kernel)
  precision, shift = None, None
  for _ in range(_NUM_ROUNDS):
    f = mean + tf.sqrt(variance)[:, tf.newaxis] * xi
    gradient, curvature = likelihood.expand(f, _in_float64(posterior.y))
    gradient, curvature = tf.reduce_mean(gradient, axis=0), tf.reduce_mean(curvature, axis=0)
    new = curvature, curvature[:, tf.newaxis] * mean + gradient
    if precision is None:
      precision, shift = new
    else:
      precision += _DAMPING * (new[0] - precision)
      shift += _DAMPING * (new[1] - shift)
    mean, variance = _posterior_moments(kernel, precision, shift)
  dtype = posterior.split.dtype
  return Sites(tf.cast(shift / precision[:, tf.newaxis], dtype), tf.cast(1.0 / precision, dtype))


def _mean_kernel(posterior):
  """The mean of `psi @ psi.T` over random networks, `[n, n]` in float64."""
  split, total = posterior.split, 0.0
  for seed in random.split_seed(0, _NUM_NETWORKS):
    hidden = split.sample_prior(seed=seed)[: split.num_hidden]
    first = split.num_hidden - len(posterior.likelihood.event_shapes)
    hidden[first:] = [tf.zeros_like(part) for part in hidden[first:]]
    psi = tf.cast(posterior.features_fn(*hidden), tf.float64)
    total += tf.matmul(psi, psi, transpose_b=True) / _NUM_NETWORKS
  return total


def _posterior_moments(kernel, precision, shift):
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


def _in_float64(y):
  return y if y.dtype.is_integer else tf.cast(y, tf.float64)
