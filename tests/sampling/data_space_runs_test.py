"""Runs with hidden layers in data space: predictions, weights, files, resuming, compilation."""

import functools
import itertools

import keras
import numpy as np
import pytest
import sampling_runs
import tensorflow as tf
import tensorflow_probability as tfp

import tfp_reprior as tfr
from tfp_reprior.cli import main
from tfp_reprior.layers import ntk_layer
from tfp_reprior.sampling import progress

_RNG = np.random.default_rng(0)
X, X_TEST = _RNG.normal(size=(5, 6)).astype(np.float32), _RNG.normal(size=(4, 6)).astype(np.float32)
Y = np.stack([np.sin(X[:, 0]), X[:, 1]], axis=1)
PRIOR = tfp.distributions.LogNormal(-1.5, 0.5)
SETTINGS = dict(x_test=X_TEST, hidden_space='data', num_projections=4, num_burnin_steps=0)
KINDS = {
  'known': {},
  'unknown': dict(noise_scale=PRIOR, step_size=0.2),
  'categorical': dict(
    y=np.array([0, 1, 1, 0, 1]), noise_scale=None, likelihood=tfr.likelihoods.Categorical()
  ),
}


OTHERS = [pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS if kind != 'known']


def _model(width=16):
  return tfr.models.fcn((6,), 2, width, depth=2)


def _sample(kind='known', **changes):
  """A run of which the graphs are shared by those of one kind: `sampling_runs` compares names."""
  return sampling_runs.sample(
    **{'model': _model(), 'x': X, 'y': Y, **SETTINGS, **KINDS[kind], **changes}
  )


@functools.cache
def _reference(kind='known'):
  return _sample(kind, num_kept_draws=12)


def test_weights_that_a_model_was_made_without_are_made_when_they_are_assigned(monkeypatch):
  made = []
  monkeypatch.setattr(
    ntk_layer, '_standard_normal', lambda shape, dtype, seed: made.append(shape) or tf.zeros(shape)
  )
  with keras.StatelessScope(initialize_variables=False):
    model = _model()
  result = sampling_runs.sample(model, X, Y, **SETTINGS)
  result.predict(X_TEST)
  assert (5, 16) in made  # u
  assert (6, 16) not in made and (16, 16) not in made
  assert result.assign() is model
  np.testing.assert_allclose(model(X), _outputs(result, -1)[0], rtol=0, atol=1e-4)


def _outputs(result, draw):
  """Of the state of a kept draw, at the training inputs: `[c, n, k]`."""
  parts = [tf.constant(p) for p in result.draws[draw]]
  return result.posterior.split.apply(parts, result.posterior.x)


def _components(result, x):
  """What each draw predicts: means or probabilities `[s * c, m, k]`."""
  prediction = result.predict(x)
  return prediction.probabilities if prediction.is_discrete else prediction.means


@pytest.mark.parametrize('kind', ['known', *OTHERS])
def test_a_run_has_draws_of_u_and_predictions_at_test_inputs(kind):
  result = _reference(kind)
  assert result.is_complete and result.settings['hidden_space'] == 'data'
  assert [s.space for s in result.posterior.split.layer_spaces] == ['data', 'data']
  noise = [(2,)] if kind in ('unknown', 'categorical') else []  # or the scale of outputs
  expected = [(2, 5, 16), (2, 5, 16), *noise, (2, 16, 2), (2, 2)]
  assert [p.shape for p in result.draws[0]] == expected
  assert [p.shape for p in result.theta_moments.mean] == expected
  assert result.trace['f'].shape == (12, 2, 4) and np.all(np.isfinite(result.trace['f']))
  prediction = result.test_prediction
  assert prediction.mean.shape == (4, 2) and np.all(np.isfinite(prediction.mean))
  assert _components(result, X_TEST).shape == (24, 4, 2)
  assert 'in data space: hidden_1, hidden_2' in result.summary()


@pytest.mark.parametrize('kind', ['known', *OTHERS])
def test_weights_of_a_draw_do_what_the_draw_does(kind):
  result = _reference(kind)
  network = result.posterior.split.network
  for draw in (0, -1):
    weights = result.weights(draw)
    assert [p.shape for p in weights] == [(2, *s) for s in network.event_shapes]
    outputs = network.apply([tf.constant(p) for p in weights], result.posterior.x)
    np.testing.assert_allclose(outputs, _outputs(result, draw), rtol=0, atol=1e-4)
    for actual, expected in zip(result.weights(draw), weights, strict=True):
      np.testing.assert_array_equal(actual, expected)  # always the same
  assert np.min(np.abs(result.weights(0)[0] - result.weights(1)[0])) > 0


