"""Runs on classes, from data to predictions and files, against plain NumPy."""

import math

import numpy as np
import numpy_layers
import pytest
import sampling_runs
import scipy.special
import scipy.stats

import tfp_reprior as tfr

RUNS = {'categorical': sampling_runs.categorical, 'bernoulli': sampling_runs.bernoulli}
MEANS = {'categorical': numpy_layers.softmax, 'bernoulli': scipy.special.expit}
Y_TEST = {'categorical': np.array([0, 0, 2, 2]), 'bernoulli': np.array([[0, 0], [0, 1]] * 2)}


@pytest.fixture(scope='module', params=list(RUNS))
def kind(request):
  return request.param


@pytest.fixture(scope='module')
def run_dir(kind, tmp_path_factory):
  return tmp_path_factory.mktemp(kind)


@pytest.fixture(scope='module')
def result(kind, run_dir):
  """A run that keeps all draws; not to be changed."""
  return sampling_runs.sample(
    **RUNS[kind](), y_test=Y_TEST[kind], num_kept_draws=12, num_burnin_steps=0, run_dir=run_dir
  )


def _outputs(draws, x):
  """f `[s * c, m, k]` by NumPy: one hidden layer of the fully connected network."""
  outputs = []
  for kernel, bias, u, readout_kernel, readout_bias in draws:
    for c in range(len(kernel)):
      hidden = numpy_layers.ntk_dense(x, kernel[c], np.sqrt(2)) + 0.1 * bias[c]
      hidden = numpy_layers.ACTIVATIONS['gelu'](hidden)
      f = numpy_layers.ntk_dense(hidden, readout_kernel[c], 1.0) + 0.1 * readout_bias[c]
      outputs.append(np.exp(1.0 + u[c]) * f)
  return np.array(outputs)


def test_probabilities_are_those_of_kept_draws(kind, result):
  x = np.array([[-2.0], [0.3], [0.9]], np.float32)
  prediction = result.predict(x)
  expected = MEANS[kind](_outputs(result.draws, x))
  assert np.ptp(expected, axis=0).min() > 0.05, 'the draws must differ'
  np.testing.assert_allclose(prediction.probabilities, expected, atol=1e-5)
  np.testing.assert_allclose(prediction.mean, expected.mean(axis=0), atol=1e-5)
  batches = result.predict(x, batch_size=2)
  np.testing.assert_allclose(batches.probabilities, expected, atol=1e-5)


def test_test_probabilities_are_averaged_over_all_draws(kind, result):
  # All draws are kept here, so that the running moments can be recomputed from them.
  expected = MEANS[kind](_outputs(result.draws, sampling_runs.X_TEST))
  prediction = result.test_prediction
  np.testing.assert_allclose(prediction.mean, expected.mean(axis=0), atol=1e-5)
  np.testing.assert_allclose(prediction.function_stddev, expected.std(axis=0), atol=1e-5)
  few = sampling_runs.sample(
    **RUNS[kind](), y_test=Y_TEST[kind], num_kept_draws=2, num_burnin_steps=0
  )
  np.testing.assert_array_equal(few.test_prediction.mean, prediction.mean)
  assert few.evaluate() == result.evaluate()


def test_projections_are_of_the_outputs(result):
  outputs = _outputs(result.draws, sampling_runs.X_TEST)
  spread = np.std(result.trace['f'].reshape(24, -1), axis=0)
  # Projections have unit norm: their deviations are those of outputs, not of probabilities.
  centered = (outputs - outputs.mean(axis=0)).reshape(24, -1)
  largest = np.linalg.svd(centered, compute_uv=False)[0] / np.sqrt(24)
  assert np.all(spread < 1.001 * largest) and np.max(spread) > 0.25


def test_figures_are_those_of_a_naive_computation(kind, result):
  p = MEANS[kind](_outputs(result.draws, sampling_runs.X_TEST)).mean(axis=0)
  figures = result.evaluate()
  if kind == 'categorical':
    chosen = p[np.arange(4), Y_TEST[kind]]
    accuracy = np.mean(p.argmax(axis=1) == Y_TEST[kind])
  else:
    chosen = scipy.stats.bernoulli.pmf(Y_TEST[kind], p)
    accuracy = np.mean((p > 0.5) == Y_TEST[kind])
  loss = -np.mean(np.log(chosen))
  assert figures['class_negative_log_likelihood'] == pytest.approx(loss, abs=1e-4)
  assert figures['accuracy'] == accuracy


