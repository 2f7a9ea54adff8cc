"""Data space: laws of weights and of features at new inputs, by closed forms and z-tests.

False-alarm rates are those of `statistics_lib`, 1e-6 for each test. With 20,000 draws, and a few
hundred quantities in a test, z-tests reject beyond 6.5 standard errors: shifts of 0.1 standard
deviations are found with a probability above 1 - 1e-6. Each kind of test has a control that it must
reject.
"""

import numpy as np
import pytest
import scipy.stats
import statistics_lib as stats
import tensorflow as tf

import tfp_reprior as tfr
from tfp_reprior.models import data_space_split

NUM_DRAWS = 20_000
X = np.random.default_rng(0).normal(size=(2, 3))
NEW = np.random.default_rng(1).normal(size=(3, 3))


def _split(width=4, depth=2, activation='tanh', x=X):
  model = tfr.models.fcn((3,), 1, width, depth, activation, bias_std=0.5, dtype='float64')
  split = tfr.models.ReadoutSplit(model)
  space = tfr.models.DataSpaceSplit(split, tf.constant(x), 'data')
  assert all(s.space == 'data' for s in space.layer_spaces)
  return space


def _psi(h):
  """Features of a hidden layer of `_split`, by the definition."""
  return np.concatenate([np.sqrt(2 / h.shape[1]) * h, np.full((len(h), 1), 0.5)], axis=1)


def _flat(parts):
  return np.concatenate([np.reshape(p, (NUM_DRAWS, -1)) for p in parts], axis=1)


def _moments(values, num_pairs=200):
  """Values `[s, q]`, their squares, and products of random pairs: `[s, 2 q + num_pairs]`."""
  pairs = np.random.default_rng(2).integers(values.shape[1], size=(num_pairs, 2))
  pairs = pairs[pairs[:, 0] != pairs[:, 1]].T
  return np.concatenate([values, values**2, values[:, pairs[0]] * values[:, pairs[1]]], axis=1)


def _standard_normal_p_value(parts):
  """That all entries of parts `[s, ...]` are N(0, 1), uncorrelated within and across parts."""
  values = _flat(parts)
  zeros, num_pairs = np.zeros(values.shape[1]), _moments(values).shape[1] - 2 * values.shape[1]
  expected = np.concatenate([zeros, zeros + 1, np.zeros(num_pairs)])
  return stats.mean_p_value(_moments(values), expected)


def _two_sample_p_value(first, second):
  """That two samples `[s, q]` of independent draws have the same means: z-test, Bonferroni."""
  variance = (first.var(axis=0, ddof=1) + second.var(axis=0, ddof=1)) / NUM_DRAWS
  z = np.abs(first.mean(axis=0) - second.mean(axis=0)) / np.sqrt(variance)
  assert np.all(np.isfinite(z))
  return min(1.0, len(z) * 2 * scipy.stats.norm.sf(np.max(z)))


def _with_the_same_null_space(space, monkeypatch):
  """The mistake of drawing what data do not see once for all draws."""
  noise = data_space_split.DataSpaceSplit._noise

  def repeated(*arguments):
    draws = noise(space, *arguments)
    return {name: tf.repeat(d[:1], NUM_DRAWS, axis=0) for name, d in draws.items()}

  monkeypatch.setattr(space, '_noise', repeated)


def _with_the_factor_of_the_first_layer(space, monkeypatch):
  first, second = space._data_layers
  monkeypatch.setattr(second, 'constant_chol', first.constant_chol)


MISTAKES = [_with_the_same_null_space, _with_the_factor_of_the_first_layer]


def test_weights_have_their_prior_if_u_has_its_own():
  space = _split()
  theta = space.to_weights(space.sample_prior(NUM_DRAWS, seed=1), seed=2)
  assert _standard_normal_p_value(theta[:4]) > stats.FALSE_ALARM


@pytest.mark.parametrize('make_mistake', MISTAKES)
def test_weights_with_a_mistake_do_not_have_their_prior(make_mistake, monkeypatch):
  space = _split()
  make_mistake(space, monkeypatch)
  theta = space.to_weights(space.sample_prior(NUM_DRAWS, seed=1), seed=2)
  assert _standard_normal_p_value(theta[:4]) < stats.FALSE_ALARM


def test_u_has_its_prior_if_weights_have_theirs():
  space = _split()
  u = space.from_weights(space.network.sample_prior(NUM_DRAWS, seed=1))
  assert _standard_normal_p_value(u[:2]) > stats.FALSE_ALARM


