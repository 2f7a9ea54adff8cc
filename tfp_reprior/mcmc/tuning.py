"""Tuning of step size and damping by pilot chains."""

import dataclasses
import math
import time
from typing import NamedTuple

import numpy as np
import tqdm

from tfp_reprior.internal import checks
from tfp_reprior.internal import workers as workers_lib
from tfp_reprior.mcmc import pilots as pilots_lib
from tfp_reprior.mcmc import samplers

_NUM_ROUNDS = 3
# Of kernels that are not corrected: how many times as many rejections the round of dampings allows,
# and how often rounds in which nothing was allowed are repeated.
_LENIENCE = 4
_MOST_REPEATS = 6
# Of corrected kernels with momentum.
_COARSE_INTEGRATOR_STEPS = 4
_MOST_INTEGRATOR_STEPS = 16
_FEWEST_TRANSITIONS = 16


class Tuning(NamedTuple):
  """The result of `tune`.

  Attributes:
    step_size: The best one found.
    damping: The best one found; NaN if the kernel has none.
    num_integrator_steps: The gradients of a transition that go with them.
    trials: List of every `Trial`, in the order in which they were made.
  """

  step_size: float
  damping: float
  num_integrator_steps: int
  trials: list

  def table(self):
    """What was tried, as text."""
    lines = ['step size  damping  steps  acceptance  ESS per 1,000 gradients']
    for t in self.trials:
      mark = ' <-' if self.is_chosen(t) else '' if t.is_feasible else ' (not allowed)'
      lines.append(
        f'{t.step_size:9.4g} {t.damping:8.3g} {t.num_integrator_steps:6d} {t.acceptance:11.3f} '
        f'{1000 * t.ess_per_gradient:24.3g}{mark}'
      )
    return '\n'.join(lines)

  @property
  def ess_per_gradient(self):
    """Of the settings found best, in the last round."""
    return [t.ess_per_gradient for t in self.trials if self.is_chosen(t)][-1]

  def is_chosen(self, trial):
    """Whether a trial has the settings that were found best."""
    return trial[:3] == self[:3]


