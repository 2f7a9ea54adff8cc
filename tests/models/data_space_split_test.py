"""Hidden layers in data space: the same densities, and the map to weights and back."""

import keras
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

import tfp_reprior as tfr
from tfp_reprior.models import data_space_split

CHAINS = [(), (3,), (2, 3)]
TARGETS = np.random.default_rng(1).normal(size=(4, 2))
LIKELIHOODS = {
  'gaussian': (TARGETS, tfr.likelihoods.Gaussian(0.3)),
  'unknown noise': (
    TARGETS,
    tfr.likelihoods.Gaussian(tfp.distributions.LogNormal(np.float64(-1), 0.5)),
  ),
  'two noise scales': (TARGETS, tfr.likelihoods.Gaussian([0.3, 0.5])),
  'categorical': (np.array([0, 1, 1, 0]), tfr.likelihoods.Categorical()),
  'bernoulli': ((TARGETS > 0).astype(int), tfr.likelihoods.Bernoulli()),
}


def _posterior(likelihood='gaussian', dtype='float64', width=9, inputs=6, x=None):
  x = np.random.default_rng(0).normal(size=(4, inputs)) if x is None else x
  model = tfr.models.fcn((inputs,), 2, width, 2, 'tanh', dtype=dtype)
  y, likelihood = LIKELIHOODS[likelihood]
  return tfr.Posterior(model, x, y, likelihood=likelihood)


def _densities(posterior):
  """Functions of all parts of a posterior: all that samplers use for it."""
  yield posterior.log_likelihood_fn
  yield tfr.ComposedPosterior(posterior, 0.5).log_likelihood_fn
  if posterior.likelihood.is_conjugate:
    yield tfr.CollapsedPosterior(posterior).log_likelihood_fn


def _numpy_psi(x, z=None):
  """The features of a hidden layer by the definition: of inputs, or of what came before."""
  h = x if z is None else np.tanh(z)
  scaled = np.sqrt(2 / h.shape[-1]) * h
  return np.concatenate([scaled, np.full((*h.shape[:-1], 1), 0.1)], axis=-1)


def _numpy_factors(x, u):
  """psi and L of both hidden layers for one draw u, in plain NumPy."""
  found, z = [], None
  for u_layer in u[:2]:
    psi = _numpy_psi(x, z)
    chol = np.linalg.cholesky(psi @ psi.T)
    z = chol @ u_layer
    found.append((psi, chol))
  return found, z


def _stack(parts):
  """Kernel over bias, for both hidden layers of weights."""
  return [np.concatenate([parts[i], parts[i + 1][..., np.newaxis, :]], axis=-2) for i in (0, 2)]


@pytest.mark.parametrize('chains', CHAINS)
@pytest.mark.parametrize('likelihood', LIKELIHOODS)
def test_densities_at_u_are_those_at_the_weights(likelihood, chains):
  posterior = _posterior(likelihood)
  space = posterior.in_space('data')
  u = space.sample_prior(chains, seed=1)
  theta = space.split.to_weights(u, seed=2)
  assert [p.shape for p in theta] == [(*chains, *s) for s in posterior.split.event_shapes]
  for density, expected in zip(_densities(space), _densities(posterior), strict=True):
    assert density(*u).shape == chains
    np.testing.assert_allclose(density(*u), expected(*theta), rtol=0, atol=1e-10)


@pytest.mark.parametrize('likelihood', ['gaussian', 'categorical'])
def test_densities_in_float32_are_those_at_the_weights_up_to_its_rounding(likelihood):
  # Kernels here have condition numbers of about 100, with which rounding (6e-8) of psi psi.T comes
  # to 6e-6 of z; the log-likelihoods are of the order of 10, so 1e-3 leaves a factor of ten.
  posterior = _posterior(likelihood, 'float32')
  space = posterior.in_space('data')
  u = space.sample_prior(3, seed=1)
  theta = space.split.to_weights(u, seed=2)
  for density, expected in zip(_densities(space), _densities(posterior), strict=True):
    assert density(*u).dtype == tf.float32
    np.testing.assert_allclose(density(*u), expected(*theta), rtol=0, atol=1e-3)