def test_u_by_the_factor_of_another_layer_does_not_have_its_prior(monkeypatch):
  space = _split()
  _with_the_factor_of_the_first_layer(space, monkeypatch)
  u = space.from_weights(space.network.sample_prior(NUM_DRAWS, seed=1))
  assert _standard_normal_p_value(u[:2]) < stats.FALSE_ALARM


def _deviations(xi_scale=1.0):
  """Weights of both layers for one u `[s, d * w]`, less their mean, and their covariance."""
  space = _split()
  u = space.sample_prior(seed=1)
  repeated = [tf.repeat(p[tf.newaxis], NUM_DRAWS, axis=0) for p in u]
  if xi_scale != 1.0:
    noise = data_space_split.DataSpaceSplit._noise
    space._noise = lambda *a: {n: xi_scale * d for n, d in noise(space, *a).items()}
  theta = [p.numpy() for p in space.to_weights(repeated, seed=2)]
  psi, deviations, covariances = _psi(X), [], []
  for i, u_layer in ((0, u[0]), (2, u[1])):
    weights = np.concatenate([theta[i], theta[i + 1][:, np.newaxis]], axis=1)  # [s, d, w]
    gram = psi @ psi.T
    z = np.linalg.cholesky(gram) @ u_layer
    # What the data see is the same for all draws.
    np.testing.assert_allclose(psi @ weights, np.tile(z, [NUM_DRAWS, 1, 1]), rtol=0, atol=1e-10)
    deviations.append(weights - psi.T @ np.linalg.solve(gram, z))
    covariances.append(np.eye(psi.shape[1]) - psi.T @ np.linalg.solve(gram, psi))
    psi = _psi(np.tanh(z))
  return deviations, covariances


def _law_p_value(deviations, covariances):
  """That columns of deviations have covariances, and are uncorrelated, across layers too."""
  columns = [d[..., j] for d in deviations for j in (0, 1, 3)]  # [s, d] each
  by_column = [c for c in covariances for _ in range(3)]
  products, expected = [_flat(columns)], [np.zeros(sum(c.shape[1] for c in columns))]
  for i, (first, covariance) in enumerate(zip(columns, by_column, strict=True)):
    for j in range(i, len(columns)):
      product = first[:, :, np.newaxis] * columns[j][:, np.newaxis, :]
      wanted = covariance if i == j else np.zeros(product.shape[1:])
      products.append(product.reshape([NUM_DRAWS, -1]))
      expected.append(wanted.ravel())
  return stats.mean_p_value(np.concatenate(products, axis=1), np.concatenate(expected))


def test_weights_given_u_have_the_mean_and_covariance_of_the_closed_form():
  assert _law_p_value(*_deviations()) > stats.FALSE_ALARM


def test_weights_that_spread_too_wide_do_not():
  assert _law_p_value(*_deviations(xi_scale=1.1)) < stats.FALSE_ALARM


def _embeddings(space, seed=3, x=NEW):
  """Features at new inputs for one u `[s, rows * units]`, and for its weights."""
  u = space.sample_prior(seed=1)[: space.num_hidden]
  repeated = [tf.repeat(p[tf.newaxis], NUM_DRAWS, axis=0) for p in u]
  direct = space.embed_new(repeated, x, seed)
  weights = space.to_weights(repeated, seed=4)
  by_weights = space.network.embed(weights, tf.constant(x))
  return [_flat([psi[..., :-1]]) for psi in (direct, by_weights)], u  # without the constant column


def _linear_law(u):
  """Mean and covariance of features at new inputs, for one linear layer: closed form."""
  psi, new = _psi(X), _psi(NEW)
  gram = psi @ psi.T
  cross = new @ psi.T
  mean = cross @ np.linalg.solve(gram, np.linalg.cholesky(gram) @ u) / 2  # 1 / sqrt(width)
  covariance = (new @ new.T - cross @ np.linalg.solve(gram, cross.T)) / 4
  return mean.ravel(), np.kron(covariance, np.eye(u.shape[1]))


def _linear_p_value(features, u):
  mean, covariance = _linear_law(u[0].numpy())
  deviations = features - mean
  products = deviations[:, :, np.newaxis] * deviations[:, np.newaxis, :]
  values = np.concatenate([deviations, products.reshape([NUM_DRAWS, -1])], axis=1)
  return stats.mean_p_value(values, np.concatenate([np.zeros_like(mean), covariance.ravel()]))


