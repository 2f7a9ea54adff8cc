"""Two devices against one. Run by `distribution_test.py`, in a process that has two CPU devices."""

import json
import warnings

import numpy as np
import pytest
import sampling_runs
import script_modules
import tensorflow as tf
import tensorflow_probability as tfp
import toys

import tfp_reprior as tfr
from tfp_reprior.cli import main
from tfp_reprior.internal import distribution

tf.config.set_logical_device_configuration(
  tf.config.list_physical_devices('CPU')[0], [tf.config.LogicalDeviceConfiguration()] * 2
)


@pytest.fixture(scope='module')
def strategy():
  return tf.distribute.MirroredStrategy(['CPU:0', 'CPU:1'])


@pytest.fixture
def shards(request, monkeypatch):
  """One of both ways to split seven rows in two: 'uneven', or 'padded', that of TPUs."""
  monkeypatch.setattr(distribution, 'needs_equal_shards', lambda _: request.param == 'padded')


def _cases(names, *values):
  """Parameters of a test, of which `shards` is the first."""
  return pytest.mark.parametrize(f'shards, {names}', values, indirect=['shards'])


def _value_and_gradient(density, parts):
  fn = tf.function(
    lambda *parts: tfp.math.value_and_gradient(density.target_log_prob_fn, parts), autograph=False
  )
  return fn.get_concrete_function(*parts)


def _assert_same_density(density, expected_density, parts, atol):
  actual = tf.nest.flatten(_value_and_gradient(density, parts)(*parts))
  expected = tf.nest.flatten(
    tfp.math.value_and_gradient(expected_density.target_log_prob_fn, parts)
  )
  for a, e in zip(actual, expected, strict=True):
    np.testing.assert_allclose(a, e, rtol=0, atol=atol)


@_cases('chunk_size, chains', ('uneven', None, (3,)), ('padded', 2, (3,)), ('padded', None, ()))
def test_split_data_give_the_density_of_one_device(strategy, shards, chunk_size, chains):
  posterior = toys.tiny_posterior(n=7, depth=2)
  density = tfr.CollapsedPosterior(posterior, chunk_size, strategy=strategy)
  phi = posterior.sample_prior(chains, seed=1)
  _assert_same_density(density, tfr.CollapsedPosterior(posterior), phi, atol=1e-12)


def test_fewer_data_than_devices_are_enough(strategy):
  posterior = toys.tiny_posterior(n=1)
  density = tfr.CollapsedPosterior(posterior, strategy=strategy)
  phi = posterior.sample_prior(seed=1)
  _assert_same_density(density, tfr.CollapsedPosterior(posterior), phi, atol=1e-12)


def test_noise_may_be_unknown_and_linear_algebra_wider_than_the_network(strategy):
  rng = np.random.default_rng(0)
  x, y = rng.normal(size=(7, 3)), rng.normal(size=(7, 2))
  prior = tfp.distributions.LogNormal(-1.0, 0.5)
  posterior = tfr.Posterior(tfr.models.fcn((3,), 2, width=4), x, y, prior)
  density = tfr.CollapsedPosterior(posterior, linalg_dtype=tf.float64, strategy=strategy)
  expected = tfr.CollapsedPosterior(posterior, linalg_dtype=tf.float64)
  _assert_same_density(density, expected, posterior.sample_prior(2, seed=1), atol=1e-5)


@pytest.mark.parametrize(
  'make_density, num_exchanges',
  [
    (lambda posterior, strategy: tfr.CollapsedPosterior(posterior, strategy=strategy), 2),
    (tfr.densities.SplitData, 1),
  ],
)
def test_a_gradient_takes_few_exchanges(strategy, make_density, num_exchanges):
  posterior = toys.tiny_posterior(n=7, depth=2)
  density = make_density(posterior, strategy)
  graph = _value_and_gradient(density, posterior.sample_prior(seed=1)).graph.as_graph_def()
  nodes = [*graph.node, *(n for f in graph.library.function for n in f.node_def)]
  exchanges = [n for n in nodes if n.op.startswith('CollectiveReduce')]
  assert len(exchanges) == num_exchanges * strategy.num_replicas_in_sync


