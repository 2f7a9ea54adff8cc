"""Figures of the report against naive ones, and what it says of chains that did this or that."""

import numpy as np
import pytest

from tfp_reprior.report import measures
from tfp_reprior.sampling import prediction as prediction_lib


def test_r_hat_of_beginnings_is_that_of_shorter_chains(noise):
  draws = noise(200, 3, 4) + np.arange(3)[:, np.newaxis]
  lengths, values = measures.r_hat_curve(draws)
  assert lengths[0] == 4 and lengths[-1] == 200 and np.all(np.diff(lengths) > 0)
  for length, actual in zip(lengths, values, strict=True):
    first = draws[:length].astype(np.float64)
    expected = first.mean(axis=0).var(axis=0) / first.var(axis=0).mean(axis=0)
    np.testing.assert_allclose(actual, expected, rtol=1e-3)


def test_autocorrelation_is_the_mean_product_of_draws_apart():
  rng = np.random.default_rng(0)
  draws = np.zeros([400, 2])
  for t in range(1, 400):
    draws[t] = 0.8 * draws[t - 1] + rng.standard_normal(2)
  actual = measures.autocorrelation(draws)
  centered = draws - draws.mean(axis=0)
  products = [np.mean(centered[t:] * centered[: 400 - t]) for t in range(len(actual))]
  np.testing.assert_allclose(actual, np.array(products) / products[0], atol=1e-10)
  assert 10 < len(actual) <= 200 and np.any(actual < 0.05)


def test_chains_that_stay_where_they_are_correlate_fully():
  np.testing.assert_array_equal(measures.autocorrelation(np.ones([10, 2])), np.ones(5))


def test_accuracy_of_the_surest_by_hand():
  probabilities = np.array([[0.6, 0.4], [0.1, 0.9], [0.8, 0.2], [0.3, 0.7]])
  # By confidence these are inputs 1, 2, 3 and 0, of which the second is wrong.
  actual = measures.accuracy_of_surest(probabilities, np.array([0, 1, 1, 1]))
  np.testing.assert_allclose(actual, [1, 1 / 2, 2 / 3, 3 / 4])


def test_coverage_counts_targets_in_central_intervals():
  prediction = prediction_lib.Prediction(np.zeros([1, 4, 1]), np.zeros([1, 4, 1]), 1.0)
  # Of a normal distribution the interval of 68.3 % ends at 1, that of 95.4 % at 2.
  y = np.array([[0.1], [-0.9], [1.5], [-3.0]])
  actual = measures.coverage(prediction, y, [0.01, 0.683, 0.954, 0.99])
  np.testing.assert_allclose(actual, [0, 0.5, 0.75, 0.75])


def test_errors_are_grouped_by_standard_deviation():
  stddev = np.array([2.0, 1.0] * 5)
  errors = np.array([4.0, 3.0] * 5)
  np.testing.assert_allclose(measures.binned_errors(stddev, errors), [[1, 3], [2, 4]])
  assert measures.binned_errors(stddev[:3], errors[:3]).shape == (1, 2)


def test_figures_are_those_of_the_run(pretend, noise):
  result = pretend(noise(100, 2, 3), settings={'thinning': 5}, seconds={'sampling': 2.0})
  run = measures.Run(result, 'a')
  ess = result.effective_sample_size('theta')
  np.testing.assert_allclose(run.ess_per('step')['theta'], ess / (100 * 2 * 5))
  np.testing.assert_allclose(run.ess_per('second')['theta'], ess / 2.0)
  assert run.figures['ESS per second, weights, smallest'] == pytest.approx(np.min(ess) / 2)
  assert run.figures['milliseconds per step of all chains'] == pytest.approx(1000 * 2 / 500)
  assert run.figures['acceptance, mean'] == pytest.approx(0.9)


def _verdict(result):
  level, badge, sentences = measures.verdict(measures.Run(result, 'a'))
  return level, badge, ' '.join(sentences)


def test_chains_that_agree_have_mixed(pretend, noise):
  level, badge, text = _verdict(pretend(noise(200, 4, 5), noise(200, 4, 5)))
  assert (level, badge) == ('good', 'Mixed')
  assert 'of 800 draws' in text and 'Mean acceptance is 0.900.' in text


def test_chains_that_disagree_have_not_mixed(pretend, noise):
  level, badge, text = _verdict(pretend(noise(200, 4, 5) + np.arange(4)[:, np.newaxis]))
  assert (level, badge) == ('bad', 'Not mixed')
  # Variance 1 within, 1.25 between: R-hat is sqrt(2.25).
  assert 'For the weights the largest R-hat is 1.5' in text and 'do not trust averages' in text


def test_chains_of_few_draws_are_too_short(pretend, noise):
  assert _verdict(pretend(noise(20, 4, 5)))[1] == 'Too short'
  level, badge, text = _verdict(pretend(noise(2, 4, 5)))
  assert (level, badge) == ('bad', 'Too short') and 'Chains of 2 draws are too short' in text


def test_outputs_may_mix_before_weights(pretend, noise):
  theta = noise(200, 4, 5) + np.arange(4)[:, np.newaxis]
  level, badge, text = _verdict(pretend(theta, noise(200, 4, 5)))
  assert (level, badge) == ('unsure', 'Outputs mixed, weights not')
  assert 'Rely on predictions there, but not on averages of weights.' in text


def test_one_chain_is_not_judged_by_r_hat(pretend, noise):
  level, badge, text = _verdict(pretend(noise(200, 1, 5)))
  assert (level, badge) == ('unsure', 'One chain')
  assert 'R-hat' not in text and 'of 200 draws' in text


@pytest.mark.parametrize('value, badge', [(np.nan, 'Diverged'), (np.inf, 'Diverged')])
def test_chains_that_are_not_finite_have_diverged(pretend, noise, value, badge):
  draws = noise(200, 4, 5)
  draws[100:, 2] = value
  assert _verdict(pretend(draws))[:2] == ('bad', badge)


def test_chains_that_do_not_move_have_not_mixed(pretend):
  assert _verdict(pretend(np.ones([200, 4, 5], np.float32)))[:2] == ('bad', 'Not mixed')


def test_an_interrupted_run_is_called_so(pretend, noise):
  result = pretend(noise(200, 4, 5), is_complete=False, settings={'num_results': 1000})
  level, badge, text = _verdict(result)
  assert (level, badge) == ('unsure', 'Interrupted. Mixed')
  assert text.startswith('The run was interrupted after 200 of 1,000 draws.')


@pytest.mark.parametrize(
  'sampler, acceptance, level, words',
  [
    ('rotation', 0.5, 'good', ''),
    ('rotation', 0.1, 'unsure', 'most steps are wasted'),
    ('uncalibrated_rotation', 0.98, 'good', ''),
    ('uncalibrated_rotation', 0.9, 'unsure', 'without accept / reject draws are biased'),
  ],
)
def test_low_acceptance_is_a_warning(pretend, noise, sampler, acceptance, level, words):
  result = pretend(noise(200, 4, 5), acceptance=acceptance, settings={'sampler': sampler})
  actual, badge, text = _verdict(result)
  assert (actual, badge) == (level, 'Mixed')
  assert words in text and ('That is low' in text) == (level == 'unsure')