def test_features_at_new_inputs_have_the_closed_form_of_a_linear_layer():
  (direct, by_weights), u = _embeddings(_split(depth=1, activation=None))
  assert _linear_p_value(direct, u) > stats.FALSE_ALARM
  assert _linear_p_value(by_weights, u) > stats.FALSE_ALARM


def test_rows_that_are_drawn_apart_do_not_have_it(monkeypatch):
  monkeypatch.setattr(data_space_split, '_MOST_NEW_ROWS', 1)
  (direct, _), u = _embeddings(_split(depth=1, activation=None))
  assert _linear_p_value(direct, u) < stats.FALSE_ALARM


def test_features_at_new_inputs_have_the_law_of_those_of_weights():
  (direct, by_weights), _ = _embeddings(_split())
  assert _two_sample_p_value(_moments(direct), _moments(by_weights)) > stats.FALSE_ALARM


def test_features_without_the_covariance_between_rows_do_not(monkeypatch):
  monkeypatch.setattr(data_space_split, '_MOST_NEW_ROWS', 1)
  (direct, by_weights), _ = _embeddings(_split())
  assert _two_sample_p_value(_moments(direct), _moments(by_weights)) < stats.FALSE_ALARM


@pytest.mark.parametrize('chains', [(), (3,), (2, 3)])
@pytest.mark.parametrize('num_repeats', [1, 70])  # beyond 128 rows there are two batches
def test_inputs_seen_before_have_the_features_that_they_had(chains, num_repeats):
  # Up to the variance that makes their covariance one that has a factor: 1e-6 of a feature.
  space = _split()
  hidden = space.sample_prior(chains, seed=1)[:2]
  x = np.tile(X[::-1], [num_repeats, 1])
  expected = np.tile(space.embed(hidden, space._x).numpy()[..., ::-1, :], [num_repeats, 1])
  actual = space.embed_new(hidden, x, seed=2)
  assert actual.shape == (*chains, 2 * num_repeats, 5)
  np.testing.assert_allclose(actual, expected, rtol=0, atol=3e-5)


def test_the_training_inputs_themselves_have_their_features_exactly():
  space = _split()
  hidden = space.sample_prior(2, seed=1)[:2]
  expected = space.embed(hidden, space._x)
  np.testing.assert_array_equal(space.embed_new(hidden, space._x, seed=2), expected)


@pytest.mark.parametrize('num_rows', [3, 300])
def test_features_at_new_inputs_are_determined_by_the_seed(num_rows):
  space, x = _split(), np.random.default_rng(3).normal(size=(num_rows, 3))
  hidden = space.sample_prior(2, seed=1)[:2]
  first, same, other = (space.embed_new(hidden, x, seed).numpy() for seed in (1, 1, 2))
  assert first.shape == (2, num_rows, 5) and np.all(np.isfinite(first))
  np.testing.assert_array_equal(first, same)
  assert np.all(first[..., :-1] != other[..., :-1])
  np.testing.assert_allclose(first[..., -1], 0.1)  # the constant of the readout bias
  # No two batches of rows share their noise.
  again = space.embed_new(hidden, np.tile(x[:1], [257, 1]), 1).numpy()
  assert len(np.unique(np.round(again[0, [0, 128, 256], 0], 4))) == 3


def test_outputs_at_new_inputs_are_features_times_readout():
  space = _split()
  u = space.sample_prior(2, seed=1)
  psi = space.embed_new(u[:2], NEW, seed=2).numpy()
  readout = np.concatenate([u[2], u[3][:, np.newaxis]], axis=1)
  np.testing.assert_allclose(space.apply_new(u, NEW, seed=2), psi @ readout, atol=1e-12)


def test_new_inputs_that_are_close_to_each_other_have_finite_features():
  space, rng = _split(width=12), np.random.default_rng(4)
  hidden = space.sample_prior(2, seed=1)[:2]
  for distance in (0.0, 1e-12, 1e-7, 1e-3):
    x = np.concatenate([X, NEW])[np.arange(40) % 5] + distance * rng.normal(size=(40, 3))
    psi = space.embed_new(hidden, x, seed=2).numpy()
    assert np.all(np.isfinite(psi))
    # Neighbours agree as far as they are close: features have derivatives of the order of one.
    gap = np.max(np.abs(psi[:, :5] - psi[:, 5:10]))
    assert gap < 1e-4 + 20 * distance
