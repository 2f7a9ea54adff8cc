"""Results: predictions, figures, files."""

import arviz
import keras
import numpy as np
import pytest
import sampling_runs
import statistics_lib
import tensorflow as tf
import toys

import tfp_reprior as tfr
from tfp_reprior.sampling import draws as draws_lib
from tfp_reprior.sampling import moments

Y_TEST = np.concatenate(
  [np.sin(3 * sampling_runs.X_TEST), np.cos(2 * sampling_runs.X_TEST)], axis=1
)


@pytest.fixture(scope='module')
def run_dir(tmp_path_factory):
  """The folder of a run with test targets; not to be changed."""
  return tmp_path_factory.mktemp('run')


@pytest.fixture(scope='module')
def result(run_dir):
  return sampling_runs.sample(run_dir=run_dir, y_test=Y_TEST)


@pytest.fixture(scope='module')
def prediction(result):
  return result.predict(sampling_runs.X_TEST)


def _hand_made(posterior, num_draws=2, num_chains=3):
  """A result of draws from the prior, without a run."""
  draws = draws_lib.Draws()
  for i in range(num_draws):
    draws.add(i, [p.numpy() for p in posterior.sample_prior(num_chains, seed=i)])
  rng = np.random.default_rng(0)
  trace = {
    k: rng.normal(size=(8, num_chains))
    for k in ('acceptance', 'energy', 'log_likelihood', 'log_prob')
  }
  trace['theta'] = rng.normal(size=(8, num_chains, 5))
  settings = dict(
    sampler='rotation',
    model=posterior.split.model.name,
    versions={},
    num_results=8,
    hidden_space='weights',
    step_size=0.1,
    damping=0.1,
    num_chains=num_chains,
    num_integrator_steps=1,
    acceptance_bounds=[0.4, 0.99],
    thinning=2,
    num_projections=5,
    noise_scale=np.asarray(posterior.likelihood.noise_scale).tolist(),
  )
  theta_moments = moments.MeanAndVariance(draws[0], draws[1])
  return tfr.sampling.Result(
    posterior, settings, trace, {}, {'sampling': 1.0}, None, True, draws, theta_moments
  )


def test_predictions_average_over_the_readout_exactly(result, prediction):
  # Against outputs of networks whose readouts are drawn many times for each hidden draw.
  split, num_readouts = result.posterior.split, 2000
  collapsed = tfr.CollapsedPosterior(result.posterior)
  assert prediction.means.shape == prediction.variances.shape == (4 * 2, 4, 2)
  outputs = []
  for i in range(len(result.draws)):
    hidden = [
      tf.broadcast_to(p, [num_readouts, *p.shape]) for p in result.draws[i][: split.num_hidden]
    ]
    theta = [*hidden, *collapsed.sample_readout(hidden, seed=i)]
    outputs.append(split.apply(theta, sampling_runs.X_TEST).numpy())  # [readouts, c, m, k]
  outputs = np.concatenate(outputs, axis=1).astype(np.float64)  # [readouts, s * c, m, k]
  assert statistics_lib.mean_p_value(outputs, prediction.means) > statistics_lib.FALSE_ALARM
  squares = (outputs - prediction.means) ** 2
  assert statistics_lib.mean_p_value(squares, prediction.variances) > statistics_lib.FALSE_ALARM
  # A variance that is 1.3 times as large is seen: the relative error of one is sqrt(2 / 2000).
  wrong = 1.3 * prediction.variances
  assert statistics_lib.mean_p_value(squares, wrong) < statistics_lib.FALSE_ALARM


