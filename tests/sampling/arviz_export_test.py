"""Results for ArviZ, against plain NumPy. The same tests ran with ArviZ 0.23.4 and 1.3.0."""

import functools
import importlib.util
import json
import sys
import warnings

import numpy as np
import numpy_layers
import pytest
import sampling_runs
import scipy.stats

import tfp_reprior as tfr
from tfp_reprior.data import preparation as preparation_lib
from tfp_reprior.sampling import arviz_export

pytestmark = pytest.mark.skipif(
  importlib.util.find_spec('arviz') is None, reason='ArviZ is not installed.'
)
X, Y = np.stack([sampling_runs.X[:, 0], np.ones(10)], axis=1), 5 + 100 * sampling_runs.Y[:, :1]
MODEL = functools.partial(tfr.models.fcn, width=8, depth=1)


@functools.cache
def _regression(num_results=12, num_kept_draws=4):
  """Unknown noise, targets in units of their own, names, and a third of the draws kept."""
  raw = preparation_lib.RawData(
    X, Y, feature_names=('x', 'one'), target_name='price', by_column=True
  )
  preparation = tfr.data.Preparation.of(raw, X, Y)
  x, y = preparation.inputs(X), preparation.targets(Y)
  settings = dict(noise_scale=None, x_test=x[:4], standardize=preparation, num_burnin_steps=0)
  settings |= dict(num_results=num_results, num_kept_draws=num_kept_draws)
  return sampling_runs.sample(MODEL((2,), 1), x, y, **settings)


@functools.cache
def _classes():
  arguments = {**sampling_runs.categorical(), 'y': np.array(list('aaabbcbccc'))}
  del arguments['likelihood']
  return sampling_runs.sample(**arguments, num_kept_draws=12, num_burnin_steps=0, standardize=True)


def _outputs(result, data):
  """f `[c, s, n, k]` of standardized data, by the weights that ArviZ has."""
  w = {name: np.asarray(values) for name, values in data.posterior.data_vars.items()}
  x = result.posterior.x.numpy()
  z = np.sqrt(2 / x.shape[1]) * x @ w['hidden_1_kernel'] + 0.1 * w['hidden_1_bias'][..., None, :]
  h = numpy_layers.ACTIVATIONS['gelu'](z)
  f = h @ w['readout_kernel'] / np.sqrt(h.shape[-1])
  return f + 0.1 * w['readout_bias'][..., None, :]


def test_all_groups_are_at_the_kept_draws_with_names():
  result = _regression()
  data = result.to_arviz()
  numbers = result.draws.numbers
  assert numbers == [2, 5, 8, 11]
  for group in ('posterior', 'sample_stats', 'log_likelihood', 'posterior_predictive'):
    assert data[group].sizes['chain'] == 2 and list(data[group]['draw'].values) == numbers
  kernel = data.posterior['hidden_1_kernel']
  assert kernel.dims == ('chain', 'draw', 'feature', 'hidden_1_kernel_out')
  assert list(kernel['feature'].values) == ['x', 'one']
  np.testing.assert_array_equal(kernel[1, 3], result.weights(3)[0][1])
  assert list(data.posterior['readout_bias']['output'].values) == ['price']
  assert data.posterior['f'].dims == data.posterior['theta'].dims == ('chain', 'draw', 'projection')
  np.testing.assert_array_equal(data.posterior['hidden'][0, 1], result.trace['hidden'][5, 0])
  np.testing.assert_array_equal(
    data.posterior['noise_scale'][1], result.trace['noise_scale'][numbers, 1, 0]
  )
  for name, key in (('acceptance_rate', 'acceptance'), ('energy', 'energy'), ('lp', 'log_prob')):
    np.testing.assert_array_equal(data.sample_stats[name][1], result.trace[key][numbers, 1])
  assert 'diverging' not in data.sample_stats
  assert data.observed_data['y'].dims == ('datum', 'output')
  np.testing.assert_allclose(data.observed_data['y'], Y, rtol=1e-5)


def test_attributes_say_what_was_run():
  data = _regression().to_arviz()
  for attributes in (data.attrs, data.posterior.attrs):
    assert attributes['sampler'] == 'rotation' and attributes['seed'] == 1
    assert attributes['inference_library_version'] == tfr.__version__
    assert json.loads(attributes['settings'])['step_size'] == 0.4
    assert attributes['verdict'] in str(_regression().verdict.level)
  ours = arviz_export._attributes(_regression())
  assert all(isinstance(value, (str, int, float)) for value in ours.values())  # for netCDF


