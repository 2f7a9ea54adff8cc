"""Runs with likelihoods by distributions, and samples that are joint over inputs."""

import functools
import warnings

import numpy as np
import pytest
import sampling_runs
import scipy.stats
import tensorflow_probability as tfp

import tfp_reprior as tfr
from tfp_reprior.cli import main

tfd = tfp.distributions
COUNTS = (np.arange(20).reshape(10, 2) % 4).astype(float)


def _poisson():
  return tfr.likelihoods.FromDistribution(
    lambda f, offset: tfd.Poisson(log_rate=f + offset), {'offset': tfd.Normal(0.5, 0.2)}
  )


def _sample(likelihood, **changes):
  settings = dict(noise_scale=None, step_size=0.2, num_kept_draws=12, num_burnin_steps=0)
  return sampling_runs.sample(likelihood=likelihood, **{**settings, **changes})


@functools.cache
def _student_t(run_dir=None):
  return _sample(tfr.likelihoods.StudentT(), y_test=np.zeros([4, 2]), run_dir=run_dir)


def test_predictions_are_mixtures_over_draws():
  result = _student_t()
  prediction = result.predict(sampling_runs.X_TEST)
  f = prediction.means  # [s * c, m, k]
  unit = np.asarray(result.preparation.y_std)
  u = np.concatenate([draw[2] for draw in result.draws])[:, np.newaxis, np.newaxis]
  components = scipy.stats.t(4.0, f, unit * np.exp(-1.0 + u))
  y = np.full([4, 2], 0.3)
  np.testing.assert_allclose(prediction.cdf(y), components.cdf(y).mean(axis=0), rtol=1e-4)
  np.testing.assert_allclose(
    prediction.log_prob(y), np.log(components.pdf(y).mean(axis=0)), rtol=1e-4
  )
  np.testing.assert_allclose(prediction.mean, f.mean(axis=0), rtol=1e-5)
  expected = components.var().mean(axis=0) + f.var(axis=0)
  np.testing.assert_allclose(prediction.stddev**2, expected, rtol=1e-4)
  np.testing.assert_allclose(prediction.cdf(prediction.quantile([0.1, 0.9]))[1], 0.9, atol=1e-5)
  assert 'noise scale: mean' in result.summary()
  assert set(result.evaluate()) == {'rmse', 'negative_log_likelihood', 'coverage_90'}


def test_samples_are_those_of_the_components():
  # One component: 4,000 samples of a t distribution, Kolmogorov-Smirnov, false-alarm rate 1e-6.
  prediction = tfr.sampling.DistributionPrediction(
    tfd.StudentT(np.array([[[3.0]]]), 1.0, 2.0), shift=10.0, scale=5.0
  )
  samples = prediction.sample(4000)[:, 0, 0]
  assert scipy.stats.kstest(samples, scipy.stats.t(3.0, 15.0, 10.0).cdf).pvalue > 1e-6
  assert scipy.stats.kstest(samples, scipy.stats.norm(15.0, 10 * 3**0.5).cdf).pvalue < 1e-6


def test_densities_are_those_of_observations_in_their_units():
  means = np.random.default_rng(0).normal(size=[6, 3, 1])
  prediction = tfr.sampling.DistributionPrediction(tfd.StudentT(4.0, means, 0.5), None, 10.0, 20.0)
  y, step = np.array([[5.0], [12.0], [40.0]]), 1e-3
  slope = (prediction.cdf(y + step) - prediction.cdf(y - step)) / (2 * step)
  np.testing.assert_allclose(np.exp(prediction.log_prob(y)), slope, rtol=1e-5)


def test_quantiles_of_whole_numbers_are_the_smallest_that_reach_the_level():
  rates = np.array([0.7, 3.0])[:, np.newaxis, np.newaxis]
  prediction = tfr.sampling.DistributionPrediction(tfd.Poisson(rates))
  counts = np.arange(30)
  cdf = scipy.stats.poisson.cdf(counts[:, np.newaxis], rates.ravel()).mean(axis=1)
  for q in (0.01, 0.3, 0.9):
    assert prediction.quantile(q) == counts[np.argmax(cdf >= q)]


def test_a_run_by_a_function_is_loaded_with_it(tmp_path):
  with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter('always', UserWarning)
    result = _sample(_poisson(), y=COUNTS, run_dir=tmp_path)
  texts = [str(w.message) for w in caught]
  assert any('cannot be saved with the run: `load_result` will need it' in t for t in texts)
  assert result.trace['parameters'].shape == (12, 2, 1)
  assert 'offset: mean' in result.summary()
  with pytest.raises(ValueError, match='load_result'):
    tfr.load_result(tmp_path)
  with pytest.raises(ValueError, match='`likelihood` must be that of the run'):
    tfr.load_result(tmp_path, likelihood=tfr.likelihoods.StudentT())
  loaded = tfr.load_result(tmp_path, likelihood=_poisson())
  expected, actual = (r.predict(sampling_runs.X_TEST) for r in (result, loaded))
  np.testing.assert_array_equal(actual.mean, expected.mean)
  # Another function is another run.
  other = tfr.likelihoods.FromDistribution(
    lambda f, offset: tfd.Poisson(rate=1 + (f + offset) ** 2), {'offset': tfd.Normal(0.5, 0.2)}
  )
  with warnings.catch_warnings(), pytest.raises(ValueError, match='run of something else'):
    warnings.simplefilter('ignore')
    _sample(other, y=COUNTS, run_dir=tmp_path)


def test_a_saved_run_of_a_ready_made_likelihood_predicts_the_same(tmp_path):
  result = _student_t()
  result.save(tmp_path)
  expected, actual = (r.predict(sampling_runs.X) for r in (result, tfr.load_result(tmp_path)))
  np.testing.assert_array_equal(actual.quantile(0.3), expected.quantile(0.3))


def test_the_command_line_has_noise_that_depends_on_the_input(tmp_path, capsys):
  arguments = '--data=toy --num_train=8 --num_test=4 --width=8 --depth=1 --num_chains=2'
  arguments += ' --num_results=6 --thinning=1 --step_size=0.1 --likelihood=heteroscedastic'
  arguments += ' --num_burnin_steps=0 --no-report'
  assert main.main(['sample', *arguments.split(), f'--run_dir={tmp_path / "run"}']) == 0
  assert 'Heteroscedastic(noise_scale=0.367' in capsys.readouterr().out
  result = tfr.load_result(tmp_path / 'run')
  assert result.posterior.split.num_outputs == 2 and result.test_prediction.mean.shape == (4, 1)


@pytest.mark.parametrize('hidden_space', ['weights', 'data'])
def test_samples_are_joint_over_inputs_and_batches(hidden_space):
  result = _sample(None, noise_scale=0.2, hidden_space=hidden_space)
  x = np.concatenate([sampling_runs.X_TEST, sampling_runs.X_TEST])
  prediction = result.predict(x)
  assert np.max(prediction.variances) > 1e-4  # the readout is integrated out
  for batches in (prediction, result.predict(x, batch_size=3)):
    f = batches.sample(24, noise=False)
    np.testing.assert_allclose(f[:, :4], f[:, 4:], atol=2e-3)
    assert np.min(np.std(f, axis=0)) > 1e-3
    # Observations of the same input differ by their noise alone: within five standard errors.
    y = batches.sample(24)
    variance = np.mean((y[:, :4] - y[:, 4:]) ** 2)
    np.testing.assert_allclose(variance, 2 * np.mean(batches.noise_variance), rtol=5 / 96**0.5)
