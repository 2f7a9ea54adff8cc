"""Simulation-based calibration of the samplers, with controls that must be rejected."""

import json
import subprocess
import sys

import numpy as np
import pytest
import scipy.stats
import script_modules

SCRIPT = script_modules.SCRIPTS / 'calibration.py'


@pytest.fixture(scope='module')
def calibration():
  return script_modules.load('calibration')


def _run(path, *arguments):
  """What the script writes to its file."""
  command = [sys.executable, str(SCRIPT), f'--json={path}', *arguments]
  result = subprocess.run(command, capture_output=True, text=True, timeout=1800)
  assert result.returncode == 0, result.stderr
  return json.loads(path.read_text())['models']


def _counts(ranks, num_ranks):
  return np.bincount(ranks, minlength=num_ranks)[np.newaxis]


def test_p_values_are_those_of_a_chi_square_test(calibration):
  counts = np.random.default_rng(1).multinomial(500, np.full(64, 1 / 64), 3)
  expected = [scipy.stats.chisquare(c.reshape(16, 4).sum(1)).pvalue for c in counts]
  np.testing.assert_allclose(calibration.p_values(counts), expected, rtol=1e-9)


def test_bins_of_different_sizes_expect_different_counts(calibration):
  # 5 ranks and 4 bins, because of 20 replications: the first bin has two ranks.
  counts = np.array([[3, 4, 5, 2, 6]])
  expected = scipy.stats.chisquare([7, 5, 2, 6], [8, 4, 4, 4]).pvalue
  np.testing.assert_allclose(calibration.p_values(counts), [expected], rtol=1e-9)


def test_ranks_of_a_posterior_that_is_too_wide_are_rejected(calibration):
  # Conjugate Gaussians: truth and draws of N(0, 1), or draws with 1.5 times the deviation.
  rng = np.random.default_rng(2)
  truth, draws = rng.normal(size=500), rng.normal(size=(63, 500))
  for scale, is_uniform in ((1.0, True), (1.5, False)):
    ranks = np.sum(scale * draws < truth, axis=0)
    [p_value] = calibration.p_values(_counts(ranks, 64))
    assert (p_value > calibration.FALSE_ALARM) == is_uniform


def test_the_band_holds_all_but_a_thousandth_of_uniform_curves(calibration):
  half = calibration.band(500, 64)
  counts = np.random.default_rng(3).multinomial(500, np.full(64, 1 / 64), 20_000)
  curves = np.cumsum(counts, axis=1) / 500 - np.arange(1, 65) / 64
  outside = np.mean(np.any(np.abs(curves) > half + 1e-12, axis=1))
  # 20 are expected of this simulation, and 20 of that which the band is from.
  assert 0.0002 < outside < 0.0025


@pytest.mark.slow
@pytest.mark.parametrize('hidden_space', ['weights', 'data'])
@pytest.mark.parametrize('model', ['known', 'unknown', 'categorical'])
def test_ranks_are_uniform_and_those_of_the_control_are_not(model, hidden_space, tmp_path):
  # False-alarm rate 1e-3. In the control there is twice the noise, or logits are half as large:
  # logits that are too large hardly show in so few data sets.
  arguments = [f'--models={model}', f'--hidden_space={hidden_space}']
  arguments += ['--num_replications=150', '--error=0.5']
  entry = _run(tmp_path / 'ranks.json', *arguments)[model]
  assert min(entry['sampler']['p-values']) > entry['bound']
  assert min(entry['control']['p-values']) < entry['bound']
  # The test needs chains that move, and draws that hardly depend on each other: there are 63.
  assert entry['sampler']['lowest acceptance'] > 0.3
  assert min(entry['sampler']['effective draws']) > 45


@pytest.mark.slow
def test_whole_runs_have_uniform_ranks(tmp_path):
  # Few, because each takes seconds: two bins.
  entry = _run(tmp_path / 'ranks.json', '--models=known', '--full', '--num_replications=10')[
    'known'
  ]
  assert np.sum(entry['sampler']['rank counts'], axis=1).tolist() == [10] * 7
  assert min(entry['sampler']['p-values']) > entry['bound']
