"""Data space against NUTS on the weights, against weights space, and by Geweke's joint test."""

import numpy as np
import pytest
import scipy.stats
import statistics_lib as stats
import tensorflow as tf
import tensorflow_probability as tfp
import toys

import tfp_reprior as tfr
from tfp_reprior.models import data_space_split
from tfp_reprior.sampling import runner

NUM_CHAINS = 64
NUM_REPLICATES = 2000
NUM_SWEEPS = 5
NOISE_SCALE = 0.2


def _posterior():
  return toys.tiny_posterior(n=3, inputs=3, width=6, outputs=1, depth=2)


def _seed_of(state):
  """A seed for what a state leaves open, another one for each state."""
  return tf.bitcast(state[0][0, 0, 0], tf.int32)  # [2]


def _use_another_prior_scale(split, monkeypatch):
  layer = split._data_layers[1]
  monkeypatch.setattr(layer, 'feature_scale', 1.5 * layer.feature_scale)


def _repeat_what_data_do_not_see(split, monkeypatch):
  """The mistake of drawing it once for all."""
  noise = data_space_split.DataSpaceSplit._noise

  def repeated(hidden_parts, shape_fn, seed):
    draws = noise(split, hidden_parts, shape_fn, [1, 2])
    event = {layer.name: shape_fn(layer) for layer in split._data_layers}
    first = {name: tf.reshape(d, [-1, *event[name]])[0] for name, d in draws.items()}
    return {name: tf.broadcast_to(first[name], d.shape) for name, d in draws.items()}

  monkeypatch.setattr(split, '_noise', repeated)


