"""Different samplers, the same posterior: long runs on small networks."""

import numpy as np
import pytest
import scipy.stats
import statistics_lib as stats
import tensorflow as tf
import tensorflow_probability as tfp
import toys

import tfp_reprior as tfr
from tfp_reprior.internal import random
from tfp_reprior.sampling import runner

NUM_CHAINS = 64
KERNELS = {  # sampler whose coordinates are used, and settings
  'standard': ('standard', 0.1, 0.1),
  'langevin': ('langevin', 0.2, 0.1),
  'rotation': ('rotation', 0.25, 0.1),
  'crank_nicolson': ('crank_nicolson', 0.15, None),
  'elliptical_slice': ('langevin', None, None),
  'nuts': ('standard', 0.1, None),
}


def _chain_moments(name, posterior, regularizer=None, moves_readout=None):
  """Mean and mean square of predictions for each chain, `[c, 2 * m * k]`; chains are independent.

  Predictions are outputs with Gaussian noise, probabilities for classes, and for other likelihoods
  means of observations, outputs and parameters.
  """
  coordinates, step_size, damping = KERNELS[name]
  sampler = tfr.make_sampler(
    posterior, coordinates, regularizer=regularizer, moves_readout=moves_readout
  )
  if name == 'elliptical_slice':
    shapes = [(NUM_CHAINS, *s) for s in posterior.split.event_shapes]
    kernel = tfp.experimental.mcmc.EllipticalSliceSampler(
      normal_sampler_fn=lambda seed: random.normal_parts(shapes, tf.float64, seed),
      log_likelihood_fn=tfr.CollapsedPosterior(posterior).log_likelihood_fn,
    )
  elif name == 'nuts':
    kernel = tfp.mcmc.NoUTurnSampler(posterior.target_log_prob_fn, step_size, max_tree_depth=5)
  else:
    kernel = sampler.kernel_fn(step_size, damping)
  start = sampler.start_fn(NUM_CHAINS, seed=1)
  if name == 'nuts':  # which moves the parts of the posterior themselves
    start = sampler.theta_fn(start)
  is_general = isinstance(posterior.likelihood, tfr.likelihoods.FromDistribution)
  x_new = np.random.default_rng(9).normal(size=(3, posterior.x.shape[1]))

  def trace_fn(state, _):
    theta = state if name == 'nuts' else sampler.theta_fn(state)
    outputs = posterior.split.apply(theta, x_new)
    predictions = [posterior.likelihood_given(theta).mean(outputs), outputs]
    values = [*predictions, *posterior.parameters_given(theta).values()]
    flat = [tf.cast(tf.reshape(v, [NUM_CHAINS, -1]), tf.float64) for v in values]
    return {'prediction': tf.concat(flat if is_general else flat[:1], axis=-1)}

  trace, _ = runner.run_chains(
    kernel,
    start,
    trace_fn,
    num_draws=600 if name == 'nuts' else 2500,
    thinning=1 if name == 'nuts' else 4,
    seed=2,
  )
  predictions = trace['prediction'][len(trace['prediction']) // 5 :]  # [s, c, m * k]
  return np.concatenate([predictions.mean(axis=0), (predictions**2).mean(axis=0)], axis=-1)


def _p_value(moments, reference, size):
  """Two-sample z-test, Bonferroni.

  At a p-value of 1e-6 it sees differences of ten standard errors, which must be less than `size`.
  """
  error = np.sqrt((moments.var(0, ddof=1) + reference.var(0, ddof=1)) / NUM_CHAINS)
  assert np.all(10 * error < size), 'the chains must be long enough to see a difference'
  z = np.abs(moments.mean(0) - reference.mean(0)) / error
  return len(z) * 2 * scipy.stats.norm.sf(np.max(z))


def _gaussian():
  return toys.tiny_posterior(n=6, width=8, outputs=1)


def _categorical():
  x = np.linspace(-1, 1, 6)[:, np.newaxis]
  model = tfr.models.fcn((1,), 3, width=3, depth=1, dtype='float64')
  labels = np.array([0, 0, 1, 1, 2, 1])
  return tfr.Posterior(model, x, labels, likelihood=tfr.likelihoods.Categorical())


@pytest.fixture(scope='module')
def reference():
  return _chain_moments('langevin', _gaussian())


@pytest.mark.slow
@pytest.mark.parametrize('name', [name for name in KERNELS if name != 'langevin'])
def test_posterior_moments_of_predictions_agree(name, reference):
  # Against the moments' own size of about one. The false-alarm rate is 1e-6.
  assert _p_value(_chain_moments(name, _gaussian()), reference, size=0.5) > stats.FALSE_ALARM


@pytest.fixture(scope='module')
def nuts_of_classes():
  return _chain_moments('nuts', _categorical())


@pytest.mark.slow
@pytest.mark.parametrize(
  ('name', 'regularizer', 'moves_readout'),
  [
    ('rotation', None, False),
    ('rotation', None, True),
    ('rotation', 'sites', True),
    ('langevin', None, None),
    ('crank_nicolson', None, None),  # in weights: with regularizer=1 chains are too slow
  ],
)
def test_posterior_moments_of_class_probabilities_are_those_of_nuts(
  name, regularizer, moves_readout, nuts_of_classes
):
  # NUTS knows neither the map nor its surrogate. Differences of 0.1 in a probability are seen.
  moments = _chain_moments(name, _categorical(), regularizer, moves_readout)
  assert _p_value(moments, nuts_of_classes, size=0.1) > stats.FALSE_ALARM


class _Surrogate(tfr.likelihoods.Categorical):
  """Takes the Gaussian that stands in for the likelihood itself."""

  def log_prob(self, outputs, targets):
    z, variance = self.surrogate(targets, outputs.shape[-1], outputs.dtype)
    return -0.5 * tf.reduce_sum(tf.square(outputs - z), axis=[-2, -1]) / variance


@pytest.mark.slow
def test_the_posterior_of_the_surrogate_would_not_pass(nuts_of_classes):
  exact = _categorical()
  posterior = tfr.Posterior(exact.split, exact.x, exact.y, likelihood=_Surrogate())
  moments = _chain_moments('rotation', posterior)
  assert _p_value(moments, nuts_of_classes, size=0.1) < stats.FALSE_ALARM


def _general(likelihood):
  x = np.linspace(-1, 1, 6)[:, np.newaxis]
  model = tfr.models.fcn((1,), likelihood.outputs_per_target, width=3, depth=1, dtype='float64')
  y = np.array([0.0, 1.0, 1.0, 3.0, 2.0, 1.0])
  return tfr.Posterior(model, x, y, likelihood=likelihood)


@pytest.mark.slow
@pytest.mark.parametrize(
  'likelihood',
  [
    tfr.likelihoods.StudentT(tfp.distributions.LogNormal(-0.5, 0.5)),
    tfr.likelihoods.Heteroscedastic(0.8),
    tfr.likelihoods.FromDistribution(lambda f: tfp.distributions.Poisson(log_rate=f)),
  ],
  ids=['student_t', 'heteroscedastic', 'poisson'],
)
def test_posterior_moments_of_any_likelihood_are_those_of_nuts(likelihood):
  # NUTS moves the weights and parameters, and knows neither the map nor its surrogate. Moments are
  # of the size of one or more.
  posterior = _general(likelihood)
  moments = _chain_moments('rotation', posterior)
  assert _p_value(moments, _chain_moments('nuts', posterior), size=2.0) > stats.FALSE_ALARM
