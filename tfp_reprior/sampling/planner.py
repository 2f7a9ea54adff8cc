"""Decides what warm-up runs: finds the settings of a sampler on the chains themselves."""

import math

import numpy as np

from tfp_reprior.diagnostics import verdict
from tfp_reprior.sampling import rates as rates_lib
from tfp_reprior.sampling import warmup

# What every chain must accept at least in the last check, all in the mean at most, and each at most
# where the lowest could do with less.
_CHECKED = {
  'corrected': (0.5, 0.92, 0.98),
  'random walk': (0.1, 0.6, 0.8),
  'uncalibrated': (0.96, 0.9995, 1.0),
}
_COMFORTABLE = 0.75
_QUARTER_TURN = math.pi / 2  # of N(0, I), the time of an ideal transition
# With moves of the readout alone outputs are nearly independent after any transition, and hidden
# layers gain nothing a gradient by a longer one (docs/paper.md, classes). Unknown parameters of the
# likelihood do: these moves leave them where they are.
_THIRD = 1 / 3
_SHORT_OF = 0.75  # that a transition may take, if the budget allows for no more
_MOST_PROBES = 40
_INVERSE_TEMPERATURE = 3.0
# Shares of the budget.
_SETTLING, _COLD, _MEASURING, _FINAL, _CHECKING = 0.12, 0.15, 0.24, 0.14, 0.08
_LONGEST_SHARE = 1 / 80  # that a transition may take
_FEWEST_TRANSITIONS = 8
_FEWEST_MEASURED = 9  # transitions, so that the longest are measured too
_SETTLING_TIME = 0.4  # of a transition while the step size is still unknown
_MOST_CHECKS = 4
# The stages that put the map on every layer on, and take it off again.
PLACING, REMOVING = 'placing', 'removing'
# How many times as long steps must be with a map on every layer, where that is to be chosen. Its
# gradients take a third longer, and some directions are up to three times as wide.
_LONGER = 2.0
# What is tried besides the rule: so many times the steps, or the friction; and how much better it
# has to be, to be taken.
_SHORTER = 1 / 3
_BETTER = 1.2
# How many deviations apart the log-likelihoods of two regions are.
_FAR = 5.0