def _posterior_of(likelihood):
  posterior = toys.tiny_posterior(n=7, depth=2)
  y = {'categorical': [0, 1, 1, 0, 1, 0, 0], 'bernoulli': np.arange(14).reshape(7, 2) % 3 % 2}
  kinds = {
    'categorical': tfr.likelihoods.Categorical(),
    'bernoulli': tfr.likelihoods.Bernoulli(),
    'unknown noise': tfr.likelihoods.Gaussian(tfp.distributions.LogNormal(np.float64(-1), 0.5)),
    'gaussian': tfr.likelihoods.Gaussian([0.2, 0.4]),
  }
  targets = y.get(likelihood, posterior.y)
  return tfr.Posterior(posterior.split, posterior.x, targets, likelihood=kinds[likelihood])


@_cases(
  'likelihood, chains',
  ('padded', 'gaussian', ()),
  ('uneven', 'unknown noise', (3,)),
  ('padded', 'categorical', (3,)),
  ('uneven', 'bernoulli', (3,)),
)
def test_split_data_of_weights_give_the_density_of_one_device(strategy, shards, likelihood, chains):
  posterior = _posterior_of(likelihood)
  parts = posterior.sample_prior(chains, seed=1)
  _assert_same_density(tfr.densities.SplitData(posterior, strategy), posterior, parts, atol=1e-12)


@_cases('num_inputs, chains', ('uneven', 1, (2,)), ('padded', 5, ()))
def test_predictions_are_those_of_one_device(strategy, shards, num_inputs, chains):
  posterior = toys.tiny_posterior(n=7)
  hidden = posterior.sample_prior(chains, seed=1)[: posterior.split.num_hidden]
  x = np.random.default_rng(1).normal(size=(num_inputs, 3))
  actual = tfr.CollapsedPosterior(posterior, strategy=strategy).predict(hidden, x)
  expected = tfr.CollapsedPosterior(posterior).predict(hidden, x)
  for a, e in zip(actual, expected, strict=True):
    np.testing.assert_allclose(a, e, rtol=0, atol=1e-12)


@_cases(
  'make_density, num_chains',
  ('uneven', tfr.CollapsedPosterior, 1),
  ('padded', tfr.CollapsedPosterior, 3),
  ('uneven', tfr.ComposedPosterior, 3),
  ('uneven', lambda posterior: posterior, 3),
)
def test_split_chains_have_the_density_of_one_device(strategy, shards, make_density, num_chains):
  posterior = toys.tiny_posterior(n=7)
  density = make_density(posterior)
  phi = posterior.sample_prior(num_chains, seed=1)
  _assert_same_density(tfr.densities.SplitChains(density, strategy), density, phi, atol=1e-12)


@pytest.mark.parametrize('likelihood', ['unknown noise', 'categorical'])
def test_split_chains_in_data_space_have_the_density_of_one_device(strategy, likelihood):
  posterior = toys.tiny_posterior(n=4, inputs=6, width=9, depth=2)
  y = posterior.y if likelihood == 'unknown noise' else [0, 1, 1, 0]
  noise = tfr.likelihoods.Gaussian(tfp.distributions.LogNormal(np.float64(-1), 0.5))
  kinds = {'unknown noise': noise, 'categorical': tfr.likelihoods.Categorical()}
  posterior = tfr.Posterior(posterior.split, posterior.x, y, likelihood=kinds[likelihood])
  space = posterior.in_space('data')
  is_collapsed = likelihood == 'unknown noise'
  density = tfr.CollapsedPosterior(space) if is_collapsed else tfr.ComposedPosterior(space)
  phi = space.sample_prior(3, seed=1)
  _assert_same_density(tfr.densities.SplitChains(density, strategy), density, phi, atol=1e-11)


def test_split_chains_have_no_gradient_for_parts_that_do_not_matter(strategy):
  # Kernels draw these anew, as on one device, in place of moving them.
  posterior = toys.tiny_posterior(n=7)
  density = tfr.densities.SplitChains(tfr.CollapsedPosterior(posterior), strategy)
  parts = posterior.sample_prior(3, seed=1)
  is_moved = []

  @tf.function(autograph=False)
  def gradients(*parts):
    _, grads = tfp.math.value_and_gradient(density.log_likelihood_fn, parts)
    is_moved[:] = [g is not None for g in grads]
    return grads[0]

  expected = tfp.math.value_and_gradient(tfr.CollapsedPosterior(posterior).log_likelihood_fn, parts)
  np.testing.assert_allclose(gradients(*parts), expected[1][0], rtol=0, atol=1e-12)
  assert is_moved == [True, True, False, False]


