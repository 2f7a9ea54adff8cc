"""Several devices: two of them in a process of their own, TPUs as far as a trace goes."""

import collections
import pathlib
import re
import subprocess
import sys
import types

import numpy as np
import pytest
import sampling_runs
import script_modules
import tensorflow as tf
import tensorflow_probability as tfp
import toys

import tfp_reprior as tfr
from tfp_reprior.internal import parts as parts_lib
from tfp_reprior.sampling import driver, observations, runner, warmup


class FakeTPUs(tf.distribute.cluster_resolver.SimpleClusterResolver):
  """Says that there are TPU cores. Programs can be traced for them, but not compiled or run."""

  def __init__(self, num_cores):
    super().__init__(tf.train.ClusterSpec({'worker': ['localhost:0']}))
    self._num_cores = num_cores

  def get_tpu_system_metadata(self):
    device = collections.namedtuple('Device', 'name')
    prefix = '/job:worker/replica:0/task:0/device:TPU:'
    devices = tuple(device(f'{prefix}{i}') for i in range(self._num_cores))
    num = self._num_cores
    return tf.tpu.experimental.TPUSystemMetadata(num, 1, num, None, devices)


def _posterior():
  rng = np.random.default_rng(0)
  x, y = rng.normal(size=(10, 3)), rng.normal(size=(10, 2))
  return tfr.Posterior(tfr.models.fcn((3,), 2, width=8), x, y, noise_scale=0.1)  # in float32


def _sampling_loop(posterior, strategy):
  """A function of hidden parts that samples inside the strategy."""

  def sample(density, *hidden):
    kernel = tfr.mcmc.RotationLangevin(density.log_likelihood_fn, step_size=0.1, damping=0.1)
    return tfp.mcmc.sample_chain(
      3, list(hidden), kernel=kernel, trace_fn=lambda _, r: r.target_log_prob, seed=(1, 2)
    )

  def run(*hidden):
    return tfr.CollapsedPosterior(posterior, strategy=strategy).run_on_replicas(sample, *hidden)

  return run


def _assert_all_on_tpu(graph):
  """Checks that loops are on the TPU, not around it, and need no host. Returns the operations."""
  loops = [n for n in graph.node if n.op in ('While', 'StatelessWhile')]
  assert loops and all('_tpu_replicate' in n.attr for n in loops)
  ops = {n.op for f in graph.library.function for n in f.node_def} | {n.op for n in graph.node}
  assert 'CrossReplicaSum' in ops
  assert not ops & {'PyFunc', 'EagerPyFunc', 'RandomStandardNormal'}
  compiled = [f for f in graph.library.function if f.attr['_XlaMustCompile'].b]
  assert not compiled  # apart from the rest, which is compiled as a whole
  return ops


def test_two_devices_in_a_process_of_their_own():
  path = pathlib.Path(__file__).with_name('two_devices.py')
  result = subprocess.run(
    [sys.executable, '-m', 'pytest', '-p', 'no:cacheprovider', str(path)],
    capture_output=True,
    text=True,
    timeout=600,
    env=script_modules.several_threads(),
  )
  assert result.returncode == 0, result.stdout + result.stderr


def test_the_loop_on_a_tpu_is_one_program_with_static_shapes():
  posterior = _posterior()  # 10 rows for 4 cores, so that shards are padded
  strategy = tf.distribute.TPUStrategy(FakeTPUs(4))
  hidden = posterior.sample_prior(2, seed=1)[: posterior.split.num_hidden]
  run = tf.function(_sampling_loop(posterior, strategy), autograph=False)
  program = run.get_concrete_function(*hidden)
  states, log_probs = program.structured_outputs
  assert [s.shape for s in states] == [[3, *h.shape] for h in hidden]
  assert log_probs.shape == [3, 2]
  _assert_all_on_tpu(program.graph.as_graph_def())


def _precisions(text):
  return set(re.findall(r'dot_general.*?precision = (\[\w+, \w+\])', text))


def test_the_loop_in_stablehlo_is_portable_and_in_full_precision():
  posterior = _posterior()
  hidden = posterior.sample_prior(2, seed=1)[: posterior.split.num_hidden]
  strategy = tf.distribute.OneDeviceStrategy('CPU:0')
  run = tf.function(_sampling_loop(posterior, strategy), autograph=False, jit_compile=True)
  with tfr.compilation.full_precision():
    text = run.experimental_get_compiler_ir(*hidden)(stage='stablehlo')
  assert _precisions(text) == {'[HIGHEST, HIGHEST]'}
  assert 'stablehlo.while' in text and 'stablehlo.cholesky' in text
  assert 'custom_call' not in text
  assert not re.search(r'\bf64\b|xf64', text)
  assert not re.search(r'tensor<\?|x\?x', text)


def test_the_loop_inside_is_that_outside():
  posterior = toys.tiny_posterior(n=7)
  hidden = posterior.sample_prior(2, seed=1)[: posterior.split.num_hidden]
  strategy = tf.distribute.OneDeviceStrategy('CPU:0')
  states, _ = tf.function(_sampling_loop(posterior, strategy), autograph=False)(*hidden)
  kernel = tfr.mcmc.RotationLangevin(
    tfr.CollapsedPosterior(posterior).log_likelihood_fn, step_size=0.1, damping=0.1
  )
  expected = tfp.mcmc.sample_chain(3, hidden, kernel=kernel, trace_fn=None, seed=(1, 2))
  for a, e in zip(states, expected, strict=True):
    np.testing.assert_allclose(a, e, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
  'make',
  [
    lambda posterior, strategy: tfr.CollapsedPosterior(posterior, strategy=strategy),
    tfr.densities.SplitChains,
    tfr.densities.SplitData,
  ],
)
def test_a_strategy_is_no_name(make):
  with pytest.raises(TypeError, match="`strategy` must be a .* Received: strategy='mirrored'"):
    make(toys.tiny_posterior(), 'mirrored')


