"""The coordinate of an unknown noise scale in which samplers move."""

import functools

import numpy as np
import tensorflow as tf

from tfp_reprior.internal import random

_NUM_DRAWS = 4  # of the hidden weights
_GRID_SIZE = 1001
_NUM_ZOOMS = 4
_REACH = 8.0  # standard deviations


class NoiseCoordinate:
  """Centers and scales the noise part of the state by a guess of its posterior.

  ```none
  u = mean + stddev * v
  ```

  With many data the posterior of u is far from its prior N(0, 1), and much narrower. As the
  repriorisation does for the readout, v brings it close to N(0, 1) again: chains start where the
  noise is plausible, and one step size fits all parts. The guess uses that the features of a wide
  network hardly depend on the data: with psi of hidden weights drawn from the prior,

  ```none
  p(u | D, psi) ~ N(u; 0, 1) * N(y; 0, K),   K = noise_scale(u)**2 I_n + psi @ psi.T
  ```

  on a grid. It decides how fast chains mix, not what they converge to.

  Args:
    posterior: A `tfp_reprior.Posterior` with unknown noise.
  """

  def __init__(self, posterior):
    self._index = posterior.split.num_hidden - 1
    seeds = random.split_seed(0, _NUM_DRAWS)
    hidden_parts = [posterior.sample_prior(seed=s)[: self._index + 1] for s in seeds]
    data = [posterior.y, *(posterior.features_fn(*parts) for parts in hidden_parts)]
    guess = functools.partial(_guess, posterior.likelihood.noise_prior)
    if tf.executing_eagerly():
      self.mean, self.stddev = guess(*data)
    else:  # the targets are known only when the graph runs
      guesses = tf.py_function(guess, data, [posterior.split.dtype] * 2)
      self.mean, self.stddev = (tf.ensure_shape(g, []) for g in guesses)

  def forward(self, state):
    """The parts for a state of the sampler, a list."""
    parts = list(state)
    parts[self._index] = self.mean + self.stddev * parts[self._index]
    return parts

  def inverse(self, parts):
    """The state of the sampler for a list of parts."""
    state = list(parts)
    state[self._index] = (state[self._index] - self.mean) / self.stddev
    return state

  def standardized(self, density):
    """The same density over states of the sampler, up to a constant."""
    return _StandardizedDensity(density, self, self._index)


class _StandardizedDensity:
  """A density as a function of v in place of u."""

  def __init__(self, density, coordinate, index):
    self._density, self._coordinate, self._index = density, coordinate, index

  def target_log_prob_fn(self, *state):
    return self._density.target_log_prob_fn(*self._coordinate.forward(state))

  def log_likelihood_fn(self, *state, inverse_temperature=1.0):
    """With respect to N(0, 1) of v: what N(u; 0, 1) is beyond that counts as likelihood."""
    parts = self._coordinate.forward(state)
    u, v = parts[self._index], state[self._index]
    likelihood = self._density.log_likelihood_fn(*parts, inverse_temperature=inverse_temperature)
    return likelihood - 0.5 * (u - v) * (u + v)


def _guess(noise_prior, y, *features):
  """Mean and standard deviation of u over the features of several networks, as floats."""
  y = y.numpy().astype(np.float64)
  moments = [_noise_moments(noise_prior, y, psi.numpy().astype(np.float64)) for psi in features]
  means, stddevs = np.transpose(moments)
  # Rounded, so that the last bits of an eigenvalue do not change a chain.
  stddev = float(f'{np.sqrt(np.mean(stddevs**2) + np.var(means)):.2g}')
  return stddev * round(float(np.mean(means)) / stddev, 1), stddev


def _noise_moments(noise_prior, y, psi):
  """Mean and standard deviation of u given features psi `[n, d]`."""
  values, squares = _spectrum(psi, y)
  k = y.shape[1]
  low, high = -_REACH, _REACH
  for _ in range(_NUM_ZOOMS):
    u = np.linspace(low, high, _GRID_SIZE)
    variance = np.exp(2 * noise_prior.log_scale(tf.constant(u)).numpy())
    spectrum = variance[:, np.newaxis] + values  # of K
    log_density = -0.5 * (u**2 + np.sum(squares / spectrum + k * np.log(spectrum), axis=1))
    weights = np.exp(log_density - np.max(log_density))
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
