"""The slice through three solutions: directions on arcs, norms on lines."""

import numpy as np
import pytest
import tensorflow as tf

from tfp_reprior.figures import energy_landscape


def test_slerp_divides_the_arc():
  u, v = np.array([1.0, 0.0, 0.0]), np.array([0.0, 0.6, 0.8])
  for t in (0.0, 0.25, 1.0):
    point = energy_landscape.slerp(tf.constant(u), tf.constant(v), t).numpy()
    assert np.linalg.norm(point) == pytest.approx(1.0)
    assert np.arccos(np.clip(point @ u, -1, 1)) == pytest.approx(t * np.pi / 2, abs=1e-7)


def test_corners_are_the_solutions_and_norms_are_linear():
  rng = np.random.default_rng(0)
  solutions = [tf.constant(rng.normal(size=(3, 2, 4))), tf.constant(rng.normal(size=(3, 5)))]

  def log_prob_fn(matrix, vector):  # not symmetric, so that the order of parts is seen
    return -tf.reduce_sum(matrix**2) - 2 * tf.reduce_sum(vector**2) + vector[0]

  corners = [log_prob_fn(*(p[i] for p in solutions)).numpy() for i in range(3)]
  values = energy_landscape._slice(log_prob_fn, solutions, [(0, 0), (1, 0), (0, 1), (0.7, 1)])
  np.testing.assert_allclose(values, [*corners, corners[2]], rtol=1e-10)

  norms = np.linalg.norm(np.concatenate([np.reshape(p, (3, -1)) for p in solutions], 1), axis=1)
  [square] = energy_landscape._slice(
    lambda *parts: tf.add_n([tf.reduce_sum(p**2) for p in parts]), solutions, [(0.25, 0.5)]
  )
  expected = 0.5 * (0.75 * norms[0] + 0.25 * norms[1]) + 0.5 * norms[2]
  assert np.sqrt(square) == pytest.approx(expected)