@pytest.mark.parametrize('kind', ['known', *OTHERS])
@pytest.mark.parametrize('chain', [0, 1])
def test_assign_gives_the_model_of_the_draw(kind, chain):
  result = _reference(kind)
  model = result.assign(draw=3, chain=chain)
  assert model is result.posterior.split.network.model and model.input_shape == (None, 6)
  np.testing.assert_allclose(model(X), _outputs(result, 3)[chain], rtol=0, atol=1e-4)


@pytest.mark.parametrize('kind', ['known', *OTHERS])
def test_predictions_at_the_training_inputs_are_those_of_the_draws(kind):
  # They have been seen before, and leave nothing open; float32 and 1e-6 of added spread aside.
  result = _reference(kind)
  prediction = result.predict(X)
  outputs = np.concatenate(
    [result.posterior.likelihood.mean(_outputs(result, i)) for i in range(12)]
  )
  if kind == 'categorical':
    np.testing.assert_allclose(prediction.probabilities, outputs, rtol=0, atol=1e-3)
  else:  # those have the readout integrated out
    deviations = (outputs - prediction.means) / np.sqrt(prediction.variances)
    assert np.max(np.abs(deviations)) < 5.5  # 240 draws of N(0, 1): false-alarm rate 1e-5
    assert np.std(deviations) > 0.5


@pytest.mark.parametrize('kind', ['known', *OTHERS])
def test_a_saved_result_predicts_the_same_bit_for_bit(kind, tmp_path):
  result = _reference(kind)
  result.save(tmp_path)
  loaded = tfr.load_result(tmp_path)
  sampling_runs.assert_same(loaded, result)
  assert loaded.posterior.split.layer_spaces == result.posterior.split.layer_spaces
  new = np.random.default_rng(1).normal(size=(7, 6))
  np.testing.assert_array_equal(_components(loaded, new), _components(result, new))
  np.testing.assert_array_equal(loaded.predict(new).mean, result.predict(new).mean)
  for actual, expected in zip(loaded.weights(), result.weights(), strict=True):
    np.testing.assert_array_equal(actual, expected)


class _Crash(Exception):
  pass


@pytest.mark.parametrize('kind', ['known', *OTHERS])
def test_a_run_that_crashed_goes_on_bit_for_bit(kind, tmp_path, monkeypatch):
  update, calls = progress.Progress.update, itertools.count(1)

  def update_and_crash(self, *arguments):
    update(self, *arguments)
    if next(calls) == 3:  # after six draws
      raise _Crash

  with monkeypatch.context() as patch:
    patch.setattr(progress.Progress, 'update', update_and_crash)
    with pytest.raises(_Crash):
      _sample(kind, run_dir=tmp_path, num_kept_draws=12, checkpoint_seconds=1e-9)
  resumed = _sample(kind, run_dir=tmp_path, num_kept_draws=12)
  sampling_runs.assert_same(resumed, _reference(kind))
  expected = _reference(kind).test_prediction.mean
  np.testing.assert_array_equal(resumed.test_prediction.mean, expected)


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
  path = tmp_path_factory.mktemp('run')
  _sample(run_dir=path)
  return path


def test_a_folder_with_another_hidden_space_is_refused(folder):
  with pytest.raises(ValueError, match=r"hidden_space was \['data', 'data'\] and is None"):
    _sample(run_dir=folder, hidden_space='weights')
  with pytest.raises(ValueError, match=r"hidden_space was .* and is \['weights', 'data'\]"):
    _sample(run_dir=folder, hidden_space='auto')


@pytest.mark.slow
def test_a_folder_goes_on_only_if_layers_are_where_they_were(tmp_path):
  expected = _sample(run_dir=tmp_path, hidden_space=None, sampler='auto')
  again = _sample(run_dir=tmp_path, hidden_space='auto', sampler='auto')  # what None stands for
  sampling_runs.assert_same(again, expected)
  with pytest.raises(ValueError, match=r"hidden_space was \['weights', 'data'\] and is None"):
    _sample(run_dir=tmp_path, hidden_space=None, sampler='rotation')


@pytest.mark.slow
def test_a_posterior_in_data_space_can_be_sampled_from_again(tmp_path):
  # As `result.posterior` is: to the same numbers, in a folder too.
  posterior = _reference().posterior
  result = _sample(model=posterior, x=None, y=None, noise_scale=None, run_dir=tmp_path)
  sampling_runs.assert_same(result, _reference())
  loaded = tfr.load_result(tmp_path)
  assert loaded.posterior.split.layer_spaces == posterior.split.layer_spaces


@pytest.mark.slow
def test_one_chain_will_do():
  result = _sample(num_chains=1, num_results=3)
  assert result.predict(X_TEST).means.shape[1:] == (4, 2)
  assert [p.shape[0] for p in result.weights()] == [1] * 6


