"""Functions of many draws from the prior, in batches that fit into memory."""

import tensorflow as tf

from tfp_reprior import compilation
from tfp_reprior.internal import checks, random

# Weights that are in memory at once.
_BATCH_NUMBERS = 2**24


def map_prior(fn, split, num_draws, seed):
  """Evaluates a function for draws from N(0, I).

  Args:
    fn: Function of a list of parts `[b, *event_shape]`; returns a tensor, or a structure of them,
      `[b, ...]`.
    split: A `tfp_reprior.models.ReadoutSplit`.
    num_draws: Positive integer.
    seed: A seed of TFP.

  Yields:
    The values for some of the draws, as NumPy arrays `[b, ...]`; b differs.
  """
  checks.positive_integer('num_draws', num_draws)
  batch_size = max(1, min(num_draws, _BATCH_NUMBERS // split.num_parameters))
  seed_fn = random.fold_fn(*random.split_seed(seed, n=1))

  @compilation.function
  def evaluate(number):
    return fn(split.sample_prior(batch_size, seed_fn(number)))

  for first in range(0, num_draws, batch_size):
    values = evaluate(tf.constant(first // batch_size))
    yield tf.nest.map_structure(lambda v, first=first: v[: num_draws - first].numpy(), values)
