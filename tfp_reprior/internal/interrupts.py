"""Signals that let a piece of work finish."""

import contextlib
import signal
import threading

# Ctrl-C; what schedulers send before they kill; the terminal that was closed (not on Windows).
_NAMES = ('SIGINT', 'SIGTERM', 'SIGHUP')


class Interrupts:
  """In a `with` block, a first signal sets `is_set`; a second one acts as usual.

  A signal that was ignored, as by `nohup`, stays ignored. Elsewhere than in the main thread, where
  Python allows no handlers, it never is set.

  Attributes:
    is_set: Whether there was a signal.
    number: Of the class: the signal that the last of these blocks had, or `None`.
  """

  number: int | None = None

  def __init__(self):
    self.is_set, Interrupts.number = False, None
    self._previous = {}
    self._is_ready = False

  def __enter__(self):
    if threading.current_thread() is threading.main_thread():
      for number in [getattr(signal, name) for name in _NAMES if hasattr(signal, name)]:
        # None: a handler that Python did not install, and could not bring back.
        if signal.getsignal(number) not in (signal.SIG_IGN, None):
          self._previous[number] = signal.signal(number, self._handle)
    return self

  def __exit__(self, *_):
    self._restore()

  @contextlib.contextmanager
  def at_once(self):
    """A context for work that nothing is lost of: a signal raises in it."""
    self._is_ready = True
    try:
      yield
    finally:
      self._is_ready = False

  def _handle(self, number, _):
    self.is_set, Interrupts.number = True, number
    self._restore()
    if self._is_ready:
      raise KeyboardInterrupt('Sampling was interrupted before it began, or went on.')

  def _restore(self):
    while self._previous:
      signal.signal(*self._previous.popitem())


def exit_code():
  """What shells expect of a process that a signal ended: 130 for Ctrl-C, 143 for SIGTERM."""
  return 128 + (signal.SIGINT if Interrupts.number is None else Interrupts.number)