def test_real_targets_have_log_densities_and_predictions_in_their_units():
  result = _regression()
  data = result.to_arviz()
  f = Y.mean() + Y.std() * _outputs(result, data)
  scale = data.posterior['noise_scale'].values[..., np.newaxis, np.newaxis]
  expected = scipy.stats.norm.logpdf(Y, f, scale)[..., 0]
  assert data.log_likelihood['y'].dims == ('chain', 'draw', 'datum')
  np.testing.assert_allclose(data.log_likelihood['y'], expected, rtol=1e-4)
  residuals = (data.posterior_predictive['y'].values - f) / scale
  assert residuals.shape == (2, 4, 10, 1)
  # 80 of them, N(0, 1): a false alarm in 10**6; a scale that is wrong by two is seen.
  assert 1e-6 < scipy.stats.chi2(80).cdf(np.sum(residuals**2)) < 1 - 1e-6
  assert scipy.stats.chi2(80).sf(np.sum((2 * residuals) ** 2)) < 1e-6


def test_classes_have_log_probabilities_and_predictions_by_label():
  result = _classes()
  data = result.to_arviz()
  assert list(data.posterior['readout_kernel']['output'].values) == ['a', 'b', 'c']
  scale = data.posterior['output_scale'].values[..., np.newaxis, np.newaxis]
  probabilities = numpy_layers.softmax(scale * _outputs(result, data))  # [c, s, n, k]
  labels = data.observed_data['y'].values
  assert labels.tolist() == [0, 0, 0, 1, 1, 2, 1, 2, 2, 2]
  expected = np.log(probabilities[..., np.arange(10), labels])
  np.testing.assert_allclose(data.log_likelihood['y'], expected, atol=1e-4)
  drawn = data.posterior_predictive['y'].values
  assert drawn.shape == (2, 12, 10)
  # Of the 240 labels that are drawn, those of class 0: within five standard errors.
  error = np.sqrt(np.sum(probabilities[..., 0] * (1 - probabilities[..., 0])))
  assert abs(np.sum(drawn == 0) - np.sum(probabilities[..., 0])) < 5 * error


def test_leave_one_out_works():
  import arviz

  data = _regression(40, 40).to_arviz()
  with warnings.catch_warnings():
    warnings.simplefilter('ignore')  # of few draws
    loo = arviz.loo(data)
  # What is left out is predicted worse than what is not.
  log_prob = data.log_likelihood['y'].values
  fit = np.sum(np.log(np.mean(np.exp(log_prob), axis=(0, 1))))
  elpd = loo.elpd_loo if hasattr(loo, 'elpd_loo') else loo.elpd  # the names of 0.x and 1.x
  assert fit - 100 < elpd < fit


def test_many_weights_are_left_out_unless_asked_for(monkeypatch):
  monkeypatch.setattr(arviz_export, '_MOST_WEIGHTS', 10)
  result = _regression()
  assert set(result.to_arviz().posterior.data_vars) == {'theta', 'hidden', 'f', 'noise_scale'}
  assert 'readout_kernel' in result.to_arviz(weights=True).posterior


def test_layers_in_data_space_have_weights_too():
  x = np.random.default_rng(0).standard_normal([4, 10]).astype(np.float32)
  model, y = tfr.models.fcn((10,), 1, width=16, depth=1), x[:, :1]
  settings = dict(hidden_space='data', x_test=x, num_kept_draws=2, num_results=2)
  result = sampling_runs.sample(model, x, y, **settings, num_burnin_steps=0)
  data = result.to_arviz()
  assert data.posterior['hidden_1_kernel'].shape == (2, 2, 10, 16)
  expected = scipy.stats.norm.logpdf(y, _outputs(result, data), 0.2)[..., 0]
  np.testing.assert_allclose(data.log_likelihood['y'], expected, rtol=1e-3, atol=1e-3)


def test_without_draws_or_arviz_the_error_says_so(monkeypatch):
  with pytest.raises(ValueError, match='no kept draws for ArviZ'):
    sampling_runs.sample(num_kept_draws=0).to_arviz()
  monkeypatch.setitem(sys.modules, 'arviz', None)
  with pytest.raises(ImportError, match='pip install tfp-reprior'):
    _regression().to_arviz()
