"""ReadoutReprior: density, round trips, limits, gradients, and what a step costs."""

import gc
import weakref

import numpy as np
import pytest
import scipy.stats
import tensorflow as tf
import tensorflow_probability as tfp
import toys

import tfp_reprior as tfr

SPACES = ['feature', 'data']


def _autodiff_log_det(function, parts):
  """log|det| of the dense Jacobian of a function over all parts, without chain dimensions."""
  shapes = [p.shape for p in parts]
  return np.linalg.slogdet(
    toys.jacobian(lambda rows: toys.flat(function(toys.unflat(rows, shapes)), 1), toys.flat(parts))
  )[1]


@pytest.mark.parametrize('space', SPACES)
@pytest.mark.parametrize('bias', [True, False])
@pytest.mark.parametrize('n', [2, 8])
@pytest.mark.parametrize('outputs', [1, 3])
def test_log_dets_are_those_of_the_autodiff_jacobian(space, bias, n, outputs):
  posterior = toys.tiny_posterior(n=n, outputs=outputs, bias=bias)
  reprior = posterior.reprior(space=space)
  chains = posterior.sample_prior(2, seed=1)
  fldj = reprior.forward_log_det_jacobian(chains)
  ildj = reprior.inverse_log_det_jacobian(chains)
  for c in range(2):
    parts = [p[c] for p in chains]
    np.testing.assert_allclose(fldj[c], _autodiff_log_det(reprior.forward, parts), atol=1e-9)
    np.testing.assert_allclose(ildj[c], _autodiff_log_det(reprior.inverse, parts), atol=1e-9)


@pytest.mark.parametrize('space', SPACES)
@pytest.mark.parametrize('chains', [(), (4,), (2, 3)])
def test_round_trips_and_chains_equal_a_loop(space, chains):
  posterior = toys.tiny_posterior()
  reprior = posterior.reprior(space=space)
  phi = posterior.sample_prior(chains, seed=1)
  theta = reprior.forward(phi)
  fldj = reprior.forward_log_det_jacobian(phi)
  for part, back in zip(phi, reprior.inverse(theta), strict=True):
    np.testing.assert_allclose(back, part, atol=1e-10)
  for index in np.ndindex(*chains):
    single = reprior.forward([p[index] for p in phi])
    for part, expected in zip(theta, single, strict=True):
      np.testing.assert_allclose(part[index], expected, atol=1e-10)
    expected = reprior.forward_log_det_jacobian([p[index] for p in phi])
    np.testing.assert_allclose(fldj[index], expected, atol=1e-10)


def test_hidden_parts_pass_through():
  posterior = toys.tiny_posterior()
  phi = posterior.sample_prior(seed=1)
  for part, theta in zip(phi[:2], posterior.reprior().forward(phi)[:2], strict=True):
    np.testing.assert_array_equal(part, theta)


@pytest.mark.parametrize('lam', [0.09, 2.0])
def test_both_spaces_give_the_same_density_of_hidden_parts(lam):
  # Integrating phi_out out of the density in phi leaves a function of the hidden parts. For
  # Gaussian phi_out the integral is exact from value, gradient and Hessian at one point.
  posterior = toys.tiny_posterior(n=4, width=5, outputs=1)
  hidden = posterior.sample_prior(seed=1)[:2]

  def marginal(space):
    reprior = posterior.reprior(lam, space)
    shapes = posterior.split.event_shapes[2:]
    phi_out = tf.zeros([6], tf.float64)
    with tf.GradientTape() as outer, tf.GradientTape() as inner:
      outer.watch(phi_out)
      inner.watch(phi_out)
      parts = [*hidden, *toys.unflat(phi_out, shapes)]
      value = posterior.target_log_prob_fn(*reprior.forward(parts))
      value += reprior.forward_log_det_jacobian(parts)
      gradient = inner.gradient(value, phi_out)
    precision = -outer.jacobian(gradient, phi_out).numpy()
    shift = gradient.numpy() @ np.linalg.solve(precision, gradient.numpy()) / 2
    return value.numpy() + shift - np.linalg.slogdet(precision)[1] / 2

  np.testing.assert_allclose(marginal('feature'), marginal('data'), atol=1e-9)


@pytest.mark.parametrize('space', SPACES)
def test_density_in_phi_is_the_collapsed_one(space):
  # log p(phi | D) = log N(phi; 0, I) - V(hidden), V from dense NumPy; also the constant.
  posterior = toys.tiny_posterior()
  reprior = posterior.reprior(space=space)
  phi = posterior.sample_prior(seed=2)
  psi = posterior.features_fn(*phi[:2]).numpy()
  y, (n, k) = posterior.y.numpy(), posterior.y.shape
  gram = posterior.likelihood.noise_variance * np.eye(n) + psi @ psi.T
  v = np.trace(y.T @ np.linalg.solve(gram, y)) / 2 + k / 2 * np.linalg.slogdet(gram)[1]
  expected = posterior.log_prior_fn(*phi) - v - n * k / 2 * np.log(2 * np.pi)
  actual = posterior.target_log_prob_fn(*reprior.forward(phi))
  actual += reprior.forward_log_det_jacobian(phi)
  np.testing.assert_allclose(actual, expected, atol=1e-9)


