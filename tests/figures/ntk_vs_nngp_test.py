"""Which of several step sizes the comparison of the two maps takes."""

import numpy as np
import pytest

from tfp_reprior.figures import ntk_vs_nngp

STEP_SIZES = [0.1, 0.2, 0.4, 0.8]


def _trace(acceptances):
  """Independent draws, but the first step size has each draw twice, and the last diverges."""
  rng = np.random.default_rng(0)
  draws = rng.normal(size=(500, 4, 2, 5))
  draws[1::2, 0] = draws[0::2, 0]
  draws[-1, 3] = np.nan
  acceptance = np.broadcast_to(np.array(acceptances)[:, np.newaxis], (500, 4, 2))
  return {'proj': draws, 'dots': draws[..., :1], 'acceptance': acceptance}


def test_takes_the_fastest_of_those_that_are_accepted():
  best = ntk_vs_nngp.choose(_trace([0.99, 0.98, 0.9, 1.0]), STEP_SIZES, thinning=2)
  assert best['step_size'] == 0.2 and best['is_accepted']
  assert best['proj']['mean'] == pytest.approx(0.5, rel=0.1)  # two steps for each draw
  assert best['proj']['min'] <= best['dots']['mean'] <= best['proj']['max']


def test_takes_the_smallest_if_none_is_accepted():
  best = ntk_vs_nngp.choose(_trace([0.9, 0.8, 0.7, 1.0]), STEP_SIZES, thinning=2)
  assert best['step_size'] == 0.1 and not best['is_accepted']
  assert best['proj']['mean'] == pytest.approx(0.5 / 2, rel=0.15)  # each draw twice


def test_takes_none_if_all_diverge():
  trace = _trace([1.0, 1.0, 1.0, 1.0])
  trace['dots'] = np.full_like(trace['dots'], np.inf)
  best = ntk_vs_nngp.choose(trace, STEP_SIZES, thinning=2)
  assert best['proj']['mean'] == 0.0 and not best['is_accepted']