@pytest.mark.slow
def test_warm_up_finds_settings():
  found = tfr.warm_up(
    _model(),
    X,
    Y,
    hidden_space='data',
    num_warmup_steps=100,
    seed=1,
    progress=False,
    noise_scale=0.1,
  )
  assert found.step_size > 0 and np.all(np.isfinite(found.state[0]))
  assert [p.shape[1:] for p in found.state] == [(5, 16), (5, 16), (16, 2), (2,)]


def test_by_default_only_the_sampler_auto_leaves_the_weights():
  posterior = tfr.Posterior(_model(), X, Y, 0.2)
  spaces = {name: tfr.make_sampler(posterior, name).hidden_space for name in ('auto', 'rotation')}
  assert spaces == {'auto': 'auto', 'rotation': 'weights'}
  in_data_space = posterior.in_space('data')
  assert tfr.make_sampler(in_data_space, 'rotation').posterior is in_data_space
  standard = tfr.make_sampler(in_data_space, 'standard').posterior
  assert standard.split.event_shapes == posterior.split.event_shapes


@pytest.mark.parametrize('changes', [{'sampler': 'standard'}, {'chunk_size': 2}])
def test_weights_cannot_be_left_by_standard_samplers_or_with_chunks(changes):
  posterior = tfr.Posterior(_model(), X, Y, 0.2, chunk_size=changes.get('chunk_size'))
  with pytest.raises(
    ValueError, match="chunks of data, are for weights. Received: hidden_space='d"
  ):
    tfr.make_sampler(posterior, changes.get('sampler', 'auto'), hidden_space='data')


def test_an_unknown_space_is_refused():
  with pytest.raises(ValueError, match="`hidden_space` must be one of.*hidden_space='u'"):
    _sample(hidden_space='u')


@pytest.mark.parametrize('kind', ['known', *OTHERS])
def test_a_transition_is_the_same_compiled(kind):
  settings = {'y': Y, 'noise_scale': 0.2, **KINDS[kind]}
  posterior = tfr.Posterior(
    tfr.models.fcn((6,), 2, 16, 2, dtype='float64'),
    X.astype(np.float64),
    settings['y'],
    settings['noise_scale'],
    settings.get('likelihood'),
  )
  sampler = tfr.make_sampler(posterior, hidden_space='data')
  kernel = sampler.kernel_fn(0.2, 0.3)
  state = sampler.start_fn(2, seed=1)

  def transition(*state):
    state = list(state)
    state, results = kernel.one_step(state, kernel.bootstrap_results(state), seed=[1, 2])
    return state, results.log_accept_ratio, sampler.theta_fn(state, seed=[3, 4])

  expected = transition(*state)
  compiled = tf.function(transition, autograph=False, jit_compile=True)(*state)
  for actual, wanted in zip(tf.nest.flatten(compiled), tf.nest.flatten(expected), strict=True):
    np.testing.assert_allclose(actual, wanted, rtol=0, atol=1e-9)


def test_chains_split_over_devices_have_the_density_of_one():
  space = tfr.Posterior(_model(), X, Y, 0.2).in_space('data')
  density = tfr.CollapsedPosterior(space)
  split = tfr.densities.SplitChains(density, tf.distribute.MirroredStrategy(['CPU:0']))
  hidden = space.sample_prior(3, seed=1)[:2]
  actual = tf.function(split.log_likelihood_fn, autograph=False)(*hidden)
  np.testing.assert_allclose(actual, density.log_likelihood_fn(*hidden), rtol=1e-5)


@pytest.mark.slow
def test_a_strategy_splits_chains_where_layers_are_in_data_space():
  result = _sample(strategy=tf.distribute.MirroredStrategy(['CPU:0']), num_results=3)
  np.testing.assert_allclose(
    result.trace['log_likelihood'], _reference().trace['log_likelihood'][:3], rtol=1e-3
  )
  assert result.settings['hidden_space'] == 'data'


@pytest.mark.slow
def test_the_command_line_takes_a_hidden_space(tmp_path):
  arguments = '--data=toy --num_train=2 --num_test=4 --width=24 --depth=2 --num_chains=2'
  arguments += ' --num_results=4 --thinning=1 --step_size=0.1 --num_burnin_steps=0 --quiet'
  arguments += f' --no-report --hidden_space=data --run_dir={tmp_path}'
  assert main.main(['sample', *arguments.split()]) == 0
  result = tfr.load_result(tmp_path)
  assert result.settings['hidden_space'] == 'data'
  assert [s.space for s in result.posterior.split.layer_spaces] == ['weights', 'data']
