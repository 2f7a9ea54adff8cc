"""How fast chains mix, from runs that are too short for effective sample sizes."""

import math

import numpy as np

# From where on an autocorrelation counts as a slow one: this, or so many deviations of noise.
_CLEAR, _NUM_DEVIATIONS = 0.3, 3


def mixing_rates(traces, spacings, lag):
  """Effective samples per gradient of each kind of quantity, comparable between short runs.

  ```none
  rho[t] = 1 - mean((x[s + t] - x[s])**2) / (2 variance)
  rate   = (1 - rho) / (1 + rho) / lag       rho = max(rho[lag], rho[4 * lag]**(1 / 4))
  ```

  with the variance of each quantity in all runs together, about the mean of its chain: by its own
  variance a short run of a slow chain would look as if it mixed. The longer lag is for what decays
  slowly, and counts where it can be told from noise. A sum over all lags has more of that: an error
  of the variance shifts every rho.

  Args:
    traces: List of dicts of arrays `[s, c, ...]`, of the same chains, with other settings.
    spacings: List of how many gradients there are from one entry of each trace to the next.
    lag: Positive number of gradients, about those of an independent draw if things go well.

  Returns:
    List of dicts: the rate of one chain, by name.
  """
  rates = [{} for _ in traces]
  for name in ('hidden', 'f', 'log_likelihood', 'log_prob', 'squared_norms'):
    if name not in traces[0]:
      continue
    runs = [np.asarray(t[name], np.float64) for t in traces]
    runs = [r.reshape([*r.shape[:2], -1]) for r in runs]
    # All chains have the same law: their variances are averaged.
    variance = np.mean(np.var(np.concatenate(runs), axis=0), axis=0)  # [r]
    for rate, run, spacing in zip(rates, runs, spacings, strict=True):
      num_entries = max(1, round(lag / spacing))
      if name == 'squared_norms':  # of layers that mix at different speeds: the slowest
        for i in range(run.shape[-1]):
          key = f'squared norm {i + 1}'
          rate[key] = _rate_of_known_variance(run[..., [i]], variance[[i]], num_entries) / spacing
      else:
        rate[name] = _rate_of_known_variance(run, variance, num_entries) / spacing
  return rates


def overall_rate(rates):
  """The harmonic mean of `mixing_rates`: what is slow decides.

  The least of several noisy rates would be lower the shorter the run, in transitions, and so speak
  against long ones.
  """
  rates = np.array(list(rates.values()))
  return float(len(rates) / np.sum(1 / rates)) if np.all(rates > 0) else 0.0


def _rate_of_known_variance(x, variance, lag):
  """Effective samples per entry of `x` `[s, c, r]`, averaged over chains and quantities."""
  moving = variance > 0
  if not np.any(moving):
    return 1.0 / len(x)
  x = x[..., moving] / np.sqrt(variance[moving])

  def autocorrelation(t):
    return max(0.0, 1 - float(np.mean((x[t:] - x[:-t]) ** 2)) / 2)

  rho, num_pairs = autocorrelation(lag), x.shape[1] * (len(x) - 4 * lag)
  if num_pairs > 0:
    rho_later = autocorrelation(4 * lag)
    if rho_later > max(_CLEAR, _NUM_DEVIATIONS / math.sqrt(num_pairs)):
      rho = max(rho, rho_later**0.25)
  return (1 - rho) / (1 + rho) / lag
