"""The maps that a run may choose from, and how it chooses."""

import dataclasses
import math

import numpy as np

from tfp_reprior.sampling import planner, starts

_REGULARIZERS = ('noise', 'n*noise', math.inf)
_LAYER_REGULARIZERS = (None, 10.0)
# A map on every layer must have so many times the effective samples a gradient: its gradients take
# up to 1.5 times as long, and the measurement is noisy.
_WORTH = 1.5


def is_open(settings):
  """Whether `Settings` leave the choice to the run."""
  return 'tuned' in (settings.regularizer, settings.layer_regularizer)


def candidates(settings):
  """List of `Settings` to warm up with, one for each map; of these alone, if nothing is open."""
  if not is_open(settings):
    return [settings]
  if settings.regularizer == 'tuned':
    return [dataclasses.replace(settings, regularizer=r) for r in _REGULARIZERS]
  return [dataclasses.replace(settings, layer_regularizer=r) for r in _LAYER_REGULARIZERS]


def fastest(settings, warmups, traces):
  """The number of the map to sample with.

  Args:
    settings: The `Settings` of the run.
    warmups: List of the `Warmup` of each of the `candidates`.
    traces: List of their traces, dicts of arrays `[s, ...]`.
  """
  if settings.regularizer == 'tuned':
    # NaN, if the budget was too small to measure, counts as nothing.
    return int(np.argmax([np.nan_to_num(w.ess_per_gradient) for w in warmups]))
  measured = [_measured(w, t) for w, t in zip(warmups, traces, strict=True)]
  if None in measured:  # the budget was too small, or a log-likelihood still climbed
    return 0
  blocks, pieces = zip(*measured, strict=True)
  spacings = [int(p['steps'][0]) for p in pieces]
  # One lag for both, as the variances are those of both together.
  longest = min(b.num_integrator_steps * b.num_transitions for b in blocks)
  lag = min(max(planner.quarter_turn(b.step_size) for b in blocks), planner.longest_lag(longest))
  readout, every = map(planner.overall_rate, planner.mixing_rates(pieces, spacings, lag))
  return int(every > _WORTH * readout)


def _measured(warmup, trace):
  """The last block that measured the settings that were chosen, and its trace; None for none."""
  end, found = 0, None
  blocks = [b for b in warmup.blocks if b.stage != starts.STAGE]  # which has a trace of its own
  thinning = int(trace['steps'][0]) // blocks[0].num_integrator_steps
  for block in blocks:
    begin, end = end, end + block.num_transitions // thinning
    is_chosen = block.num_integrator_steps == warmup.num_integrator_steps
    if block.stage == 'measuring' and is_chosen:
      found = block, {name: values[begin:end] for name, values in trace.items()}
  return found
