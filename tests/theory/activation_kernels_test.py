"""Second moments of activations, against adaptive integration."""

import keras
import numpy as np
import pytest
import scipy.integrate
import scipy.special

from tfp_reprior.layers import activations
from tfp_reprior.theory import activation_kernels

FUNCTIONS = {
  'linear': (lambda x: x, 1e-9),
  'relu': (lambda x: max(x, 0.0), 1e-7),  # of the integration, at the kink
  'erf': (scipy.special.erf, 1e-9),
  'gelu': (lambda x: x * scipy.special.ndtr(x), 1e-9),
  'tanh': (np.tanh, 1e-9),
  'sigmoid': (scipy.special.expit, 1e-9),
  'silu': (lambda x: x * scipy.special.expit(x), 1e-9),
  'softplus': (lambda x: np.logaddexp(0.0, x), 1e-9),
}


def _second_moment(name, a, b, c):
  arrays = (np.array([[a]]), np.array([[b]]), np.array([[c]]))
  return activation_kernels.second_moment(activations.get(name), *arrays).item()


def _density(z):
  return np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)


@pytest.mark.parametrize('name', FUNCTIONS)
@pytest.mark.parametrize('a, b, c', [(1.3, 0.4, -0.5), (2.0, 2.5, 2.1)])
def test_second_moment_is_the_integral(name, a, b, c):
  f, atol = FUNCTIONS[name]

  def integrand(y, z):
    v = c / np.sqrt(a) * z + np.sqrt(b - c**2 / a) * y
    return f(np.sqrt(a) * z) * f(v) * _density(z) * _density(y)

  expected, _ = scipy.integrate.dblquad(integrand, -9, 9, -9, 9, epsabs=1e-10, epsrel=1e-10)
  assert _second_moment(name, a, b, c) == pytest.approx(expected, abs=atol, rel=0)
  assert _second_moment(name, b, a, c) == pytest.approx(expected, abs=atol, rel=0)


@pytest.mark.parametrize('name', FUNCTIONS)
@pytest.mark.parametrize('a', [0.01, 1.0, 10.0])
def test_moment_of_equal_inputs_is_the_integral_up_to_the_stated_variance(name, a):
  f, _ = FUNCTIONS[name]
  expected, _ = scipy.integrate.quad(
    lambda z: f(np.sqrt(a) * z) ** 2 * _density(z), -9, 9, epsabs=1e-12, epsrel=1e-12, points=[0]
  )
  assert _second_moment(name, a, a, a) == pytest.approx(expected, abs=1e-9, rel=0)


@pytest.mark.parametrize('name', FUNCTIONS)
def test_inputs_that_are_zero_have_a_moment(name):
  f, _ = FUNCTIONS[name]
  assert _second_moment(name, 0.0, 0.0, 0.0) == pytest.approx(f(0.0) ** 2, abs=1e-12)


def test_other_activations_are_refused():
  with pytest.raises(ValueError, match="'tanh'; .* `monte_carlo_kernel`.*activation='elu'"):
    activation_kernels.second_moment(keras.activations.elu, 1.0, 1.0, 1.0)
