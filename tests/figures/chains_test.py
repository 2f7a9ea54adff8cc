"""What figures measure of chains, on draws whose effective sample size is known."""

import types

import numpy as np
import pytest

from tfp_reprior.figures import chains


def _result(draws, thinning=5):
  return types.SimpleNamespace(trace={'theta': draws}, settings={'thinning': thinning})


def _autoregressive(rho, num_draws, rng):
  """Draws `[s, 3, 20]` with correlation `rho` from one to the next."""
  noise = np.sqrt(1 - rho**2) * rng.normal(size=(num_draws, 3, 20))
  draws = [rng.normal(size=(3, 20))]
  for step in noise[1:]:
    draws.append(rho * draws[-1] + step)
  return np.array(draws)


@pytest.mark.parametrize('rho', [0.0, 0.8])
def test_effective_samples_are_counted_per_step_of_one_chain(rho):
  draws = _autoregressive(rho, 4000, np.random.default_rng(0))
  spread = chains._ess_per_step(_result(draws), 'theta')
  expected = (1 - rho) / (1 + rho) / 5  # five steps for each draw
  assert spread['mean'] == pytest.approx(expected, rel=0.1)
  assert 0.5 * expected < spread['min'] <= spread['mean'] <= spread['max'] < 1.5 * expected


def test_curves_end_with_the_whole_run():
  draws = _autoregressive(0.5, 500, np.random.default_rng(0))
  curves = chains._curves(_result(draws), 'theta')
  assert curves['steps'][-1] == 2500 and curves['steps'] == sorted(curves['steps'])
  assert curves['ess_per_step'][-1] == chains._ess_per_step(_result(draws), 'theta')
  within = draws.var(axis=0).mean(axis=0)
  expected = draws.mean(axis=0).var(axis=0) / within
  assert curves['r_hat_squared_minus_1'][-1]['max'] == pytest.approx(np.max(expected), rel=1e-6)
  assert len(curves['r_hat_squared_minus_1']) == len(curves['steps'])
