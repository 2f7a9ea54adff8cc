"""The driver: what a run records, and what it refuses."""

import json
import threading

import numpy as np
import pytest
import sampling_runs
import scipy.stats
import tensorflow as tf

import tfp_reprior as tfr
from tfp_reprior.internal import random
from tfp_reprior.sampling import driver, observations, runner, warmup


@pytest.fixture(scope='module')
def result():
  return sampling_runs.reference()


def _draws(result):
  """All kept draws of each part, `[s, c, *event_shape]`."""
  return [
    np.stack([result.draws[i][p] for i in range(len(result.draws))])
    for p in range(len(result.draws[0]))
  ]


def test_a_result_has_the_promised_shapes(result):
  for name in ('acceptance', 'log_likelihood', 'log_prob', 'energy'):
    assert result.trace[name].shape == (12, 2)
    assert result.warmup_trace[name].shape == (2, 2)
  assert result.trace['theta'].shape == result.trace['f'].shape == (12, 2, 3)
  assert result.trace['hidden'].shape == (12, 2, 3)
  assert result.trace['squared_norms'].shape == (12, 2, 2)
  assert result.warmup_trace['steps'].tolist() == [1, 1]
  np.testing.assert_allclose(result.warmup_trace['step_size'], 0.4, rtol=1e-6)
  assert (result.num_draws, result.num_chains, result.num_steps) == (12, 2, 24)
  assert result.is_complete and result.warmup is None
  assert set(result.seconds) == {'warm-up', 'sampling'}
  shapes = result.posterior.split.event_shapes
  for parts in (result.draws[0], result.theta_moments.mean, result.theta_moments.variance):
    assert [p.shape for p in parts] == [(2, *shape) for shape in shapes]
  assert all(np.all(np.isfinite(values)) for values in result.trace.values())


def test_settings_say_what_was_run(result):
  settings = json.loads(json.dumps(result.settings))
  expected = {
    'sampler': 'rotation',
    'step_size': 0.4,
    'damping': 1 - np.exp(-2 * 0.4),
    'num_chains': 2,
    'num_results': 12,
    'num_burnin_steps': 2,
    'num_warmup_steps': 0,
    'thinning': 2,
    'num_data': 10,
    'noise_scale': 0.2,
    'seed': 1,
    'model': 'fcn',
  }
  assert {name: settings[name] for name in expected} == expected
  assert settings['num_parameters'] == 8 + 8 + 8 * 2 + 2
  assert settings['versions']['tensorflow'] == tf.__version__


def test_chains_move_and_acceptance_is_a_probability(result):
  assert np.all((result.trace['acceptance'] >= 0) & (result.trace['acceptance'] <= 1))
  assert np.mean(result.trace['acceptance']) > 0.1
  assert np.all(np.std(result.trace['theta'], axis=0) > 0)
  assert np.all(result.trace['theta'][:, 0] != result.trace['theta'][:, 1])


def test_the_same_seed_gives_the_same_numbers(result):
  sampling_runs.assert_same(sampling_runs.sample(), result)


def test_another_seed_gives_other_numbers(result):
  other = sampling_runs.sample(seed=2, num_results=1, num_burnin_steps=0)
  assert np.all(other.trace['log_prob'][0] != result.trace['log_prob'][0])
  assert np.all(other.draws[0][0] != result.draws[0][0])


