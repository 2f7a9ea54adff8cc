"""The two factors against naive NumPy, against the paper's symmetric root, and each other."""

import numpy as np
import pytest
import tensorflow as tf

from tfp_reprior.bijectors import factorization

SIZES = [(3, 7, 2), (7, 3, 1), (5, 5, 4)]  # n, d, k


def _problem(n, d, k, lam, chains=(), seed=0):
  rng = np.random.default_rng(seed)
  return rng.normal(size=(*chains, n, d)), rng.normal(size=(n, k)), lam


def _conditional(psi, y, lam):
  """Mean and covariance of ridge regression, by dense inverses."""
  sigma = np.linalg.inv(np.eye(psi.shape[1]) + psi.T @ psi / lam)
  return sigma @ psi.T @ y / lam, sigma


def _linear_map(function, d, k):
  """Offset and matrix of an affine `function` of `[d, k]` that acts on columns."""
  offset = np.asarray(function(np.zeros((d, k))))
  columns = [np.asarray(function(np.tile(e[:, None], (1, k)))) - offset for e in np.eye(d)]
  return offset, np.stack([c[:, 0] for c in columns], axis=1)


@pytest.mark.parametrize('space', ['feature', 'data'])
@pytest.mark.parametrize('n,d,k', SIZES)
@pytest.mark.parametrize('lam', [0.01, 1.0, 30.0])
def test_forward_is_a_square_root_of_the_exact_conditional(space, n, d, k, lam):
  psi, y, lam = _problem(n, d, k, lam)
  factor = factorization.factorize(tf.constant(psi), tf.constant(y), lam, space)
  mean, sigma = _conditional(psi, y, lam)
  offset, root = _linear_map(factor.forward, d, k)
  np.testing.assert_allclose(offset, mean, atol=1e-10)
  np.testing.assert_allclose(root @ root.T, sigma, atol=1e-10)
  np.testing.assert_allclose(factor.log_det(), np.linalg.slogdet(sigma)[1] / 2, atol=1e-10)


@pytest.mark.parametrize('space', ['feature', 'data'])
@pytest.mark.parametrize('n,d,k', SIZES)
def test_inverse_undoes_forward(space, n, d, k):
  psi, y, lam = _problem(n, d, k, 0.1, chains=(2,))
  phi = np.random.default_rng(1).normal(size=(2, d, k))
  factor = factorization.factorize(tf.constant(psi), tf.constant(y), lam, space)
  np.testing.assert_allclose(factor.inverse(factor.forward(phi)), phi, atol=1e-10)


def test_feature_space_formulas_of_the_docstring():
  psi, y, lam = _problem(6, 4, 2, 0.3)
  phi = np.random.default_rng(1).normal(size=(4, 2))
  u = np.linalg.cholesky(lam * np.eye(4) + psi.T @ psi).T
  expected = np.linalg.solve(u, np.linalg.solve(u.T, psi.T @ y) + np.sqrt(lam) * phi)
  factor = factorization.factorize(tf.constant(psi), tf.constant(y), lam, 'feature')
  np.testing.assert_allclose(factor.forward(phi), expected, atol=1e-12)


def test_data_space_root_is_the_symmetric_one_up_to_a_rotation():
  # The paper's root: phi - psi.T Q Lam^-1/2 (sqrt(lam) + Lam^1/2)^-1 Q.T psi phi.
  psi, y, lam = _problem(4, 9, 1, 0.2)
  values, q = np.linalg.eigh(lam * np.eye(4) + psi @ psi.T)
  middle = q @ np.diag(1 / (np.sqrt(values) * (np.sqrt(lam) + np.sqrt(values)))) @ q.T
  symmetric = np.eye(9) - psi.T @ middle @ psi
  factor = factorization.factorize(tf.constant(psi), tf.constant(y), lam, 'data')
  _, root = _linear_map(factor.forward, 9, 1)
  np.testing.assert_allclose(symmetric @ symmetric, _conditional(psi, y, lam)[1], atol=1e-10)
  rotation = np.linalg.solve(symmetric, root)
  np.testing.assert_allclose(rotation @ rotation.T, np.eye(9), atol=1e-10)


@pytest.mark.parametrize('n,d,expected', [(3, 4, 'data'), (4, 4, 'feature'), (5, 4, 'feature')])
def test_auto_picks_the_smaller_space(n, d, expected):
  assert factorization.choose_space(tf.zeros([n, d]), 'auto') == expected


def test_auto_needs_static_sizes():
  @tf.function(input_signature=[tf.TensorSpec([None, 3])])
  def traced(psi):
    factorization.choose_space(psi, 'auto')

  with pytest.raises(ValueError, match='`space=.auto.` needs a static number .* \\(None, 3\\)'):
    traced(tf.zeros([2, 3]))


def test_unknown_space_is_refused():
  with pytest.raises(ValueError, match="`space` must be one of .* Received: space='dual'"):
    factorization.choose_space(tf.zeros([2, 3]), 'dual')
