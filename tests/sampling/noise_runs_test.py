"""Runs with unknown noise: traces, predictions, files, resuming, the page and the command line."""

import functools
import re

import numpy as np
import pytest
import sampling_runs
import scipy.special
import scipy.stats
import tensorflow_probability as tfp

import tfp_reprior as tfr
from tfp_reprior.cli import main

PRIOR = tfp.distributions.LogNormal(-1.5, 0.5)
U = 2  # the part of the noise


def _sample(**changes):
  settings = {'noise_scale': PRIOR, 'step_size': 0.2, 'num_burnin_steps': 0}
  return sampling_runs.sample(**{**settings, **changes})


@functools.cache
def _reference():
  return _sample(num_kept_draws=12)


def _noise_scales(result):
  """Of the kept draws `[s, c]`, by the definition of the prior."""
  return np.exp(-1.5 + 0.5 * np.stack([draw[U] for draw in result.draws]))


def test_the_trace_follows_the_noise_of_every_draw():
  result = _reference()
  assert result.trace['noise_scale'].shape == (12, 2, 1)
  np.testing.assert_allclose(result.trace['noise_scale'][..., 0], _noise_scales(result), rtol=1e-6)
  assert len(np.unique(result.trace['noise_scale'])) > 12  # it moves


def test_predictions_have_the_noise_of_their_draw():
  result = _reference()
  prediction = result.predict(sampling_runs.X_TEST)
  scales = _noise_scales(result).ravel()[:, np.newaxis, np.newaxis]  # [s * c, 1, 1]
  np.testing.assert_allclose(prediction.noise_variance, scales**2, rtol=1e-5)
  # The readout is integrated out by the noise of the draw too: that of known noise, one by one.
  for i, c in ((0, 1), (7, 0)):
    parts = [p[c] for p in result.draws[i]]
    known = tfr.Posterior(
      result.posterior.split, sampling_runs.X, sampling_runs.Y, scales[2 * i + c, 0, 0]
    )
    mean, variance = tfr.CollapsedPosterior(known).predict(parts[:U], sampling_runs.X_TEST)
    np.testing.assert_allclose(prediction.means[2 * i + c], mean, atol=1e-4)
    np.testing.assert_allclose(prediction.variances[2 * i + c], variance, atol=1e-4)
  # The mixture, in NumPy.
  variances = prediction.variances + scales**2
  y = np.full([4, 2], 0.3)
  log_probs = scipy.stats.norm.logpdf(y, prediction.means, np.sqrt(variances))
  expected = scipy.special.logsumexp(log_probs, axis=0) - np.log(24)
  np.testing.assert_allclose(prediction.log_prob(y), expected, rtol=1e-6)
  expected = np.mean(scipy.stats.norm.cdf(y, prediction.means, np.sqrt(variances)), axis=0)
  np.testing.assert_allclose(prediction.cdf(y), expected, rtol=1e-6)
  expected = np.mean(variances, axis=0) + np.var(prediction.means, axis=0)
  np.testing.assert_allclose(prediction.stddev**2, expected, rtol=1e-6)
  quantile = prediction.quantile(0.9)
  np.testing.assert_allclose(prediction.cdf(quantile), 0.9, atol=1e-6)


def test_samples_have_the_noise_of_their_component():
  # Variance of 40,000 samples: five standard errors, of which one is about 1 / sqrt(20,000). The
  # noise of the components differs by a factor of ten, which the wrong one would show.
  means, noise_variance = np.zeros([2, 1, 1]), np.array([0.09, 9.0])[:, np.newaxis, np.newaxis]
  prediction = tfr.sampling.Prediction(means, means, noise_variance)
  samples = prediction.sample(40_000)[:, 0, 0]
  np.testing.assert_allclose(prediction.stddev, np.sqrt(4.545), rtol=1e-12)
  mixture = [scipy.stats.norm(scale=np.sqrt(v)) for v in (0.09, 9.0)]
  cdf = lambda y: (mixture[0].cdf(y) + mixture[1].cdf(y)) / 2  # noqa: E731
  assert scipy.stats.kstest(samples, cdf).pvalue > 1e-6
  assert scipy.stats.kstest(samples, scipy.stats.norm(scale=np.sqrt(4.555)).cdf).pvalue < 1e-6


def test_the_summary_tells_the_noise():
  result = _reference()
  [line] = [text for text in result.summary().splitlines() if text.startswith('noise scale:')]
  numbers = [float(number) for number in re.findall(r'\d+\.\d+', line)]
  values = result.trace['noise_scale']
  expected = [np.mean(values), *np.quantile(values, [0.05, 0.95])]
  np.testing.assert_allclose(numbers, expected, rtol=1e-3)
  assert 'noise_scale' in result.verdict.mixing
  assert 'noise scale' not in sampling_runs.reference().summary()


def test_a_saved_result_predicts_the_same(tmp_path):
  result = _reference()
  result.save(tmp_path)
  loaded = tfr.load_result(tmp_path)
  assert repr(loaded.posterior.likelihood) == repr(result.posterior.likelihood)
  sampling_runs.assert_same(loaded, result)
  expected, actual = (r.predict(sampling_runs.X_TEST) for r in (result, loaded))
  np.testing.assert_array_equal(actual.means, expected.means)
  np.testing.assert_array_equal(actual.stddev, expected.stddev)


def test_a_run_goes_on_to_the_same_numbers_and_not_with_another_prior(tmp_path):
  _sample(num_results=5, num_kept_draws=12, run_dir=tmp_path)
  result = _sample(num_results=12, num_kept_draws=12, run_dir=tmp_path)
  sampling_runs.assert_same(result, _reference())
  other = tfp.distributions.LogNormal(-1.5, 0.6)
  with pytest.raises(ValueError, match=r'holds a run of something else: .*scale=0\.5.*scale=0\.6'):
    _sample(noise_scale=other, run_dir=tmp_path)


def test_the_page_shows_the_noise(tmp_path):
  path = tmp_path / 'report.html'
  tfr.report.write_report([_reference()], path)
  page = path.read_text()
  for text in ('Trace of noise scale', 'noise scale', 'distribution LogNormal'):
    assert text in page


def test_the_command_line_takes_a_prior(tmp_path, capsys):
  arguments = '--data=toy --num_train=8 --num_test=4 --width=8 --depth=1 --num_chains=2'
  arguments += ' --num_results=6 --thinning=1 --step_size=0.1 --noise_scale=lognormal:-1.5,0.5'
  arguments += ' --num_burnin_steps=0 --no-report'
  run_dir = tmp_path / 'run'
  assert main.main(['sample', *arguments.split(), f'--run_dir={run_dir}']) == 0
  assert 'noise scale: mean' in capsys.readouterr().out
  likelihood = tfr.load_result(run_dir).posterior.likelihood
  assert repr(likelihood) == 'Gaussian(noise_scale=LogNormal(loc=-1.5, scale=0.5))'


@pytest.mark.parametrize('text', ['lognormal:1', 'lognormal:a,b', 'normal:0,1', 'uniform:'])
def test_the_command_line_says_which_priors_there_are(text, capsys):
  arguments = ['warmup', '--data=toy', f'--noise_scale={text}', '--num_train=8', '--num_test=4']
  assert main.main(arguments) != 0
  message = r'lognormal \(2\), halfnormal \(1\).*Received: --noise_scale=' + text
  assert re.search(message, capsys.readouterr().err)