@pytest.mark.parametrize('likelihood', ['gaussian', 'unknown noise', 'categorical'])
def test_gradients_are_those_of_the_definition(likelihood):
  space = _posterior(likelihood).in_space('data')
  u = space.sample_prior(seed=1)

  def naive(*parts):
    z = None
    for i in range(2):
      h = space.x if z is None else tf.tanh(z)
      scaled = np.sqrt(2 / h.shape[-1]) * h
      psi = tf.concat([scaled, tf.fill([4, 1], tf.constant(0.1, tf.float64))], axis=-1)
      z = tf.matmul(tf.linalg.cholesky(tf.matmul(psi, psi, transpose_b=True)), parts[i])
    outputs = tf.matmul(tf.tanh(z), parts[-2]) / 3.0 + 0.1 * parts[-1]
    outputs *= space.parameters_given(parts).get('output_scale', 1.0)
    return space.likelihood_given(parts).log_prob(outputs, space.y)

  value, grads = tfp.math.value_and_gradient(space.log_likelihood_fn, u)
  expected, expected_grads = tfp.math.value_and_gradient(naive, u)
  np.testing.assert_allclose(value, expected, rtol=0, atol=1e-10)
  for grad, wanted in zip(grads, expected_grads, strict=True):
    np.testing.assert_allclose(grad, wanted, rtol=0, atol=1e-9)


