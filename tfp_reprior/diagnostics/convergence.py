"""Effective sample size and R-hat: as the paper has them, and as the field has them today.

Letters: s draws, c chains, and any further dimensions, one quantity each.
"""

import contextlib
import logging

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp
from numpy.typing import ArrayLike

from tfp_reprior import errors
from tfp_reprior.internal import checks, files

_FEWEST_DRAWS = 4  # of a chain: halves of one draw have no variance
_MOST_NUMBERS = 2**20  # of draws that are transformed at once


def effective_sample_size(draws: ArrayLike) -> tf.Tensor:
  """Effective sample size of each chain by itself, `tfp.mcmc` as the paper uses it.

  The sum of autocorrelations is cut at the first negative one. A chain is compared with itself
  alone: one that never moved, or stays apart from the others, is not noticed. To judge a run use
  `bulk_effective_sample_size`.

  Args:
    draws: `[s, c, ...]`, draws by chains.

  Returns:
    `[c, ...]`.

  #### Examples

  ```python
  import numpy as np
  import tfp_reprior as tfr

  draws = np.random.default_rng(1).normal(size=[100, 4])
  tfr.diagnostics.effective_sample_size(draws).shape  # ==> [4]
  ```
  """
  with _without_cast_warnings():
    return tfp.mcmc.effective_sample_size(draws, filter_threshold=0.0)


def r_hat_squared(draws: ArrayLike) -> tf.Tensor:
  """Total variance over variance within chains, the paper's square of R-hat.

  ```none
  (within + between) / within,   within = mean over chains of the variance of a chain
                                 between = variance of the means of the chains
  ```

  Args:
    draws: `[s, c, ...]`, draws by chains, at least two chains.

  Returns:
    `[...]`, at least 1; 1 for chains that agree.

  #### Examples

  ```python
  import numpy as np
  import tfp_reprior as tfr

  draws = np.random.default_rng(1).normal(size=[100, 2])
  tfr.diagnostics.r_hat_squared(draws)  # ==> close to 1
  tfr.diagnostics.r_hat_squared(draws + [0.0, 2.0])  # ==> about 2: the means differ by 2
  ```
  """
  draws = tf.convert_to_tensor(draws)
  if draws.shape.rank < 2 or draws.shape[1] is not None and draws.shape[1] < 2:
    raise errors.InputError(
      '`draws` must have shape [s, c, ...] with two chains or more. Received: draws of shape '
      f'{tuple(draws.shape)}'
    )
  within = tf.reduce_mean(tf.math.reduce_variance(draws, axis=0), axis=0)
  between = tf.math.reduce_variance(tf.reduce_mean(draws, axis=0), axis=0)
  return (within + between) / within


