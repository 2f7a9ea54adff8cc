"""Random numbers: the one place that knows which generators we draw from.

Philox, by TensorFlow's operation, and the inverse of the error function; for large float32 states,
whose updates are compiled anyway, Threefry and Box-Muller, written as elementwise operations. Those
become part of the compiled update, and take half the time: no bits pass through memory, and XLA
runs them by vector instructions.
"""

import math
import numbers
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

from tfp_reprior import errors
from tfp_reprior.internal import checks
from tfp_reprior.internal import parts as parts_lib

# Words of the generator, and how many of their bits become a uniform number: one less than the
# significand holds, so that the midpoint of each cell is exact and never rounds to 0 or 1.
_WORDS = {tf.float32: (tf.uint32, 23), tf.float64: (tf.uint64, 52)}

# The operation of TensorFlow that makes words of Philox takes a key and a counter: two words of a
# seed are made into these by Philox itself, with this key.
_PHILOX = 1
_SCRAMBLING_KEY = 0x02461E293EC8F720

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA


class Bits(NamedTuple):
  """Where the noise of a part comes from: random bits, a word for each element."""

  words: tf.Tensor


class Key(NamedTuple):
  """Where the noise of a large part comes from: a key of Threefry, two words."""

  words: tf.Tensor


def split_seed(seed, n):
  """Splits a seed of TFP into `n` stateless seeds, the same compiled or not.

  Unlike `tfp.random.split_seed`, which leaves the generator open.
  """
  return tf.unstack(_philox([n, 2], _stateless(seed), tf.int32))


def fold_fn(seed):
  """A function of a number that returns a seed, another one for each number.

  The seeds of `tf.random.fold_in`; what does not depend on the number is computed here, once.
  """
  [word] = tf.unstack(_philox([1], _stateless(seed), tf.int32))
  return lambda number: tf.stack([word, number])


def _stateless(seed):
  """A seed of TFP as two words. An integer is that of a stateful generator for TFP; not here."""
  if isinstance(seed, (numbers.Real, str, np.bool_)):
    is_integer = isinstance(seed, numbers.Integral) and not isinstance(seed, bool)
    checks.seed('seed', abs(seed) if is_integer else seed)
    # Two words of 32 bits, with signs, as TensorFlow wants them.
    seed = np.array([int(seed) % 2**64], np.uint64).view(np.int32)[::-1]
  seed = tfp.random.sanitize_seed(seed)
  if seed.shape != (2,):
    raise errors.InputError(f'`seed` must be an integer, or two. Received: seed={seed}')
  return seed


def normal_parts(shapes, dtype, seed):
  """Standard normal draws, one tensor for each of `shapes`, from one seed.

  The generator is named (Philox) and its bits are converted here, because then the draws are the
  same on every device, compiled or not; `tf.random.stateless_normal` promises neither, and with
  the default generator it is eighteen times slower in XLA on a CPU. In float32 the draws lie
  within 5.3 standard deviations.
  """
  seeds = split_seed(seed, n=len(shapes))
  return [
    bits_to_normal(random_bits(shape, dtype, part_seed), dtype)
    for shape, part_seed in zip(shapes, seeds, strict=True)
  ]


def sign_parts(shapes, dtype, seed):
  """Random signs, -1 or 1, one tensor for each of `shapes`, from one seed."""
  return [tf.sign(draws) for draws in normal_parts(shapes, dtype, seed)]


def random_bits(shape, dtype, seed):
  """Words of random bits, from which `bits_to_normal` makes numbers of `dtype`."""
  word, _ = _WORDS[tf.as_dtype(dtype)]
  return _philox(shape, seed, word)


def _philox(shape, seed, dtype):
  """Words of `tf.random.stateless_uniform(shape, seed, None, None, dtype, alg='philox')`.

  By 15 operations, where that takes 48, which would be a seventh of the graph of a run.
  """
  words = tf.raw_ops.StatelessRandomUniformFullIntV2(
    shape=[2],
    key=tf.constant([_SCRAMBLING_KEY], tf.uint64),
    counter=tf.cast(seed, tf.uint64),
    alg=_PHILOX,
    dtype=tf.uint64,
  )
  key, last = tf.split(words, 2)
  counter = tf.concat([tf.zeros([1], tf.uint64), last], axis=0)
  return tf.raw_ops.StatelessRandomUniformFullIntV2(
    shape=shape, key=key, counter=counter, alg=_PHILOX, dtype=dtype
  )