def test_features_are_those_of_the_equations_in_numpy():
  space = _posterior().in_space('data')
  u = space.sample_prior(seed=1)
  _, z = _numpy_factors(space.x.numpy(), [p.numpy() for p in u])
  expected = np.concatenate([np.tanh(z) / 3, np.full((4, 1), 0.1)], axis=1)
  np.testing.assert_allclose(space.features_fn(*u[:2]), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize('seed', [1, 2, (3, 4)])
def test_weights_do_to_the_data_what_u_says_and_are_the_equation_of_the_docstring(
  seed, monkeypatch
):
  split = _posterior().in_space('data').split
  u = split.sample_prior(seed=5)
  noise, seen = data_space_split.DataSpaceSplit._noise, []
  monkeypatch.setattr(split, '_noise', lambda *a: seen.append(noise(split, *a)) or seen[-1])
  theta = _stack(split.to_weights(u, seed))
  factors, _ = _numpy_factors(split._x.numpy(), [p.numpy() for p in u])
  xis = list(seen[0].values())
  for (psi, chol), u_layer, xi, weights in zip(factors, u, xis, theta, strict=False):
    z = chol @ u_layer
    np.testing.assert_allclose(psi @ weights, z, rtol=0, atol=1e-11)
    expected = xi + psi.T @ np.linalg.solve(psi @ psi.T, z - psi @ xi)
    np.testing.assert_allclose(weights, expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize('likelihood', ['gaussian', 'unknown noise'])
@pytest.mark.parametrize('chains', CHAINS)
def test_u_comes_back_from_its_weights_with_any_seed(likelihood, chains):
  split = _posterior(likelihood).in_space('data').split
  u = split.sample_prior(chains, seed=1)
  for seed in (2, 3):
    back = split.from_weights([p.numpy() for p in split.to_weights(u, seed)])  # arrays will do
    for actual, expected in zip(back, u, strict=True):
      np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize('chains', CHAINS)
def test_weights_come_back_from_u_with_what_the_data_do_not_see_of_them(chains, monkeypatch):
  split = _posterior().in_space('data').split
  theta = split.network.sample_prior(chains, seed=1)
  xi = [t.reshape([-1, *t.shape[-2:]]) if chains else t for t in _stack(theta)]
  names = [layer.name for layer in split.layer_spaces]
  xi = dict(zip(names, map(tf.constant, xi), strict=True))
  monkeypatch.setattr(split, '_noise', lambda *_: xi)
  u = split.from_weights(theta)
  assert [p.shape[-2:] for p in u[:2]] == [(4, 9)] * 2
  for actual, expected in zip(split.to_weights(u), theta, strict=True):
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-10)


def test_squared_norms_of_weights_are_those_of_u_and_of_the_rest():
  # [u; v] is an orthogonal transform of Theta: what u leaves out has the norm that is missing.
  split = _posterior().in_space('data').split
  theta = split.network.sample_prior(seed=1)
  u = split.from_weights(theta)
  factors, _ = _numpy_factors(split._x.numpy(), [p.numpy() for p in u])
  for (psi, _), u_layer, weights in zip(factors, u, _stack(theta), strict=False):
    unseen = weights - psi.T @ np.linalg.solve(psi @ psi.T, psi @ weights)
    np.testing.assert_allclose(np.sum(u_layer**2) + np.sum(unseen**2), np.sum(weights**2))


def test_hidden_parts_alone_go_to_hidden_weights():
  split = _posterior('unknown noise').in_space('data').split.inner
  u = split.sample_prior(2, seed=1)
  expected = split.to_weights(u, seed=2)
  actual = split.to_weights(u[: split.num_hidden], seed=2)
  assert len(actual) == split.network.num_hidden == 4
  for a, e in zip(actual, expected, strict=False):
    np.testing.assert_array_equal(a, e)


def test_the_part_of_the_noise_and_the_readout_pass_through():
  split = _posterior('unknown noise').in_space('data').split
  u = split.sample_prior(2, seed=1)
  theta = split.to_weights(u, seed=2)
  for a, e in zip(theta[-3:], u[-3:], strict=True):
    np.testing.assert_array_equal(a, e)


@pytest.mark.parametrize('chains', CHAINS)
def test_the_same_seed_gives_the_same_weights_and_another_one_others(chains):
  split = _posterior().in_space('data').split
  u = split.sample_prior(chains, seed=1)
  first, same, other = (split.to_weights(u, seed) for seed in (2, 2, 3))
  for i in range(4):
    np.testing.assert_array_equal(first[i], same[i])
    assert np.min(np.abs(first[i] - other[i])) > 0
  if chains:  # and each chain has its own
    flat = np.reshape(first[0], [-1, *first[0].shape[-2:]])
    again = split.to_weights([tf.zeros_like(p) for p in u], 2)[0]
    assert len(np.unique(np.reshape(again, [len(flat), -1])[:, 0])) == len(flat)


@pytest.mark.parametrize('chains', [(), (3,)])
def test_rows_that_are_the_same_count_once(chains):
  rows = np.random.default_rng(0).normal(size=(3, 6))
  posterior = _posterior(x=rows[[2, 0, 2, 1]])
  space = posterior.in_space('data')
  assert {s.num_rows for s in space.split.layer_spaces} == {3}
  assert space.split.event_shapes[:2] == [(3, 9)] * 2
  u = space.sample_prior(chains, seed=1)
  theta = space.split.to_weights(u, seed=2)
  for density, expected in zip(_densities(space), _densities(posterior), strict=True):
    np.testing.assert_allclose(density(*u), expected(*theta), rtol=0, atol=1e-10)
  for actual, expected in zip(space.split.from_weights(theta), u, strict=True):
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-10)


def test_the_model_of_the_user_is_not_changed():
  model = tfr.models.fcn((6,), 2, 9, 2)
  x, y = np.random.default_rng(0).normal(size=(2, 4, 6))
  lines = []
  model.summary(print_fn=lambda line, **_: lines.append(line))
  before = model.get_config(), list(lines), [v.numpy() for v in model.variables], model(x).numpy()
  space = tfr.Posterior(model, x, y[:, :2], noise_scale=0.1).in_space('data')
  u = space.sample_prior(2, seed=1)
  space.log_likelihood_fn(*u), space.split.to_weights(u, 1), space.split.apply_new(u, x + 1, 1)
  lines.clear()
  model.summary(print_fn=lambda line, **_: lines.append(line))
  assert model.get_config() == before[0] and lines == before[1]
  for variable, value in zip(model.variables, before[2], strict=True):
    np.testing.assert_array_equal(variable, value)
  np.testing.assert_array_equal(model(x), before[3])
  for layer in model.layers:
    assert keras.Model(model.inputs[0], layer.output)(x).shape[0] == 4