def r_hat_curve(draws: ArrayLike, num_points: int = 25) -> tuple[np.ndarray, np.ndarray]:
  """`r_hat_squared` minus 1 of growing beginnings of chains, as in the paper.

  Args:
    draws: `[s, c, ...]`, draws by chains, at least two chains.
    num_points: The most lengths to choose.

  Returns:
    lengths: How many draws were counted, `[p]`.
    values: `[p, ...]`, infinite where no chain moved.
  """
  draws = np.asarray(draws)
  s = len(draws)
  lengths = np.unique(np.geomspace(min(s, max(_FEWEST_DRAWS, s // 50)), s, num_points).astype(int))
  values = np.stack([r_hat_squared(draws[:length]) for length in lengths]) - 1
  return lengths, np.where(np.isfinite(values), values, np.inf)


def autocorrelation(draws: ArrayLike) -> np.ndarray:
  """Autocorrelation of draws `[s, c]`, each chain about its own mean, averaged over chains.

  Returns:
    `[t]`, from lag 0 to three times the lag at which it falls below 0.05, or to half of the draws.
  """
  draws = np.asarray(draws, np.float64)
  with _without_cast_warnings():
    products = tfp.stats.auto_correlation(draws, axis=0, normalize=False)  # [s, c]
  covariance = np.mean(products, axis=1)
  s = len(draws)
  rho = covariance / covariance[0] if covariance[0] > 0 else np.ones(s)
  is_small = rho < 0.05
  end = max(10, 3 * int(np.argmax(is_small))) if np.any(is_small) else s
  return rho[: max(2, min(end, s // 2))]


def bulk_effective_sample_size(draws: ArrayLike) -> np.ndarray:
  """Effective sample size of all chains together, after rank normalization.

  Autocorrelations are relative to the variance of all draws, and chains are split in halves. So
  chains that disagree, drift or stand still have few effective samples, however they look alone.

  Args:
    draws: `[s, c, ...]`, draws by chains, at least four draws; one chain will do.

  Returns:
    `[...]`; NaN where all draws are the same number, or one is not finite.

  #### Examples

  ```python
  import numpy as np
  import tfp_reprior as tfr

  draws = np.random.default_rng(1).normal(size=[100, 4])
  draws[:, 0] = 3.0  # a chain that never moved
  tfr.diagnostics.bulk_effective_sample_size(draws)  # ==> about 7, of 400 draws
  ```

  #### References

  A. Vehtari, A. Gelman, D. Simpson, B. Carpenter and P.-C. Bürkner. Rank-normalization, folding,
  and localization: an improved R-hat for assessing convergence of MCMC. Bayesian Analysis, 2021.
  """
  return _by_halves(lambda x: _ess(rank_normalized(x)), draws)


def tail_effective_sample_size(draws: ArrayLike) -> np.ndarray:
  """The smaller effective sample size of the two tails, beyond the 5 % and 95 % quantiles.

  Arguments, results and reference are those of `bulk_effective_sample_size`.

  #### Examples

  ```python
  import numpy as np
  import tfp_reprior as tfr

  draws = np.random.default_rng(1).standard_t(df=2, size=[100, 4])  # heavy tails
  tfr.diagnostics.tail_effective_sample_size(draws)  # ==> a number, of 400 draws
  ```
  """

  def of_tails(x):
    low, high = np.quantile(x, [0.05, 0.95], axis=(0, 1))
    sizes = [_ess((x <= bound).astype(np.float64)) for bound in (low, high)]
    # A quantity that takes few values may have no tail on one side.
    return np.where(np.isnan(sizes[0]), sizes[1], np.fmin(*sizes))

  return _by_halves(of_tails, draws)


def r_hat(draws: ArrayLike) -> np.ndarray:
  """Rank-normalized split R-hat: the larger one of location and of spread.

  Chains are split in halves, so that a single one that drifts is noticed as well. Values below
  1.01 are good. Arguments, results and reference are those of `bulk_effective_sample_size`.

  #### Examples

  ```python
  import numpy as np
  import tfp_reprior as tfr

  draws = np.random.default_rng(1).normal(size=[500, 4])
  tfr.diagnostics.r_hat(draws)  # ==> close to 1
  tfr.diagnostics.r_hat(draws + np.linspace(0, 3, 500)[:, np.newaxis])  # ==> 1.5: all drift
  ```
  """

  def larger(x):
    folded = np.abs(x - np.median(x, axis=(0, 1)))
    return np.fmax(*(_r_hat(rank_normalized(v)) for v in (x, folded)))

  return _by_halves(larger, draws)


def _by_halves(fn, draws):
  """Applies `fn` to the halves of chains, some quantities at a time.

  Args:
    fn: Function of `[s // 2, 2 c, q]`, which returns `[q]`.
    draws: `[s, c, ...]`; with an odd number the one in the middle goes.
  """
  draws = np.asarray(draws)
  if draws.ndim < 2 or draws.shape[0] < _FEWEST_DRAWS:
    raise errors.InputError(
      f'`draws` must have shape [s, c, ...] with {_FEWEST_DRAWS} draws or more. Received: draws of '
      f'shape {draws.shape}'
    )
  s, c, *shape = draws.shape
  draws = draws.reshape([s, c, -1])
  at_once = max(1, _MOST_NUMBERS // (s * c))

  def apply(i):
    chosen = [p[..., i : i + at_once].astype(np.float64) for p in files.pieces(draws)]
    columns = np.concatenate(chosen)
    columns = np.where(np.all(np.isfinite(columns), axis=(0, 1)), columns, 0.0)  # constant: NaN
    return fn(np.concatenate([columns[: s // 2], columns[-(s // 2) :]], axis=1))

  with np.errstate(invalid='ignore', divide='ignore'):
    pieces = [apply(i) for i in range(0, draws.shape[-1], at_once)]
  return np.concatenate(pieces).reshape(shape)


def rank_normalized(x):
  """Ranks of all draws `[s, c, q]` together, as quantiles of the normal distribution."""
  flat = x.reshape([-1, x.shape[-1]])
  ranks = np.stack([_mean_ranks(column) for column in flat.T], axis=-1)
  return tf.math.ndtri((ranks - 0.375) / (len(flat) + 0.25)).numpy().reshape(x.shape)


def _mean_ranks(values):
  """Ranks from 1 on, equal values with their mean rank."""
  _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
  return (np.cumsum(counts) - (counts - 1) / 2)[inverse]


def _ess(x):
  """Of all chains `[s, c, q]` together, by the estimator of Stan and ArviZ.

  `tfp.mcmc.effective_sample_size` with `cross_chain_dims` sums noise that Geyer's monotone sequence
  leaves out, and weighs autocorrelations down with their lag, which hides chains that disagree.
  """
  s, c, _ = x.shape
  means = np.mean(x, axis=0)
  spectrum = np.abs(np.fft.rfft(x - means, 2 * s, axis=0)) ** 2
  covariance = np.mean(np.fft.irfft(spectrum, axis=0)[:s], axis=1) / s  # [lag, q]
  within = covariance[0] * s / (s - 1)
  variance = covariance[0] + np.var(means, axis=0, ddof=1)
  rho = 1 - (within - covariance) / variance
  rho[0] = 1.0
  # Sums of pairs are positive and decrease for a reversible chain: what is not is noise.
  pairs = rho[0 : s - s % 2 : 2] + rho[1::2]
  is_noise = np.maximum.accumulate(pairs < 0, axis=0)
  is_noise[(s - 3) // 2 :] = True  # the last lags, of one or two products each
  num_pairs = np.sum(~is_noise, axis=0, keepdims=True)
  last = np.take_along_axis(rho, 2 * num_pairs, axis=0)[0]
  counts = (last > 0) | (np.take_along_axis(pairs, num_pairs, axis=0)[0] >= 0)
  pairs = np.where(is_noise, 0.0, np.minimum.accumulate(pairs, axis=0))
  tau = -1 + 2 * np.sum(pairs, axis=0) + np.where(counts, last, 0.0)
  size = s * c / np.maximum(tau, 1 / np.log10(s * c))
  return np.where(np.ptp(x, axis=(0, 1)) == 0, np.nan, size)


def _r_hat(x):
  # Not `tfp.mcmc.potential_scale_reduction`, which multiplies by (m + 1) / m for m chains, as was
  # usual before the split of chains: Stan and ArviZ do not.
  n = len(x)
  moves = np.any(np.ptp(x, axis=0) > 0, axis=0)
  within = np.mean(np.var(x, axis=0, ddof=1), axis=0)
  between = np.var(np.mean(x, axis=0), axis=0, ddof=1)
  ratio = np.where(moves, (n - 1) / n + between / within, np.inf)
  return np.where(np.ptp(x, axis=(0, 1)) == 0, np.nan, np.sqrt(ratio))


@contextlib.contextmanager
def _without_cast_warnings():
  """Hides what TF logs when TFP takes the real part of a Fourier transform by a cast."""

  def is_other(record):
    return 'casting an input of type complex' not in record.getMessage()

  logger = logging.getLogger('tensorflow')
  logger.addFilter(is_other)
  try:
    yield
  finally:
    logger.removeFilter(is_other)


class RunningDiagnostics:
  """Effective sample size and R-hat of draws that come in pieces, in bounded time and memory.

  Chains are kept as means of `num_batches` to twice as many batches, which are merged by pairs when
  there are more:

  ```none
  ESS = s c * variance of draws / (b * variance of the means of batches of b draws)
  ```

  The means are compared across chains, so that chains that disagree have few effective samples. It
  is rough, to be watched while a run goes on: the verdict is on the draws themselves.

  Args:
    num_batches: Positive integer. With many, figures vary less, but are blind to what is slow.

  #### Examples

  ```python
  import numpy as np
  import tfp_reprior as tfr

  running = tfr.diagnostics.RunningDiagnostics()
  running.update(np.random.default_rng(1).normal(size=[1000, 4, 10]))
  running.effective_sample_size()  # ==> [10], about 4,000
  ```
  """

  def __init__(self, num_batches: int = 10) -> None:
    self._most = 2 * checks.positive_integer('num_batches', num_batches)
    self._size = 1  # draws of a batch
    self._sums: np.ndarray | None = None  # [batches, c, ...], the last batch maybe unfinished
    self._squares: np.ndarray | None = None
    self._count = 0
    self._origin: np.ndarray | None = None

  @property
  def num_draws(self) -> int:
    """Draws of each chain so far."""
    return self._count

  def update(self, draws: ArrayLike) -> None:
    """Counts draws `[s, c, ...]` in, which follow those of the last call."""
    draws = np.asarray(draws, np.float64)
    if self._origin is None:
      # Subtracted, so that squares do not lose what counts.
      self._origin = np.mean(draws[0], axis=0)
      self._sums = self._squares = np.zeros([0, *draws.shape[1:]])
    for first in range(0, len(draws), self._most):
      self._add(draws[first : first + self._most] - self._origin)

  def _add(self, draws):
    while self._count + len(draws) > self._size * self._most:
      self._sums, self._squares = _merged(self._sums), _merged(self._squares)
      self._size *= 2
    indices = (self._count + np.arange(len(draws))) // self._size
    missing = indices[-1] + 1 - len(self._sums)
    zeros = np.zeros([missing, *draws.shape[1:]])
    self._sums = np.concatenate([self._sums, zeros])
    self._squares = np.concatenate([self._squares, zeros])
    np.add.at(self._sums, indices, draws)
    np.add.at(self._squares, indices, draws**2)
    self._count += len(draws)

  def effective_sample_size(self) -> np.ndarray:
    """Of all chains together, `[...]`; NaN where nothing moved, or with fewer than 4 batches."""
    num_whole = self._count // self._size
    if num_whole < 4:
      return np.full(self._origin.shape, np.nan)
    with np.errstate(invalid='ignore', divide='ignore'):
      means = self._sums[:num_whole] / self._size
      variance = np.mean(self._squares[:num_whole] / self._size, axis=(0, 1)) - (
        np.mean(means, axis=(0, 1)) ** 2
      )
      total = num_whole * self._size * means.shape[1]
      return total * variance / (self._size * np.var(means, axis=(0, 1), ddof=1))

  def r_hat(self) -> np.ndarray:
    """Split R-hat, without ranks, `[...]`; NaN as above."""
    half = self._count // self._size // 2
    if half < 2:
      return np.full(self._origin.shape, np.nan)
    n = half * self._size
    halves = [(self._sums[s], self._squares[s]) for s in (slice(half), slice(half, 2 * half))]
    means = np.concatenate([np.sum(sums, axis=0) / n for sums, _ in halves])
    squares = np.concatenate([np.sum(squares, axis=0) / n for _, squares in halves])
    with np.errstate(invalid='ignore', divide='ignore'):
      within = np.mean(squares - means**2, axis=0)
      return np.sqrt(1 + np.var(means, axis=0, ddof=1) / within)

  def __repr__(self):
    return f'RunningDiagnostics(num_batches={self._most // 2}, num_draws={self.num_draws})'


def _merged(batches):
  """Sums of pairs of batches; an odd last one stays alone."""
  if len(batches) % 2:
    batches = np.concatenate([batches, np.zeros_like(batches[:1])])
  return batches[0::2] + batches[1::2]
