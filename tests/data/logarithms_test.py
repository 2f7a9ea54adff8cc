"""Logarithms of targets: there and back, and when they are taken."""

import re

import numpy as np
import pytest
import scipy.stats

import tfp_reprior as tfr
from tfp_reprior.data import logarithms

LARGEST = [2.0, 50.0]
Y = np.array([[1e-3, 0.5], [2.0, 50.0], [2.1, 80.0], [40.0, 1e4]])
RNG = np.random.default_rng(3)
X = RNG.normal(size=[60, 3])
F = np.sin(X[:, :1]) + X[:, 1:2]
NOISE = 0.3 * RNG.normal(size=[60, 1])


def test_logarithms_have_a_tangent_beyond_the_largest_and_an_inverse():
  t = logarithms.take(Y, LARGEST)
  np.testing.assert_allclose(t[:2], np.log(Y[:2]))
  np.testing.assert_allclose(t[2:], np.log(LARGEST) + (Y[2:] - LARGEST) / LARGEST)
  np.testing.assert_allclose(logarithms.undo(t, LARGEST), Y, rtol=1e-12)
  step = 1e-6 * Y
  slopes = logarithms.take(Y + step, LARGEST) - logarithms.take(Y - step, LARGEST)
  expected = np.exp(logarithms.log_slope(Y, LARGEST))
  np.testing.assert_allclose(slopes / (2 * step), expected, rtol=1e-4)
  with pytest.raises(ValueError, match='positive targets: give log_targets=False. Received.* -3'):
    logarithms.take([[1.0, -3.0]], LARGEST)


def test_the_gain_is_that_of_the_best_gaussian_processes():
  y = np.exp(F + NOISE)
  x = (X - X.mean(axis=0)) / X.std(axis=0)
  kernel = (1 + x @ x.T / 3) ** 2

  def best(targets):
    values = []
    for v in np.geomspace(1e-4, 10.0, 31):
      covariance = kernel + v * np.eye(60)
      centered = targets[:, 0] - targets.mean()
      a = centered @ np.linalg.solve(covariance, centered) / 60
      for scale in (0.9 * a, a, 1.1 * a):  # of which the middle one is the best
        normal = scipy.stats.multivariate_normal(np.zeros(60), scale * covariance)
        values.append(normal.logpdf(centered))
    return max(values)

  expected = best(np.log(y)) - np.log(y).sum() - best(y)
  assert logarithms.gain(X, y) == pytest.approx(expected, rel=1e-6)
  both = logarithms.gain(X, np.concatenate([y, y], axis=1))
  assert both == pytest.approx(2 * expected, rel=1e-6)


@pytest.mark.parametrize(
  ('y', 'is_taken'),
  [
    (np.exp(F + NOISE), True),
    (10 + F + NOISE, False),
    (np.exp(F + NOISE) - 1, False),  # not positive
    (np.full([60, 1], 0.5), False),
  ],
  ids=['prices', 'even noise', 'negative', 'constant'],
)
def test_logarithms_are_taken_where_they_are_far_better(y, is_taken):
  chosen = logarithms.choose('auto', X, y)
  assert (chosen is not None) == is_taken
  if is_taken:
    assert chosen == [y.max()]
    assert logarithms.choose('auto', X, y, [np.array([[0.0]])]) is None
  assert logarithms.choose(False, X, y) is None


def test_a_preparation_takes_them_and_restores():
  y = np.exp(F + NOISE)
  raw = tfr.data.preparation.RawData(X, y)
  preparation = tfr.data.Preparation.of(raw, X, y, 'auto')
  prepared = preparation.targets(y)
  np.testing.assert_allclose(prepared, scipy.stats.zscore(np.log(y)), rtol=1e-4, atol=1e-5)
  np.testing.assert_allclose(preparation.restore(prepared), y, rtol=1e-5)
  assert tfr.data.Preparation.from_json(preparation.to_json()) == preparation
  assert 'in logarithms' in repr(preparation)
  assert tfr.data.Preparation.of(raw, X, y).log_below is None


@pytest.mark.parametrize(
  ('changes', 'message'),
  [
    (dict(name='toy', log_targets='yes'), "`log_targets` must be 'auto', True or False."),
    (dict(name='toy', log_targets=True), 'Logarithms are of positive targets'),
    (dict(name='digits', log_targets=True), '`log_targets` is for real targets.'),
  ],
)
def test_mistakes_are_refused(changes, message):
  with pytest.raises(ValueError, match=re.escape(message)):
    tfr.data.load(**changes)