def test_streaming_moments_are_those_of_all_draws(result):
  assert len(result.draws) == 12
  for part, mean, variance in zip(
    _draws(result), result.theta_moments.mean, result.theta_moments.variance, strict=True
  ):
    np.testing.assert_allclose(mean, part.mean(axis=0), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(variance, part.var(axis=0), rtol=1e-4, atol=1e-6)


def test_traces_are_random_projections_of_weights_and_outputs(result):
  split = result.posterior.split
  seed = random.split_seed(sampling_runs.SETTINGS['seed'], n=4)[3]
  parts = [tf.constant(p) for p in _draws(result)]
  project = tfr.diagnostics.RandomProjections(split.event_shapes, 3, seed)
  np.testing.assert_allclose(result.trace['theta'], project(parts), rtol=1e-4, atol=1e-5)
  project_f = tfr.diagnostics.RandomProjections([(4, 2)], 3, seed)
  f = split.apply(parts, sampling_runs.X_TEST)
  np.testing.assert_allclose(result.trace['f'], project_f(f), rtol=1e-4, atol=1e-5)


def test_the_log_density_is_the_marginal_likelihood_of_the_features_times_the_prior(result):
  posterior = result.posterior
  hidden = [tf.constant(p) for p in _draws(result)[: posterior.split.num_hidden]]
  psi = posterior.split.embed(hidden, posterior.x).numpy().astype(np.float64)  # [s, c, n, d]
  covariance = 0.2**2 * np.eye(10) + psi @ np.swapaxes(psi, -1, -2)
  expected = np.zeros([12, 2])
  for index in np.ndindex(12, 2):
    normal = scipy.stats.multivariate_normal(np.zeros(10), covariance[index])
    expected[index] = np.sum(normal.logpdf(posterior.y.numpy().T))
  for part in hidden:
    expected -= 0.5 * np.sum(part.numpy().reshape([12, 2, -1]) ** 2 - 1.0, axis=-1)
  constant = 10 * 2 / 2 * np.log(2 * np.pi)
  np.testing.assert_allclose(result.trace['log_prob'], expected + constant, rtol=1e-3, atol=1e-2)


def test_test_moments_are_those_of_all_draws(result):
  # All draws were kept, so that the prediction from them has the same moments.
  kept, streamed = result.predict(sampling_runs.X_TEST), result.test_prediction
  np.testing.assert_allclose(streamed.mean, kept.mean, rtol=1e-4, atol=1e-5)
  np.testing.assert_allclose(streamed.stddev, kept.stddev, rtol=1e-4)


def test_runs_without_burnin_and_test_inputs_have_none():
  result = sampling_runs.sample(x_test=None, num_burnin_steps=0, num_results=3, num_kept_draws=0)
  assert result.warmup_trace == {} and set(result.trace) == {
    'acceptance',
    'energy',
    'hidden',
    'log_likelihood',
    'log_prob',
    'squared_norms',
    'theta',
  }
  assert result.test_prediction is None and len(result.draws) == 0
  with pytest.raises(ValueError, match='no kept draws to predict with.*num_kept_draws was 0'):
    result.predict(sampling_runs.X)


def test_kept_draws_are_spread_evenly_and_bounded(result):
  kept = sampling_runs.sample(num_kept_draws=5).draws
  assert kept.numbers == [2, 5, 8, 11]  # every third: every second would be more than five


def test_what_a_run_carries_does_not_grow(tmp_path):
  sampling_runs.sample(run_dir=tmp_path, checkpoint_seconds=1e-9)
  sizes = []
  for path in (tmp_path / 'checkpoints').glob('*.npz'):
    with np.load(path) as arrays:
      assert all(k.startswith('carry/') or arrays[k].ndim == 0 for k in arrays.files)
      sizes.append(sum(arrays[k].nbytes for k in arrays.files if k.startswith('carry/')))
  assert len(sizes) == 3 and len(set(sizes)) == 1
  # Of each draw and chain: acceptance, log-likelihood, log-density, energy, two norms and three
  # times three projections.
  trace = tmp_path / 'checkpoints' / 'trace-sampling.bin'
  assert trace.stat().st_size == 12 * 2 * (4 + 2 + 3 * 3) * 4


def test_a_run_writes_events_for_tensorboard(tmp_path, result):
  sampling_runs.sample(run_dir=tmp_path)
  last = {}
  for path in sorted((tmp_path / 'tensorboard').glob('events.*')):
    for record in tf.data.TFRecordDataset(str(path)):
      event = tf.compat.v1.Event.FromString(record.numpy())
      last |= {v.tag: (event.step, float(tf.make_ndarray(v.tensor))) for v in event.summary.value}
  assert {'warm-up/acceptance', 'sampling/acceptance'} < set(last)
  # The step is that of a chain; the value is the mean of a piece, the last one of three draws.
  assert last['warm-up/log_prob'][0] == 2
  expected = 24, pytest.approx(np.mean(result.trace['log_prob'][-3:]), rel=1e-5)
  assert last['sampling/log_prob'] == expected


def test_a_run_outside_the_main_thread_is_the_same(result):
  found = []
  thread = threading.Thread(target=lambda: found.append(sampling_runs.sample()))
  thread.start()
  thread.join(timeout=60)
  sampling_runs.assert_same(found[0], result)


WARMED = dict(step_size=None, num_warmup_steps=200, num_burnin_steps=0, num_results=3)


def test_warm_up_is_made_once_and_saved(tmp_path, monkeypatch):
  settings = dict(sampler='crank_nicolson', run_dir=tmp_path, **WARMED)
  result = sampling_runs.sample(**settings)
  assert result.settings['step_size'] == result.warmup.step_size > 0
  assert result.settings['damping'] is None
  assert result.settings['num_warmup_steps'] == result.warmup.num_gradients > 100
  # The gradients that blocks begin with are in no transition.
  num_steps = np.sum(result.warmup_trace['steps'])
  assert num_steps == result.warmup.num_gradients - len(result.warmup.blocks)
  loaded = tfr.load_result(tmp_path)
  assert loaded.warmup.table() == result.warmup.table()
  seconds = result.seconds['warm-up']
  monkeypatch.setattr(runner.Runner, 'advance_steps', lambda *_: pytest.fail('a step was taken'))
  again = sampling_runs.sample(**settings)
  sampling_runs.assert_same(again, result)
  assert again.seconds['warm-up'] == seconds > 0


def test_a_run_goes_on_from_a_warm_up(tmp_path):
  settings = dict(WARMED, run_dir=tmp_path)
  found = sampling_runs.sample(run=tfr.warm_up, **settings)
  assert found.num_gradients > 100
  numbers = []
  advance = runner.Runner.advance_steps

  def count(*arguments):
    carry, trace = advance(*arguments)
    numbers.append(len(trace['acceptance']))
    return carry, trace

  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(runner.Runner, 'advance_steps', count)
    result = sampling_runs.sample(**settings)
  assert sum(numbers) == 3, 'nothing was made again'
  assert result.warmup.table() == found.table()
  expected = sampling_runs.sample(**{**settings, 'run_dir': None})
  sampling_runs.assert_same(result, expected)


def test_warm_up_finds_a_step_size_and_takes_none():
  with pytest.raises(ValueError, match='leave it out. Received: step_size=0.4'):
    tfr.warm_up(
      sampling_runs.make_model(), sampling_runs.X, sampling_runs.Y, step_size=0.4, noise_scale=0.1
    )


def test_draws_are_whole_transitions_apart(result):
  single = result.trace['theta'][3::4]  # as with a thinning of 8
  result = sampling_runs.sample(num_integrator_steps=4, thinning=7, num_burnin_steps=7)
  assert result.settings['num_integrator_steps'] == 4
  assert result.settings['thinning'] == 8
  assert result.settings['num_burnin_steps'] == 7
  assert result.warmup_trace['steps'].tolist() == [4, 4], 'whole transitions'
  assert result.num_draws == 12 and result.num_steps == 96
  assert not np.any(np.isclose(result.trace['theta'][: len(single)], single))


def test_a_tuned_regularizer_is_the_one_that_mixes_fastest(tmp_path, monkeypatch):
  changes = dict(WARMED, num_warmup_steps=600, num_chains=4)
  sizes, warm_up = {}, driver.Driver._warm_up

  def warm_up_and_note(self, resume):
    found = warm_up(self, resume)
    sizes[self._settings.regularizer] = found[1].ess_per_gradient
    return found

  with monkeypatch.context() as patch:
    patch.setattr(driver.Driver, '_warm_up', warm_up_and_note)
    tuned = sampling_runs.sample(regularizer='tuned', run_dir=tmp_path, **changes)
  best = tuned.settings['regularizer']
  assert sizes.pop('tuned') == sizes[best] == max(sizes.values())
  assert len(set(sizes.values())) == len(sizes) == 3
  sampling_runs.assert_same(tuned, sampling_runs.sample(regularizer=best, **changes))
  again = sampling_runs.sample(regularizer='tuned', run_dir=tmp_path, **changes)
  sampling_runs.assert_same(again, tuned)


def test_a_run_that_is_not_good_warns_and_a_frozen_one_fails():
  with pytest.warns(tfr.diagnostics.SamplingWarning, match='effective samples'):
    short = sampling_runs.sample()
  assert short.verdict.level == 'unsure'
  with pytest.warns(tfr.diagnostics.SamplingWarning, match='Sampling failed.*never moved'):
    frozen = sampling_runs.sample(sampler='standard', step_size=1.5, num_burnin_steps=0)
  assert frozen.verdict.level == 'failed' and 'never moved' in frozen.summary()


def test_a_posterior_may_take_the_place_of_the_model():
  posterior = tfr.Posterior(sampling_runs.make_model(), sampling_runs.X, sampling_runs.Y, 0.2)
  result = sampling_runs.sample(posterior, None, None, noise_scale=None, num_burnin_steps=0)
  sampling_runs.assert_same(result, sampling_runs.sample(num_burnin_steps=0))


def test_chunks_of_data_give_the_same_run():
  chunked = sampling_runs.sample(chunk_size=3, num_burnin_steps=0)
  assert chunked.posterior.split.chunk_size == 3
  whole = sampling_runs.sample(num_burnin_steps=0)
  np.testing.assert_allclose(chunked.trace['theta'], whole.trace['theta'], rtol=0, atol=1e-4)


@pytest.mark.parametrize(
  'given',
  [dict(x=sampling_runs.X), dict(y=sampling_runs.Y), dict(noise_scale=1.0), dict(chunk_size=3)],
)
def test_what_a_posterior_has_of_its_own_is_refused(given):
  posterior = tfr.Posterior(sampling_runs.make_model(), sampling_runs.X, sampling_runs.Y, 0.2)
  [name] = given
  with pytest.raises(ValueError, match=f'has its own `{name}`: leave that out. Received: {name}'):
    sampling_runs.sample(posterior, **{'x': None, 'y': None, 'noise_scale': None, **given})


@pytest.mark.parametrize(
  'y, likelihood, changes',
  [
    (sampling_runs.Y, tfr.likelihoods.Gaussian(0.2), {}),
    (sampling_runs.Y, tfr.likelihoods.Gaussian(0.2), {'regularizer': 'n*noise'}),
    (sampling_runs.Y, tfr.likelihoods.Gaussian(0.2), {'sampler': 'standard'}),
    (np.arange(10) % 2, tfr.likelihoods.Categorical(), {'regularizer': 'n*noise'}),
  ],
  ids=['collapsed', 'composed', 'standard', 'classes'],
)
def test_a_draw_takes_one_pass_of_the_training_data_and_one_of_the_test_data(
  y, likelihood, changes
):
  posterior = tfr.Posterior(sampling_runs.make_model(), sampling_runs.X, y, likelihood=likelihood)
  sampler = tfr.make_sampler(posterior, **changes)
  observer = observations.Observer(sampler, tf.constant(sampling_runs.X_TEST), 3, seed=1)
  chosen = dict(step_size=0.1, damping=1.0, num_integrator_steps=1)
  state = sampler.start_fn(2, seed=1)
  results = warmup.sampling_kernel(sampler, chosen).bootstrap_results(state)
  split = getattr(posterior.split, 'inner', posterior.split)
  embed, passes = split.embed, []
  split.embed = lambda parts, x: passes.append(len(x)) or embed(parts, x)
  observer.draw(state, results, observer.empty(2))
  assert sorted(passes) == [4, 10]


def test_numbers_of_numpy_become_plain_ones():
  settings = tfr.sampling.Settings(
    num_chains=np.int64(3), step_size=np.float32(0.5), damping=np.float32(0.25), thinning=np.int8(2)
  )
  assert json.loads(json.dumps(vars(settings)))['num_chains'] == 3
  assert type(settings.step_size) is float and type(settings.damping) is float


@pytest.mark.parametrize(
  'changes, error, message',
  [
    (dict(step_sise=0.1), TypeError, "unexpected keyword argument 'step_sise'"),
    (dict(damping=1.3), ValueError, r'`damping` must lie in \[0, 1\]. Received: damping=1.3'),
    (dict(step_size=0.0), ValueError, '`step_size` must be positive. Received: step_size=0.0'),
    (dict(over_dispersion=-1.0), ValueError, '`over_dispersion` must be positive'),
    (dict(num_warmup_steps=500), ValueError, 'give one of the two. Received: num_warmup_steps=500'),
    (dict(step_size=None, num_warmup_steps=50), ValueError, 'must be 100 or more.*=50'),
    (dict(num_results=0), ValueError, '`num_results` must be a positive integer.*num_results=0'),
    (dict(num_chains=1.5), ValueError, '`num_chains` must be a positive integer.*=1.5'),
    (dict(num_burnin_steps=-1), ValueError, '`num_burnin_steps` must be 0 or a positive integer'),
    (dict(num_kept_draws=-1), ValueError, '`num_kept_draws` must be 0 or a positive integer'),
    (dict(chunk_size=0), ValueError, '`chunk_size` must be a positive integer.*chunk_size=0'),
    (dict(checkpoint_seconds=0.0), ValueError, '`checkpoint_seconds` must be positive'),
    (dict(seed='one'), TypeError, "`seed` must be an integer from 0 on. Received: seed='one'"),
    (dict(sampler='gibbs'), ValueError, "must be one of .*'auto'.*gibbs"),
    (dict(x_test=None, y_test=np.zeros([4, 2])), ValueError, '`y_test` needs `x_test` beside it'),
    (dict(x_test=np.zeros([4, 3])), ValueError, r'must have shape \[n, 1\].*shape \(4, 3\)'),
    (dict(y_test=np.zeros([3, 2])), ValueError, 'same length.*length 4.*length 3'),
    (dict(y_test=np.zeros([4, 5])), ValueError, r'must have shape \[n, 2\].*shape \(4, 5\)'),
    (dict(x=np.zeros([10, 2])), ValueError, r'`x` must have shape \[n, 1\]'),
    (dict(y=np.zeros([9, 2])), ValueError, '`x` and `y` must have the same length'),
    (dict(y=np.zeros([10], int)), TypeError, '`y` must hold floating point numbers'),
    (dict(regularizer=-1.0), ValueError, '`regularizer` must be positive.*regularizer=-1.0'),
    (dict(regularizer='loud'), ValueError, "`regularizer` must be one of 'noise'.*'loud'"),
    (dict(regularizer='tuned'), ValueError, 'leave `step_size` out. Received: step_size=0.4'),
    (
      dict(regularizer='tuned', sampler='standard', step_size=None),
      ValueError,
      "'standard' has no map to regularize.*Received: regularizer='tuned'",
    ),
    (
      dict(regularizer='n*noise', sampler='standard'),
      ValueError,
      "'standard' has no map to regularize.*Received: regularizer='n\\*noise'",
    ),
    (
      dict(sampler='crank_nicolson', damping=0.5),
      ValueError,
      'has no momentum: leave `damping` out. Received: damping=0.5',
    ),
    (
      dict(likelihood=tfr.likelihoods.Gaussian(0.3)),
      ValueError,
      r'give it, or a `likelihood`. Received: noise_scale=0.2, likelihood=Gaussian\(',
    ),
    (dict(y=None), ValueError, '`y` is missing'),
    (dict(sampler='gibbs'), ValueError, "`sampler` must be one of .*Received: sampler='gibbs'"),
    (
      dict(num_integrator_steps=0),
      ValueError,
      '`num_integrator_steps` must be a positive integer.*=0',
    ),
  ],
)
def test_wrong_arguments_are_refused(changes, error, message):
  with pytest.raises(error, match=message):
    sampling_runs.sample(**changes)
