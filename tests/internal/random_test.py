"""Random numbers: the generator of large states, and which states are large."""

import numpy as np
import pytest
import scipy.stats
import statistics_lib as stats
import tensorflow as tf

from tfp_reprior import compilation
from tfp_reprior.internal import random

# Published with the generator (Salmon et al. 2011): counters, key, words.
KNOWN_ANSWERS = [
  ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
  ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
  ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0)),
]
LARGE = [[512, 300], [7], []]


def _noise(shapes, seed, dtype=tf.float32):
  parts = [tf.zeros(s, dtype) for s in shapes]
  sources = random.sources_like(parts, seed)
  fused = compilation.fuse(
    lambda parts, sources: [random.noise_like(*pair) for pair in zip(parts, sources, strict=True)]
  )
  return [draws.numpy() for draws in fused(parts, sources)]


@pytest.mark.parametrize(('counters', 'key', 'words'), KNOWN_ANSWERS)
def test_threefry_gives_the_known_answers(counters, key, words):
  counters, key = (tf.unstack(tf.constant(pair, tf.uint32)) for pair in (counters, key))
  assert tuple(int(w) for w in random.threefry(key, counters)) == words


@pytest.mark.parametrize('seed', [(1, 2), (-5, 2**31 - 1)])
def test_philox_is_that_of_tensorflow_compiled_or_not(seed):
  seed = tf.constant(seed)

  def draw(seed):
    words = [random.random_bits([3, 5], dtype, seed) for dtype in (tf.float32, tf.float64)]
    return *words, *random.split_seed(seed, n=3), random.fold_fn(seed)(7)

  dtypes = tf.uint32, tf.uint64
  expected = [
    *(tf.random.stateless_uniform([3, 5], seed, None, None, d, alg='philox') for d in dtypes),
    *tf.random.split(seed, num=3, alg='philox'),
    tf.random.fold_in(seed, 7, alg='philox'),
  ]
  for actual in (draw(seed), tf.function(draw, jit_compile=True)(seed)):
    for a, b in zip(actual, expected, strict=True):
      assert a.dtype == b.dtype
      np.testing.assert_array_equal(a, b)


def test_box_muller_is_that_of_its_formula():
  words = np.random.default_rng(0).integers(0, 2**32, size=(2, 100_000), dtype=np.uint32)
  words[:, :4] = [[0, 2**32 - 1, 0, 2**32 - 1], [0, 2**31, 2**31 - 1, 2**32 - 1]]
  u = ((words[0] >> 9) + 0.5) / 2**23
  v = words[1].view(np.int32) / 2**32
  expected = np.sqrt(-2 * np.log(u)) * np.cos(2 * np.pi * v)
  actual = random.words_to_normal(*map(tf.constant, words))
  np.testing.assert_allclose(actual, expected, rtol=0, atol=3e-6)
  assert 5.7 < np.max(np.abs(expected)) < 5.8, 'the bound that the docstring states'


def test_noise_of_large_states_is_normal():
  draws = _noise(LARGE, seed=[1, 2])
  assert [d.shape for d in draws] == [tuple(s) for s in LARGE]
  flat = draws[0].ravel()
  assert stats.detectable_cdf_error(flat.size) < 0.02
  assert stats.cdf_p_value(flat, scipy.stats.norm.cdf) > stats.FALSE_ALARM
  assert stats.cdf_p_value(0.95 * flat, scipy.stats.norm.cdf) < stats.FALSE_ALARM
  assert stats.mean_p_value(flat**4, 3.0) > stats.FALSE_ALARM
  assert stats.mean_p_value((0.95 * flat) ** 4, 3.0) < stats.FALSE_ALARM


def test_neighbours_and_parts_and_seeds_have_noise_of_their_own():
  shape = [400, 400]
  [first, second], [other, _] = _noise([shape, shape], [1, 2]), _noise([shape, shape], [1, 3])
  pairs = {
    'rows': (first[1:], first[:-1]),
    'columns': (first[:, 1:], first[:, :-1]),
    'transposed': (first[np.triu_indices(400, 1)], first.T[np.triu_indices(400, 1)]),
    'parts': (first, second),
    'seeds': (first, other),
  }
  for name, (a, b) in pairs.items():
    # Levels and sizes: products of independent draws have mean 0, and those of squares mean 1.
    assert stats.mean_p_value((a * b).ravel(), 0.0) > stats.FALSE_ALARM, name
    assert stats.mean_p_value((a * b).ravel() ** 2, 1.0) > stats.FALSE_ALARM, name
    assert stats.mean_p_value((a * (b + 0.03 * a)).ravel(), 0.0) < stats.FALSE_ALARM, name


def test_small_parts_have_noise_of_their_own():
  shapes = [[20], [2, 10], []]
  first, again, other = (np.hstack([d.ravel() for d in _noise(shapes, s)]) for s in (1, 1, 2))
  np.testing.assert_array_equal(first, again)
  assert np.unique([*first, *other]).size == 2 * 41


@pytest.mark.parametrize('shape', [[400, 400], [3, 200, 300], [2**18]])
def test_noise_is_the_same_compiled_or_not(shape, compilation_policy):
  compilation_policy('auto')
  [compiled] = _noise([shape], [1, 2])
  compilation_policy('never')
  [plain] = _noise([shape], [1, 2])
  np.testing.assert_allclose(compiled, plain, rtol=0, atol=3e-6)


def test_the_generator_depends_on_size_and_dtype():
  kinds = {
    random.Bits: [([100], tf.float32), ([2**18], tf.float64)],
    random.Key: [([2**18], tf.float32)],
  }
  for kind, cases in kinds.items():
    for shape, dtype in cases:
      [source] = random.sources_like([tf.zeros(shape, dtype)], [1, 2])
      assert isinstance(source, kind), (shape, dtype)
      [draws] = _noise([shape], [1, 2], dtype)
      assert draws.dtype == dtype.as_numpy_dtype and draws.shape == tuple(shape)


def test_parts_of_unknown_shape_have_noise_too():
  @tf.function(input_signature=[tf.TensorSpec([None]), tf.TensorSpec([2**18])])
  def noise(small, large):
    sources = random.sources_like([small, large], [1, 2])
    return [random.noise_like(p, s) for p, s in zip([small, large], sources, strict=True)]

  small, large = noise(tf.zeros([5]), tf.zeros([2**18]))
  assert small.shape == [5] and large.shape == [2**18]
  assert stats.cdf_p_value(large, scipy.stats.norm.cdf) > stats.FALSE_ALARM
