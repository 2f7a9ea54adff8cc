"""Newton's iteration: solutions where there are some, NaN where there is none."""

import numpy as np
import tensorflow as tf

from tfp_reprior.experimental import newton


def _solve_squares(targets, start, max_iterations=50):
  return newton.solve(
    tf.square,
    lambda x: tf.linalg.diag(2.0 * x),
    tf.constant(targets, tf.float64),
    tf.constant(start, tf.float64),
    tolerance=1e-12,
    max_iterations=max_iterations,
  )


def test_each_chain_finds_its_solution():
  x = _solve_squares([[4.0, 9.0], [2.0, 1.0]], [[1.0, 1.0], [1.0, 3.0]])
  np.testing.assert_allclose(x, [[2.0, 3.0], [2.0**0.5, 1.0]], rtol=0, atol=1e-12)


def test_a_chain_without_solution_is_nan_and_others_are_not():
  x = _solve_squares([[4.0], [-1.0]], [[1.0], [1.0]])
  np.testing.assert_allclose(x, [[2.0], [np.nan]], rtol=0, atol=1e-12)


def test_a_chain_that_needs_more_iterations_is_nan():
  assert np.all(np.isnan(_solve_squares([[4.0]], [[1.0]], max_iterations=2)))
