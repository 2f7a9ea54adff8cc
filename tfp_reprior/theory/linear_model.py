"""The step size of leapfrog on a linear model, with and without the change of variables."""

import math

import numpy as np
from numpy.typing import ArrayLike

from tfp_reprior import errors
from tfp_reprior.internal import checks


def stable_step_size(psi: ArrayLike, noise_scale: float, regularizer: float = math.inf) -> float:
  """The largest stable step size of leapfrog for `y = psi @ theta + noise`, theta ~ N(0, I).

  In theta the posterior has the precision `I + psi.T @ psi / s2`, and in the coordinates of the
  repriorisation, with `S @ S.T = inv(I + psi.T @ psi / lam)`, `S.T @ (I + psi.T @ psi / s2) @ S`.
  With `sigma` the singular values of psi (and 0, if d > n) its eigenvalues are

  ```none
  (1 + sigma**2 / s2) / (1 + sigma**2 / lam)
  ```

  Leapfrog is stable for steps below 2 over the root of the largest one. Without the map,
  `lam = inf`, this shrinks like noise_scale / sqrt(n), because `sigma**2` grows like n. With
  `lam = s2` it is 2, whatever the data and the noise.

  Args:
    psi: Features `[n, d]`.
    noise_scale: Positive float, the root of s2.
    regularizer: Positive float `lam`, or infinity for no map.

  Returns:
    Float.

  #### Examples

  ```python
  import numpy as np
  import tfp_reprior as tfr

  psi = np.random.default_rng(0).normal(size=(100, 5))
  tfr.theory.stable_step_size(psi, noise_scale=0.1)  # ==> about 0.02
  tfr.theory.stable_step_size(psi, noise_scale=0.1, regularizer=0.01)  # ==> 2.0
  ```
  """
  checks.positive('noise_scale', noise_scale)
  if regularizer != math.inf:
    checks.positive('regularizer', regularizer)
  psi = np.asarray(psi, np.float64)
  if psi.ndim != 2:
    raise errors.InputError(f'`psi` must have shape [n, d]. Received: psi of shape {psi.shape}')
  squares = np.zeros(psi.shape[1])
  singular_values = np.linalg.svd(psi, compute_uv=False)
  squares[: len(singular_values)] = singular_values**2
  return float(2 / np.sqrt(np.max((1 + squares / noise_scale**2) / (1 + squares / regularizer))))
