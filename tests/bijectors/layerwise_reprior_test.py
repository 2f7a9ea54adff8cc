"""LayerwiseReprior: Jacobian, round trips, limits, and which layers it maps."""

import keras
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp
import toys

import tfp_reprior as tfr


def _reprior(n=5, width=4, chains=(), regularizer=3.0, num_directions=None):
  posterior = toys.tiny_posterior(n=n, width=width, depth=3)
  anchor = posterior.sample_prior(chains, seed=3)
  reprior = tfr.LayerwiseReprior(posterior, anchor, regularizer, num_directions=num_directions)
  return posterior, reprior


# All directions of few data, all that features can have of more, and some; the first layer has
# constant inputs.
@pytest.mark.parametrize('n, num_directions', [(3, None), (8, None), (8, 2)])
def test_log_dets_are_those_of_the_autodiff_jacobian(n, num_directions):
  posterior, reprior = _reprior(n, num_directions=num_directions)
  assert reprior.layer_directions[1:] == [num_directions or min(n, 5)] * 2
  shapes = posterior.split.event_shapes
  phi = posterior.sample_prior(seed=1)
  for function, log_det in (
    (reprior.forward, reprior.forward_log_det_jacobian(phi)),
    (reprior.inverse, reprior.inverse_log_det_jacobian(phi)),
  ):
    jacobian = toys.jacobian(
      lambda rows, fn=function: toys.flat(fn(toys.unflat(rows, shapes)), 1), toys.flat(phi)
    )
    np.testing.assert_allclose(log_det, np.linalg.slogdet(jacobian)[1], atol=1e-9)


@pytest.mark.parametrize('chains', [(), (3,), (2, 2)])
def test_round_trips_and_chains_equal_a_loop(chains):
  posterior, reprior = _reprior(chains=chains, regularizer=[3.0, 0.5, 10.0])
  anchor = posterior.sample_prior(chains, seed=3)
  phi = posterior.sample_prior(chains, seed=1)
  theta = reprior.forward(phi)
  log_det = reprior.forward_log_det_jacobian(phi)
  np.testing.assert_allclose(log_det, -reprior.inverse_log_det_jacobian(theta), atol=1e-10)
  for part, back in zip(phi, reprior.inverse(theta), strict=True):
    np.testing.assert_allclose(back, part, atol=1e-10)
  for index in list(np.ndindex(*chains))[-1:]:
    own = tfr.LayerwiseReprior(posterior, [p[index] for p in anchor], [3.0, 0.5, 10.0])
    for part, expected in zip(theta, own.forward([p[index] for p in phi]), strict=True):
      np.testing.assert_allclose(part[index], expected, atol=1e-10)


@pytest.mark.parametrize('lam, num_directions', [(2.0, None), (2.0, 2), (0.01, None)])
def test_layers_have_the_readout_map_for_targets_of_the_anchor(lam, num_directions):
  # The second layer alone, naively: psi of the first, which has no map, and v of the anchor.
  posterior, reprior = _reprior(regularizer=[np.inf, lam, np.inf], num_directions=num_directions)
  anchor, phi = posterior.sample_prior(seed=3), posterior.sample_prior(seed=1)

  def psi_of(kernel, bias):
    z = 2**0.5 / 3**0.5 * posterior.x @ kernel + 0.1 * bias
    h = 0.5 * z * (1 + tf.math.erf(z / 2**0.5))  # TensorFlow's GELU has a constant in float32
    return np.concatenate([2**0.5 / 2 * h, np.full([5, 1], 0.1)], axis=1)

  v = psi_of(*anchor[:2]) @ np.concatenate([anchor[2], anchor[3][np.newaxis]])
  u, roots, _ = np.linalg.svd(psi_of(*anchor[:2]))
  shrinkage = 1 / np.sqrt(1 + roots**2 / lam)
  assert (np.min(shrinkage) < 1 / 3) == (lam < 1)
  # Noise that leaves a third of the prior standard deviation, in place of less.
  variances = np.where(shrinkage < 1 / 3, roots**2 / 8, lam)
  omega = (u * np.sqrt(lam / variances)).T[:num_directions][::-1]  # eigenvalues ascend
  layer = tfr.ReadoutReprior(
    lambda *hidden: omega @ psi_of(*hidden), omega @ v, lam, event_ndims=[2, 1, 2, 1], space='data'
  )
  for part, expected in zip(reprior.forward(phi), layer.forward(phi[:4]), strict=False):
    np.testing.assert_allclose(part, expected, atol=1e-10)