def test_where_the_readout_cannot_be_integrated_out_draws_are_used_as_they_are(tmp_path):
  gaussian = toys.tiny_posterior()
  posterior = tfr.Posterior(gaussian.split, gaussian.x, gaussian.y, noise_scale=[0.1, 0.4])
  result = _hand_made(posterior)
  x = np.random.default_rng(1).normal(size=(4, 3))
  prediction = result.predict(x)
  outputs = np.concatenate([posterior.split.apply(draw, x) for draw in result.draws])
  np.testing.assert_allclose(prediction.means, outputs, rtol=1e-10)
  assert np.all(prediction.variances == 0)
  expected = np.sqrt(outputs.var(axis=0) + np.array([0.01, 0.16]))
  np.testing.assert_allclose(prediction.stddev, expected)
  result.save(tmp_path)
  np.testing.assert_allclose(tfr.load_result(tmp_path).predict(x).stddev, expected)


def test_predictions_in_batches_are_those_at_once(result, prediction):
  in_batches = result.predict(sampling_runs.X_TEST, batch_size=3)
  np.testing.assert_allclose(in_batches.means, prediction.means, rtol=1e-5, atol=1e-6)
  np.testing.assert_allclose(in_batches.variances, prediction.variances, rtol=1e-4)
  assert in_batches.noise_variance == pytest.approx(0.2**2)


def test_figures_are_of_the_test_data_by_default(result):
  figures = result.evaluate()
  assert figures == result.evaluate(result.test_prediction, Y_TEST)
  assert set(figures) == {'rmse', 'negative_log_likelihood', 'coverage_90'}
  in_training = result.evaluate(result.predict(sampling_runs.X), sampling_runs.Y)
  assert in_training['rmse'] < 0.75 * np.std(sampling_runs.Y), 'it must have learnt something'


def test_figures_without_test_targets_are_refused():
  with pytest.raises(
    ValueError, match=r'needs a run with .*x_test=array of shape \(4, 1\), y_test=None'
  ):
    sampling_runs.reference().evaluate()


def test_diagnostics_are_those_of_the_traces(result):
  for name in ('theta', 'f'):
    trace = result.trace[name].astype(np.float64)
    by_chain = np.swapaxes(trace, 0, 1)  # as ArviZ has them
    expected = [arviz.ess(by_chain[..., i], method='bulk') for i in range(trace.shape[-1])]
    np.testing.assert_allclose(result.effective_sample_size(name), expected, rtol=1e-8)
    expected = [arviz.rhat(by_chain[..., i], method='rank') for i in range(trace.shape[-1])]
    np.testing.assert_allclose(result.r_hat(name), expected, rtol=1e-8)


def test_the_summary_says_what_matters(result):
  text = result.summary()
  for words in (
    "Posterior(model='fcn', n=10",
    'rotation, step size 0.4, damping 0.551, 1 step: 2 chains of 12 draws, 2 steps each',
    f'acceptance by chain: {np.mean(result.trace["acceptance"][:, 0]):.3f}, ',
    'R-hat  bulk ESS  tail ESS',
    'hidden weights',
    'outputs at x_test',
    'log-likelihood',
    'energy',
    'squared norms of layers',
    'Too few effective samples',
    f'test rmse: {result.evaluate()["rmse"]:.4g} (predict the mean: '
    f'{result.evaluate_baseline()["rmse"]:.4g})',
  ):
    assert words in text
  assert '(interrupted)' not in text


def test_a_single_chain_has_an_r_hat_of_its_halves():
  result = _hand_made(toys.tiny_posterior(), num_chains=1)
  assert np.all(result.r_hat('theta') > 0.5)
  assert 'nan' not in result.summary()


@pytest.mark.parametrize('is_run_dir', [True, False])
def test_a_loaded_result_is_the_same(result, prediction, run_dir, tmp_path, is_run_dir):
  folder = run_dir
  if not is_run_dir:
    folder = tmp_path / 'saved'
    result.save(folder)
  loaded = tfr.load_result(folder)
  sampling_runs.assert_same(loaded, result)
  assert loaded.draws.numbers == result.draws.numbers
  assert loaded.settings == result.settings
  assert loaded.summary() == result.summary()
  np.testing.assert_array_equal(loaded.predict(sampling_runs.X_TEST).means, prediction.means)
  np.testing.assert_array_equal(loaded.test_prediction.mean, result.test_prediction.mean)
  np.testing.assert_array_equal(loaded.x_test, sampling_runs.X_TEST)
  np.testing.assert_array_equal(loaded.y_test, result.y_test)