@pytest.mark.parametrize('space', SPACES)
def test_frozen_hidden_layers_give_the_exact_ridge_posterior(space):
  posterior = toys.tiny_posterior(outputs=2)
  reprior = posterior.reprior(space=space)
  hidden = posterior.sample_prior(seed=3)[:2]
  psi = posterior.features_fn(*hidden).numpy()
  d, k = psi.shape[1], 2
  shapes = posterior.split.event_shapes[2:]

  def readout(phi_out):
    parts = reprior.forward([*hidden, *toys.unflat(phi_out, shapes)])
    return np.concatenate([parts[2], parts[3][np.newaxis]])  # [d, k]

  mean = readout(tf.zeros([d * k], tf.float64))
  columns = [(readout(e) - mean).ravel() for e in tf.eye(d * k, dtype=tf.float64)]
  root = np.stack(columns, axis=1)
  sigma = np.linalg.inv(np.eye(d) + psi.T @ psi / 0.09)
  np.testing.assert_allclose(mean, sigma @ psi.T @ posterior.y / 0.09, atol=1e-10)
  np.testing.assert_allclose(root @ root.T, np.kron(sigma, np.eye(k)), atol=1e-10)


@pytest.mark.parametrize('space', SPACES)
def test_large_regularizer_is_the_identity(space):
  posterior = toys.tiny_posterior()
  reprior = posterior.reprior(regularizer=1e8, space=space)
  phi = posterior.sample_prior(seed=1)
  for part, theta in zip(phi, reprior.forward(phi), strict=True):
    np.testing.assert_allclose(theta, part, atol=1e-6)
  np.testing.assert_allclose(reprior.forward_log_det_jacobian(phi), 0.0, atol=1e-6)


@pytest.mark.parametrize('space', SPACES)
@pytest.mark.parametrize('jit_compile', [False, True])
def test_float32_agrees_with_float64_compiled_or_not(space, jit_compile):
  rng = np.random.default_rng(0)
  psi, y = rng.normal(size=(6, 4)), rng.normal(size=(6, 2))
  phi = rng.normal(size=(4, 2))
  results = []
  for dtype in (np.float32, np.float64):
    features = tf.constant(psi, dtype)
    reprior = tfr.ReadoutReprior(
      lambda features=features: features, y.astype(dtype), 0.1, [2], space
    )
    forward = tf.function(reprior.forward, jit_compile=jit_compile)
    results.append(forward([tf.constant(phi, dtype)])[0])
  assert results[0].dtype == tf.float32
  np.testing.assert_allclose(results[0], results[1], atol=1e-5)


def _skewed(parts):
  """A scalar whose gradient depends on the values of all parts."""
  return tf.add_n([tf.reduce_sum(tf.sin(p) * p**2) for p in parts])


# What a step evaluates: a map and a log-determinant for each gradient, and a map for the new state.
# In eager mode each step of a loop is a Python call; TFP's own kernels call everything twice there.
@pytest.mark.parametrize('num_gradients, traced', [(1, True), (1, False), (3, False)])
def test_cost_of_a_step_of_a_transformed_kernel(num_gradients, traced, monkeypatch):
  posterior = toys.tiny_posterior()
  calls = {'features': 0, 'network': 0}

  def count(name, function):
    def counted(*args):
      calls[name] += 1
      return function(*args)

    return counted

  monkeypatch.setattr(posterior.split, 'embed', count('network', posterior.split.embed))
  features_fn = count('features', posterior.features_fn)
  reprior = posterior.reprior().copy(features_fn=features_fn)
  langevin = tfr.mcmc.UnderdampedLangevin(posterior.target_log_prob_fn, 0.1, 0.1, num_gradients)
  kernel = tfp.mcmc.TransformedTransitionKernel(langevin, reprior)
  phi = posterior.sample_prior(seed=1)
  results = kernel.bootstrap_results(transformed_init_state=phi)

  def step(results):
    return kernel.one_step(phi, results, seed=tf.constant([1, 2]))

  calls.update(features=0, network=0)
  if traced:
    tf.function(step, autograph=False).get_concrete_function(results)
  else:
    step(results)
  assert calls == {'features': 2 * num_gradients + 1, 'network': 3 * num_gradients + 1}


