"""Tuning of the regularizer, between repriorisation and the standard parametrisation."""

import math
import pathlib

from tfp_reprior.internal import checks
from tfp_reprior.mcmc import samplers, tuning

CANDIDATES = ('noise', 'n*noise', math.inf)


def tune_regularizer(
  posterior,
  sampler='auto',
  regularizers=CANDIDATES,
  over_dispersion=1.0,
  path=None,
  strategy=None,
  **settings,
):
  """Finds the regularizer whose coordinates mix fastest.

  Tunes a kernel for each regularizer, and compares the effective sample sizes per gradient. Nearly
  all weights are hidden ones, which are the same in all coordinates. Infinity, the standard
  parametrisation, is among the candidates: where the repriorised posterior is far from N(0, I), for
  many data and few features, the pilots may prefer it.

  Args:
    posterior: A `tfp_reprior.Posterior`.
    sampler: A name of `make_sampler`, other than `'standard'`.
    regularizers: List of candidates, each as of `make_sampler`.
    over_dispersion: As of `make_sampler`.
    path: File to save finished rounds to; with a number for each candidate in its name.
    strategy: As of `make_sampler`.
    **settings: As of `tune`.

  Returns:
    regularizer: The best candidate.
    tunings: Dict of the `Tuning` of each candidate.

  #### Examples

  ```python
  import numpy as np
  import tfp_reprior as tfr

  x = np.linspace(-1, 1, 10, dtype=np.float32)[:, np.newaxis]
  posterior = tfr.Posterior(tfr.models.fcn((1,), 1, width=32), x, np.sin(3 * x))
  best, tunings = tfr.mcmc.tune_regularizer(
    posterior, regularizers=['noise', np.inf], num_steps=20, progress=False
  )
  sampler = tfr.mcmc.make_sampler(posterior, regularizer=best)
  ```
  """
  if checks.one_of('sampler', sampler, samplers.NAMES).endswith('standard'):
    raise ValueError(
      f'The standard parametrisation has no `regularizer` to tune. Received: sampler={sampler!r}'
    )
  tunings = {}
  for i, regularizer in enumerate(regularizers):
    own_path = None
    if path is not None:
      own_path = pathlib.Path(path)
      own_path = own_path.with_name(f'{own_path.stem}_{i}{own_path.suffix}')
    made = samplers.make_sampler(posterior, sampler, over_dispersion, regularizer, strategy)
    tunings[regularizer] = tuning.tune(posterior, made, path=own_path, **settings)
  return max(tunings, key=lambda r: tunings[r].ess_per_gradient), tunings
