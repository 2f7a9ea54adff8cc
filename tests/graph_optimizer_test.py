"""The optimizer of graphs changes nothing but rounding: users run with it, most tests without."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp
import toys
from tensorflow.python.eager import context

import tfp_reprior as tfr

# What a sampler moves, and of which posterior: all densities and integrators.
CASES = {
  'weights': dict(sampler='standard', step_size=0.03),
  'collapsed': dict(sampler='rotation', num_integrator_steps=2),
  'composed': dict(sampler='langevin', regularizer=0.5),
  'data space': dict(sampler='auto', hidden_space='data'),
  'every layer': dict(sampler='rotation', layer_regularizer=3.0),
  'without gradient': dict(sampler='crank_nicolson'),
  'classes': dict(sampler='rotation', y=[0, 1, 1, 0]),
  'unknown noise': dict(sampler='rotation', noise=tfp.distributions.LogNormal(np.float64(-1), 0.5)),
}


@pytest.fixture
def set_optimizer():
  """Function that turns the optimizer on, or off; undone after the test."""
  before = tf.config.optimizer.get_experimental_options()

  def set_optimizer(is_on):
    tf.config.optimizer.set_experimental_options({'disable_meta_optimizer': not is_on})

  yield set_optimizer
  tf.config.optimizer.set_experimental_options(before)


def _posterior(y=None, noise=0.3):
  tiny = toys.tiny_posterior(n=4, inputs=6, width=9, depth=2)
  if y is None:
    return tfr.Posterior(tiny.split, tiny.x, tiny.y, noise)
  return tfr.Posterior(tiny.split, tiny.x, y, likelihood=tfr.likelihoods.Categorical())


@pytest.mark.parametrize('name', CASES)
def test_transitions_are_the_same(name, set_optimizer):
  case = dict(CASES[name])
  posterior = _posterior(**{k: case.pop(k) for k in ('y', 'noise') if k in case})
  num_steps, step_size = case.pop('num_integrator_steps', 1), case.pop('step_size', 0.4)
  sampler = tfr.make_sampler(posterior, **case)
  kernel = sampler.kernel_fn(step_size, 0.5 if sampler.has_damping else None, num_steps)
  start = sampler.start_fn(3, seed=1)

  @tf.function(autograph=False)
  def run(*start):
    results = kernel.bootstrap_results(list(start))
    state, results = kernel.one_step(list(start), results, seed=[1, 2])
    return [*state, results.log_accept_ratio, *sampler.theta_fn(state, [3, 4])]

  ends = []
  for is_on in (True, False):
    set_optimizer(is_on)
    ends.append(run(*start))
  assert np.any(ends[0][0] != start[0]), 'chains must move'
  for optimized, plain in zip(*ends, strict=True):
    np.testing.assert_allclose(optimized, plain, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize('is_on', [True, False])
def test_the_setting_decides_whether_graphs_are_rewritten(is_on, set_optimizer):
  set_optimizer(is_on)
  context.enable_run_metadata()
  try:
    tf.function(lambda x: (x + 1.0) * (x + 1.0))(tf.constant(2.0))
    [graphs] = context.export_run_metadata().function_graphs
  finally:
    context.disable_run_metadata()
  ops = [node.op for node in graphs.post_optimization_graph.node]
  assert ('Square' in ops) == is_on


@pytest.mark.optimized
def test_marked_tests_run_with_the_optimizer():
  assert not tf.config.optimizer.get_experimental_options()['disable_meta_optimizer']


def test_others_run_without():
  assert tf.config.optimizer.get_experimental_options()['disable_meta_optimizer']
