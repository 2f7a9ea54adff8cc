"""The coordinates of unknown parameters of a likelihood in which samplers move."""

import functools

import numpy as np
import tensorflow as tf

from tfp_reprior.internal import random

_NUM_DRAWS = 4  # of the hidden weights
_GRID_SIZE = 1001
_NUM_ZOOMS = 4
_NUM_ROUNDS = 3  # over several parameters
_REACH = 8.0  # standard deviations


class ParameterCoordinates:
  """Centers and scales the scales of a likelihood by a guess of their posterior.

  ```none
  u = mean + stddev * v
  ```

  With many data the posterior of u is far from its prior N(0, 1), and much narrower. As the
  repriorisation does for the readout, v brings it close to N(0, 1) again: chains start where the
  scale is plausible, and one step size fits all parts. The guess uses that the features of a wide
  network hardly depend on the data: with psi of hidden weights drawn from the prior,

  ```none
  p(u | D, psi) ~ N(u; 0, 1) * N(y; 0, K)
  K             = noise_scale(u)**2 I_n + output_scale(u)**2 psi @ psi.T
  ```

  on a grid, for one scale after the other. Other likelihoods than Gaussian noise have the targets
  of their surrogate in place of y, if its variance is that of the noise scale; else the coordinates
  are u. It decides how fast chains mix, not what they converge to.

  Args:
    posterior: A `tfp_reprior.Posterior` with unknown parameters.

  Attributes:
    mean, stddev: Lists, a number for each parameter of the likelihood.
  """

  def __init__(self, posterior):
    likelihood = posterior.likelihood
    end = posterior.split.num_hidden
    self._indices = range(end - len(likelihood.event_shapes), end)
    self.mean, self.stddev = [0.0] * len(self._indices), [1.0] * len(self._indices)
    is_gaussian = likelihood.is_conjugate or posterior.surrogate_variance is None
    if not is_gaussian:
      return
    seeds = random.split_seed(0, _NUM_DRAWS)
    inner = posterior.split.inner  # whose features have no scale yet
    hidden_parts = [inner.sample_prior(seed=s)[: inner.num_hidden] for s in seeds]
    data = [
      posterior.surrogate_targets,
      *(inner.embed(parts, posterior.x) for parts in hidden_parts),
    ]
    guess = functools.partial(_guess, likelihood)
    if tf.executing_eagerly():
      guesses = guess(*data)
    else:  # the targets are known only when the graph runs
      guesses = tf.py_function(guess, data, [posterior.split.dtype] * (2 * len(self.mean)))
      guesses = [tf.ensure_shape(g, []) for g in guesses]
    self.mean, self.stddev = guesses[: len(self.mean)], guesses[len(self.mean) :]

  def forward(self, state):
    """The parts for a state of the sampler, a list."""
    parts = list(state)
    for i, mean, stddev in zip(self._indices, self.mean, self.stddev, strict=True):
      parts[i] = mean + stddev * parts[i]
    return parts

  def inverse(self, parts):
    """The state of the sampler for a list of parts."""
    state = list(parts)
    for i, mean, stddev in zip(self._indices, self.mean, self.stddev, strict=True):
      state[i] = (state[i] - mean) / stddev
    return state

  def standardized(self, density):
    """The same density over states of the sampler, up to a constant."""
    return _StandardizedDensity(density, self, self._indices)


class _StandardizedDensity:
  """A density as a function of v in place of u."""

  def __init__(self, density, coordinates, indices):
    self._density, self._coordinates, self._indices = density, coordinates, indices

  def target_log_prob_fn(self, *state):
    return self._density.target_log_prob_fn(*self._coordinates.forward(state))

  def readout_log_likelihood_fn(self, hidden_state):
    """As a function of the readout alone, up to a constant."""
    return self._density.readout_log_likelihood_fn(self._coordinates.forward(hidden_state))

  def log_likelihood_fn(self, *state, inverse_temperature=1.0):
    """With respect to N(0, 1) of v: what N(u; 0, 1) is beyond that counts as likelihood."""
    parts = self._coordinates.forward(state)
    value = self._density.log_likelihood_fn(*parts, inverse_temperature=inverse_temperature)
    for i in self._indices:
      change = (parts[i] - state[i]) * (parts[i] + state[i])
      value -= 0.5 * tf.reduce_sum(change, axis=range(value.shape.rank, change.shape.rank))
    return value


def _guess(likelihood, y, *features):
  """Means, then standard deviations, of u over the features of several networks, as floats."""
  y = y.numpy().astype(np.float64)
  moments = [_moments(likelihood, y, psi.numpy().astype(np.float64)) for psi in features]
  means, stddevs = np.moveaxis(moments, 1, 0)  # [draws, parameters] each
  # Rounded, so that the last bits of an eigenvalue do not change a chain.
  scales = [float(f'{s:.2g}') for s in np.sqrt(np.mean(stddevs**2, 0) + np.var(means, 0))]
  centers = [s * round(float(m) / s, 1) for m, s in zip(np.mean(means, 0), scales, strict=True)]
  return centers + scales


def _moments(likelihood, y, psi):
  """Means and standard deviations of u given features psi `[n, d]`, by one scale at a time."""
  values, squares = _spectrum(psi, y)
  means, stddevs = np.zeros(len(likelihood.priors)), np.ones(len(likelihood.priors))
  scales = {name: getattr(likelihood, name, None) for name in ('noise_scale', 'output_scale')}
  unknown = [(i, name) for i, name in enumerate(likelihood.priors) if name in scales]
  for _ in range(_NUM_ROUNDS if len(unknown) > 1 else 1):
    for i, name in unknown:

      def log_density(u, name=name):
        now = scales | {name: likelihood.priors[name].value(tf.constant(u)).numpy()[:, np.newaxis]}
        spectrum = now['noise_scale'] ** 2 + now['output_scale'] ** 2 * values  # of K
        terms = squares / spectrum + y.shape[1] * np.log(spectrum)
        return -0.5 * (u**2 + np.sum(terms, axis=1))

      means[i], stddevs[i] = _zoom(log_density)
      scales[name] = float(likelihood.priors[name].value(tf.constant(means[i])))
  return means, stddevs


def _zoom(log_density):
  """Mean and standard deviation of a density of one number, by grids that come closer."""
  low, high = -_REACH, _REACH
  for _ in range(_NUM_ZOOMS):
    u = np.linspace(low, high, _GRID_SIZE)
    values = log_density(u)
    weights = np.exp(values - np.max(values))
    mean = np.average(u, weights=weights)
    stddev = np.sqrt(np.average((u - mean) ** 2, weights=weights))
    reach = _REACH * max(stddev, u[1] - u[0])
    low, high = mean - reach, mean + reach
  return mean, stddev


def _spectrum(psi, y):
  """Eigenvalues `[n]` of `psi @ psi.T`, and the squares of y along each, summed over outputs."""
  n, d = psi.shape
  if n <= d:
    values, vectors = np.linalg.eigh(psi @ psi.T)
    return np.maximum(values, 0), np.sum((vectors.T @ y) ** 2, axis=1)
  # The d that may not be zero, by the smaller matrix, and one entry for each of the others.
  values, vectors = np.linalg.eigh(psi.T @ psi)
  values = np.maximum(values, 1e-12 * values[-1])
  squares = np.sum((vectors.T @ (psi.T @ y)) ** 2, axis=1) / values
  rest = max(np.sum(y**2) - np.sum(squares), 0) / (n - d)
  return np.append(values, np.zeros(n - d)), np.append(squares, np.full(n - d, rest))