def test_the_summary_has_the_figures(kind, result):
  text = result.summary()
  assert f'likelihood={kind.capitalize()}(' in text
  assert f'test accuracy: {result.evaluate()["accuracy"]:.4g} (majority class: ' in text
  assert 'outputs at x_test' in text and 'rmse' not in text


@pytest.mark.parametrize('is_run_dir', [True, False])
def test_a_loaded_result_is_the_same(result, run_dir, tmp_path, is_run_dir):
  folder = run_dir
  if not is_run_dir:
    folder = tmp_path
    result.save(folder)
  loaded = tfr.load_result(folder)
  sampling_runs.assert_same(loaded, result)
  assert loaded.settings == result.settings
  assert loaded.posterior.likelihood.to_dict() == result.posterior.likelihood.to_dict()
  assert loaded.summary() == result.summary()
  x = np.ones([2, 1], np.float32)
  np.testing.assert_array_equal(loaded.predict(x).probabilities, result.predict(x).probabilities)
  np.testing.assert_array_equal(loaded.y_test, result.y_test)


def test_settings_of_the_surrogate_survive(tmp_path):
  likelihood = tfr.likelihoods.Categorical(surrogate_scale=2.0, surrogate_variance=5.0)
  arguments = {**sampling_runs.categorical(), 'likelihood': likelihood}
  sampling_runs.sample(**arguments, num_results=1, num_burnin_steps=0, run_dir=tmp_path)
  loaded = tfr.load_result(tmp_path)
  assert repr(loaded.posterior.likelihood) == repr(likelihood)
  assert loaded.settings['surrogate_variance'] == 5.0
  with pytest.raises(ValueError, match='surrogate_scale was 2.0 and is None'):
    sampling_runs.sample(**sampling_runs.categorical(), num_burnin_steps=0, run_dir=tmp_path)


def test_the_regularizer_reaches_the_map(tmp_path):
  arguments = {**sampling_runs.categorical(), 'num_results': 1, 'num_burnin_steps': 0}
  named = sampling_runs.sample(**arguments, regularizer='n*noise')
  # The variance of the surrogate is the number of classes.
  lam = 3.0 * len(sampling_runs.X)
  same = sampling_runs.sample(**arguments, regularizer=lam, run_dir=tmp_path)
  other = sampling_runs.sample(**arguments)
  settings = [r.settings['regularizer'] for r in (named, same, other)]
  assert settings == ['n*noise', lam, math.inf]
  np.testing.assert_allclose(same.trace['theta'], named.trace['theta'], rtol=1e-4, atol=1e-4)
  assert not np.allclose(other.trace['theta'], named.trace['theta'], atol=0.01)
  with pytest.raises(ValueError, match=f"regularizer was {lam} and is 'noise'"):
    sampling_runs.sample(**arguments, regularizer='noise', run_dir=tmp_path)


@pytest.mark.parametrize(
  ('changes', 'message'),
  [
    (dict(y=np.full(10, 3)), r'labels from 0 to 2. Received: y\[0\]=3, and 10 such'),
    (dict(y=np.arange(10) - 9), r'labels from 0 to 2. Received: y\[0\]=-9, and 9 such'),
    (dict(y=np.zeros(10)), 'vector of integer labels. Received: y of dtype float64'),
    (dict(y=np.zeros([10, 3])), r'vector of integer labels.*shape \(10, 3\)'),
    (dict(y=np.zeros(9, int)), '`x` and `y` must have the same length.*length 10, y of length 9'),
    (dict(y_test=np.zeros(3, int)), 'must have the same length.*length 4, y of length 3'),
    (dict(y_test=np.full(4, 7)), r'labels from 0 to 2. Received: y\[0\]=7'),
    (dict(model=sampling_runs.make_model(num_outputs=1)), 'two outputs or more'),
  ],
)
def test_bad_labels_are_refused(changes, message):
  with pytest.raises(ValueError, match=message):
    sampling_runs.sample(**{**sampling_runs.categorical(), **changes})


class _Own(tfr.likelihoods.Gaussian.__base__):
  """A likelihood that somebody else wrote."""

  settings = {}
  mean = log_prob = None

  def check_targets(self, y, num_outputs, dtype):
    return y

  def surrogate(self, targets, num_outputs, dtype):
    return targets, 1.0


def test_a_likelihood_that_cannot_predict_is_refused():
  with pytest.raises(ValueError, match='cannot predict with a likelihood that is not of'):
    sampling_runs.sample(noise_scale=None, likelihood=_Own())
