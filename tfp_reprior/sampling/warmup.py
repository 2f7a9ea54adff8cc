"""What warm-up runs, and what it finds. `planner` decides what to run."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

from tfp_reprior import errors
from tfp_reprior.diagnostics import verdict
from tfp_reprior.mcmc import jittered
from tfp_reprior.sampling import observations, runner

# Mean acceptance that steps are adapted to: corrected kernels with momentum, and without, where it
# is the optimum of random walks in many dimensions; and that of the paper without accept / reject.
TARGETS = {'corrected': 0.7, 'random walk': 0.234, 'uncalibrated': 0.98}
# What the verdict asks of every chain of a run.
BOUNDS = {'corrected': (0.4, 0.995), 'random walk': (0.05, 0.9), 'uncalibrated': (0.95, 1.0)}
FIRST_STEP_SIZE = 0.1
# A chain counts as accepting this much at least: one that stands still pulls the mean down, but a
# single bad proposal does not end a step size.
_LEAST_ACCEPTANCE = 0.1
_NO_ACCEPTANCE = -100.0  # the logarithm, for energies that are not finite
# By default 0.05, which swings widely in short pieces, and ends with steps that are too short.
_EXPLORATION_SHRINKAGE = 0.15
_COMPLETE_REFRESHMENT = 0.95  # or more of it
_NUM_PROJECTIONS = 32
_MOST_INPUTS = 100


class WarmupError(errors.RunError):
  """Raised if no settings were found with which every chain moves.

  #### Examples

  ```python
  import tfp_reprior as tfr

  def sample(model, x, y):
    try:
      return tfr.sample_posterior(model, x, y)
    except tfr.sampling.WarmupError:  # once more, with a sampler that needs no gradient
      return tfr.sample_posterior(model, x, y, sampler='crank_nicolson')
  ```
  """


class Block(NamedTuple):
  """A piece of warm-up, with one setting: a line of `Warmup.table`.

  Attributes:
    stage: What it was for.
    step_size: At its end, if it was adapted.
    damping: Of the kernel; NaN if it has none.
    num_integrator_steps: The mean number of steps of a transition.
    inverse_temperature: The power of the likelihood.
    num_transitions: Of each chain.
    acceptance: Mean acceptance of each chain, a list.
    log_likelihood: Its mean over chains, in the second half.
    ess_per_gradient: Effective samples per gradient of the slowest quantity, if they were measured;
      else NaN.
    slowest: The name of that quantity.
  """

  stage: str
  step_size: float
  damping: float
  num_integrator_steps: int
  inverse_temperature: float
  num_transitions: int
  acceptance: list[float]
  log_likelihood: float
  ess_per_gradient: float = math.nan
  slowest: str = ''

  @property
  def acceptance_text(self) -> str:
    """From the lowest to the highest of the chains; empty for what has none."""
    if math.isnan(self.acceptance[0]):
      return ''
    return f'{min(self.acceptance):.2f} to {max(self.acceptance):.2f}'

  def __repr__(self):
    return (
      f'Block({self.stage!r}, {_shown_settings(self)}, num_transitions={self.num_transitions}, '
      f'acceptance={min(self.acceptance):.2f} to {max(self.acceptance):.2f})'
    )


class Warmup(NamedTuple):
  """What warm-up found; `tfp_reprior.warm_up` has an example.

  Attributes:
    step_size: Of the kernel.
    damping: Of the kernel; NaN if it has none.
    num_integrator_steps: The mean number of steps of a transition.
    num_gradients: How many gradients of each chain it took.
    blocks: List of every `Block`, in order.
    doubts: List of `tfp_reprior.diagnostics.Reason`, for the verdict on the run.
    regularizer: That of the map.
    layer_regularizer: Those of the maps of hidden layers, a list; None without such maps.
    state: Where the chains ended, in the coordinates of the sampler; not saved with a result.
    anchor: The anchor that these depend on, a list of hidden parts, if every layer has a map; not
      saved either: `Result.anchor` is the same.
  """

  step_size: float
  damping: float
  num_integrator_steps: int
  num_gradients: int
  blocks: list[Block]
  doubts: list[verdict.Reason]
  regularizer: float | str | None = None
  state: list[np.ndarray] | None = None
  anchor: list[np.ndarray] | None = None
  layer_regularizer: list[float] | None = None

  @property
  def ess_per_gradient(self) -> float:
    """Effective samples per gradient of the slowest quantity, as last measured; NaN if never."""
    sizes = [b.ess_per_gradient for b in self.blocks if not math.isnan(b.ess_per_gradient)]
    return sizes[-1] if sizes else math.nan

  def table(self) -> str:
    """What was done, as text."""
    lines = [
      f'{"stage":12} {"step size":>9} {"damping":>8} {"steps":>6} {"transitions":>11} '
      f'{"acceptance":>13} {"log-likelihood":>15} {"ESS / 1k gradients":>19}'
    ]
    for b in self.blocks:
      spread = b.acceptance_text
      measured = ''
      if not math.isnan(b.ess_per_gradient):
        measured = f'{1000 * b.ess_per_gradient:.3g} ({b.slowest})'
      lines.append(
        f'{b.stage:12} {b.step_size:9.4g} {b.damping:8.3g} {b.num_integrator_steps:6d} '
        f'{b.num_transitions:11d} {spread:>13} {b.log_likelihood:15.5g} {measured:>19}'.rstrip()
      )
    lines += [f'{r.text} {r.advice}' for r in self.doubts]
    return '\n'.join(lines)

  def to_dict(self) -> dict[str, Any]:
    """For JSON, without the state."""
    return {
      **self._asdict(),
      'blocks': [b._asdict() for b in self.blocks],
      'doubts': [r._asdict() for r in self.doubts],
      'state': None,
      'anchor': None,
    }

  @classmethod
  def from_dict(cls, values: Mapping[str, Any]) -> 'Warmup':
    """The inverse of `to_dict`."""
    blocks = [Block(**b) for b in values['blocks']]
    doubts = [verdict.Reason(**{**r, 'chains': tuple(r['chains'])}) for r in values['doubts']]
    return cls(**{**values, 'blocks': blocks, 'doubts': doubts})

  def __repr__(self):
    return f'Warmup({_shown_settings(self)}, num_gradients={self.num_gradients})'


def _shown_settings(found):
  """The settings of a kernel as text, without a damping if it has none."""
  damping = '' if math.isnan(found.damping) else f'damping={found.damping:.3g}, '
  return (
    f'step_size={found.step_size:.3g}, {damping}num_integrator_steps={found.num_integrator_steps}'
  )


def default_damping(step_size, num_integrator_steps, friction=1.0):
  """The refreshment of a transition that goes with its length, by default for a friction of one.

  The momentum of N(0, I) should be forgotten about as fast as the position is, whatever the number
  of steps between two accept / reject decisions.
  """
  damping = 1.0 - math.exp(-2.0 * friction * step_size * num_integrator_steps)
  return 1.0 if damping > _COMPLETE_REFRESHMENT else damping


def check_momentum(sampler, settings):
  """Refuses settings of a momentum for a sampler without."""
  for name in () if sampler.has_damping else ('damping', 'num_integrator_steps'):
    if getattr(settings, name) is not None:
      raise errors.InputError(
        f'The sampler {sampler.name!r} has no momentum: leave `{name}` out. Received: '
        f'{name}={getattr(settings, name)}'
      )


def given_settings(settings):
  """The arguments of the kernel if the step size of `Settings` was given, a dict."""
  step_size, num_steps = settings.step_size, settings.num_integrator_steps or 1
  damping = settings.damping
  if damping is None:
    damping = default_damping(step_size, num_steps)
  return {'step_size': step_size, 'damping': damping, 'num_integrator_steps': num_steps}


def adaptive_kernel(sampler):
  """The kernel of a sampler as warm-up runs it: corrected, and with dual averaging around it.

  A kernel without accept / reject leaves the range of floating point numbers where its steps are
  too long, and never comes back. So its step size is found with the corrected one.
  """
  kind = sampler.kind
  harmonic = tfp.math.reduce_log_harmonic_mean_exp
  least = math.log(_LEAST_ACCEPTANCE) if kind == 'corrected' else _NO_ACCEPTANCE

  def log_accept_prob(results):
    ratio = tf.minimum(results.log_accept_ratio, 0.0)
    nothing = tf.constant(_NO_ACCEPTANCE, ratio.dtype)
    return tf.where(tf.math.is_nan(ratio), nothing, tf.maximum(ratio, least))

  def set_step_size(results, step_size):
    return results._replace(step_size=tf.minimum(step_size, sampler.max_step_size))

  def kernel_fn(settings):
    kernel = sampler.kernel_fn(
      settings.step_size,
      settings.damping,
      settings.num_integrator_steps,
      settings.inverse_temperature,
      is_calibrated=True,
    )
    return tfp.mcmc.DualAveragingStepSizeAdaptation(
      kernel,
      settings.num_adaptation_steps,
      TARGETS[kind],
      # By default ten times the step size, which is too bold for short pieces.
      shrinkage_target=settings.step_size,
      exploration_shrinkage=_EXPLORATION_SHRINKAGE,
      step_size_setter_fn=set_step_size,
      log_accept_prob_getter_fn=log_accept_prob,
      reduce_fn=_plain_mean if kind == 'random walk' else harmonic,
    )

  return jittered.Jittered(kernel_fn, jittered.KernelSettings(step_size=FIRST_STEP_SIZE))


def make_runner(sampler, x_test, thinning, seed, projections_seed):
  """The `Runner` of warm-up, which traces what settings are judged by.

  Args:
    sampler: A `tfp_reprior.sampling.Sampler`.
    x_test: Inputs `[m, ...]` whose outputs are followed; None for the training inputs.
    thinning: Positive integer, the transitions for each entry of the trace.
    seed: A seed of TFP.
    projections_seed: Likewise, of random projections.
  """
  x = sampler.posterior.x
  # In data space outputs for other inputs have noise of their own, which hides the chains.
  if not sampler.posterior.split.names_in_data_space:
    x = (x if x_test is None else x_test)[:_MOST_INPUTS]
  observer = observations.Observer(sampler, x, _NUM_PROJECTIONS, projections_seed, thinning)
  kernel = adaptive_kernel(sampler)
  return runner.Runner(kernel, observer.warmup, thinning, seed, sampler.run_loop)


def _plain_mean(log_prob, axis=None, keepdims=False, **_):
  return tfp.math.reduce_logmeanexp(log_prob, axis=axis, keepdims=keepdims)


def sampling_kernel(sampler, chosen):
  """The kernel of a sampler as runs use it.

  Args:
    sampler: A `tfp_reprior.sampling.Sampler`.
    chosen: Dict of `step_size`, `damping` and `num_integrator_steps`.
  """

  def kernel_fn(settings):
    return sampler.kernel_fn(settings.step_size, settings.damping, settings.num_integrator_steps)

  return jittered.Jittered(kernel_fn, as_settings(chosen))


def as_settings(chosen, **others):
  """`KernelSettings` from what was chosen; without damping, one is given that nothing reads."""
  known = {name: value for name, value in chosen.items() if value is not None}
  if math.isnan(known.get('damping', 0.0)):
    del known['damping']
  return jittered.KernelSettings(**known, **others)
