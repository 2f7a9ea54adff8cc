"""Cholesky factors as functions of Gram matrices: values and gradients against autodiff."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

from tfp_reprior.internal import linalg


def _arguments(chains, n=4, d=7, w=3):
  rng = np.random.default_rng(1)
  a, u, weights = (rng.normal(size=(*chains, *s)) for s in [(n, d), (n, w), (n, w)])
  return tf.constant(a), tf.constant(u), tf.constant(weights)


def _by_autodiff(a, u):
  return tf.matmul(tf.linalg.cholesky(tf.matmul(a, a, transpose_b=True)), u)


def _value_and_gradient(fn, a, u, weights):
  # Curved in z, so that the gradient of z itself is not a constant.
  return tfp.math.value_and_gradient(
    lambda a, u: tf.reduce_sum(weights * tf.sin(fn(a, u)), axis=[-2, -1]), [a, u]
  )


@pytest.mark.parametrize('chains', [(), (3,), (2, 3)])
def test_root_matmul_has_the_value_and_gradient_of_autodiff_through_cholesky(chains):
  a, u, weights = _arguments(chains)
  np.testing.assert_allclose(linalg.root_matmul(a, u), _by_autodiff(a, u), rtol=0, atol=1e-12)
  value, grads = _value_and_gradient(linalg.root_matmul, a, u, weights)
  expected, expected_grads = _value_and_gradient(_by_autodiff, a, u, weights)
  np.testing.assert_allclose(value, expected, rtol=0, atol=1e-12)
  for grad, wanted in zip(grads, expected_grads, strict=True):
    assert np.max(np.abs(wanted)) > 0.1
    np.testing.assert_allclose(grad, wanted, rtol=0, atol=1e-10)


@pytest.mark.parametrize('shapes', [(1, 1, 1), (1, 5, 2), (5, 5, 1)])
def test_root_matmul_takes_the_smallest_and_square_matrices(shapes):
  a, u, weights = _arguments((), *shapes)
  _, grads = _value_and_gradient(linalg.root_matmul, a, u, weights)
  _, expected = _value_and_gradient(_by_autodiff, a, u, weights)
  for grad, wanted in zip(grads, expected, strict=True):
    np.testing.assert_allclose(grad, wanted, rtol=1e-9, atol=1e-10)


def test_root_matmul_is_the_same_compiled():
  a, u, weights = _arguments((2,))
  fn = lambda a, u: _value_and_gradient(linalg.root_matmul, a, u, weights)  # noqa: E731
  compiled = tf.function(fn, autograph=False, jit_compile=True)(a, u)
  for actual, expected in zip(tf.nest.flatten(compiled), tf.nest.flatten(fn(a, u)), strict=True):
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-10)


def test_root_matmul_spreads_prior_draws_with_the_gram_matrix():
  # Column by column z = L u has covariance a a.T, because L L.T is: exact, with u = I.
  a, _, _ = _arguments((2,))
  z = linalg.root_matmul(a, tf.eye(4, batch_shape=[2], dtype=tf.float64)).numpy()
  np.testing.assert_allclose(z @ z.swapaxes(-2, -1), a @ tf.linalg.matrix_transpose(a), atol=1e-12)
  np.testing.assert_array_equal(np.triu(z, 1), 0.0)


@pytest.mark.parametrize('chains', [(), (2,)])
@pytest.mark.parametrize('has_log_det', [False, True])
@pytest.mark.parametrize('ridge', [0.0, 0.5])
def test_gram_cotangent_sends_cotangents_of_the_factor_to_the_features(chains, has_log_det, ridge):
  a, _, _ = _arguments(chains)
  rng = np.random.default_rng(2)
  chol_bar = tf.constant(rng.normal(size=(*chains, 4, 4)))
  log_det_bar = tf.constant(rng.normal(size=chains)) if has_log_det else None

  def factor(a):
    return tf.linalg.cholesky(tf.matmul(a, a, transpose_b=True) + ridge * tf.eye(4, dtype=a.dtype))

  def scalar(a):
    chol = factor(a)
    value = tf.reduce_sum(chol_bar * chol, axis=[-2, -1])
    if has_log_det:
      value -= log_det_bar * tf.reduce_sum(tf.math.log(tf.linalg.diag_part(chol)), axis=-1)
    return value

  chol = factor(a)
  lower = tf.linalg.band_part(chol_bar, -1, 0)
  garbage = tf.linalg.band_part(tf.ones_like(lower), 0, -1) - tf.eye(4, dtype=tf.float64)
  q = tf.matmul(chol, lower, transpose_a=True) + 1e3 * garbage  # which is above the diagonal
  actual = linalg.gram_cotangent(chol, q, log_det_bar)
  np.testing.assert_allclose(actual, tf.linalg.matrix_transpose(actual), rtol=0, atol=1e-10)
  expected = tfp.math.value_and_gradient(scalar, a)[1]
  np.testing.assert_allclose(tf.matmul(actual, a), expected, rtol=0, atol=1e-10)
