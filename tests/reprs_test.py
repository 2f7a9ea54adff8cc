"""What objects look like in a notebook or a log: one readable line each."""

import math

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp
import toys

import tfp_reprior as tfr


def _kernel(settings=None):
  step_size = 0.2 if settings is None else settings.step_size
  return tfr.mcmc.UnderdampedLangevin(lambda x: -(x**2), step_size, damping=0.1)


def _block():
  return tfr.sampling.Block('length', 0.039, 0.92, 33, 1.0, 25, [0.71, 0.8, 0.75], -12.5)


def _warmup(damping=0.92):
  state = [np.zeros([4, 100, 100])]
  return tfr.sampling.Warmup(0.0391, damping, 33, 831, 20 * [_block()], [], 'noise', state)


def _result():
  posterior = toys.tiny_posterior()
  settings = {'sampler': 'rotation', 'num_chains': 4, 'thinning': 10}
  trace = {'acceptance': np.ones([200, 4])}
  return tfr.sampling.Result(posterior, settings, trace, {}, {}, None, True, [], None)


def _verdict():
  trace = {'acceptance': np.full([500, 4], 0.8)}
  trace['log_likelihood'] = np.random.default_rng(1).normal(size=[500, 4])
  trace['log_likelihood'][:, 2] = 3.0
  return tfr.diagnostics.judge(trace)


def _running():
  running = tfr.diagnostics.RunningDiagnostics()
  running.update(np.zeros([30, 4, 10]))
  return running


def _linearized():
  return tfr.experimental.LinearizedReprior(toys.tiny_posterior(), log_det='taylor')


def _on_one_device(density_class, density):
  return density_class(density, tf.distribute.OneDeviceStrategy('CPU:0'))


def _layerwise(layerwise_class):
  posterior = toys.tiny_posterior()
  return layerwise_class(posterior, posterior.sample_prior(seed=1), 3.0)


def _collapsed(**settings):
  return tfr.CollapsedPosterior(toys.tiny_posterior(), **settings)


MAKERS = {
  'Bernoulli': lambda: tfr.likelihoods.Bernoulli(),
  'BernoulliPrediction': lambda: tfr.sampling.BernoulliPrediction(np.full([9, 3, 2], 0.5)),
  'Block': _block,
  'Categorical': lambda: tfr.likelihoods.Categorical(surrogate_scale=2.0),
  'CategoricalPrediction': lambda: tfr.sampling.CategoricalPrediction(np.full([9, 3, 2], 0.5)),
  'CollapsedPosterior': _collapsed,
  'ComposedPosterior': lambda: tfr.ComposedPosterior(toys.tiny_posterior()),
  'LayerwisePosterior': lambda: _layerwise(tfr.LayerwisePosterior),
  'LayerwiseReprior': lambda: _layerwise(tfr.LayerwiseReprior),
  'Dataset': lambda: tfr.data.load('digits', num_train=50, num_test=10),
  'Gaussian': lambda: tfr.likelihoods.Gaussian(np.linspace(0.1, 0.2, 50)),
  'Jittered': lambda: tfr.mcmc.Jittered(_kernel, tfr.mcmc.KernelSettings(tf.constant(0.2))),
  'KernelEstimate': lambda: tfr.theory.KernelEstimate(np.ones([30, 20]), np.ones([30, 20])),
  'LinearizedReprior': _linearized,
  'PreconditionedCrankNicolson': lambda: tfr.mcmc.PreconditionedCrankNicolson(
    lambda x: x, step_size=np.full([100], 0.1)
  ),
  'DistributionPrediction': lambda: tfr.sampling.DistributionPrediction(
    tfp.distributions.Poisson(np.ones([9, 3, 2]))
  ),
  'FromDistribution': lambda: tfr.likelihoods.FromDistribution(lambda f: f),
  'Heteroscedastic': lambda: tfr.likelihoods.Heteroscedastic(),
  'StudentT': lambda: tfr.likelihoods.StudentT(),
  'Prediction': lambda: tfr.sampling.Prediction(np.ones([9, 3, 2]), np.ones([9, 3, 2]), 0.01),
  'Preparation': lambda: tfr.data.Preparation([0.5] * 500, [1.5] * 500, [3.0], [2.0]),
  'RandomProjections': lambda: tfr.diagnostics.RandomProjections(50 * [(3, 2)]),
  'ReadoutReprior': lambda: toys.tiny_posterior().reprior(),
  'ReadoutSplit': lambda: toys.tiny_posterior().split,
  'Result': _result,
  'RotationLangevin': lambda: tfr.mcmc.RotationLangevin(lambda x: x, 50 * [0.123456789], 0.1),
  'RunningDiagnostics': _running,
  'Sampler': lambda: tfr.make_sampler(toys.tiny_posterior()),
  'SplitChains': lambda: _on_one_device(tfr.densities.SplitChains, _collapsed()),
  'SplitData': lambda: _on_one_device(tfr.densities.SplitData, toys.tiny_posterior()),
  'UnderdampedLangevin': _kernel,
  'Posterior': toys.tiny_posterior,
  'Verdict': _verdict,
  'Warmup': _warmup,
}


