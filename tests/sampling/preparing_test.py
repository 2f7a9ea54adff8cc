"""Data as users have them: standardized inside, and back in their units."""

import dataclasses
import re

import numpy as np
import pytest
import tensorflow_probability as tfp

import tfp_reprior as tfr
from tfp_reprior.models import readout_split
from tfp_reprior.sampling import preparing

tfd = tfp.distributions
X = np.linspace(-1, 1, 12, dtype=np.float32)[:, np.newaxis]
Y = np.sin(3 * X)
SETTINGS = dict(
  num_chains=2, num_results=6, thinning=1, num_burnin_steps=0, step_size=0.3, num_projections=2
)
SETTINGS |= dict(num_kept_draws=6, seed=2, progress=False)


def _model(num_outputs=1):
  return tfr.models.fcn((1,), num_outputs, width=4, depth=1)


def _prepare(
  y, num_outputs=1, x=X, noise_scale=None, likelihood=None, standardize=True, log_targets='auto'
):
  split = readout_split.ReadoutSplit(_model(num_outputs))
  data = split, x, y, None, None
  return preparing.prepare(*data, noise_scale, likelihood, standardize, log_targets)


def _standardized(a):
  return (a - a.mean(axis=0)) / a.std(axis=0)


@pytest.mark.filterwarnings('ignore::tfp_reprior.diagnostics.SamplingWarning')
def test_units_change_nothing_but_units(tmp_path):
  # The same data in other units: the same draws, and predictions in those units.
  x, y = 20 + 5 * X, 1000 + 300 * Y
  unit = float(y.std())
  test = dict(x_test=_standardized(X)[:3], y_test=_standardized(Y)[:3])
  data = _standardized(X), _standardized(Y)
  plain = tfr.sample_posterior(_model(), *data, 0.3, **test, standardize=False, **SETTINGS)
  arguments = dict(x_test=x[:3], y_test=y[:3], run_dir=tmp_path, **SETTINGS)
  scaled = tfr.sample_posterior(_model(), x, y, 0.3 * unit, **arguments)
  np.testing.assert_allclose(scaled.posterior.x, plain.posterior.x, atol=1e-5)
  np.testing.assert_allclose(scaled.x_test, x[:3], rtol=1e-5)
  np.testing.assert_allclose(scaled.y_test, y[:3], rtol=1e-5)
  new, point = np.array([[-0.5], [2.0]], np.float32), np.array([[900.0], [1100.0]])
  expected = plain.predict((new - X.mean()) / X.std())
  for result in (scaled, tfr.load_result(tmp_path)):
    actual = result.predict(20 + 5 * new)
    np.testing.assert_allclose(actual.mean, y.mean() + unit * expected.mean, rtol=2e-3)
    np.testing.assert_allclose(actual.stddev, unit * expected.stddev, rtol=2e-3)
    log_prob = expected.log_prob((point - y.mean()) / unit) - np.log(unit)
    np.testing.assert_allclose(actual.log_prob(point), log_prob, atol=5e-3)
    quantile = y.mean() + unit * expected.quantile([0.1, 0.9])
    np.testing.assert_allclose(actual.quantile([0.1, 0.9]), quantile, rtol=2e-3)
    assert result.evaluate()['rmse'] == pytest.approx(unit * plain.evaluate()['rmse'], rel=0.01)
  other = dataclasses.replace(scaled.preparation, target_name='other')
  with pytest.raises(tfr.errors.InputError, match='holds a run of something else: .*preparation'):
    tfr.sample_posterior(_model(), x, y, 0.3 * unit, **arguments, standardize=other)


@pytest.mark.parametrize(
  'prior',
  [tfd.LogNormal(1.0, 0.5), tfd.HalfNormal(2.0), tfd.Gamma(2.0, 3.0), tfd.InverseGamma(3.0, 2.0)]
  + [tfd.Uniform(1.0, 4.0)],
)
def test_priors_of_noise_are_in_the_units_of_the_targets(prior):
  prepared = _prepare(50 * Y, noise_scale=prior)
  [unit] = prepared.preparation.y_std
  assert unit == pytest.approx(50 * Y.std(), rel=1e-5)
  q = [0.05, 0.3, 0.99]
  actual = prepared.likelihood.priors['noise_scale'].distribution.quantile(q)
  np.testing.assert_allclose(actual, prior.quantile(q) / unit, rtol=1e-4)


def test_outputs_with_one_noise_have_one_unit():
  y = np.concatenate([Y, 100 * X], axis=1)
  assert len(set(_prepare(y, 2, noise_scale=0.5).preparation.y_std)) == 1
  prepared = _prepare(y, 2, noise_scale=[0.5, 7.0])
  np.testing.assert_allclose(prepared.preparation.y_std, y.std(axis=0), rtol=1e-6)
  np.testing.assert_allclose(prepared.likelihood.noise_scale, [0.5, 7.0] / y.std(axis=0), rtol=1e-6)
  np.testing.assert_allclose(_prepare(y, 2).y.std(axis=0), 1, rtol=1e-5)


