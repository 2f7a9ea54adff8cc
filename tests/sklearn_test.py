"""Estimators for scikit-learn: what they return, what they keep, and scikit-learn's own checks."""

import functools
import importlib.util
import pickle
import re
import sys
import warnings

import keras
import numpy as np
import pytest
import sklearn.base
import sklearn.model_selection
import sklearn.pipeline
import sklearn.preprocessing
from sklearn.utils import estimator_checks

import tfp_reprior as tfr
from tfp_reprior import sklearn as estimators
from tfp_reprior.sampling import result_files, runs

SMALL = dict(width=8, depth=1, num_chains=2, num_results=8, thinning=2)
RNG = np.random.default_rng(0)
X = 50 + 10 * RNG.normal(size=[24, 2])
Y = 1000 + 20 * X[:, 0] + RNG.normal(size=24)
COLORS = np.where(X[:, 1] > 50, 'red', 'blue')


@pytest.fixture(autouse=True)
def _short(monkeypatch, request):
  """Runs without warm-up, which takes seconds to trace."""
  if 'checks' in request.node.name:
    return

  def sample(*args, num_warmup_steps, **kwargs):
    del num_warmup_steps
    return runs_sample(*args, **kwargs, step_size=0.3, num_burnin_steps=0)

  runs_sample = runs.sample_posterior
  monkeypatch.setattr(runs, 'sample_posterior', sample)
  warnings.simplefilter('ignore', tfr.diagnostics.SamplingWarning)


@functools.cache
def _regressor():
  return estimators.BNNRegressor(**SMALL).fit(X, Y)


@functools.cache
def _classifier():
  pandas = pytest.importorskip('pandas')
  frame = pandas.DataFrame({'size': X[:, 0], 'color': COLORS})
  y = np.where(COLORS == 'red', 'r', np.where(X[:, 0] > 50, 'b', 'c'))
  return estimators.BNNClassifier(**SMALL).fit(frame, y), frame, y


def test_predictions_are_in_the_units_of_the_targets():
  regressor = _regressor()
  mean, std = regressor.predict(X, return_std=True)
  assert mean.shape == std.shape == Y.shape
  np.testing.assert_allclose(mean.mean(), Y.mean(), atol=100)
  np.testing.assert_array_equal(regressor.predict(X), mean)
  prediction = regressor.result_.predict(X)
  np.testing.assert_array_equal(prediction.stddev[:, 0], std)
  quantiles = regressor.predict_quantiles(X[:5], [0.1, 0.5, 0.9])
  assert quantiles.shape == (5, 3) and np.all(np.diff(quantiles, axis=1) > 0)
  np.testing.assert_allclose(prediction.quantile(0.1)[:5, 0], quantiles[:, 0])
  with pytest.raises(ValueError, match=r'`quantiles` must lie in \(0, 1\)'):
    regressor.predict_quantiles(X, [5.0, 95.0])
  samples = regressor.sample_y(X[:5], 7, random_state=1)
  assert samples.shape == (5, 7) and np.ptp(samples, axis=1).min() > 0
  again = regressor.sample_y(X[:5], 7, random_state=np.random.RandomState(1))
  assert not np.array_equal(again, samples)
  drawn = [regressor.sample_y(X[:5], 7, np.random.RandomState(seed)) for seed in (1, 2)]
  assert np.array_equal(again, drawn[0]) and not np.array_equal(again, drawn[1])
  assert np.isfinite(regressor.score(X, Y))


def test_prices_are_fitted_in_logarithms():
  prices = np.exp(Y / 20)
  regressor = estimators.BNNRegressor(**SMALL).fit(X, prices)
  assert regressor.result_.preparation.log_below == [prices.max()]
  assert np.all(regressor.predict_quantiles(10 * X) > 0)
  plain = estimators.BNNRegressor(log_targets=False, **SMALL).fit(X, prices)
  assert plain.result_.preparation.log_below is None