@pytest.mark.parametrize('space', SPACES)
@pytest.mark.parametrize('name', ['forward', 'inverse', 'forward_log_det_jacobian'])
def test_a_second_tape_in_a_graph_has_the_gradient_of_eager_mode(name, space):
  posterior = toys.tiny_posterior()
  reprior = posterior.reprior(space=space)
  function = getattr(reprior, name)

  def gradients(*parts, num_tapes=2):
    result = []
    for _ in range(num_tapes):
      with tf.GradientTape() as tape:
        tape.watch(parts[:2])
        value = _skewed(tf.nest.flatten(function(list(parts))))
      result.append(tape.gradient(value, parts[:2]))
    return result

  phi = posterior.sample_prior(seed=1)
  [expected] = gradients(*phi, num_tapes=1)
  for actual in tf.function(gradients, autograph=False)(*phi):
    for a, e in zip(actual, expected, strict=True):
      np.testing.assert_allclose(a, e, rtol=0, atol=1e-10)


@pytest.mark.parametrize('traced', [False, True])
def test_a_tape_sees_the_gradient_after_a_call_outside_of_it(traced):
  posterior = toys.tiny_posterior()
  reprior = posterior.reprior()
  phi = posterior.sample_prior(seed=1)

  def gradient(*phi):
    reprior.forward(list(phi))
    with tf.GradientTape() as tape:
      tape.watch(phi[0])
      fldj = reprior.forward_log_det_jacobian(list(phi))
    return tape.gradient(fldj, phi[0])

  direction = tf.random.stateless_normal(phi[0].shape, [1, 2], dtype=tf.float64)
  ends = [
    reprior.forward_log_det_jacobian([phi[0] + e * direction, *phi[1:]]) for e in (1e-5, -1e-5)
  ]
  actual = (tf.function(gradient, autograph=False) if traced else gradient)(*phi)
  slope = (ends[0] - ends[1]) / 2e-5
  np.testing.assert_allclose(tf.reduce_sum(actual * direction), slope, rtol=1e-6)


def test_inverse_of_forward_is_computed_and_differentiable():
  # This holds because the cache of TFP is off; see `caching.Uncached`.
  posterior = toys.tiny_posterior()
  reprior = posterior.reprior()
  phi = posterior.sample_prior(seed=1)
  theta = reprior.forward(phi)
  with tf.GradientTape() as tape:
    tape.watch(theta)
    back = reprior.inverse(theta)[2]
  assert back is not phi[2]
  assert tape.gradient(back, theta[2]) is not None


def test_traced_graphs_are_released():
  posterior = toys.tiny_posterior()
  reprior = posterior.reprior()
  graphs = []
  for _ in range(3):
    function = tf.function(lambda *parts: reprior.inverse(reprior.forward(list(parts))))
    concrete = function.get_concrete_function(*posterior.sample_prior(seed=1))
    graphs.append(weakref.ref(concrete.graph))
    del function, concrete
  gc.collect()
  assert not any(graph() is not None for graph in graphs)


@pytest.mark.parametrize('traced', [False, True])
def test_first_gradient_in_a_transformed_kernel_is_right(traced):
  # Without identities in `_join` the gradient of the hidden parts also follows phi_out.
  posterior = toys.tiny_posterior()
  reprior = posterior.reprior()
  kernel = tfp.mcmc.TransformedTransitionKernel(
    tfr.mcmc.UnderdampedLangevin(posterior.target_log_prob_fn, 0.1, 0.1), reprior
  )
  theta = posterior.sample_prior(seed=4)

  def bootstrap(*theta):
    return kernel.bootstrap_results(list(theta)).inner_results.grads_target_log_prob

  grads = (tf.function(bootstrap) if traced else bootstrap)(*theta)
  phi = reprior.inverse(theta)

  def density(*phi):
    parts = list(phi)
    value = posterior.target_log_prob_fn(*reprior.forward(parts))
    return value + reprior.forward_log_det_jacobian(parts)

  for i, grad in enumerate(grads):
    direction = tf.random.stateless_normal(phi[i].shape, [1, i], dtype=tf.float64)
    ends = [[*phi[:i], phi[i] + e * direction, *phi[i + 1 :]] for e in (1e-5, -1e-5)]
    slope = (density(*ends[0]) - density(*ends[1])) / 2e-5
    np.testing.assert_allclose(tf.reduce_sum(grad * direction), slope, rtol=1e-6)


def test_tfp_contract_of_shapes_and_dtypes():
  posterior = toys.tiny_posterior()
  reprior = posterior.reprior()
  shapes = [tf.TensorShape(s) for s in posterior.split.event_shapes]
  assert reprior.forward_min_event_ndims == [2, 1, 2, 1]
  assert reprior.inverse_min_event_ndims == [2, 1, 2, 1]
  assert reprior.forward_event_shape(shapes) == shapes
  assert reprior.inverse_event_shape(shapes) == shapes
  assert reprior.forward_dtype([tf.float64] * 4) == [tf.float64] * 4
  assert reprior.dtype == tf.float64
  assert not reprior.is_constant_jacobian
  copy = reprior.copy(regularizer=1e8)
  assert copy.regularizer.numpy() == 1e8 and copy.space == 'auto'


