"""What a run takes of memory and disk."""

import sys

from tfp_reprior.internal import checks

_MOST_KEPT = 100  # draws of each chain, unless asked for more
_KEPT_BYTES = {'memory': 2**28, 'disk': 2**30}


def state_bytes(split, settings):
  """Of the state of all chains."""
  return split.num_parameters * split.dtype.size * settings.num_chains


def trace_bytes(settings):
  """Of all traces, about: most of a draw are projections of weights and of hidden ones."""
  return 8 * settings.num_results * settings.num_chains * settings.num_projections


def disk_bytes(split, settings, keep_every):
  """Of the folder of a run."""
  # Three checkpoints of state, momentum, gradient, mean and variance, the kept draws, and traces:
  # those to go on with, and those of the result.
  num_states = 3 * 5 + settings.num_results // keep_every
  return num_states * state_bytes(split, settings) + 2 * trace_bytes(settings)


def check_memory(split, settings):
  """Refuses what cannot fit, one by one, so that the error names the argument."""
  num_traced = settings.num_chains * settings.num_projections
  for name, needed in {
    'num_chains': 3 * state_bytes(split, settings),  # state, momentum, gradient
    'num_projections': split.dtype.size * num_traced * 3,
    'num_results': trace_bytes(settings),
  }.items():
    checks.fits_memory(f'{name}={getattr(settings, name)}', needed)


def choose_keep_every(split, settings, has_folder):
  """One draw in how many is kept, spread evenly over the run."""
  num_kept = settings.num_kept_draws
  if num_kept is None:
    limit = _KEPT_BYTES['disk' if has_folder else 'memory']
    num_kept = min(_MOST_KEPT, max(1, limit // state_bytes(split, settings)))
  if num_kept == 0:
    return sys.maxsize  # never reached, with more results neither
  return -(-settings.num_results // num_kept)