def test_a_posterior_moves_between_spaces():
  posterior = _posterior('unknown noise')
  assert posterior.in_space('weights') is posterior
  space = posterior.in_space('data')
  assert space.in_space('data') is space
  weights = space.in_space('weights')
  assert weights.split.event_shapes == posterior.split.event_shapes
  theta = posterior.sample_prior(2, seed=1)
  np.testing.assert_array_equal(
    weights.log_likelihood_fn(*theta), posterior.log_likelihood_fn(*theta)
  )
  # Six inputs and a bias are less than twice as many as four data.
  auto = space.in_space('auto')
  assert [s.space for s in auto.split.layer_spaces] == ['weights', 'data']
  again = tfr.models.DataSpaceSplit(space.split.inner, posterior.x, 'auto')
  assert again.layer_spaces == auto.split.layer_spaces


def test_repr_names_the_layers():
  space = _posterior().in_space('data')
  assert repr(space).endswith('in data space: hidden_1, hidden_2)')
  assert repr(space.split).endswith('n=4, {hidden_1: data, hidden_2: data})')


def test_an_unknown_space_is_refused():
  with pytest.raises(ValueError, match="`hidden_space` must be one of.*Received: hidden_space='u'"):
    _posterior().in_space('u')


def test_chunks_are_refused():
  posterior = _posterior()
  message = 'leave `chunk_size` out. Received: chunk_size=2'
  with pytest.raises(ValueError, match=message):
    tfr.models.DataSpaceSplit(posterior.split.in_chunks(2), posterior.x)
  with pytest.raises(ValueError, match=message):
    tfr.Posterior(
      posterior.in_space('data').split, posterior.x, posterior.y, chunk_size=2, noise_scale=0.1
    )


@pytest.mark.parametrize('change', [lambda x: x[:3], lambda x: x + 1.0, lambda x: x[::-1]])
def test_inputs_other_than_the_training_ones_are_refused(change):
  split = _posterior().in_space('data').split
  u = split.sample_prior(seed=1)[:2]
  np.testing.assert_array_equal(split.embed(u, split._x.numpy()), split.embed(u, split._x))
  with pytest.raises(ValueError, match='new ones take `embed_new`. Received: x of shape'):
    split.embed(u, change(split._x.numpy()))


def test_inputs_that_a_graph_does_not_know_are_refused():
  split = _posterior().split

  @tf.function(autograph=False)
  def make(x):
    return tfr.models.DataSpaceSplit(split, x, 'data').sample_prior(seed=1)

  with pytest.raises(ValueError, match='`x` must be known when the graph is made'):
    make(tf.zeros([4, 6], tf.float64))


def test_a_posterior_in_a_graph_takes_a_split_that_was_made_before():
  posterior = _posterior()
  split = posterior.in_space('data').split

  @tf.function(autograph=False)
  def log_likelihood(y, *u):
    inside = tfr.Posterior(split, posterior.x.numpy(), y, likelihood=posterior.likelihood)
    sampler = tfr.make_sampler(inside)
    assert sampler.hidden_space == 'data' and sampler.posterior is inside
    return inside.log_likelihood_fn(*u)

  u = split.sample_prior(2, seed=1)
  expected = posterior.in_space('data').log_likelihood_fn(*u)
  np.testing.assert_allclose(log_likelihood(posterior.y, *u), expected, atol=1e-10)


def test_samplers_in_a_graph_make_no_layers():
  posterior = _posterior()

  @tf.function(autograph=False)
  def start(y):
    inside = tfr.Posterior(posterior.split, posterior.x.numpy(), y, noise_scale=0.1)
    sampler = tfr.make_sampler(inside)
    assert sampler.hidden_space == 'weights'
    return sampler.start_fn(2, 1)

  assert [p.shape[1:] for p in start(posterior.y)] == posterior.split.event_shapes