def tune(
  posterior,
  sampler='auto',
  target_accept_prob=None,
  num_steps=400,
  num_chains=1,
  step_sizes=None,
  dampings=(0.01, 0.03, 0.1, 0.3, 1.0),
  num_integrator_steps=None,
  num_projections=100,
  max_seconds=None,
  seed=0,
  progress=True,
  path=None,
):
  """Finds step size, damping and length of a transition that mix fastest.

  Maximizes the effective sample size per gradient of random projections of the parts that the
  kernel moves, in its own coordinates: weights, or phi. As pilot chains are short, autocorrelations
  are relative to the variance of N(0, I), which is close to that of the posterior. Without
  accept / reject the mean acceptance must reach `target_accept_prob` as well, which keeps the
  error of the stationary distribution small: the criterion of Hron et al. (2022).

  Three rounds, each of pilot chains with different settings that run side by side in one batched
  graph: step sizes on a coarse grid at one damping, for a quarter of `num_steps`; dampings at step
  sizes around the best; step sizes around the best again. A round starts where the best chains of
  the one before ended, because away from the bulk of the posterior other steps are accepted.
  Without accept / reject the last two look around the step size at which the best chains would
  just meet the target, if rejections grow with its third power. If none of a round meets it,
  because chains have come to where less is accepted, the round is repeated with shorter steps.

  A rejection turns the momentum around, and the chain goes back where it came from. So corrected
  kernels with momentum take several steps for each accept / reject, whose energy errors mostly
  cancel: as many as lead the prior N(0, I) through an angle of about one, a power of two up to 16,
  chosen after the first round.

  Args:
    posterior: A `tfp_reprior.Posterior`.
    sampler: A name of `make_sampler`, or a `Sampler`.
    target_accept_prob: Smallest mean acceptance that is allowed; by default 0.98 without accept /
      reject. With it, 0.7 for kernels with momentum, because acceptance may still fall after the
      pilots, and 0.234, the optimum of random walks in many dimensions, for those without; if
      nothing reaches it, the setting that comes closest is taken.
    num_steps: Positive integer, gradients of a pilot chain; long transitions take 16 at least. The
      first quarter is not counted.
    num_chains: Positive integer, pilot chains for each pair of settings.
    step_sizes: List of step sizes of the first round; by default from 0.001 to 1.
    dampings: List of dampings of the second round.
    num_integrator_steps: Positive integer, the gradients of a transition; by default chosen as
      above, and 1 for kernels that are not corrected or have no momentum.
    num_projections: Positive integer.
    max_seconds: Positive float. Each round ends when a third of this has passed since the last one
      ended, so that what is found depends on the speed of the machine; by default without limit.
      Rounds that are repeated come on top.
    seed: A seed of TFP.
    progress: Whether to show a progress bar.
    path: File to save finished rounds to; if it exists, they are not run again.

  Returns:
    A `Tuning`.

  Raises:
    RuntimeError: If no setting was allowed, without accept / reject: in the first round, or after
      six repeats of later ones.

  #### Examples

  ```python
  import numpy as np
  import tfp_reprior as tfr

  x = np.linspace(-1, 1, 10, dtype=np.float32)[:, np.newaxis]
  posterior = tfr.Posterior(tfr.models.fcn((1,), 1, width=32), x, np.sin(3 * x))
  tuning = tfr.mcmc.tune(posterior, num_steps=40, progress=False)
  kernel = tfr.mcmc.make_sampler(posterior).kernel_fn(
    tuning.step_size, tuning.damping, tuning.num_integrator_steps
  )
  ```
  """
  if not isinstance(sampler, samplers.Sampler):
    sampler = samplers.make_sampler(posterior, sampler)
  checks.positive_integer('num_steps', num_steps)
  checks.positive_integer('num_chains', num_chains)
  if max_seconds is not None:
    checks.positive('max_seconds', max_seconds)
  is_calibrated = sampler.kernel_fn(0.1, 0.1).is_calibrated
  if target_accept_prob is None:
    target_accept_prob = (0.7 if sampler.has_damping else 0.234) if is_calibrated else 0.98
  checks.unit_interval('target_accept_prob', target_accept_prob)
  is_length_tuned = is_calibrated and sampler.has_damping and num_integrator_steps is None
  if num_integrator_steps is None:
    num_integrator_steps = _COARSE_INTEGRATOR_STEPS if is_length_tuned else 1
  checks.positive_integer('num_integrator_steps', num_integrator_steps)
  step_sizes = np.geomspace(1e-3, 1.0, 10) if step_sizes is None else step_sizes
  dampings = dampings if sampler.has_damping else [math.nan]
  plan = _Plan(sampler, is_calibrated, target_accept_prob, num_steps, step_sizes, dampings)
  pilots = pilots_lib.Pilots(
    sampler, num_steps, num_chains, num_projections, target_accept_prob, seed
  )
  workers = workers_lib.Workers(sampler.strategy)
  description = pilots.description(step_sizes, dampings, num_integrator_steps)
  log = pilots_lib.Log(path, description, workers.is_chief)
  best = None
  round_number = num_repeats = 0
  with tqdm.tqdm(desc='tuning', unit='step', disable=not (progress and workers.is_chief)) as bar:
    while round_number < _NUM_ROUNDS:
      if round_number == 1 and is_length_tuned:
        num_integrator_steps = _num_integrator_steps(best.step_size)
      lengths = [plan.num_transitions(i, num_integrator_steps) for i in range(_NUM_ROUNDS)]
      bar.total = bar.n + num_integrator_steps * sum(lengths[round_number:])
      least_acceptance = plan.least_acceptance(round_number)
      if round_number + num_repeats < len(log.rounds):
        bar.update(num_integrator_steps * lengths[round_number])
      else:
        deadline = time.monotonic() + (math.inf if max_seconds is None else max_seconds / 3)

        def on_progress(num_transitions, length, deadline=deadline, steps=num_integrator_steps):
          bar.update(num_transitions * steps)
          is_over = time.monotonic() > deadline
          return int(workers.gather([0 if is_over else length])[0, 0])  # by the clock of the chief

        log.add(
          *pilots.run(
            (round_number, num_repeats),
            plan.settings(round_number, best, num_integrator_steps),
            lengths[round_number],
            on_progress,
            log.state,
            least_acceptance,
          )
        )
      trials = log.rounds[round_number + num_repeats]
      best = pilots_lib.best_of(trials, least_acceptance)
      bar.set_postfix_str(f'step size {best.step_size:.3g}, damping {best.damping:.3g}')
      if is_calibrated or best.acceptance >= least_acceptance:
        round_number += 1
      elif round_number == 0 or num_repeats == _MOST_REPEATS:
        raise RuntimeError(
          'No setting kept the mean acceptance at or above '
          f'target_accept_prob={target_accept_prob}: give smaller `step_sizes`. Tried: '
          + ', '.join(f'{t.step_size:.3g} (acceptance {t.acceptance:.3g})' for t in trials)
        )
      else:
        num_repeats += 1
  log.close()
  return Tuning(*best[:3], [t for trials in log.rounds for t in trials])


