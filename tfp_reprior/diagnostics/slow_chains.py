"""Effective sample size of chains too short to tell their own variance."""

import numpy as np
from numpy.typing import ArrayLike

from tfp_reprior import errors

_WINDOW = 5  # of Sokal


def slow_effective_sample_size(draws: ArrayLike, variance: ArrayLike) -> float:
  """Effective sample size of a chain, relative to a variance that a faster sampler has found.

  A chain that is short against its correlations takes its slow drift for its mean, and has some
  effective samples however slow it is: `effective_sample_size` of a random walk is about five.
  Squared differences need no mean, and all quantities share one autocorrelation:

  ```none
  rho_t = 1 - sum over r of the mean of (x[i + t] - x[i])^2 / (2 sum over r of the variance)
  ess   = s / (1 + 2 sum_{t = 1, 2, ...} rho_t)
  ```

  The sum ends at the first negative `rho_t`, at five times itself, beyond which it adds noise, or
  at half of the chain: then what is left out is positive, and the size too large if anything.

  Args:
    draws: `[s, c, r]`, draws by chains, of quantities that are alike, such as
      `RandomProjections`. Chains have to be stationary.
    variance: `[r]`, or the mean of these, over the posterior.

  Returns:
    A float, for one of the chains.

  #### Examples

  ```python
  import numpy as np
  import tfp_reprior as tfr

  steps = np.random.default_rng(1).normal(size=[200, 2, 50])
  walk = np.cumsum(0.01 * steps, axis=0)
  tfr.diagnostics.slow_effective_sample_size(walk, variance=1.0)  # ==> 1: it is hardly moving
  tfr.diagnostics.slow_effective_sample_size(steps, variance=1.0)  # ==> about 170, of 200
  ```

  #### References

  A. Sokal. Monte Carlo methods in statistical mechanics: foundations and new algorithms. 1996.
  """
  x = np.asarray(draws, np.float64)
  if x.ndim != 3 or len(x) < 2:
    raise errors.InputError(
      f'`draws` must have shape [s, c, r], with s at least 2. Received: draws of shape {x.shape}'
    )
  total = 2 * float(np.mean(np.asarray(variance, np.float64)))
  if not total > 0:
    raise errors.InputError(f'`variance` must be positive. Received: variance={variance!r}')
  tau = 1.0
  for lag in range(1, len(x) // 2 + 1):
    rho = 1 - np.mean((x[lag:] - x[:-lag]) ** 2) / total
    if rho <= 0 or lag > _WINDOW * tau:
      break
    tau += 2 * rho
  return len(x) / tau
