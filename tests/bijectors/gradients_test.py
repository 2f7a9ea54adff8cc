"""Closed-form gradients against autodiff through naive formulas, in float64."""

import numpy as np
import pytest
import tensorflow as tf

from tfp_reprior.bijectors import factorization, gradients

SPACES = ['feature', 'data']
SIZES = [(3, 7, 2), (7, 3, 1), (5, 5, 4)]  # n, d, k


def _problem(n, d, k, chains):
  rng = np.random.default_rng(0)
  shapes = [(*chains, n, d), (*chains, n, k), (*chains, d, k)]
  return [tf.constant(rng.normal(size=s)) for s in shapes]


def _value_and_gradients(function, *arguments):
  with tf.GradientTape() as tape:
    tape.watch(arguments)
    value = function(*arguments)
  return value, tape.gradient(value, arguments)


def _naive_marginal(a, b):
  n = a.shape[-2]
  gram = tf.eye(n, dtype=a.dtype) + a @ tf.linalg.matrix_transpose(a)
  squares = tf.reduce_sum(b * tf.linalg.solve(gram, b), axis=[-2, -1])
  return -squares / 2 - b.shape[-1] / 2 * tf.linalg.logdet(gram)


@pytest.mark.parametrize('space', SPACES)
@pytest.mark.parametrize('n,d,k', SIZES)
@pytest.mark.parametrize('chains', [(), (2, 3)])
def test_marginal_log_likelihood(space, n, d, k, chains):
  a, b, _ = _problem(n, d, k, chains)
  weights = tf.constant(np.random.default_rng(1).normal(size=chains))  # a gradient for each chain
  actual, [grad] = _value_and_gradients(
    lambda a: weights * gradients.marginal_log_likelihood(a, b, space), a
  )
  expected, [expected_grad] = _value_and_gradients(lambda a: weights * _naive_marginal(a, b), a)
  np.testing.assert_allclose(actual, expected, atol=1e-10)
  np.testing.assert_allclose(grad, expected_grad, atol=1e-10)


@pytest.mark.parametrize('space', SPACES)
@pytest.mark.parametrize('n,d,k', SIZES)
@pytest.mark.parametrize('chains', [(), (2, 3)])
def test_map_and_log_det(space, n, d, k, chains):
  # Against autodiff through the Cholesky factor, with a skewed function of both results.
  arguments = _problem(n, d, k, chains)

  def loss(theta, log_det):
    return tf.reduce_sum(tf.sin(theta) * theta**2) + tf.reduce_sum(tf.exp(log_det))

  def by_autodiff(a, b, phi):
    factor = factorization.make_factor(a, b, space)
    return loss(factor.forward(phi), factor.log_det())

  def closed_form(a, b, phi):
    return loss(*gradients.map_and_log_det(a, b, phi, space))

  expected, expected_grads = _value_and_gradients(by_autodiff, *arguments)
  actual, grads = _value_and_gradients(closed_form, *arguments)
  np.testing.assert_allclose(actual, expected, rtol=1e-12)
  for grad, expected_grad in zip(grads, expected_grads, strict=True):
    np.testing.assert_allclose(grad, expected_grad, atol=1e-9)


@pytest.mark.parametrize('space', SPACES)
def test_second_derivatives_are_refused(space):
  a, b, phi = _problem(4, 3, 2, ())
  functions = [
    lambda a: gradients.marginal_log_likelihood(a, b, space),
    lambda a: tf.reduce_sum(gradients.map_and_log_det(a, b, phi, space)[0] ** 2),
  ]
  for function in functions:
    with tf.GradientTape() as outer:
      outer.watch(a)
      with tf.GradientTape() as inner:
        inner.watch(a)
        value = function(a)
      gradient = tf.reduce_sum(inner.gradient(value, a))
    with pytest.raises(ValueError, match='no second derivatives'):
      outer.gradient(gradient, a)
