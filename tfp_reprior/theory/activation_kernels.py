"""Second moments of activations of Gaussians.

For `(u, v) ~ N(0, [[a, c], [c, b]])` each function here computes `E[f(u) f(v)]`, for all pairs of
rows of two inputs at once.
"""

import keras
import numpy as np

from tfp_reprior import errors
from tfp_reprior.layers import activations

# Nodes of the trapezoidal rule, in standard deviations. For analytic integrands it converges
# geometrically: with poles of f(sqrt(a) z) at a distance of r from the real line, the error of a
# spacing h is of the order of exp(-2 pi r / h); beyond 8.5 is less than 1e-16 of the Gaussian.
_SPACING = 1 / 8
_NODES = np.arange(-8.5, 8.5 + _SPACING / 2, _SPACING)
_WEIGHTS = _SPACING / np.sqrt(2 * np.pi) * np.exp(-(_NODES**2) / 2)


def second_moment(activation, a, b, c):
  """`E[f(u) f(v)]` for an activation of Keras.

  Closed forms for the identity, ReLU, erf and the exact GELU. For tanh, sigmoid, SiLU and softplus
  by quadrature, to 1e-9 for variances up to 10 (poles come closer to the real line as the variance
  grows; tests compare with adaptive integration).

  Args:
    activation: A function of Keras, or `tfp_reprior.layers`' erf.
    a: Variances of u, `[n, 1]`.
    b: Variances of v, `[1, m]`.
    c: Covariances `[n, m]`.

  Returns:
    `[n, m]`.

  Raises:
    ValueError: If the activation is none of these.
  """
  if activation in _CLOSED_FORMS:
    return _CLOSED_FORMS[activation](a, b, c)
  if activation in _ANALYTIC:
    return _quadrature(activation, a, b, c)
  known = ', '.join(sorted(repr(f.__name__) for f in (*_CLOSED_FORMS, *_ANALYTIC)))
  raise errors.InputError(
    f'The kernel is known for the activations {known}; for others there is `monte_carlo_kernel`. '
    f'Received: activation={getattr(activation, "__name__", activation)!r}'
  )


def _linear(a, b, c):
  return c


def _relu(a, b, c):
  # Cho and Saul (2009): sqrt(a b) / (2 pi) * (sin(t) + (pi - t) cos(t)), t the angle of u and v.
  height = np.sqrt(np.maximum(a * b - c**2, 0.0))  # sqrt(a b) sin(t)
  return (height + (np.pi - np.arctan2(height, c)) * c) / (2 * np.pi)


def _erf(a, b, c):
  # Williams (1997).
  return 2 / np.pi * np.arcsin(_at_most_one(2 * c / np.sqrt((1 + 2 * a) * (1 + 2 * b))))


def _gelu(a, b, c):
  # With F the normal CDF and q its density, Stein's identity E[u g] = a E[dg/du] + c E[dg/dv] gives
  #   E[u F(u) v F(v)] = a E[v q(u) F(v)] + c E[F(u) F(v)] + c E[v F(u) q(v)]
  #   E[v q(u) F(v)]   = b Q - c E[u q(u) F(v)]
  #   E[u q(u) F(v)]   = c Q / (1 + a),   E[v F(u) q(v)] = c Q / (1 + b)
  # with Q = E[q(u) q(v)], which is a Gaussian integral, and E[F(u) F(v)] that of the orthant.
  product = (1 + a) * (1 + b)
  both = 0.25 + np.arcsin(c / np.sqrt(product)) / (2 * np.pi)  # E[F(u) F(v)]
  density = 1 / (2 * np.pi * np.sqrt(product - c**2))  # Q
  return c * both + density * (a * b + c**2 * (1 / (1 + a) + 1 / (1 + b) - 1))


def _quadrature(activation, a, b, c):
  """The trapezoidal rule over `u = sqrt(a) z`, `v = c / sqrt(a) z + sqrt(b - c^2 / a) z'`."""
  std = np.sqrt(a)
  slope = np.divide(c, std, out=np.zeros_like(c), where=std > 0)
  rest = np.sqrt(np.maximum(b - slope**2, 0.0))[..., np.newaxis]  # [n, m, 1]
  total = np.zeros_like(c)
  for node, weight in zip(_NODES, _WEIGHTS, strict=True):
    v = (slope * node)[..., np.newaxis] + rest * _NODES  # [n, m, nodes]
    total += weight * _numpy(activation, std * node) * (_numpy(activation, v) @ _WEIGHTS)
  return total


def _numpy(activation, values):
  return keras.ops.convert_to_numpy(activation(keras.ops.convert_to_tensor(values, 'float64')))


def _at_most_one(cosine):
  return np.clip(cosine, -1.0, 1.0)  # rounding


_CLOSED_FORMS = {
  keras.activations.linear: _linear,
  keras.activations.relu: _relu,
  activations.erf: _erf,
  keras.activations.gelu: _gelu,
  activations.gelu: _gelu,
}
_ANALYTIC = (
  keras.activations.tanh,
  keras.activations.sigmoid,
  keras.activations.silu,
  keras.activations.softplus,
)
