"""Random projections against NumPy."""

import re

import numpy as np
import pytest
import statistics_lib
import tensorflow as tf

import tfp_reprior as tfr

SHAPES = [(3, 2), (2,), ()]  # nine weights


def _basis():
  """The nine unit vectors, as a list of parts with leading dimension 9."""
  eye = np.eye(9)
  return [tf.constant(p) for p in (eye[:, :6].reshape(9, 3, 2), eye[:, 6:8], eye[:, 8])]


def _projections(num_projections=50, seed=(0, 1), dtype=tf.float64):
  return tfr.diagnostics.RandomProjections(SHAPES, num_projections, seed, dtype)


@pytest.mark.parametrize('leading', [(), (4,), (5, 4)])
def test_projections_are_one_matrix_times_all_weights(leading):
  project = _projections()
  matrix = project(_basis()).numpy()  # [9, 50]
  rng = np.random.default_rng(1)
  parts = [rng.normal(size=(*leading, *shape)) for shape in SHAPES]
  flat = np.concatenate([p.reshape(*leading, -1) for p in parts], axis=-1)
  actual = project([tf.constant(p) for p in parts])
  assert actual.shape == (*leading, 50)
  np.testing.assert_allclose(actual, flat @ matrix, rtol=0, atol=1e-12)


def test_projections_of_standard_normal_weights_have_variance_one_on_average():
  # The directions are N(0, 1 / 9) for nine weights. False-alarm rate 1e-6, 20000 projections.
  matrix = _projections(20_000)(_basis()).numpy()
  draws = np.sqrt(9) * matrix.ravel()
  assert statistics_lib.cdf_p_value(draws, 'norm') > statistics_lib.FALSE_ALARM
  assert statistics_lib.cdf_p_value(1.05 * draws, 'norm') < statistics_lib.FALSE_ALARM
  variances = np.sum(matrix**2, axis=0)  # of the projections of N(0, I)
  assert statistics_lib.mean_p_value(variances, 1.0) > statistics_lib.FALSE_ALARM


def test_projections_of_parts_share_no_directions():
  matrix = _projections()(_basis()).numpy()
  assert np.unique(matrix).size == matrix.size


def test_projections_take_one_tensor():
  project = tfr.diagnostics.RandomProjections([(3,)], 5, [0, 1])
  x = tf.constant([[1.0, 2.0, 3.0]])
  np.testing.assert_array_equal(project(x), project([x]))


def test_projections_take_arrays():
  project = _projections()
  parts = _basis()
  np.testing.assert_array_equal(project([p.numpy() for p in parts]), project(parts))


@pytest.mark.parametrize('seed', [0, [1, 2]], ids=['int', 'list'])
def test_projections_are_fixed_by_the_seed(seed):
  first, again = _projections(seed=seed)(_basis()), _projections(seed=seed)(_basis())
  np.testing.assert_array_equal(first, again)
  assert not np.isin(first, _projections(seed=[3, 4])(_basis())).any()


def test_projections_default_to_a_hundred_in_float32():
  project = tfr.diagnostics.RandomProjections([(3,)])
  projected = project(tf.ones([4, 3]))
  assert projected.shape == (4, 100) and projected.dtype == tf.float32


@pytest.mark.parametrize('num_projections', [0, 2.5])
def test_number_of_projections_must_be_a_positive_integer(num_projections):
  message = (
    f'`num_projections` must be a positive integer. Received: num_projections={num_projections!r}'
  )
  with pytest.raises(ValueError, match=re.escape(message)):
    tfr.diagnostics.RandomProjections([(3,)], num_projections)


def test_projections_of_the_wrong_number_of_parts_are_refused():
  with pytest.raises(ValueError):
    _projections()(_basis()[:2])


def test_projections_of_large_states_are_signed_sums_of_unit_variance():
  # 300,001 weights: 100 dense directions would not fit the limit.
  shapes = [(300, 1000), (1,)]
  project = tfr.diagnostics.RandomProjections(shapes, num_projections=100, seed=1)
  rng = np.random.default_rng(0)
  parts = [rng.normal(size=(20, *s)).astype(np.float32) for s in shapes]
  projections = project(parts).numpy()
  assert projections.shape == (20, 100)
  # Linear: each weight is in one projection, with a sign.
  ones = [np.ones(s, np.float32) for s in shapes]
  unit = [np.zeros(s, np.float32) for s in shapes]
  unit[0][7, 123] = 1.0
  difference = project([a + b for a, b in zip(ones, unit, strict=True)]) - project(ones)
  [changed] = np.flatnonzero(np.abs(difference) > 1e-3)
  assert changed == (7 * 1000 + 123) % 100
  np.testing.assert_allclose(abs(difference[changed]), np.sqrt(100 / 300_001), rtol=1e-2)
  # 2,000 independent standard normals: a z-test of the variance, false-alarm rate 1e-6.
  assert statistics_lib.mean_p_value(np.ravel(projections) ** 2, 1.0) > statistics_lib.FALSE_ALARM
