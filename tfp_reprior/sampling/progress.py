"""What a person sees of a running sampler: a progress bar, and scalars for TensorBoard."""

import math
import pathlib
import time
import warnings

import numpy as np
import tensorflow as tf
import tqdm

from tfp_reprior import diagnostics

_SECONDS_BETWEEN_DIAGNOSTICS = 5.0


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
    self._bar = tqdm.tqdm(
      desc=phase, total=num_steps, initial=num_done, unit='step', disable=not is_shown
    )
    self._writer = None
    if folder is not None:
      self._writer = tf.summary.create_file_writer(str(pathlib.Path(folder)))
    self._next_diagnostics = time.monotonic() + _SECONDS_BETWEEN_DIAGNOSTICS
    self._mixing = {}

  def update(self, num_steps, traces):
    """Shows that `num_steps` more steps were taken.

    Args:
      num_steps: Integer.
      traces: List of dicts of arrays `[s, c, ...]`, all since the phase began.
    """
    self._num_done += num_steps
    figures = {'acceptance': float(np.mean(traces[-1].get('acceptance', math.nan)))}
    if time.monotonic() > self._next_diagnostics:
      self._mixing = _mixing(traces)
      self._next_diagnostics = time.monotonic() + _SECONDS_BETWEEN_DIAGNOSTICS
    figures |= self._mixing
    self._bar.set_postfix({name: f'{value:.3g}' for name, value in figures.items()}, refresh=False)
    self._bar.update(num_steps)
    figures['log_prob'] = float(np.mean(traces[-1].get('log_prob', math.nan)))
    self._write(figures)

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


def _mixing(traces):
  """Least effective sample size and greatest R-hat so far."""
  name = 'f' if 'f' in traces[-1] else 'theta'
  if name not in traces[-1]:
    return {}
  draws = np.concatenate([t[name] for t in traces])
  if len(draws) < 8:
    return {}
  ess = np.sum(diagnostics.effective_sample_size(draws), axis=0)
  figures = {'min ESS': float(np.min(ess))}
  if draws.shape[1] > 1:
    figures['max R-hat'] = float(np.sqrt(np.max(diagnostics.r_hat_squared(draws))))
  return figures


def _write_scalar(name, value, step):
  # `tf.summary.scalar` would do, but needs TensorBoard itself, which TensorFlow does not install.
  metadata = tf.compat.v1.SummaryMetadata()
  metadata.plugin_data.plugin_name = 'scalars'
  tf.summary.write(name, tf.constant(value, tf.float32), step=step, metadata=metadata)
