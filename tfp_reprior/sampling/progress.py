"""What a person sees of a running sampler: a progress bar, and scalars for TensorBoard."""

import math
import pathlib
import sys
import warnings

import numpy as np
import tensorflow as tf
from tqdm import auto

from tfp_reprior import diagnostics
from tfp_reprior.diagnostics import verdict

_FOLLOWED = ('hidden', 'theta', 'f', *verdict.PARAMETERS, 'log_likelihood', 'energy')
_FEWEST_DRAWS = 8
# Between two lines in a file, where each stays, and on a screen, where it is overwritten.
_SECONDS_IN_FILES, _SECONDS_ON_SCREENS = 30.0, 0.1


class Progress:
  """The progress of one phase.

  Args:
    phase: Its name.
    num_steps: How many steps it has.
    num_done: How many were taken before.
    is_shown: Whether to show a bar.
    folder: Where to write events for TensorBoard; by default nowhere.
  """

  def __init__(self, phase, num_steps, num_done=0, is_shown=True, folder=None):
    self._phase = phase
    self._num_done = num_done
    self._bar = auto.tqdm(
      desc=phase,
      total=num_steps,
      initial=num_done,
      unit='step',
      disable=not is_shown,
      mininterval=_SECONDS_ON_SCREENS if _is_on_screen() else _SECONDS_IN_FILES,
    )
    self._writer = None
    if folder is not None:
      self._writer = tf.summary.create_file_writer(str(pathlib.Path(folder)))
    self._follows_mixing = phase == 'sampling'  # before that, chains are on their way
    self._running = {}

  def describe(self, text):
    """Shows what the phase is at."""
    self._bar.set_description(f'{self._phase} ({text})', refresh=False)

  def update(self, num_steps, trace):
    """Shows that `num_steps` more steps were taken.

    Args:
      num_steps: Integer.
      trace: Dict of arrays `[s, c, ...]`, the draws of these steps; empty if there are none.
    """
    self._num_done += num_steps
    if not trace:
      self._bar.update(num_steps)
      return
    figures = {'acceptance': float(np.mean(trace.get('acceptance', math.nan)))}
    figures |= self._mixing(trace)
    self._bar.set_postfix({name: f'{value:.3g}' for name, value in figures.items()}, refresh=False)
    # A phase may take a little more than was planned.
    self._bar.total = max(self._bar.total or 0, self._num_done)
    self._bar.update(num_steps)
    figures['log_prob'] = float(np.mean(trace.get('log_prob', math.nan)))
    self._write(figures)

  def _mixing(self, trace):
    """Least effective sample size and greatest R-hat so far, roughly, of what is followed."""
    for name in _FOLLOWED:
      if name in trace and self._follows_mixing:
        self._running.setdefault(name, diagnostics.RunningDiagnostics()).update(trace[name])
    if min((r.num_draws for r in self._running.values()), default=0) < _FEWEST_DRAWS:
      return {}
    sizes = [np.min(r.effective_sample_size()) for r in self._running.values()]
    r_hats = [np.max(r.r_hat()) for r in self._running.values()]
    return {'min ESS': float(np.min(sizes)), 'max R-hat': float(np.max(r_hats))}

  def close(self):
    self._bar.close()
    self._write({})
    self._writer = None

  def _write(self, figures):
    if self._writer is None:
      return
    try:
      with self._writer.as_default():
        for name, value in figures.items():
          _write_scalar(f'{self._phase}/{name}', value, self._num_done)
      self._writer.flush()
    except tf.errors.OpError as e:  # a full disk must not end a run
      warnings.warn(f'No more events for TensorBoard are written ({e.message}).', stacklevel=2)
      self._writer = None


def _is_on_screen():
  return sys.stderr.isatty() or 'ipykernel' in sys.modules  # a notebook has a bar of its own


def _write_scalar(name, value, step):
  # `tf.summary.scalar` would do, but needs TensorBoard itself, which TensorFlow does not install.
  metadata = tf.compat.v1.SummaryMetadata()
  metadata.plugin_data.plugin_name = 'scalars'
  tf.summary.write(name, tf.constant(value, tf.float32), step=step, metadata=metadata)