def _chain_moments(name, mistake=None, monkeypatch=None):
  """Means and mean squares of 18 weights and outputs by chain, `[c, 36]`."""
  posterior = _posterior()
  x_new = np.random.default_rng(9).normal(size=(3, 3))
  x = tf.concat([posterior.x, x_new], axis=0)
  if name == 'nuts':
    sampler = tfr.make_sampler(posterior, 'standard')
    kernel = tfp.mcmc.NoUTurnSampler(posterior.target_log_prob_fn, 0.15, max_tree_depth=5)
  else:
    sampler = tfr.make_sampler(posterior, 'rotation', hidden_space=name)
    kernel = sampler.kernel_fn(0.3, 0.2)
  if mistake is not None:
    mistake(sampler.posterior.split, monkeypatch)

  def trace_fn(state, _):
    theta = sampler.theta_fn(state, _seed_of(state))
    outputs = posterior.split.apply(theta, x)[..., 0]  # [c, 6]
    weights = [theta[0][:, :, 0], theta[1][:, :2], theta[2][:, :4, 0], theta[3][:, :2]]
    return {'values': tf.concat([outputs, *weights, theta[4][:, :1, 0]], axis=-1)}

  trace, _ = runner.run_chains(
    kernel,
    sampler.start_fn(NUM_CHAINS, seed=1),
    trace_fn,
    num_draws=800 if name == 'nuts' else 2000,
    thinning=1 if name == 'nuts' else 4,
    seed=2,
  )
  values = trace['values'][len(trace['values']) // 5 :]  # [s, c, 18]
  return np.concatenate([values.mean(axis=0), (values**2).mean(axis=0)], axis=-1)


def _p_value(moments, reference, size=0.4):
  """Two-sample z-test, Bonferroni.

  At a p-value of 1e-6 it sees differences of ten standard errors, which must be less than `size`:
  moments are of the order of one.
  """
  error = np.sqrt((moments.var(0, ddof=1) + reference.var(0, ddof=1)) / NUM_CHAINS)
  assert np.all(10 * error < size), 'the chains must be long enough to see a difference'
  z = np.abs(moments.mean(0) - reference.mean(0)) / error
  return len(z) * 2 * scipy.stats.norm.sf(np.max(z))


@pytest.fixture(scope='module')
def in_data_space():
  return _chain_moments('data')


@pytest.mark.slow
@pytest.mark.parametrize('name', ['nuts', 'weights'])
def test_posterior_moments_are_those_of_samplers_of_weights(name, in_data_space):
  # 36 moments of weights of all layers and of outputs at old and new inputs; false-alarm rate 1e-6.
  assert _p_value(in_data_space, _chain_moments(name)) > stats.FALSE_ALARM


@pytest.mark.slow
@pytest.mark.parametrize('mistake', [_use_another_prior_scale, _repeat_what_data_do_not_see])
def test_moments_with_a_mistake_are_others(mistake, in_data_space, monkeypatch):
  moments = _chain_moments('data', mistake, monkeypatch)
  assert _p_value(moments, in_data_space) < stats.FALSE_ALARM


def _geweke_p_value(mistake=None, monkeypatch=None, sign=1.0):
  """Of weights that have their prior, after sweeps of simulating data and steps in data space."""
  x = np.array([[-1.0, 0.3], [0.5, 1.2]])
  model = tfr.models.fcn((2,), 1, width=3, depth=2, dtype='float64')
  network = tfr.models.ReadoutSplit(model)
  split = tfr.models.DataSpaceSplit(network, tf.constant(x), 'data')
  assert [s.space for s in split.layer_spaces] == ['data', 'data']
  if mistake is not None:
    mistake(split, monkeypatch)

  def replicate(arguments):
    seed, *theta = arguments
    for sweep in range(NUM_SWEEPS):
      data_seed, kernel_seed = tfp.random.split_seed(seed + sweep, n=2)
      noise = tf.random.stateless_normal([2, 1], data_seed, dtype=tf.float64)
      y = network.apply(theta, x) + NOISE_SCALE * noise
      collapsed = tfr.CollapsedPosterior(tfr.Posterior(split, x, y, NOISE_SCALE))
      kernel = tfr.mcmc.RotationLangevin(
        lambda *h, fn=collapsed.log_likelihood_fn: sign * fn(*h), 0.8, 0.3
      )
      hidden = split.from_weights(theta)[:2]
      results = kernel.bootstrap_results(hidden)
      for i in range(2):
        hidden, results = kernel.one_step(hidden, results, seed=kernel_seed + i)
      u = [*hidden, *collapsed.sample_readout(hidden, seed=kernel_seed + 2)]
      theta = split.to_weights(u, seed=kernel_seed + 3)
    return theta

  @tf.function(autograph=False)
  def run():
    theta = network.sample_prior(NUM_REPLICATES, seed=1)
    seeds = tf.random.stateless_uniform(
      [NUM_REPLICATES, 2], [2, 3], minval=None, maxval=None, dtype=tf.int32
    )
    return tf.map_fn(replicate, [seeds, *theta], fn_output_signature=[tf.float64] * 6)

  flat = np.concatenate([np.reshape(p, (NUM_REPLICATES, -1)) for p in run()], axis=1)
  pairs = flat[:, :-1] * flat[:, 1:]  # independence between neighbours
  return stats.mean_p_value(np.concatenate([flat, flat**2 - 1, pairs], axis=1), 0.0)


# With 2,000 replicates errors of 0.25 in a moment are seen; the false-alarm rate is 1e-6.


@pytest.mark.slow
def test_prior_moments_survive_steps_in_data_space():
  assert _geweke_p_value() > stats.FALSE_ALARM


@pytest.mark.slow
def test_prior_moments_do_not_survive_if_what_data_do_not_see_stays(monkeypatch):
  p_value = _geweke_p_value(_repeat_what_data_do_not_see, monkeypatch)
  assert p_value < stats.FALSE_ALARM


@pytest.mark.slow
def test_prior_moments_do_not_survive_a_likelihood_of_the_wrong_sign():
  assert _geweke_p_value(sign=-1.0) < stats.FALSE_ALARM