def test_directions_are_those_with_eigenvalues_above_a_third_of_the_regularizer():
  x = np.random.default_rng(1).normal(size=[60, 9]).astype(np.float32)
  posterior = tfr.Posterior(tfr.models.fcn((9,), 1, width=50, depth=2), x, x[:, :1])
  anchor = posterior.sample_prior(seed=1)
  psi = tfr.models.ReadoutSplit(tfr.models.fcn((9,), 1, width=50, depth=1)).embed(anchor[:2], x)
  counts = {}
  for regularizer in (0.3, 3.0, 30.0):
    reprior = tfr.LayerwiseReprior(posterior, anchor, regularizer)
    counts[regularizer] = reprior.layer_directions[1]
    # The readout has a weight_std of 1, hidden layers of sqrt(2). Another draw, so rough.
    expected = np.sum(np.linalg.svd(2**0.5 * psi, compute_uv=False) ** 2 > regularizer / 3)
    assert expected - 4 <= counts[regularizer] <= expected + 12
    assert counts[regularizer] % 8 == 0
  assert counts[30.0] < counts[3.0] < counts[0.3]


def test_features_without_some_direction_of_the_data_have_a_map_still():
  # Three inputs and no bias: a linear layer has rank three for eight data and seven units.
  model = toys.functional(
    (3,),
    keras.layers.Dense(7, use_bias=False),
    keras.layers.Dense(4, 'tanh', use_bias=False),
    keras.layers.Dense(1),
  )
  x = np.random.default_rng(1).normal(size=[8, 3]).astype(np.float32)
  posterior = tfr.Posterior(model, x, x[:, :1], noise_scale=0.1)
  reprior = tfr.LayerwiseReprior(posterior, posterior.sample_prior(seed=1), 2.0)
  assert reprior.layer_directions[1] == 7
  phi = posterior.sample_prior(seed=2)
  for part, back in zip(phi, reprior.inverse(reprior.forward(phi)), strict=True):
    np.testing.assert_allclose(back, part, atol=1e-4)


def test_infinity_is_the_map_of_the_readout():
  posterior, reprior = _reprior(regularizer=np.inf)
  phi = posterior.sample_prior(2, seed=1)
  expected = posterior.reprior()
  for part, other in zip(reprior.forward(phi), expected.forward(phi), strict=True):
    np.testing.assert_allclose(part, other, atol=1e-12)
  log_det = expected.forward_log_det_jacobian(phi)
  np.testing.assert_allclose(reprior.forward_log_det_jacobian(phi), log_det, atol=1e-12)
  _, large = _reprior(regularizer=1e12)
  np.testing.assert_allclose(large.forward(phi)[2], phi[2], atol=1e-5)


def _chain_of_dense_and_other_layers():
  """A shared layer, a convolution, plain layers, and one inside of another model."""
  inner = toys.functional((6,), keras.layers.Dense(5, activation='tanh', name='nested'))
  shared = keras.layers.Dense(6, name='twice')
  return toys.functional(
    (4, 4, 1),
    tfr.layers.NTKConv2D(2, 3, strides=2, name='convolution'),
    keras.layers.Flatten(),
    keras.layers.Dense(6, use_bias=False, name='plain'),
    shared,
    shared,
    inner,
    tfr.layers.NTKDense(4, name='ntk', bias_std=0.1),
    keras.layers.Dense(1),
  )


def test_layers_that_cannot_have_a_map_keep_their_weights():
  x = np.random.default_rng(1).normal(size=[5, 4, 4, 1]).astype(np.float32)
  posterior = tfr.Posterior(_chain_of_dense_and_other_layers(), x, x[:, 0, 0], noise_scale=0.1)
  reprior = tfr.LayerwiseReprior(posterior, posterior.sample_prior(seed=1), 2.0)
  assert reprior.layer_names == ['plain', 'nested', 'ntk']
  phi = posterior.sample_prior(2, seed=2)
  theta = reprior.forward(phi)
  paths = [v.path for v in posterior.split.model.trainable_variables]
  for path, part, moved in zip(paths, phi, theta, strict=True):
    is_kept = 'twice' in path or 'convolution' in path
    assert np.allclose(part, moved) == is_kept, path
  single = reprior.forward([p[1] for p in phi])
  for part, expected in zip(theta, single, strict=True):
    np.testing.assert_allclose(part[1], expected, atol=1e-4)
  for part, back in zip(phi, reprior.inverse(theta), strict=True):
    np.testing.assert_allclose(back, part, atol=1e-3)