@pytest.mark.parametrize('make', [_regressor, lambda: _classifier()[0]])
def test_pickles_hold_the_files_of_a_result(make):
  estimator = make()
  x = X if isinstance(estimator, estimators.BNNRegressor) else _classifier()[1]
  content = pickle.dumps(estimator)
  assert b'model.keras' in content and hasattr(estimator, 'result_')
  loaded = pickle.loads(content)
  np.testing.assert_array_equal(loaded.predict(x), estimator.predict(x))
  assert loaded.get_params() == estimator.get_params()


def test_classes_and_tables_with_text():
  classifier, frame, y = _classifier()
  assert classifier.classes_.tolist() == ['b', 'c', 'r']
  assert classifier.feature_names_in_.tolist() == ['size', 'color']
  assert classifier.result_.preparation.input_names == ('size', 'color=blue', 'color=red')
  probabilities = classifier.predict_proba(frame)
  np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-6)
  assert classifier.predict(frame).tolist() == classifier.classes_[probabilities.argmax(1)].tolist()
  assert classifier.score(frame, y) > 0.4
  assert set(classifier.sample_y(frame, 3).ravel()) <= set('bcr')
  with pytest.raises(ValueError, match='feature names should match'):
    classifier.predict(frame[['color', 'size']])


def _build(input_shape, num_outputs):
  return keras.Sequential(
    [keras.Input(input_shape), keras.layers.Dense(5, 'tanh'), keras.layers.Dense(num_outputs)]
  )


def test_functions_build_models_in_a_pipeline_and_fit_warns_with_the_verdict():
  estimator = estimators.BNNRegressor(model=_build, **SMALL)
  assert sklearn.base.clone(estimator).get_params() == estimator.get_params()
  pipeline = sklearn.pipeline.make_pipeline(sklearn.preprocessing.PolynomialFeatures(2), estimator)
  with pytest.warns(tfr.diagnostics.SamplingWarning, match='^Outputs have R-hat'):
    fitted = pipeline.fit(X, np.stack([Y, -Y], axis=1))[-1]
  assert fitted.predict(np.ones([3, 6])).shape == (3, 2)
  assert fitted.n_features_in_ == 6
  assert fitted.result_.posterior.split.model.layers[0].units == 5


@pytest.mark.parametrize('name', ['student_t', 'heteroscedastic'])
def test_likelihoods_have_names(name):
  regressor = estimators.BNNRegressor(likelihood=name, model=_build, **SMALL).fit(X, Y)
  posterior = regressor.result_.posterior
  assert isinstance(posterior.likelihood, tfr.likelihoods.NAMES[name])
  assert posterior.split.num_outputs == (2 if name == 'heteroscedastic' else 1)
  mean, std = regressor.predict(X, return_std=True)
  assert mean.shape == std.shape == Y.shape and np.all(std > 0)
  np.testing.assert_allclose(mean.mean(), Y.mean(), atol=200)


def test_likelihoods_of_classes_have_names():
  classifier = estimators.BNNClassifier(likelihood='categorical', **SMALL).fit(X, COLORS)
  assert classifier.result_.posterior.split.num_outputs == 2
  assert classifier.predict_proba(X).shape == (24, 2)


@pytest.mark.slow
def test_settings_are_searched():
  estimator = estimators.BNNRegressor(model=_build, **SMALL)
  search = sklearn.model_selection.GridSearchCV(estimator, {'thinning': [1, 2]}, cv=2).fit(X, Y)
  assert search.best_params_['thinning'] in (1, 2)
  assert len(sklearn.model_selection.cross_val_score(estimator, X, Y, cv=2)) == 2