@pytest.mark.filterwarnings('ignore::tfp_reprior.diagnostics.SamplingWarning')
def test_a_run_of_logarithms_predicts_targets(tmp_path):
  prices = 100 * np.exp(2 * Y)
  plain = tfr.sample_posterior(_model(), X, np.log(prices), **SETTINGS)
  test = dict(x_test=X[:3], y_test=prices[:3], run_dir=tmp_path)
  tfr.sample_posterior(_model(), X, prices, **test, **SETTINGS)
  result = tfr.load_result(tmp_path)
  np.testing.assert_allclose(result.posterior.y, plain.posterior.y, atol=1e-5)
  np.testing.assert_allclose(result.y_test, prices[:3], rtol=1e-5)
  assert 'targets: in logarithms' in result.summary()
  actual, expected = result.predict(X), plain.predict(X)
  np.testing.assert_allclose(actual.logarithms.means, expected.means, atol=1e-3)
  y = np.full_like(prices, 50.0)
  log_prob = expected.log_prob(np.log(y)) - np.log(y)
  np.testing.assert_allclose(actual.log_prob(y), log_prob, atol=5e-3)
  figures = result.evaluate()  # over kept draws, here all of them
  assert figures['negative_log_likelihood'] == pytest.approx(
    -np.mean(actual.log_prob(prices)[:3]), rel=1e-4
  )


@pytest.mark.parametrize(
  ('changes', 'is_taken'),
  [
    (dict(), True),
    (dict(likelihood=tfr.likelihoods.Gaussian()), True),
    (dict(likelihood=tfr.likelihoods.Gaussian(0.3)), False),
    (dict(noise_scale=tfd.HalfNormal(1.0)), False),
    (dict(likelihood=tfr.likelihoods.StudentT()), False),
    (dict(standardize=False), False),
    (dict(log_targets=False), False),
    (dict(noise_scale=0.2, log_targets=True), True),
  ],
)
def test_logarithms_are_taken_by_default_where_nothing_is_said_of_the_noise(changes, is_taken):
  prepared = _prepare(np.exp(2 * Y), **changes)
  assert (prepared.preparation.log_below is not None) == is_taken
  if 'noise_scale' in changes and is_taken:  # that of logarithms
    assert prepared.likelihood.noise_scale == pytest.approx(0.2 / np.std(2 * Y), rel=1e-5)


@pytest.mark.parametrize(
  ('y', 'num_outputs', 'kind', 'names'),
  [
    ([0, 1, 2] * 4, 3, tfr.likelihoods.Categorical, ('0', '1', '2')),
    ([0, 2] * 6, 3, tfr.likelihoods.Categorical, ('0', '1', '2')),
    ([10, 30, 20] * 4, 3, tfr.likelihoods.Categorical, ('10', '20', '30')),
    (['no', 'yes'] * 6, 1, tfr.likelihoods.Bernoulli, ('no', 'yes')),
    ([False, True] * 6, 1, tfr.likelihoods.Bernoulli, ('0', '1')),
    ([0, 1, 2] * 4, 1, type(None), None),  # one output: regression
    (Y, 1, type(None), None),
  ],
)
def test_classes_follow_the_type_of_the_targets_and_the_outputs(y, num_outputs, kind, names):
  prepared = _prepare(y, num_outputs)
  assert isinstance(prepared.likelihood, kind)
  assert prepared.preparation.class_names == names
  if names is None:
    np.testing.assert_allclose(prepared.y.std(), 1, rtol=1e-5)
  else:
    shown = [str(int(v) if isinstance(v, bool) else v) for v in y]
    assert [names[i] for i in prepared.y] == shown


@pytest.mark.parametrize(
  ('changes', 'message'),
  [
    (dict(y=['a', 'b', 'c'] * 4), '`y` holds 3 classes (a, b, c), and the model has 1 output(s)'),
    (dict(y=[0, 1, 2, 7] * 3, num_outputs=3), '`y` holds 4 classes (0, 1, 2, 7), and the model'),
    (dict(y=Y[:, 0], num_outputs=3), '`y` holds real numbers, one for each input, and the model'),
    (dict(y=np.where(Y > 0.9, np.nan, Y)), '`y` must be finite. Received: y of shape (12, 1) with'),
    (
      dict(y=['a', 'b'] * 6, log_targets=True),
      'Logarithms are taken of real targets with Gaussian',
    ),
    (
      dict(y=1.5 + Y, likelihood=tfr.likelihoods.StudentT(), log_targets=True),
      'Logarithms are taken of real targets with Gaussian',
    ),
    (
      dict(y=1.5 + Y, standardize=tfr.data.Preparation(), log_targets=True),
      'Logarithms are taken of real targets with Gaussian',
    ),
    (dict(y=Y, log_targets=True), 'Logarithms are of positive targets'),
    (dict(y=np.ma.masked_greater(Y, 0)), '`y` must not be masked'),
    (dict(y=Y, x=np.ma.masked_greater(X, 0)), '`x` must not be masked'),
  ],
)
def test_contradictions_are_refused(changes, message):
  with pytest.raises(tfr.errors.InputError, match=re.escape(message)):
    _prepare(**changes)


def test_the_setting_of_the_paper_is_left_alone():
  y = tfr.data.centered_one_hot(np.arange(12) % 3, 3)
  x = _standardized(X)
  prepared = _prepare(y, 3, x=x, noise_scale=0.1)
  np.testing.assert_array_equal(prepared.x, x)
  np.testing.assert_array_equal(prepared.y, y)
  assert prepared.likelihood.noise_scale == 0.1


def test_by_asking_nothing_is_touched():
  prepared = _prepare(7 * Y, x=3 * X, noise_scale=0.4, standardize=False)
  np.testing.assert_array_equal(prepared.x, 3 * X)
  np.testing.assert_array_equal(prepared.y, 7 * Y)
  assert prepared.likelihood.noise_scale == 0.4


def test_images_have_one_scale():
  images = np.random.default_rng(0).integers(0, 255, [6, 4, 4, 3]).astype(np.uint8)
  split = readout_split.ReadoutSplit(tfr.models.cnn((4, 4, 3), 1, width=2, depth=1))
  x = preparing.prepare(split, images, Y[:6], None, None, None, None, True).x
  np.testing.assert_allclose(x, (images - images.mean()) / images.std(), atol=1e-5)
