"""Samplers by name: a posterior, its coordinates and a kernel for them."""

import dataclasses
from collections.abc import Callable

from tfp_reprior import likelihoods
from tfp_reprior.bijectors import collapsed_posterior, composed_posterior
from tfp_reprior.internal import checks
from tfp_reprior.mcmc import crank_nicolson, rotation_langevin, underdamped_langevin

NAMES = (
  'auto',
  'rotation',
  'uncalibrated_rotation',
  'crank_nicolson',
  'langevin',
  'uncalibrated_langevin',
  'standard',
  'uncalibrated_standard',
)


@dataclasses.dataclass(frozen=True)
class Sampler:
  """How to sample a posterior.

  Attributes:
    name: One of `NAMES`, other than `'auto'`.
    posterior: The `tfp_reprior.Posterior`.
    kernel_fn: Function of `step_size` and `damping`; returns a `tfp.mcmc.TransitionKernel` over
      the coordinates of the sampler. A kernel without momentum ignores the damping.
    start_fn: Function of a number of chains and a seed; returns states to start from.
    theta_fn: Function of a state; returns the weights, a list of parts.
    num_moving_parts: The first parts of the state, those that the kernel moves step by step; it
      draws the others anew.
    has_damping: Whether the kernel has momentum.
  """

  name: str
  posterior: object
  kernel_fn: Callable
  start_fn: Callable
  theta_fn: Callable
  num_moving_parts: int
  has_damping: bool = True


def make_sampler(posterior, name='auto', over_dispersion=1.0):
  """Makes a sampler for a posterior.

  All start from the same weights: the image of draws from N(0, I) under the repriorisation, which
  for wide networks are close to draws from the posterior.

  Args:
    posterior: A `tfp_reprior.Posterior`.
    name: A name of this table. `uncalibrated_...` are those without accept / reject;
      `'uncalibrated_langevin'` is that of Hron et al. (2022).

      | name | coordinates | kernel |
      | --- | --- | --- |
      | `'auto'` | phi | `rotation` for Gaussian noise, else `langevin` |
      | `'rotation'` | phi | `RotationLangevin` (Gaussian noise only) |
      | `'crank_nicolson'` | phi | `PreconditionedCrankNicolson` (Gaussian noise only) |
      | `'langevin'` | phi | `UnderdampedLangevin` |
      | `'standard'` | theta | `UnderdampedLangevin` |

    over_dispersion: Positive float, scale of the draws of phi that chains start from; above 1 for
      starts that spread wider than the posterior, as R-hat wants them.

  Returns:
    A `Sampler`.
  """
  checks.one_of('name', name, NAMES)
  checks.positive('over_dispersion', over_dispersion)
  is_gaussian = isinstance(posterior.likelihood, likelihoods.Gaussian)
  if name == 'auto':
    name = 'rotation' if is_gaussian else 'langevin'
  prefix = 'uncalibrated_'
  is_calibrated, kind = not name.startswith(prefix), name.removeprefix(prefix)
  reprior = posterior.reprior()

  def start_fn(num_chains, seed):
    phi = [over_dispersion * p for p in posterior.sample_prior(num_chains, seed)]
    return reprior.forward(phi) if kind == 'standard' else phi

  if kind in ('rotation', 'crank_nicolson'):
    log_likelihood_fn = collapsed_posterior.CollapsedPosterior(posterior).log_likelihood_fn

  if kind == 'crank_nicolson':

    def kernel_fn(step_size, damping=None):
      del damping
      return crank_nicolson.PreconditionedCrankNicolson(log_likelihood_fn, step_size)

  elif kind == 'rotation':

    def kernel_fn(step_size, damping):
      kernel = (
        rotation_langevin.RotationLangevin
        if is_calibrated
        else rotation_langevin.UncalibratedRotationLangevin
      )
      # Lists have an entry for each part; the likelihood depends on the hidden ones.
      settings = [
        s[: posterior.split.num_hidden] if isinstance(s, list) else s for s in (step_size, damping)
      ]
      return kernel(log_likelihood_fn, *settings)

  else:
    target = posterior
    if kind == 'langevin':
      target = (
        collapsed_posterior.CollapsedPosterior(posterior)
        if is_gaussian
        else composed_posterior.ComposedPosterior(posterior)
      )

    def kernel_fn(step_size, damping):
      kernel = (
        underdamped_langevin.UnderdampedLangevin
        if is_calibrated
        else underdamped_langevin.UncalibratedUnderdampedLangevin
      )
      return kernel(target.target_log_prob_fn, step_size, damping)

  return Sampler(
    name=name,
    posterior=posterior,
    kernel_fn=kernel_fn,
    start_fn=start_fn,
    theta_fn=(lambda theta: list(theta)) if kind == 'standard' else reprior.forward,
    num_moving_parts=posterior.split.num_hidden
    if kind == 'rotation'
    else len(posterior.split.event_shapes),
    has_damping=kind != 'crank_nicolson',
  )
