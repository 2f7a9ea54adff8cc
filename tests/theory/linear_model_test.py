"""Stable step sizes, against simulation."""

import math

import numpy as np
import pytest

import tfp_reprior as tfr


def _precision(psi, noise_scale, regularizer):
  """Of the posterior in the coordinates of the map, from a matrix root."""
  identity = np.eye(psi.shape[1])
  root = np.linalg.cholesky(np.linalg.inv(identity + psi.T @ psi / regularizer))
  return root.T @ (identity + psi.T @ psi / noise_scale**2) @ root


def _largest_position(precision, step_size, num_steps=3000):
  """Of leapfrog without noise, from a random start."""
  position, momentum = np.random.default_rng(1).normal(size=(2, len(precision)))
  largest = 0.0
  for _ in range(num_steps):
    momentum = momentum - step_size / 2 * precision @ position
    position = position + step_size * momentum
    momentum = momentum - step_size / 2 * precision @ position
    largest = max(largest, np.max(np.abs(position)))
    if largest > 1e9:
      break
  return largest


@pytest.mark.parametrize('n, d', [(20, 4), (3, 6)])
@pytest.mark.parametrize('regularizer', [math.inf, 0.04, 1.0, 0.01])
def test_leapfrog_diverges_above_and_stays_below(n, d, regularizer):
  psi = np.random.default_rng(0).normal(size=(n, d))
  step_size = tfr.theory.stable_step_size(psi, 0.2, regularizer)
  precision = _precision(psi, 0.2, regularizer)
  assert _largest_position(precision, 0.99 * step_size) < 1e3
  assert _largest_position(precision, 1.01 * step_size) > 1e9


def test_with_the_map_it_is_two_whatever_the_data():
  rng = np.random.default_rng(0)
  for n, d, noise_scale in [(5, 3, 0.1), (1000, 3, 0.01), (2, 7, 3.0)]:
    psi = rng.normal(size=(n, d))
    assert tfr.theory.stable_step_size(psi, noise_scale, noise_scale**2) == pytest.approx(2.0)


def test_without_the_map_it_shrinks_with_data_and_noise():
  psi = np.random.default_rng(0).normal(size=(10000, 3))
  few, many = (tfr.theory.stable_step_size(psi[:n], 0.1) for n in (100, 10000))
  assert few / many == pytest.approx(10.0, rel=0.15)
  assert tfr.theory.stable_step_size(psi, 0.01) == pytest.approx(many / 10, rel=1e-3)


@pytest.mark.parametrize(
  'arguments, message',
  [
    ({'psi': np.ones(3)}, r'`psi` must have shape \[n, d\]. Received: psi of shape \(3,\)'),
    ({'noise_scale': 0.0}, '`noise_scale` must be positive. Received: noise_scale=0.0'),
    ({'regularizer': -1.0}, '`regularizer` must be positive. Received: regularizer=-1.0'),
  ],
)
def test_bad_arguments_are_refused(arguments, message):
  with pytest.raises(ValueError, match=message):
    tfr.theory.stable_step_size(**{'psi': np.eye(2), 'noise_scale': 0.1, **arguments})