@pytest.mark.parametrize('name', sorted(MAKERS))
def test_a_repr_is_one_readable_line(name):
  text = repr(MAKERS[name]())
  assert text.removeprefix('tfr.').startswith(f'{name}(') and text.endswith(')')
  assert '\n' not in text and len(text) < 160
  assert '0x' not in text and 'array(' not in text and 'tf.Tensor' not in text


@pytest.mark.parametrize(
  ('name', 'text'),
  [
    (
      'Block',
      "Block('length', step_size=0.039, damping=0.92, num_integrator_steps=33, "
      'num_transitions=25, acceptance=0.71 to 0.80)',
    ),
    ('Gaussian', 'Gaussian(noise_scale=[0.1, 0.102041, 0.104082, 0.106122, ...])'),
    (
      'Jittered',
      'Jittered(step_size=0.2, damping=1, num_integrator_steps=1, '
      'inverse_temperature=1, num_adaptation_steps=0)',
    ),
    ('PreconditionedCrankNicolson', 'PreconditionedCrankNicolson(step_size=array of shape (100,))'),
    (
      'RotationLangevin',
      'RotationLangevin(step_size=[0.1235, 0.1235, 0.1235, 0.1235, ...], '
      'damping=0.1, num_integrator_steps=1, num_stages=1)',
    ),
    (
      'Warmup',
      'Warmup(step_size=0.0391, damping=0.92, num_integrator_steps=33, num_gradients=831)',
    ),
  ],
)
def test_a_repr_tells_what_matters(name, text):
  assert repr(MAKERS[name]()) == text


def test_a_verdict_tells_its_worst_figures():
  text = repr(_verdict())
  assert text.startswith("Verdict('failed', num_reasons=1, max_r_hat=") and 'min_bulk_ess=' in text


def test_a_sampler_without_momentum_has_no_damping():
  assert 'damping' not in repr(_warmup(damping=math.nan))


def test_a_density_tells_settings_that_are_not_the_default():
  assert repr(_collapsed()).endswith(')))') and 'space' not in repr(_collapsed())
  assert repr(_collapsed(chunk_size=2)).endswith(', chunk_size=2)')
  assert repr(_collapsed(space='data')).endswith(", space='data')")


def test_a_number_of_a_graph_is_a_question_mark():
  texts = []

  @tf.function
  def trace(step_size):
    texts.append(repr(tfr.mcmc.UnderdampedLangevin(lambda x: -(x**2), step_size, damping=0.5)))
    return step_size

  trace(tf.constant(0.1))
  assert 'step_size=?, damping=0.5' in texts[0]
