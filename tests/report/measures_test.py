"""Figures of the report against naive ones, and against those of the verdict."""

import numpy as np
import pytest

from tfp_reprior.report import measures


def test_figures_are_those_of_the_run(pretend, noise):
  result = pretend(noise(100, 2, 3), settings={'thinning': 5}, seconds={'sampling': 2.0})
  run = measures.Run(result, 'a')
  ess = result.effective_sample_size('theta')
  np.testing.assert_allclose(run.ess_per('step')['theta'], ess / (100 * 2 * 5))
  np.testing.assert_allclose(run.ess_per('second')['theta'], ess / 2.0)
  assert run.figures['ESS per second, weights, smallest'] == pytest.approx(np.min(ess) / 2)
  assert run.figures['milliseconds per step of all chains'] == pytest.approx(1000 * 2 / 500)
  assert run.figures['acceptance, mean'] == pytest.approx(0.9)


def test_mixing_is_that_of_the_verdict(pretend, noise):
  result = pretend(noise(100, 1, 3), noise(100, 1, 3))
  run = measures.Run(result, 'a')
  assert run.verdict is result.verdict and not run.is_failed
  assert run.names == ['theta', 'f', 'log_likelihood'] == list(run.r_hat)
  for name in run.names:  # also of one chain, which is split
    assert run.r_hat[name] == result.verdict.mixing[name].r_hat >= 1 - 1e-2
    assert np.min(run.ess[name]) == pytest.approx(result.verdict.mixing[name].bulk_ess)


def test_hidden_weights_are_drawn_in_place_of_all(regression):
  run = measures.Run(regression, 'a')
  assert run.names == ['hidden', 'f', 'log_likelihood']
  assert run.draws('log_likelihood').shape == (20, 2, 1)
  assert run.draws('hidden').shape == run.draws('f').shape == (20, 2, 100)


def test_chains_that_do_not_move_have_no_effective_samples(pretend):
  run = measures.Run(pretend(np.ones([200, 4, 5], np.float32)), 'a')
  assert np.all(np.isnan(run.ess['theta']))
  assert 'ESS per second, weights, median' not in run.figures