def _sample(**changes):
  """A run in float64, whose numbers do not depend on rounding."""
  model = tfr.models.fcn((1,), 2, width=8, depth=1, dtype='float64')
  return sampling_runs.sample(model, **changes)


def _assert_same_run(result, expected):
  assert result.is_complete
  assert set(result.trace) == set(expected.trace)
  for name, values in expected.trace.items():
    np.testing.assert_allclose(result.trace[name], values, rtol=0, atol=1e-8, err_msg=name)
  for a, e in zip(result.theta_moments.mean, expected.theta_moments.mean, strict=True):
    np.testing.assert_allclose(a, e, rtol=0, atol=1e-8)


@pytest.mark.parametrize(
  'changes',
  # Split data, and split chains with burn-in, whose graph is another.
  [
    pytest.param({'num_burnin_steps': 0}, marks=pytest.mark.optimized),
    {'sampler': 'langevin', 'regularizer': 0.5},
  ],
)
def test_a_run_is_that_of_one_device(strategy, changes):
  result, expected = _sample(strategy=strategy, **changes), _sample(**changes)
  assert 0.1 < np.mean(expected.trace['acceptance']) < 0.98  # so that a decision could differ
  _assert_same_run(result, expected)
  x = sampling_runs.X_TEST
  np.testing.assert_allclose(result.predict(x).mean, expected.predict(x).mean, rtol=0, atol=1e-8)


def test_a_run_in_data_space_is_that_of_one_device(strategy):
  rng = np.random.default_rng(0)
  data = dict(x=rng.normal(size=(5, 6)), x_test=rng.normal(size=(4, 6)), y=rng.normal(size=(5, 2)))

  def run(**changes):
    model = tfr.models.fcn((6,), 2, 12, depth=1, dtype='float64')
    return sampling_runs.sample(model, hidden_space='data', num_burnin_steps=0, **data, **changes)

  result, expected = run(strategy=strategy), run()
  assert [s.space for s in result.posterior.split.layer_spaces] == ['data']
  _assert_same_run(result, expected)
  np.testing.assert_allclose(
    result.test_prediction.mean, expected.test_prediction.mean, rtol=0, atol=1e-8
  )


def test_a_run_goes_on_with_other_devices_and_says_so(strategy, tmp_path):
  _sample(strategy=strategy, run_dir=tmp_path, num_results=6, num_burnin_steps=0)
  with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter('always')
    result = _sample(run_dir=tmp_path, num_burnin_steps=0)
  [said] = [str(w.message) for w in caught if w.category is UserWarning]
  assert 'goes on with 1 device(s) after 2: to the same numbers up to rounding' in said
  _assert_same_run(result, _sample(num_burnin_steps=0))


def test_the_command_line_takes_a_strategy(tmp_path):
  flags = '--data=toy --num_test=4 --width=4 --depth=1 --num_chains=2 --num_results=2 --thinning=1'
  more = '--num_burnin_steps=0 --step_size=0.1 --quiet --no-report --strategy=mirrored --devices=2'
  assert main.main(['sample', *flags.split(), *more.split(), f'--run_dir={tmp_path}']) == 0
  assert json.loads((tmp_path / 'settings.json').read_text())['num_replicas'] == 2


def test_the_benchmark_of_two_devices_runs_at_toy_size(strategy, capsys, tmp_path, monkeypatch):
  # A process has one strategy: the exchanges of a second one would have the same numbers.
  monkeypatch.setattr(tf.distribute, 'MirroredStrategy', lambda _: strategy)
  path = tmp_path / 'figures.json'
  arguments = f'--widths=4 --nums_data=7 --num_rounds=1 --json={path}'
  script_modules.run('benchmark_distributed', arguments.split())
  output = capsys.readouterr().out
  assert 'two / one' in output and '| 4 | 7 | 2 |' in output
  assert json.loads(path.read_text())


def test_whole_programs_are_not_compiled_for_several_devices(strategy, compilation_policy):
  compilation_policy('always')
  with strategy.scope():
    assert not tfr.compilation.compiles_everything()
  assert tfr.compilation.compiles_everything()
