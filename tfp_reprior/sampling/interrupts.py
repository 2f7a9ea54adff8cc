"""Ctrl-C that lets a piece of work finish."""

import signal
import threading


class Interrupts:
  """In a `with` block, a first Ctrl-C sets `is_set`; a second one raises as usual.

  Elsewhere than in the main thread, where Python allows no signal handlers, it never is set.
  """

  def __init__(self):
    self.is_set = False
    self._previous = None

  def __enter__(self):
    if threading.current_thread() is threading.main_thread():
      self._previous = signal.signal(signal.SIGINT, self._handle)
    return self

  def __exit__(self, *_):
    self._restore()

  def _handle(self, *_):
    self.is_set = True
    self._restore()

  def _restore(self):
    if self._previous is not None:
      signal.signal(signal.SIGINT, self._previous)
      self._previous = None