def test_folders_without_a_result_are_refused(tmp_path):
  with pytest.raises(ValueError, match=f'holds a finished run.*path={str(tmp_path)!r}'):
    tfr.load_result(tmp_path)


def test_a_saved_result_replaces_another(result, prediction, tmp_path):
  _hand_made(toys.tiny_posterior(), num_draws=3).save(tmp_path)
  result.save(tmp_path)
  loaded = tfr.load_result(tmp_path)
  sampling_runs.assert_same(loaded, result)
  assert loaded.draws.numbers == result.draws.numbers
  np.testing.assert_array_equal(loaded.predict(sampling_runs.X_TEST).means, prediction.means)


def _plain_posterior():
  model = toys.functional(
    (3,), keras.layers.Dense(5, activation='tanh'), keras.layers.Dense(2, use_bias=False)
  )
  split = tfr.models.ReadoutSplit(model, weight_std=0.7, bias_std=0.4, readout_weight_std=2.5)
  rng = np.random.default_rng(0)
  x, y = rng.normal(size=(6, 3)).astype(np.float32), rng.normal(size=(6, 2)).astype(np.float32)
  return tfr.Posterior(split, x, y, noise_scale=0.3)


def test_prior_scales_of_plain_layers_are_saved(tmp_path):
  result = _hand_made(_plain_posterior())
  result.save(tmp_path)
  loaded = tfr.load_result(tmp_path)
  assert loaded.posterior.split.prior_stds == result.posterior.split.prior_stds
  x = np.ones([4, 3], np.float32)
  np.testing.assert_array_equal(loaded.predict(x).means, result.predict(x).means)
  default = tfr.Posterior(
    loaded.posterior.split.model, result.posterior.x, result.posterior.y, noise_scale=0.1
  )
  other = default.split.apply(result.draws[0], x)
  assert not np.allclose(result.posterior.split.apply(result.draws[0], x), other)


@pytest.mark.parametrize('make_posterior', [toys.tiny_posterior, _plain_posterior])
def test_assign_gives_a_model_with_the_weights_of_a_draw(make_posterior):
  result = _hand_made(make_posterior())
  split = result.posterior.split
  x = np.random.default_rng(1).normal(size=(4, 3)).astype(split.dtype.as_numpy_dtype)
  for draw, chain in ((0, 2), (-1, 0)):
    model = result.assign(draw, chain)
    expected = split.apply([p[chain] for p in result.draws[draw]], x)
    np.testing.assert_allclose(model(x), expected, rtol=1e-5, atol=1e-6)


class _Shift(tfr.layers.NTKDense):
  """A layer that Keras can neither save nor load."""

  def get_config(self):
    raise NotImplementedError('no configuration')


def test_a_model_that_keras_cannot_save_is_asked_for_when_loading(tmp_path):
  def make_model():
    return toys.functional((3,), _Shift(5, activation='tanh'), tfr.layers.NTKDense(2))

  posterior = tfr.Posterior(make_model(), np.ones([6, 3]), np.ones([6, 2]), noise_scale=0.3)
  result = _hand_made(posterior)
  with pytest.warns(UserWarning, match='Keras cannot save the model .*as `model`'):
    result.save(tmp_path)
  with pytest.raises(ValueError, match='model.keras'):
    tfr.load_result(tmp_path)
  loaded = tfr.load_result(tmp_path, model=make_model())
  x = np.ones([4, 3], np.float32)
  np.testing.assert_array_equal(loaded.predict(x).means, result.predict(x).means)