def test_data_space_cannot_be_split():
  strategy = tf.distribute.OneDeviceStrategy('CPU:0')
  with pytest.raises(ValueError, match="strategies need .* Received: space='data'"):
    tfr.CollapsedPosterior(toys.tiny_posterior(), space='data', strategy=strategy)


def test_chains_without_a_dimension_cannot_be_split():
  posterior = toys.tiny_posterior()
  density = tfr.densities.SplitChains(posterior, tf.distribute.OneDeviceStrategy('CPU:0'))
  with pytest.raises(ValueError, match='`parts` must have a chain dimension.* Received: parts of'):
    density.target_log_prob_fn(*posterior.sample_prior(seed=1))


@pytest.mark.parametrize('sampler', ['rotation', 'standard'])  # which split data, and chains
def test_warm_up_runs_under_a_strategy(sampler):
  posterior, changes = toys.tiny_posterior(), dict(num_warmup_steps=100, progress=False)
  strategy = tf.distribute.OneDeviceStrategy('CPU:0')
  alone = tfr.warm_up(posterior, sampler=sampler, **changes)
  found = tfr.warm_up(posterior, sampler=sampler, strategy=strategy, **changes)
  assert found.step_size == pytest.approx(alone.step_size, rel=1e-4)


def _driver_loop(posterior, strategy, x_test):
  """A function of states that makes draws as `sample_posterior` does, and observes them."""

  def run(*state):
    sampler = tfr.make_sampler(posterior, strategy=strategy)
    observer = observations.Observer(sampler, x_test, num_projections=3, seed=1)
    chosen = {'step_size': 0.1, 'damping': 0.1, 'num_integrator_steps': 2}
    kernel = warmup.sampling_kernel(sampler, chosen)
    loop = runner.Runner(kernel, observer.draw, 2, seed=2, run_loop=sampler.run_loop)
    carry = loop.start(list(state), observer.empty(state[0].shape[0]))
    # What `advance` runs; it needs numbers for its results.
    return sampler.run_loop(loop._run_steps, carry, *map(tf.constant, (0, 0, 10)))

  return tf.function(run, autograph=False)


def test_a_run_on_a_tpu_is_one_program_with_static_shapes(monkeypatch):
  monkeypatch.setattr(parts_lib, '_LARGE', 0)  # as with many weights
  posterior = _posterior()
  strategy = tf.distribute.TPUStrategy(FakeTPUs(4))
  x_test = tf.ones([3, 3])
  state = posterior.sample_prior(2, seed=1)
  with strategy.scope():
    program = _driver_loop(posterior, strategy, x_test).get_concrete_function(*state)
  carry, trace = program.structured_outputs
  shapes = {name: values.shape for name, values in trace.items()}
  assert (
    shapes['theta'] == shapes['f'] == [26, 2, 3]
  )  # as many draws as a call can make, and one that it begins
  assert carry.summary.f_mean.mean.shape == [2, 3, 2]
  assert all(t.shape.is_fully_defined() for t in tf.nest.flatten(carry))
  ops = _assert_all_on_tpu(program.graph.as_graph_def())
  assert 'Cholesky' in ops and 'StatelessRandomUniformFullIntV2' in ops


def test_a_run_with_the_loop_inside_is_that_without():
  model = tfr.models.fcn((1,), 2, 8, depth=1, dtype='float64')
  strategy = tf.distribute.OneDeviceStrategy('CPU:0')
  changes = dict(seed=5, num_burnin_steps=0)
  result = sampling_runs.sample(model, strategy=strategy, **changes)
  expected = sampling_runs.sample(model, **changes)
  for name, values in expected.trace.items():
    np.testing.assert_allclose(result.trace[name], values, rtol=0, atol=1e-9, err_msg=name)


def test_products_would_otherwise_be_rounded():
  gram = tf.function(lambda a: tf.matmul(a, a, transpose_a=True), jit_compile=True)
  text = gram.experimental_get_compiler_ir(tf.ones([3, 2]))(stage='stablehlo')
  assert _precisions(text) == {'[DEFAULT, DEFAULT]'}


def test_runs_compute_in_full_precision(monkeypatch):
  seen = []

  def run(*_):
    seen.append(tf.config.experimental.tensor_float_32_execution_enabled())
    return types.SimpleNamespace(verdict=types.SimpleNamespace(level='good'))

  monkeypatch.setattr(driver.Driver, 'run', run)
  tfr.sample_posterior(toys.tiny_posterior())
  assert seen == [False] and tf.config.experimental.tensor_float_32_execution_enabled()


@pytest.mark.parametrize('changes', [{'sampler': 'standard'}, {'regularizer': 0.5}])
def test_tpus_split_data_only(changes):
  strategy = tf.distribute.TPUStrategy(FakeTPUs(2))
  with pytest.raises(ValueError, match='On TPUs only data can be split.* Received: likelihood='):
    tfr.make_sampler(toys.tiny_posterior(), strategy=strategy, **changes)


def test_loops_go_on_replicas_that_take_them():
  density = tfr.CollapsedPosterior(
    toys.tiny_posterior(), strategy=tf.distribute.MirroredStrategy(['CPU:0'])
  )
  with pytest.raises(ValueError, match='`run_on_replicas` needs .* Received: strategy=<.*Mirrored'):
    density.run_on_replicas(lambda density: 0)
