"""The density of the hidden parts alone, with the kernels and adaptors of TFP."""

import math

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp
import toys

import tfp_reprior as tfr

NUM_WARMUP = 6


def _make(n=5):
  posterior = toys.tiny_posterior(n=n)
  return posterior, tfr.CollapsedPosterior(posterior)


def test_it_is_the_density_of_phi_without_the_readout():
  posterior, collapsed = _make()
  phi = posterior.sample_prior((2, 3), seed=1)
  readout = sum(-0.5 * tf.reduce_sum(p**2 - 1, range(2, p.shape.rank)) for p in phi[2:])
  expected = collapsed.target_log_prob_fn(*phi) - readout
  actual = collapsed.hidden_target_log_prob_fn(*phi[:2])
  np.testing.assert_allclose(actual, expected, rtol=1e-12)


def test_it_is_the_marginal_of_the_posterior():
  # exp(target) integrated over the readout, by value and Hessian: the posterior is normal in it.
  posterior, collapsed = _make()
  shapes = posterior.split.event_shapes[2:]
  d = sum(math.prod(s) for s in shapes)

  def marginal(hidden):
    def density(flat):
      return posterior.target_log_prob_fn(*hidden, *toys.unflat(flat, shapes))

    flat = tf.zeros([d], tf.float64)
    with tf.GradientTape() as outer, tf.GradientTape() as inner:
      outer.watch(flat)
      inner.watch(flat)
      value = density(flat)
      gradient = inner.gradient(value, flat)
    precision = -outer.jacobian(gradient, flat).numpy()
    shift = gradient.numpy() @ np.linalg.solve(precision, gradient.numpy()) / 2
    return value.numpy() + shift - np.linalg.slogdet(precision)[1] / 2

  draws = [[p[i] for p in posterior.sample_prior(2, seed=3)[:2]] for i in range(2)]
  differences = [marginal(h) - collapsed.hidden_target_log_prob_fn(*h).numpy() for h in draws]
  np.testing.assert_allclose(differences[0], differences[1], atol=1e-9)


def test_the_density_of_phi_names_it():
  posterior, collapsed = _make()
  with pytest.raises(tfr.errors.InputError, match='there is `hidden_target_log_prob_fn`. Received'):
    collapsed.target_log_prob_fn(*posterior.sample_prior(seed=1)[:2])


def _nuts(target):
  return tfp.mcmc.DualAveragingStepSizeAdaptation(
    tfp.mcmc.NoUTurnSampler(target, np.float64(0.1), max_tree_depth=2),
    NUM_WARMUP,
    target_accept_prob=np.float64(0.8),
  )


def _chees(target):
  kernel = tfp.mcmc.HamiltonianMonteCarlo(target, np.float64(0.1), num_leapfrog_steps=2)
  kernel = tfp.experimental.mcmc.GradientBasedTrajectoryLengthAdaptation(
    kernel, NUM_WARMUP, max_leapfrog_steps=5
  )
  return tfp.mcmc.DualAveragingStepSizeAdaptation(
    kernel,
    NUM_WARMUP,
    target_accept_prob=np.float64(0.65),
    reduce_fn=tfp.math.reduce_log_harmonic_mean_exp,
  )


def _hmc(target):
  kernel = tfp.mcmc.HamiltonianMonteCarlo(target, np.float64(0.1), num_leapfrog_steps=2)
  return tfp.mcmc.SimpleStepSizeAdaptation(kernel, NUM_WARMUP, target_accept_prob=np.float64(0.65))


@pytest.mark.parametrize('make_kernel', [_nuts, _chees, _hmc], ids=['nuts', 'chees', 'hmc'])
def test_adaptors_of_tfp_move_the_step_size_and_chains(make_kernel):
  posterior, collapsed = _make()
  hidden = posterior.sample_prior(4, seed=1)[:2]
  kernel = make_kernel(collapsed.hidden_target_log_prob_fn)

  @tf.function
  def sample():
    return tfp.mcmc.sample_chain(
      NUM_WARMUP,
      hidden,
      kernel=kernel,
      trace_fn=lambda _, results: results.new_step_size,
      seed=(1, 2),
    )

  draws, step_sizes = sample()
  assert np.all(np.isfinite(draws[0])) and np.all(np.any(draws[0] != hidden[0], axis=(0, 2, 3)))
  assert np.unique(np.reshape(step_sizes, -1)).size > 2
  theta = draws + collapsed.sample_readout(draws, seed=(3, 4))
  assert posterior.target_log_prob_fn(*theta).shape == (NUM_WARMUP, 4)
