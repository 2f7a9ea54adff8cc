"""ReadoutReprior.from_network: a network and a prior of one's own, and no function more."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp
import toys

import tfp_reprior as tfr

tfd = tfp.distributions

NOISE_SCALE = 0.3
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(5, 3)), RNG.normal(size=(5, 2))
SHAPES = [[3, 4], [4], [4, 2], [2]]
STDS = [0.7, 0.4, 1.3, 0.2]
PRIOR = tfd.JointDistributionSequential(
  [
    tfd.Sample(tfd.Normal(np.float64(0), std), shape)
    for std, shape in zip(STDS, SHAPES, strict=True)
  ]
)


def network(x, w1, b1, w2, b2):
  return tf.tanh(x @ w1 + b1[..., tf.newaxis, :]) @ w2 + b2[..., tf.newaxis, :]


def without_bias(x, w1, w2):
  return tf.tanh(x @ w1) @ w2


def normals(chains, seed=1, shapes=SHAPES):
  rng = np.random.default_rng(seed)
  return [tf.constant(rng.normal(size=(*chains, *shape))) for shape in shapes]


def target_log_prob_fn(*parts):
  likelihood = tfd.Independent(tfd.Normal(network(X, *parts), np.float64(NOISE_SCALE)), 2)
  return PRIOR.log_prob(parts) + likelihood.log_prob(Y)


@pytest.fixture(name='reprior', scope='module')
def fixture_reprior():
  return tfr.ReadoutReprior.from_network(network, X, Y, PRIOR, NOISE_SCALE)


@pytest.mark.parametrize('space', ['feature', 'data'])
def test_the_density_in_phi_is_standard_normal_in_the_readout(space):
  # log p(phi | D) = log N(phi_out; 0, I) + a function of the hidden parts, for any two readouts.
  reprior = tfr.ReadoutReprior.from_network(network, X, Y, PRIOR, NOISE_SCALE, space=space)
  hidden = normals((3,))[:2]

  def rest(seed):
    readout = normals((3,), seed)[2:]
    phi = [*hidden, *readout]
    value = target_log_prob_fn(*reprior.forward(phi)) + reprior.forward_log_det_jacobian(phi)
    return value - sum(
      tf.reduce_sum(tfd.Normal(np.float64(0), 1).log_prob(p), axis=range(1, p.shape.rank))
      for p in readout
    )

  np.testing.assert_allclose(rest(2), rest(3), atol=1e-9)


def test_round_trips_log_dets_and_scales_of_hidden_parts(reprior):
  phi = normals(())
  theta = reprior.forward(phi)
  np.testing.assert_allclose(theta[0], STDS[0] * phi[0], rtol=1e-14)
  for part, back in zip(phi, reprior.inverse(theta), strict=True):
    np.testing.assert_allclose(back, part, atol=1e-10)
  jacobian = toys.jacobian(
    lambda rows: toys.flat(reprior.forward(toys.unflat(rows, SHAPES)), 1), toys.flat(phi)
  )
  log_det = np.linalg.slogdet(jacobian)[1]
  np.testing.assert_allclose(reprior.forward_log_det_jacobian(phi), log_det, atol=1e-9)
  np.testing.assert_allclose(reprior.inverse_log_det_jacobian(theta), -log_det, atol=1e-9)


def test_it_is_the_map_of_the_keras_model():
  posterior = toys.tiny_posterior(depth=1, n=5, inputs=3, width=4, outputs=2)
  stds = [2**0.5 / 3**0.5, 0.1, 0.5, 0.1]  # fcn: weight_std 2**0.5, readout 1, biases 0.1
  prior = [
    tfd.Normal(tf.zeros(shape, tf.float64), std) for std, shape in zip(stds, SHAPES, strict=True)
  ]

  def gelu_network(x, w1, b1, w2, b2):
    h = x @ w1 + b1[..., tf.newaxis, :]
    h = h * tfd.Normal(np.float64(0), 1).cdf(h)
    return h @ w2 + b2[..., tf.newaxis, :]

  reprior = tfr.ReadoutReprior.from_network(gelu_network, posterior.x, posterior.y, prior, 0.3)
  phi = posterior.sample_prior(2, seed=1)
  expected = posterior.reprior().forward(phi)
  for std, part, theta in zip(stds, reprior.forward(phi), expected, strict=True):
    np.testing.assert_allclose(part, std * theta, atol=1e-9)


def test_chains_of_tfp_run_from_exact_starts(reprior):
  kernel = tfp.mcmc.TransformedTransitionKernel(
    tfp.mcmc.HamiltonianMonteCarlo(target_log_prob_fn, np.float64(0.1), 2), reprior
  )
  start = reprior.forward(normals((4,)))
  _, is_accepted = tfp.mcmc.sample_chain(
    5,
    start,
    kernel=kernel,
    trace_fn=lambda _, results: results.inner_results.is_accepted,
    seed=(1, 2),
  )
  assert np.mean(is_accepted) > 0.7


def test_a_readout_without_bias_and_plain_lists_of_normals():
  prior = [tfd.Normal(tf.zeros([3, 4]), 1.0), tfd.Normal(tf.zeros([4, 2]), 0.5)]
  reprior = tfr.ReadoutReprior.from_network(
    without_bias, X.astype(np.float32), Y, prior, NOISE_SCALE
  )
  phi = [tf.ones([2, 3, 4]), tf.ones([2, 4, 2])]
  assert [p.shape for p in reprior.forward(phi)] == [p.shape for p in phi]
  assert reprior.dtype == tf.float32


_KERNEL = tfd.Normal(tf.zeros([4, 2], tf.float64), 1.0)
_HIDDEN = tfd.Normal(tf.zeros([3, 4], tf.float64), 1.0)


@pytest.mark.parametrize(
  'arguments, message',
  [
    (dict(network_fn=3), '`network_fn` must be callable. Received: int'),
    (
      dict(prior=_KERNEL),
      'JointDistributionSequential` or a list of distributions. Received: Norm',
    ),
    (dict(prior=[_HIDDEN, lambda w: _KERNEL]), 'independent distributions. Received: a function'),
    (
      dict(prior=[_KERNEL, tfd.Normal(np.float64(0), 1.0)]),
      r'`prior` must end in that of the read',
    ),
    (dict(prior=[_HIDDEN, tfd.Normal(_KERNEL.loc + 1, 1.0)]), 'mean zero in the readout.*up to 1'),
    (dict(prior=[_HIDDEN, tfd.Normal(_KERNEL.loc, [1.0, 2.0])]), 'from 1 to 2 in part 1'),
    (dict(y=Y[:, :1]), r'`y` must have shape \[n, 2\]. Received: y of shape \(5, 1\)'),
    (dict(noise_scale=-1.0), '`noise_scale` must be positive. Received: noise_scale=-1.0'),
    (
      dict(network_fn=lambda x, w1, w2: tf.tanh(without_bias(x, w1, w2))),
      'must be linear in its last parts.*which differ by',
    ),
    (
      dict(network_fn=lambda x, w1, w2: tf.reshape(without_bias(x, w1, w2), [-1, 5, 2]) + [1.0, 2]),
      'must be linear|any number of outputs',
    ),
    (
      dict(network_fn=lambda x, w1, w2: without_bias(x, w1, w2) + tf.zeros([5, 2], tf.float64)),
      'any number of outputs. Received: with 4 in place of 2',
    ),
  ],
)
def test_mistakes_are_named(arguments, message):
  valid = dict(network_fn=without_bias, x=X, y=Y, prior=[_HIDDEN, _KERNEL], noise_scale=NOISE_SCALE)
  with pytest.raises(tfr.errors.InputError, match=message):
    tfr.ReadoutReprior.from_network(**{**valid, **arguments})


def test_scales_of_the_wrong_number_are_refused():
  with pytest.raises(tfr.errors.InputError, match='one entry for each of 1 parts. Received: 2'):
    tfr.ReadoutReprior(lambda: X, Y, 1.0, event_ndims=[2], part_scales=[1.0, 2.0])