def sources_like(parts, seed):
  """What a fused update needs to make noise for a list of parts: `Bits` or `Key`s.

  Which of them depends on shapes and dtype only, so that draws are the same compiled or not.
  """
  are_known = all(p.dtype == parts[0].dtype and p.shape.is_fully_defined() for p in parts)
  if are_known and not parts_lib.are_large(parts):
    # All at once, because a call takes longer than the bits of a small part.
    sizes = [p.shape.num_elements() for p in parts]
    bits = tf.split(random_bits([sum(sizes)], parts[0].dtype, _stateless(seed)), sizes)
    return [Bits(tf.reshape(b, p.shape)) for b, p in zip(bits, parts, strict=True)]
  seeds = split_seed(seed, n=len(parts))
  if are_known and parts[0].dtype == tf.float32:
    return [Key(tf.bitcast(s, tf.uint32)) for s in seeds]
  bits = [random_bits(tf.shape(p), p.dtype, s) for p, s in zip(parts, seeds, strict=True)]
  for b, p in zip(bits, parts, strict=True):
    b.set_shape(p.shape)
  return [Bits(b) for b in bits]


def noise_like(part, source):
  """Standard normal draws in the shape of `part`, by its source of `sources_like`."""
  if isinstance(source, Key):
    return words_to_normal(*threefry(tf.unstack(source.words), _counters(part.shape)))
  return bits_to_normal(source.words, part.dtype)


def _counters(shape):
  """Two words for each element, no pair twice: its index on the first axis and on the others."""
  first, *rest = [*shape] or [1]
  rows = tf.reshape(tf.range(first), [-1] + [1] * len(rest))
  columns = tf.reshape(tf.range(math.prod(rest)), [1, *rest])
  words = [tf.broadcast_to(tf.cast(i, tf.uint32), [first, *rest]) for i in (rows, columns)]
  return [tf.reshape(w, shape) for w in words]


def threefry(key, counters):
  """Threefry-2x32 with 20 rounds (Salmon et al. 2011), elementwise.

  Args:
    key: Pair of uint32 tensors, scalars.
    counters: Pair of uint32 tensors of one shape.

  Returns:
    Pair of random words like the counters.
  """
  keys = [*key, key[0] ^ key[1] ^ tf.constant(_PARITY, tf.uint32)]
  x0, x1 = counters[0] + keys[0], counters[1] + keys[1]
  for i in range(5):
    for distance in _ROTATIONS[i % 2]:
      x0 += x1
      x1 = x0 ^ _rotate_left(x1, distance)
    x0 += keys[(i + 1) % 3]
    x1 += keys[(i + 2) % 3] + tf.constant(i + 1, tf.uint32)
  return x0, x1


def _rotate_left(words, distance):
  left = tf.bitwise.left_shift(words, tf.constant(distance, tf.uint32))
  return left | tf.bitwise.right_shift(words, tf.constant(32 - distance, tf.uint32))


def words_to_normal(radius_words, angle_words):
  """`sqrt(-2 log(u)) * cos(2 pi v)` (Box and Muller 1958): one float32 number of two words.

  `u` is uniform on midpoints of a grid of 2**-23 on (0, 1), so draws lie within 5.8 standard
  deviations; `v` on a grid of 2**-32 on [-1/2, 1/2).
  """
  radius = tf.sqrt(-2.0 * tf.math.log(bits_to_uniform(radius_words, tf.float32)))
  v = tf.cast(tf.bitcast(angle_words, tf.int32), tf.float32) * 2.0**-32
  # cos(2 pi v) = 1 - 2 sin(pi v)**2 and the Taylor series of the sine, whose error is below 1e-9
  # here; tf.cos takes four times as long in XLA on a CPU.
  square = v * v
  series = 0.0
  for i in reversed(range(7)):
    series = series * square + (-1) ** i * math.pi ** (2 * i + 1) / math.factorial(2 * i + 1)
  sine = v * series
  return radius * (1.0 - 2.0 * sine * sine)


def bits_to_normal(bits, dtype):
  """`sqrt(2) * erfinv(2 u - 1)` with `u` from `bits_to_uniform`."""
  return math.sqrt(2.0) * tf.math.erfinv(2.0 * bits_to_uniform(bits, dtype) - 1.0)


def bits_to_uniform(bits, dtype):
  """Uniform on the midpoints of a grid on (0, 1): never 0, never 1."""
  dtype = tf.as_dtype(dtype)
  word, num_bits = _WORDS[dtype]
  kept = tf.bitwise.right_shift(bits, tf.constant(word.size * 8 - num_bits, word))
  return (tf.cast(kept, dtype) + 0.5) * 2.0**-num_bits
