"""Statistical tests with a stated false-alarm rate.

Every test here rejects a true hypothesis with probability `FALSE_ALARM` at most. Each use comes
with a negative control that it must reject: a test that cannot fail shows nothing.
"""

import numpy as np
import scipy.stats

FALSE_ALARM = 1e-6


def cdf_p_value(draws, cdf):
  """Kolmogorov-Smirnov: the p-value of independent `draws` `[s]` having the distribution `cdf`."""
  draws = np.asarray(draws)
  return scipy.stats.kstest(draws, cdf).pvalue if np.all(np.isfinite(draws)) else 0.0


def detectable_cdf_error(num_draws):
  """The error of a CDF that `cdf_p_value < FALSE_ALARM` finds with probability 1 - FALSE_ALARM.

  By the Dvoretzky-Kiefer-Wolfowitz inequality: critical value plus noise of the same size.
  """
  return 2 * np.sqrt(np.log(2 / FALSE_ALARM) / (2 * num_draws))


def mean_p_value(draws, expected):
  """z-test: the p-value of independent `draws` `[s, ...]` having mean `expected`, Bonferroni."""
  draws = np.asarray(draws, np.float64)
  if not np.all(np.isfinite(draws)):
    return 0.0
  error = draws.std(axis=0, ddof=1) / np.sqrt(len(draws))
  z = np.abs(draws.mean(axis=0) - expected) / error
  return min(1.0, np.size(z) * 2 * scipy.stats.norm.sf(np.max(z)))