def test_plain_layers_take_all_chains_at_once():
  model = toys.functional((3,), keras.layers.Dense(4, 'relu'), keras.layers.Dense(1))
  x = np.ones([5, 3], np.float32)
  posterior = tfr.Posterior(model, x, x[:, :1], noise_scale=0.1)
  reprior = tfr.LayerwiseReprior(posterior, posterior.sample_prior(seed=1), 2.0)
  phi = posterior.sample_prior(3, seed=2)
  graph = tf.function(reprior.forward, autograph=False).get_concrete_function(phi).graph
  assert sum(op.type == 'Relu' for op in graph.get_operations()) == 1
  for part, back in zip(phi, reprior.inverse(reprior.forward(phi)), strict=True):
    np.testing.assert_allclose(back, part, atol=1e-4)


def test_layers_in_data_space_with_constant_inputs_have_a_map():
  posterior = toys.tiny_posterior(n=4, inputs=9, width=4, depth=2).in_space('data')
  assert posterior.split.names_in_data_space == ['hidden_1', 'hidden_2']
  reprior = tfr.LayerwiseReprior(posterior, posterior.sample_prior(seed=3), 2.0)
  assert reprior.layer_names == ['hidden_1']
  phi = posterior.sample_prior(2, seed=1)
  theta = reprior.forward(phi)
  np.testing.assert_array_equal(theta[1], phi[1])
  np.testing.assert_allclose(reprior.inverse(theta)[0], phi[0], atol=1e-10)
  # The square root of its prior covariance given v, whose product with itself does not depend on
  # which root it is.
  zero, unit = (reprior.forward([s * p for p in phi])[0] for s in (0.0, 1.0))
  chol = posterior.split._data_layers[0].constant_chol
  precision = np.eye(4) + chol.T @ chol / 2.0
  np.testing.assert_allclose(
    np.sum((unit - zero) * (precision @ (unit - zero))), np.sum(phi[0] ** 2), rtol=1e-9
  )


def test_compiled_and_float32():
  model = tfr.models.fcn((3,), 1, width=4, depth=2)
  x = np.random.default_rng(1).normal(size=[6, 3]).astype(np.float32)
  posterior = tfr.Posterior(model, x, x[:, :1], noise_scale=0.1)
  reprior = tfr.LayerwiseReprior(posterior, posterior.sample_prior(seed=1), 2.0)
  phi = posterior.sample_prior(2, seed=2)

  @tf.function(autograph=False, jit_compile=True)
  def run(phi):
    theta = reprior.forward(phi)
    return theta, reprior.inverse(theta), reprior.forward_log_det_jacobian(phi)

  theta, back, log_det = run(phi)
  np.testing.assert_allclose(log_det, reprior.forward_log_det_jacobian(phi), rtol=1e-4)
  for part, other, moved, plain in zip(phi, back, theta, reprior.forward(phi), strict=True):
    np.testing.assert_allclose(other, part, atol=1e-4)
    np.testing.assert_allclose(moved, plain, atol=1e-4)


def test_kernels_of_tfp_step_through_it():
  posterior, reprior = _reprior(chains=(2,))
  theta = posterior.sample_prior(2, seed=1)
  kernel = tfp.mcmc.TransformedTransitionKernel(
    tfp.mcmc.HamiltonianMonteCarlo(posterior.target_log_prob_fn, 1e-3, 3), reprior
  )

  @tf.function(autograph=False)
  def run():
    return kernel.one_step(theta, kernel.bootstrap_results(theta), seed=[1, 2])

  # The energy is kept by a short trajectory, if gradients are those of the density.
  _, results = run()
  np.testing.assert_allclose(results.inner_results.log_accept_ratio, 0.0, atol=1e-3)


@pytest.mark.parametrize(
  'change, message',
  [
    (dict(anchor=lambda a: a[:3]), '`anchor` must be a list of 8 tensors'),
    (dict(anchor=lambda a: [a[0][:, :2], *a[1:]]), r'`anchor\[0\]` must have shape'),
    (dict(regularizer=[1.0, 2.0]), r"one for each of the layers \['hidden_1'"),
    (dict(regularizer=0.0), 'must be positive, for each layer; infinity for no map'),
    (dict(regularizer='noise'), "must be positive.*Received: regularizer='noise'"),
  ],
)
def test_what_is_wrong_is_refused_by_name(change, message):
  posterior = toys.tiny_posterior(depth=3)
  anchor = change.get('anchor', list)(posterior.sample_prior(seed=1))
  with pytest.raises(ValueError, match=message):
    tfr.LayerwiseReprior(posterior, anchor, change.get('regularizer', 1.0))


def test_chunks_are_refused():
  posterior = toys.tiny_posterior()
  chunked = tfr.Posterior(posterior.split, posterior.x, posterior.y, chunk_size=2, noise_scale=0.1)
  with pytest.raises(ValueError, match='chunk_size=2'):
    tfr.LayerwiseReprior(chunked, posterior.sample_prior(seed=1), 1.0)
