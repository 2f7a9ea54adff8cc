"""Pilot chains with different settings side by side, and a log of what they did."""

import json
import pathlib
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tfp_reprior import diagnostics
from tfp_reprior.internal import files, random
from tfp_reprior.mcmc import runner

_THINNING = 2


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


def best_of(trials, least_acceptance):
  """The fastest of the allowed ones, or, if there is none, the one closest to be."""
  allowed = [t for t in trials if t.acceptance >= least_acceptance]
  if not allowed:
    return max(trials, key=lambda t: t.acceptance)
  return max(allowed, key=lambda t: t.ess_per_gradient)


class Pilots:
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
    first = c * trials.index(best_of(trials, least_acceptance))
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


class Log:
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