def test_as_the_bijector_of_a_transformed_distribution():
  tfd = tfp.distributions
  posterior = toys.tiny_posterior()
  reprior = posterior.reprior()
  base = tfd.JointDistributionSequential(
    [tfd.Sample(tfd.Normal(tf.zeros([], tf.float64), 1.0), s) for s in posterior.split.event_shapes]
  )
  # The density of hidden ~ N(0, I) and theta_out ~ N(mu, Sigma) for each output, by dense NumPy.
  theta = [p.numpy() for p in posterior.sample_prior(seed=1)]
  psi = posterior.features_fn(*theta[:2]).numpy()
  sigma = np.linalg.inv(np.eye(psi.shape[1]) + psi.T @ psi / 0.09)
  residuals = np.vstack([theta[2], theta[3]]) - sigma @ psi.T @ posterior.y.numpy() / 0.09
  expected = sum(scipy.stats.norm.logpdf(p).sum() for p in theta[:2])
  expected += scipy.stats.multivariate_normal.logpdf(residuals.T, cov=sigma).sum()
  distribution = tfd.TransformedDistribution(base, reprior)
  np.testing.assert_allclose(distribution.log_prob(theta), expected, atol=1e-9)


def test_repr_says_what_it_is():
  reprior = toys.tiny_posterior().reprior(space='data')
  expected = (
    "tfr.ReadoutReprior('readout_reprior', n=5, k=2, regularizer=0.09, space='data', "
    'num_parts=4, dtype=float64)'
  )
  assert repr(reprior) == str(reprior) == expected


def _linear(**kwargs):
  arguments = dict(
    features_fn=lambda: np.ones([3, 2]), targets=np.ones([3, 1]), regularizer=0.1, event_ndims=[2]
  )
  return tfr.ReadoutReprior(**{**arguments, **kwargs})


@pytest.mark.parametrize('regularizer', [0.0, -1.0, np.nan])
def test_regularizer_must_be_positive(regularizer):
  with pytest.raises(ValueError, match=f'`regularizer` must be positive. .*{regularizer}'):
    _linear(regularizer=regularizer)


def test_features_must_be_a_function():
  with pytest.raises(TypeError, match='`features_fn` must be callable. Received: int'):
    _linear(features_fn=3)


@pytest.mark.parametrize('targets', [np.ones([3]), np.ones([3, 1], np.int32)])
def test_targets_must_be_a_float_matrix(targets):
  with pytest.raises(ValueError, match='`targets` must be floating point of shape'):
    _linear(targets=targets)


@pytest.mark.parametrize('event_ndims', [[], [1], [2, 2, 1, 1]])
def test_event_ndims_must_end_in_a_readout(event_ndims):
  with pytest.raises(ValueError, match='`event_ndims` must end in 2'):
    _linear(event_ndims=event_ndims)


def test_features_must_have_a_row_for_each_target():
  reprior = _linear(features_fn=lambda: np.ones([4, 2]))
  with pytest.raises(ValueError, match=r'a row for each target. Received: .*\(4, 2\)'):
    reprior.forward([np.ones([2, 1])])


def test_features_must_have_the_dtype_of_the_targets():
  reprior = _linear(features_fn=lambda: np.ones([3, 2], np.float32))
  with pytest.raises(TypeError, match='psi of dtype float32, targets of dtype float64'):
    reprior.forward([np.ones([2, 1])])


def test_readout_must_have_as_many_outputs_as_the_targets():
  with pytest.raises(ValueError, match=r'as many outputs as the targets, 1. .*\(2, 3\)'):
    _linear().forward([np.ones([2, 3])])


def test_wrong_number_of_parts_is_refused():
  with pytest.raises(ValueError, match='has length 1, while shallow structure has length 4'):
    toys.tiny_posterior().reprior().forward([tf.ones([2, 2], tf.float64)])


def test_validate_args_finds_features_that_are_not_finite():
  reprior = _linear(features_fn=lambda: np.full([3, 2], np.nan), validate_args=True)
  with pytest.raises(tf.errors.InvalidArgumentError, match='features `psi` must be finite'):
    reprior.forward([np.ones([2, 1])])


def test_validate_args_finds_a_regularizer_that_is_known_only_at_run_time():
  @tf.function
  def forward(regularizer):
    return _linear(regularizer=regularizer, validate_args=True).forward([np.ones([2, 1])])

  with pytest.raises(tf.errors.InvalidArgumentError, match='`regularizer` must be positive'):
    forward(tf.constant(-1.0, tf.float64))