@pytest.mark.parametrize(
  ('estimator', 'x', 'y', 'message'),
  [
    (estimators.BNNClassifier(), X, np.zeros(24), 'two classes or more. Received: one class, 0.0'),
    (estimators.BNNRegressor(), np.where(X > 60, np.nan, X), Y, 'contains NaN'),
    (estimators.BNNRegressor(), X, Y[:5], 'inconsistent numbers of samples'),
    (estimators.BNNRegressor(random_state=-1), X, Y, 'Received: random_state=-1'),
    (estimators.BNNRegressor(), X, COLORS, '`y` must hold numbers; `BNNClassifier` is for classes'),
    (estimators.BNNClassifier(), X, np.where(Y > 2000, np.nan, 1.0), 'Input y contains NaN'),
    (estimators.BNNRegressor(likelihood='bernoulli'), X, Y, "likelihood='bernoulli'"),
    (
      estimators.BNNRegressor(noise_scale=1.0, likelihood=tfr.likelihoods.StudentT()),
      X,
      Y,
      '`noise_scale` goes with the name of a likelihood',
    ),
    (estimators.BNNClassifier(likelihood='bernoulli'), X, Y.round(-2), 'is for two classes'),
  ],
)
def test_mistakes_are_told(estimator, x, y, message):
  with pytest.raises(ValueError, match=re.escape(message)):
    estimator.fit(x, y)


def test_without_scikit_learn_the_error_says_what_to_install(monkeypatch):
  monkeypatch.setitem(sys.modules, 'sklearn', None)
  spec = importlib.util.spec_from_file_location('copy', estimators.__file__)
  with pytest.raises(tfr.errors.MissingPackageError, match=r'pip install tfp-reprior\[data\]'):
    spec.loader.exec_module(importlib.util.module_from_spec(spec))


class _Ridge:
  """What stands in for a `Result` in scikit-learn's checks: linear regression, or one-hot."""

  def __init__(self, model, x, y, likelihood=None, standardize=None, **settings):
    del settings
    self._classes = isinstance(likelihood, tfr.likelihoods.CLASSES)
    self.preparation = standardize
    k = model.output_shape[-1]
    targets = y if np.ndim(y) > 1 else np.eye(max(k, 2))[y]
    features = np.concatenate([x, np.ones([len(x), 1])], axis=1)
    gram = features.T @ features + 0.1 * np.eye(features.shape[1])
    self._weights = np.linalg.solve(gram, features.T @ targets)
    mixing = tfr.diagnostics.Mixing(1.0, 1000.0, 1000.0, 1000.0)
    self.verdict = tfr.diagnostics.Verdict('good', [], {'f': mixing})

  def predict(self, x):
    x = self.preparation.inputs(x)
    f = np.concatenate([x, np.ones([len(x), 1])], axis=1) @ self._weights
    if self._classes:
      p = np.exp(5 * f)
      p = p / p.sum(axis=1, keepdims=True)
      return tfr.sampling.CategoricalPrediction(p[np.newaxis])
    f = self.preparation.restore(f)[np.newaxis]
    return tfr.sampling.Prediction(f, np.zeros_like(f), 0.1)


@estimator_checks.parametrize_with_checks(
  [estimators.BNNRegressor(width=2, depth=1), estimators.BNNClassifier(width=2, depth=1)]
)
def test_scikit_learn_checks_with_a_linear_model(estimator, check, monkeypatch):
  monkeypatch.setattr(runs, 'sample_posterior', _Ridge)
  monkeypatch.setattr(result_files, 'to_bytes', pickle.dumps)
  monkeypatch.setattr(result_files, 'from_bytes', pickle.loads)
  check(estimator)


@pytest.mark.slow
@pytest.mark.filterwarnings('ignore::tfp_reprior.diagnostics.SamplingWarning')
@estimator_checks.parametrize_with_checks(
  [
    estimators.BNNRegressor(width=16, depth=1, num_chains=2, num_results=50, num_warmup_steps=200),
    estimators.BNNClassifier(width=16, depth=1, num_chains=2, num_results=50, num_warmup_steps=200),
  ]
)
def test_scikit_learn_checks(estimator, check):
  check(estimator)
