"""Tuning of step size and damping by pilot chains."""

import json
import math
import pathlib
import time
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tqdm

from tfp_reprior import diagnostics
from tfp_reprior.internal import checks, files, random
from tfp_reprior.internal import workers as workers_lib
from tfp_reprior.mcmc import runner, samplers

_THINNING = 2
_NUM_ROUNDS = 3
# Of kernels that are not corrected: how many times as many rejections the round of dampings allows,
# and how often rounds in which nothing was allowed are repeated.
_LENIENCE = 4
_MOST_REPEATS = 6
# Of corrected kernels with momentum.
_COARSE_INTEGRATOR_STEPS = 4
_MOST_INTEGRATOR_STEPS = 16
_FEWEST_TRANSITIONS = 16


class Trial(NamedTuple):
  """What pilot chains with one pair of settings did.

  Attributes:
    step_size: Of the kernel.
    damping: Of the kernel; NaN if it has none.
    num_integrator_steps: Of the kernel, the gradients of a transition.
    acceptance: Mean over chains and transitions of `min(1, exp(log_accept_ratio))`.
    ess_per_gradient: Effective sample size per gradient, relative to the variance of N(0, I), of
      random projections of the parts that the kernel moves.
    is_feasible: Whether all was finite, and the acceptance high enough.
  """

  step_size: float
  damping: float
  num_integrator_steps: int
  acceptance: float
  ess_per_gradient: float
  is_feasible: bool


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
      reject. With it, 0.7 for kernels with momentum and 0.1 for those without, because acceptance
      may still fall after the pilots; if nothing reaches it, the setting that comes closest is
      taken.
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
    target_accept_prob = (0.7 if sampler.has_damping else 0.1) if is_calibrated else 0.98
  checks.unit_interval('target_accept_prob', target_accept_prob)
  is_length_tuned = is_calibrated and sampler.has_damping and num_integrator_steps is None
  if num_integrator_steps is None:
    num_integrator_steps = _COARSE_INTEGRATOR_STEPS if is_length_tuned else 1
  checks.positive_integer('num_integrator_steps', num_integrator_steps)
  largest = math.pi / 2 if not sampler.has_damping or 'rotation' in sampler.name else math.inf
  if step_sizes is None:
    step_sizes = np.geomspace(1e-3, 1.0, 10)
  if not sampler.has_damping:
    dampings = [math.nan]
  pilots = _Pilots(sampler, num_steps, num_chains, num_projections, target_accept_prob, seed)
  workers = workers_lib.Workers(sampler.strategy)
  description = pilots.description(step_sizes, dampings, num_integrator_steps)
  log = _Log(path, description, workers.is_chief)

  def settings_of_round(round_number, best):
    middle = dampings[len(dampings) // 2]
    if round_number == 0:
      return [(eps, middle) for eps in step_sizes]
    eps, factors = best.step_size, (0.8, 1.0, 1.25, 1.6)
    if not is_calibrated:
      eps, factors = eps * _growth(best.acceptance, target_accept_prob), (0.7, 0.85, 1.0, 1.15)
    if round_number == 1 and sampler.has_damping:
      factors = (0.7, 1.4) if is_calibrated else (0.7, 1.0)
      return [(f * eps, d) for d in dampings for f in factors]
    return [(f * eps, best.damping) for f in factors]

  best = None
  shares = (4, 1, 1)  # of num_steps
  # The smallest acceptance of each round. The second is there for the damping, on which acceptance
  # does not depend in the long run; but chains with less of it leave their start sooner, where more
  # may be accepted, and would be at a disadvantage.
  least = [target_accept_prob] * _NUM_ROUNDS
  if not is_calibrated:
    least[1] = 1.0 - _LENIENCE * (1.0 - target_accept_prob)
  is_shown = progress and workers.is_chief
  round_number = num_repeats = 0
  with tqdm.tqdm(desc='tuning', unit='step', disable=not is_shown) as bar:
    while round_number < _NUM_ROUNDS:
      if round_number == 1 and is_length_tuned:
        num_integrator_steps = _num_integrator_steps(best.step_size)
      lengths = [_num_transitions(-(-num_steps // s), num_integrator_steps) for s in shares]
      bar.total = bar.n + num_integrator_steps * sum(lengths[round_number:])
      if round_number + num_repeats < len(log.rounds):
        bar.update(num_integrator_steps * lengths[round_number])
      else:
        settings = settings_of_round(round_number, best)
        settings = [(min(float(eps), largest), float(d)) for eps, d in settings]
        deadline = time.monotonic() + (math.inf if max_seconds is None else max_seconds / 3)

        def on_progress(num_transitions, deadline=deadline, length=num_integrator_steps):
          bar.update(num_transitions * length)
          return workers.gather([time.monotonic() > deadline])[0, 0]  # by the clock of the chief

        settings = [(*pair, num_integrator_steps) for pair in dict.fromkeys(settings)]
        log.add(
          *pilots.run(
            (round_number, num_repeats),
            settings,
            lengths[round_number],
            on_progress,
            log.state,
            least[round_number],
          )
        )
      trials = log.rounds[round_number + num_repeats]
      best = _best(trials, least[round_number])
      bar.set_postfix_str(f'step size {best.step_size:.3g}, damping {best.damping:.3g}')
      if is_calibrated or best.acceptance >= least[round_number]:
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


def _num_integrator_steps(step_size):
  """The power of two that brings the prior N(0, I), of period 2 pi, closest to an angle of one."""
  return 2 ** min(max(0, round(-math.log2(step_size))), int(math.log2(_MOST_INTEGRATOR_STEPS)))


def _growth(acceptance, target_accept_prob):
  """By how much to lengthen a step to meet the target, at most doubled or halved.

  The energy error of one step, and with it the rate of rejections, grows with the third power.
  """
  ratio = (1.0 - target_accept_prob) / max(1.0 - acceptance, 1e-6)
  return min(max(ratio ** (1 / 3), 0.5), 2.0)


def _num_transitions(num_gradients, num_integrator_steps):
  fewest = 1 if num_integrator_steps == 1 else _FEWEST_TRANSITIONS
  return max(fewest, -(-num_gradients // num_integrator_steps))


def _best(trials, least_acceptance):
  """The fastest of the allowed ones, or, if there is none, the one closest to be."""
  allowed = [t for t in trials if t.acceptance >= least_acceptance]
  if not allowed:
    return max(trials, key=lambda t: t.acceptance)
  return max(allowed, key=lambda t: t.ess_per_gradient)


class _Pilots:
  """Runs pilot chains with different settings side by side."""

  def __init__(self, sampler, num_steps, num_chains, num_projections, target_accept_prob, seed):
    self._sampler = sampler
    self._num_steps = num_steps
    self._num_chains = num_chains
    self._target_accept_prob = target_accept_prob
    self._seeds = random.split_seed(seed, n=4)
    split = sampler.posterior.split
    self._project = diagnostics.RandomProjections(
      split.event_shapes[: sampler.num_moving_parts],
      num_projections,
      self._seeds[3],
      split.dtype,
    )

  def description(self, step_sizes, dampings, num_integrator_steps):
    """What a saved log must agree with."""
    return {
      'sampler': self._sampler.name,
      'regularizer': self._sampler.regularizer,
      'num_data': self._sampler.posterior.x.shape[0],
      'num_parameters': self._sampler.posterior.split.num_parameters,
      'likelihood': repr(self._sampler.posterior.likelihood),
      'num_steps': self._num_steps,
      'num_chains': self._num_chains,
      'target_accept_prob': self._target_accept_prob,
      'step_sizes': [float(e) for e in step_sizes],
      'dampings': [repr(float(d)) for d in dampings],
      'num_integrator_steps': num_integrator_steps,
      'seed': [int(w) for w in self._seeds[0]],
    }

  def run(self, round_number, settings, num_transitions, on_progress, state, least_acceptance):
    """Tries different settings.

    Args:
      round_number: Pair of integers: the round, and how often rounds were repeated before.
      settings: List of step size, damping and number of integrator steps, the latter the same.
      num_transitions: Of each chain.
      on_progress: As of `run_chains`.
      state: Where to start, for the chains of one trial; or None.
      least_acceptance: Of the trials among which the best is chosen.

    Returns:
      trials: List of a `Trial` for each entry of `settings`.
      state: Where the chains of the best ended.
    """
    num_trials, c = len(settings), self._num_chains
    split = self._sampler.posterior.split

    def per_chain(values):
      # One value for each chain, for each part in a shape that broadcasts with it.
      column = np.repeat(values, c)
      return [
        tf.constant(column.reshape([-1] + [1] * ndims), split.dtype) for ndims in split.event_ndims
      ]

    step_sizes, dampings, lengths = zip(*settings, strict=True)
    kernel = self._sampler.kernel_fn(per_chain(step_sizes), per_chain(dampings), lengths[0])
    thinning = _THINNING if lengths[0] == 1 else 1
    which, num_repeats = round_number
    seeds = random.split_seed(self._seeds[which], n=2 * (1 + num_repeats))
    start_seed, chain_seed = seeds[-2:]
    if state is None:
      starts = self._sampler.start_fn(num_trials * c, start_seed)
    else:
      starts = [tf.tile(p, [num_trials] + [1] * (len(p.shape) - 1)) for p in state]
    trace, ends = runner.run_chains(
      kernel,
      starts,
      lambda state, _: {'projections': self._project(state[: self._sampler.num_moving_parts])},
      num_draws=max(1, num_transitions // thinning),
      thinning=thinning,
      seed=chain_seed,
      on_progress=on_progress,
      run_loop=self._sampler.run_loop,
    )
    projections, acceptance = trace['projections'], trace['acceptance']
    skip = len(projections) // 4
    trials = [
      self._trial(
        setting,
        projections[skip:, i * c : (i + 1) * c],
        acceptance[skip:, i * c :][:, :c],
        thinning,
      )
      for i, setting in enumerate(settings)
    ]
    first = c * trials.index(_best(trials, least_acceptance))
    return trials, [p[first : first + c].numpy() for p in ends]

  def _trial(self, setting, projections, acceptance, thinning):
    is_finite = bool(np.all(np.isfinite(projections)) and np.all(np.isfinite(acceptance)))
    # Projections have unit variance under N(0, I), and nearly so under the posterior.
    size = diagnostics.effective_sample_size_of_known_variance(projections) if is_finite else 0.0
    mean_acceptance = float(np.mean(acceptance)) if is_finite else 0.0
    return Trial(
      *setting,
      mean_acceptance,
      size / (len(projections) * thinning * setting[-1]),
      is_finite and mean_acceptance >= self._target_accept_prob,
    )


class _Log:
  """The rounds of trials, in memory and, if there is a path, in files.

  Attributes:
    rounds: List of lists of trials.
    state: Where the best chains of the last round ended; None before the first.
  """

  def __init__(self, path, description, is_writer):
    self._path = None if path is None else pathlib.Path(path)
    self._is_writer = is_writer
    self._description = description
    self.rounds, self.state = [], None
    if self._path is not None and self._path.exists():
      saved = json.loads(self._path.read_text())
      different = {k for k, v in description.items() if saved['description'].get(k) != v}
      if different:
        raise ValueError(
          f'`path` holds a tuning of something else. Received: path={str(path)!r}, where '
          + ', '.join(
            f'{k} is {saved["description"].get(k)!r}, not {description[k]!r}'
            for k in sorted(different)
          )
        )
      self.rounds = [[Trial(**t) for t in trials] for trials in saved['rounds']]
      if self._state_path(len(self.rounds)).exists():
        arrays = files.load_arrays(self._state_path(len(self.rounds)))
        self.state = [arrays[name] for name in sorted(arrays)]

  def add(self, trials, state):
    self.rounds.append(trials)
    self.state = state
    if self._path is None or not self._is_writer:
      return
    # The state first, under a name of its own: a log never speaks of a state that is not there.
    num_rounds = len(self.rounds)
    arrays = {f'part_{i:04d}': p for i, p in enumerate(state)}
    files.save_arrays(self._state_path(num_rounds), arrays)
    rounds = [[t._asdict() for t in trials] for trials in self.rounds]
    text = json.dumps({'description': self._description, 'rounds': rounds}, indent=1)
    files.write_atomically(self._path, lambda file: file.write(text.encode()))
    self._state_path(num_rounds - 1).unlink(missing_ok=True)

  def close(self):
    """Removes what only a further round would need."""
    if self._path is not None and self._is_writer:
      self._state_path(len(self.rounds)).unlink(missing_ok=True)

  def _state_path(self, num_rounds):
    return self._path.with_suffix(f'.state{num_rounds}.npz')