@dataclasses.dataclass(frozen=True)
class _Plan:
  """What each round tries, for how long, and what it allows: by the arguments of `tune`."""

  sampler: samplers.Sampler
  is_calibrated: bool
  target_accept_prob: float
  num_steps: int
  step_sizes: object
  dampings: object

  def settings(self, round_number, best, num_integrator_steps):
    """List of step size, damping and number of integrator steps, none of them twice.

    Args:
      round_number: Integer.
      best: The best `Trial` of the round before.
      num_integrator_steps: The same for all.
    """
    is_angle = not self.sampler.has_damping or 'rotation' in self.sampler.name
    largest = math.pi / 2 if is_angle else math.inf
    pairs = [(min(float(eps), largest), float(d)) for eps, d in self._pairs(round_number, best)]
    return [(*pair, num_integrator_steps) for pair in dict.fromkeys(pairs)]

  def _pairs(self, round_number, best):
    if round_number == 0:
      middle = self.dampings[len(self.dampings) // 2]
      return [(eps, middle) for eps in self.step_sizes]
    eps, factors = best.step_size, (0.8, 1.0, 1.25, 1.6)
    if not self.is_calibrated:
      eps *= _growth(best.acceptance, self.target_accept_prob)
      factors = (0.7, 0.85, 1.0, 1.15)
    if round_number == 1 and self.sampler.has_damping:
      factors = (0.7, 1.4) if self.is_calibrated else (0.7, 1.0)
      return [(f * eps, d) for d in self.dampings for f in factors]
    return [(f * eps, best.damping) for f in factors]

  def num_transitions(self, round_number, num_integrator_steps):
    """Of each pilot chain."""
    num_gradients = -(-self.num_steps // (4 if round_number == 0 else 1))
    fewest = 1 if num_integrator_steps == 1 else _FEWEST_TRANSITIONS
    return max(fewest, -(-num_gradients // num_integrator_steps))

  def least_acceptance(self, round_number):
    """The smallest mean acceptance among which the best is chosen.

    The second round is there for the damping, on which acceptance does not depend in the long run;
    but chains with less of it leave their start sooner, where more may be accepted, and would be at
    a disadvantage.
    """
    if round_number == 1 and not self.is_calibrated:
      return 1.0 - _LENIENCE * (1.0 - self.target_accept_prob)
    return self.target_accept_prob


def _num_integrator_steps(step_size):
  """The power of two that brings the prior N(0, I), of period 2 pi, closest to an angle of one."""
  return 2 ** min(max(0, round(-math.log2(step_size))), int(math.log2(_MOST_INTEGRATOR_STEPS)))


def _growth(acceptance, target_accept_prob):
  """By how much to lengthen a step to meet the target, at most doubled or halved.

  The energy error of one step, and with it the rate of rejections, grows with the third power.
  """
  ratio = (1.0 - target_accept_prob) / max(1.0 - acceptance, 1e-6)
  return min(max(ratio ** (1 / 3), 0.5), 2.0)