class Planner:
  """Decides what to run next, by what the blocks before did.

  Everything follows from the traces of the blocks, in order: so a warm-up that was stopped goes on
  by deciding again on the same traces.

  Args:
    sampler: The `tfp_reprior.sampling.Sampler` to find settings for.
    num_gradients: The budget, gradients of each chain.
    run_block: Function of a stage, `KernelSettings` of numbers, and a number of transitions; runs
      them from where the chains are, and returns the trace, a dict of arrays `[s, c, ...]`, and the
      step size at the end.
    damping: Given by the user, or None.
    num_integrator_steps: Likewise.
    thinning: Positive integer, the transitions for each entry of a trace.
    arriving: The `Sampler` without a map on every layer that chains arrive with, if `sampler` has
      such a map; by default `sampler`.
    is_open: Whether to take the map off again, where steps are hardly longer with it.
  """

  def __init__(
    self,
    sampler,
    num_gradients,
    run_block,
    damping=None,
    num_integrator_steps=None,
    thinning=1,
    arriving=None,
    is_open=False,
  ):
    self._sampler = self._arriving = arriving or sampler
    self._mapped = sampler if sampler.anchor is not None else None
    self._is_open = is_open
    self._thinning = thinning
    self._kind = sampler.kind
    self._budget = num_gradients
    self._run_block = run_block
    self._damping = damping
    self._given_steps = num_integrator_steps
    self._blocks, self._doubts = [], []
    self._spent = 0
    self._friction = 1.0
    is_short = sampler.moves_readout and not sampler.posterior.likelihood.priors
    self._time = _QUARTER_TURN * (_THIRD if is_short else 1.0)
    self._step_size = min(warmup.FIRST_STEP_SIZE, sampler.max_step_size)

  def run(self):
    """Warms up. Returns a `Warmup`."""
    self._find_first_step_size()
    self._settle('settling', _SETTLING * self._budget)
    level = None if abs(self._drift()) > 1 else self._levels()
    if self._budget * _COLD >= 4 * _FEWEST_TRANSITIONS:
      self._settle('cold', _COLD * self._budget, _INVERSE_TEMPERATURE)
    self._settle('settling', _SETTLING * self._budget)
    reserve = 0.5 + (0.0 if self._mapped is None else _SETTLING)  # for what comes after
    while self._climbs() and self._left > reserve * self._budget:
      self._settle('settling', _SETTLING * self._budget)
    if self._mapped is not None:
      self._place_map()
    steps = self._num_steps(self._time)
    if not self._climbs():
      steps = self._measure(steps)
    final = max(_FINAL * self._budget, self._left - 2 * _CHECKING * self._budget)
    self._settle('adapting', final, steps=steps)
    self._check(steps)
    self._note_regions(level)
    if self._climbs():
      self._doubts.append(
        verdict.Reason(
          'unsure',
          'The log-likelihood still climbed when warm-up ended.',
          'Warm up longer (num_warmup_steps).',
        )
      )
    return warmup.Warmup(
      self._step_size,
      self._damping_of(steps) if self._sampler.has_damping else math.nan,
      steps,
      self._spent,
      self._blocks,
      self._doubts,
      self._sampler.regularizer,
      layer_regularizer=self._sampler.layer_regularizer,
    )

  @property
  def _left(self):
    return self._budget - self._spent

  @property
  def _has_length(self):
    return self._kind == 'corrected'

  def _num_steps(self, time):
    """How many steps take so long."""
    if self._given_steps is not None:
      return self._given_steps
    if not self._has_length:
      return 1
    return int(
      min(max(1, round(time / self._step_size)), self._most(_LONGEST_SHARE * self._budget))
    )

  def _most(self, num_gradients):
    """How many steps so many gradients are good for, at least one."""
    return max(1, int(num_gradients / self._sampler.num_stages))

  def _damping_of(self, steps):
    if self._damping is not None:
      return self._damping
    return warmup.default_damping(self._step_size, steps, self._friction)

  def _run(self, stage, steps, num_transitions, inverse_temperature=1.0, is_adapting=False):
    """Runs a block. Returns its trace."""
    num_transitions = self._thinning * -(-num_transitions // self._thinning)
    chosen = {
      'step_size': self._step_size,
      'damping': self._damping_of(steps),
      'num_integrator_steps': steps,
    }
    settings = warmup.as_settings(
      chosen,
      inverse_temperature=inverse_temperature,
      num_adaptation_steps=num_transitions if is_adapting else 0,
    )
    trace, step_size = self._run_block(stage, settings, num_transitions)
    # And the gradient that it begins with.
    self._spent += self._sampler.num_gradients(steps) * num_transitions + 1
    if is_adapting:
      self._step_size = float(min(step_size, self._sampler.max_step_size))
    log_likelihood = trace['log_likelihood']
    self._blocks.append(
      warmup.Block(
        stage,
        self._step_size,
        settings.damping if self._sampler.has_damping else math.nan,
        steps,
        inverse_temperature,
        num_transitions,
        [float(a) for a in np.mean(trace['acceptance'], axis=0)],
        float(np.mean(log_likelihood[len(log_likelihood) // 2 :])),
      )
    )
    self._trace = trace
    return trace

  def _find_first_step_size(self, stage='first step'):
    """Halves or doubles the step size until every chain just moves, or just still does."""
    target = 0.5 if self._kind != 'random walk' else warmup.TARGETS[self._kind]
    direction = 0
    for _ in range(_MOST_PROBES):
      trace = self._run(stage, 1, 1)
      self._require_finite(trace)
      moves = np.min(trace['acceptance']) >= target
      if direction == (-1 if moves else 1):
        if not moves:
          self._step_size /= 2
        return
      direction = 1 if moves else -1
      if moves and self._step_size >= self._sampler.max_step_size:
        return
      self._step_size = min(self._step_size * 2.0**direction, self._sampler.max_step_size)
    if not moves:
      stuck = np.flatnonzero(trace['acceptance'][-1] < target) + 1
      raise warmup.WarmupError(
        f'No step size makes every chain move: the smallest tried is {self._step_size:.2g}, and '
        f'chain {", ".join(map(str, stuck))} rejects it. {_hint(self._sampler.posterior)}'
      )

  def _place_map(self):
    """Puts the map on every layer on, and takes it off again if it is not worth it."""
    before = self._step_size
    self._use(self._mapped)
    self._find_first_step_size(PLACING)  # which is far longer with it
    self._settle(PLACING, _SETTLING * self._budget)
    longer = self._step_size / before * self._arriving.num_stages / self._mapped.num_stages
    if self._is_open and longer < _LONGER:
      self._use(self._arriving)
      self._step_size = before
      self._settle(REMOVING, _SETTLING / 2 * self._budget)

  def _use(self, sampler):
    """Goes on with a sampler, whose steps take about as long as before for a gradient."""
    self._step_size *= sampler.num_stages / self._sampler.num_stages
    self._step_size = min(self._step_size, sampler.max_step_size)
    self._sampler = sampler

  def _require_finite(self, trace):
    values = trace['log_likelihood'][-1]
    bad = np.flatnonzero(~np.isfinite(values)) + 1
    if len(bad):
      raise warmup.WarmupError(
        f'The log-likelihood is not finite where chain {", ".join(map(str, bad))} of {len(values)} '
        f'starts. {_hint(self._sampler.posterior)}'
      )

  def _settle(self, stage, num_gradients, inverse_temperature=1.0, steps=None):
    """Adapts the step size, in two pieces, as lengths and refreshment follow from it."""
    pieces = 1 if steps is not None else 2
    for _ in range(pieces):
      num_steps = self._num_steps(_SETTLING_TIME) if steps is None else steps
      if steps is None and self._given_steps is None:
        num_steps = min(num_steps, self._most(num_gradients / pieces / _FEWEST_TRANSITIONS))
      each = num_gradients / pieces / self._sampler.num_gradients(num_steps)
      num_transitions = max(_FEWEST_TRANSITIONS, int(each))
      self._run(stage, num_steps, num_transitions, inverse_temperature, is_adapting=True)

  def _measure(self, steps):
    """Measures effective samples a gradient, with other lengths or dampings than by the rule too.

    Returns:
      The number of steps of the best; its friction is taken over as well.
    """
    candidates = [(steps, 1.0)]
    if self._has_length and self._given_steps is None:
      is_angle = self._sampler.max_step_size < math.inf
      if is_angle and steps * self._step_size < _SHORT_OF * self._time:
        return steps  # of a third of that, what is slow would see even less
      candidates.append((max(1, int(_SHORTER * steps)), 1.0))
    elif self._sampler.has_damping and self._damping is None:
      candidates.append((steps, _SHORTER))
    candidates = list(dict.fromkeys(candidates))
    each = _MEASURING * self._budget / len(candidates)
    costs = [self._sampler.num_gradients(num_steps) for num_steps, _ in candidates]
    if each < _FEWEST_MEASURED * costs[0]:
      return steps  # nothing could be seen
    traces = []
    for (num_steps, self._friction), cost in zip(candidates, costs, strict=True):
      traces.append(self._run('measuring', num_steps, int(each / cost)))
    spacings = [cost * self._thinning for cost in costs]
    lag = min(quarter_turn(self._step_size / self._sampler.num_stages), longest_lag(each))
    measured = []
    for i, rates in enumerate(rates_lib.mixing_rates(traces, spacings, lag), -len(candidates)):
      slowest = min(rates, key=rates.get)
      self._blocks[i] = self._blocks[i]._replace(ess_per_gradient=rates[slowest], slowest=slowest)
      measured.append(rates_lib.overall_rate(rates))
    best = int(np.argmax(measured))
    if measured[best] <= _BETTER * measured[0]:
      best = 0
    steps, self._friction = candidates[best]
    return steps

  def _check(self, steps):
    """Runs with everything frozen; if a chain is out of bounds, backs off and runs again."""
    low, high, highest = _CHECKED[self._kind]
    cost = self._sampler.num_gradients(steps)
    num_transitions = max(_FEWEST_TRANSITIONS, int(_CHECKING * self._budget / cost))
    for number in range(_MOST_CHECKS + 1):
      trace = self._run('check', steps, num_transitions)
      acceptance = np.array(self._blocks[-1].acceptance)
      is_stuck = np.ptp(trace['log_likelihood'], axis=0) == 0
      is_low = np.min(acceptance) < low or np.any(is_stuck)
      is_high = self._step_size < self._sampler.max_step_size and (
        np.mean(acceptance) > high
        or (np.max(acceptance) > highest and np.min(acceptance) > _COMFORTABLE)
      )
      # Short steps only cost time: what is left of the budget goes to longer ones, and no more.
      if not is_low and (not is_high or self._left < _CHECKING * self._budget):
        return
      if number < _MOST_CHECKS:
        self._step_size = min(
          self._step_size * (0.7 if is_low else 1.3), self._sampler.max_step_size
        )
    if np.any(is_stuck):
      stuck = ', '.join(str(c + 1) for c in np.flatnonzero(is_stuck))
      raise warmup.WarmupError(
        f'Warm-up found no settings with which chain {stuck} moves; the last step size tried is '
        f'{self._step_size:.2g}. Warm up longer (num_warmup_steps). '
        + _hint(self._sampler.posterior)
      )
    # Otherwise the verdict on the run will tell.

  def _levels(self):
    """Mean log-likelihood of each chain in the halves of the last block, and typical deviation."""
    halves = np.array_split(self._trace['log_likelihood'], 2)
    spread = np.sqrt(np.mean([np.var(h, axis=0) for h in halves]))
    return [np.mean(h, axis=0) for h in halves], max(float(spread), 1e-9)

  def _drift(self):
    """How much the log-likelihood rose in the last block, relative to how it varies."""
    (before, after), spread = self._levels()
    return float(np.mean(after - before) / spread)

  def _climbs(self):
    """Whether it still rose, by more than it varies."""
    return self._drift() > 1

  def _note_regions(self, level):
    """Notes chains that settled elsewhere after they were cold.

    Args:
      level: What `_levels` was before; None if chains were still on their way.
    """
    if level is None:
      return
    ((_, before), spread), ((_, after), spread_after) = level, self._levels()
    distance = np.abs(after - before) / (spread + spread_after)
    if np.max(distance) > _FAR:
      c = int(np.argmax(distance))
      self._doubts.append(
        verdict.Reason(
          'unsure',
          f'There are regions that chains hardly cross between: chain {c + 1} had settled at a '
          f'log-likelihood of {before[c]:.4g}, and has {after[c]:.4g} since warm-up cooled it.',
          'Other runs may end in other regions: compare seeds, or take a wider network.',
          (c,),
        )
      )


def quarter_turn(step_size):
  """The gradients of an ideal transition, by the step size of a gradient."""
  return round(_QUARTER_TURN / step_size)


def longest_lag(num_gradients):
  """At which autocorrelations can be measured in a run of so many gradients."""
  return num_gradients / _FEWEST_MEASURED


def _hint(posterior):
  """What may be wrong with the data, if it can be seen."""
  largest = {
    name: float(np.max(np.abs(values))) for name, values in (('x', posterior.x), ('y', posterior.y))
  }
  large = [f'{name} has numbers up to {v:.3g}' for name, v in largest.items() if v > 100]
  if large:
    return f'{"; ".join(large)}: standardize the data (tfr.data.load does so for files).'
  return 'Are inputs and targets standardized, and is the noise scale plausible?'
