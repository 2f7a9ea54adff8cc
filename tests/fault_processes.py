"""The fourth table of `faults.py`: runs that are killed, stopped, started twice, or out of disk."""

import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

import fault_cases
import numpy as np

import tfp_reprior as tfr
from tfp_reprior.sampling import identity

_HERE = pathlib.Path(__file__).parent
_KILLS_OF_A_RUN = 8
_MOST_SECONDS = 300.0


class Lost(Exception):
  """What a run did not survive."""


class Server:
  """Starts runs in processes of their own; see `fault_server`."""

  def __init__(self):
    environment = {**os.environ, 'PYTHONPATH': os.pathsep.join([str(_HERE), *sys.path])}
    self._process = subprocess.Popen(
      [sys.executable, str(_HERE / 'fault_server.py')],
      env=environment,
      stdin=subprocess.PIPE,
      stdout=subprocess.PIPE,
      stderr=subprocess.DEVNULL,
      text=True,
    )
    self._process.stdout.readline()
    self._expected = {}

  def start(self, act, folder, **order):
    """The number of a new process."""
    return self._ask({'act': act, 'folder': str(folder), **order})

  def wait(self, pid):
    """The exit code of a process, minus the signal that ended it."""
    return self._ask({'wait': pid})

  def _ask(self, order):
    self._process.stdin.write(json.dumps(order) + '\n')
    self._process.stdin.flush()
    return int(self._process.stdout.readline())

  def expected(self, act):
    """What an act comes to that nothing disturbs: a list of arrays."""
    if act not in self._expected:
      with tempfile.TemporaryDirectory() as folder:
        run = pathlib.Path(folder) / 'run'
        self.wait(self.start(act, run))
        self._expected[act] = _outcome(run)
    return self._expected[act]

  def close(self):
    self._process.stdin.close()
    self._process.wait()


def _outcome(folder):
  return fault_cases.outcome(tfr.load_result(folder))


def _log(folder):
  path = pathlib.Path(f'{folder}.log')
  return path.read_text() if path.exists() else ''


def _check_log(folder):
  text = _log(folder)
  for word in ('Traceback', 'damaged', 'of another run'):
    if word in text:
      raise Lost(f'{word} in the log: {text[-300:]}')


def _check_equal(server, act, folder):
  for a, b in zip(_outcome(folder), server.expected(act), strict=True):
    if not np.array_equal(a, b):
      raise Lost('other numbers')
  litter = [p.name for p in pathlib.Path(folder).rglob('*tmp*')]
  if litter:
    raise Lost(f'litter: {litter}')


def _wait_for(condition):
  end = time.monotonic() + _MOST_SECONDS
  while not condition() and time.monotonic() < end:
    time.sleep(0.005)


def _is_gone(pid):
  """Whether a process has ended, and only its exit code is left."""
  try:
    return pathlib.Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()[0] == 'Z'
  except OSError:
    return True


def kills(server, count, seed):
  """Yields names and functions that kill a run several times, and compare what it comes to.

  Half of the kills come at any moment from the start of a process on, the others from the moment on
  at which it writes.
  """
  rng = random.Random(seed)
  for first in range(0, count, _KILLS_OF_A_RUN):
    number = min(_KILLS_OF_A_RUN, count - first)
    act = ('run', 'command', 'run', 'warm-up')[first // _KILLS_OF_A_RUN % 4]
    moments = [(rng.random() < 0.5, rng.random()) for _ in range(number)]
    yield f'{number} kills of {act}', lambda a=act, m=moments: kill(server, a, m)


def kill(server, act, moments):
  """Kills a run at some moments, lets it end, and compares."""
  server.expected(act)
  with tempfile.TemporaryDirectory() as base:
    folder = pathlib.Path(base) / 'run'
    killed = at_work = 0
    attempts = list(moments)
    while attempts:
      is_at_once, share = attempts.pop()
      before = _newest(folder)
      pid = server.start(act, folder)
      if not is_at_once:
        _wait_for(lambda f=folder, p=pid, b=before: _newest(f) > b or _is_gone(p))
      time.sleep(share * (3.0 if is_at_once else 0.8))
      os.kill(pid, signal.SIGKILL)
      code = server.wait(pid)
      if code == -signal.SIGKILL:
        killed, at_work = killed + 1, at_work + (_newest(folder) > before)
      else:  # it was through: that is no kill, and another run begins
        _check_log(folder)
        _check_equal(server, act, folder)
        attempts.append((is_at_once, share / 2))
        folder = folder.with_name(folder.name + 'x')
      _check_log(folder)
    code = server.wait(server.start(act, folder))
    if code not in (0, 3):
      raise Lost(f'exit code {code}: {_log(folder)[-300:]}')
    _check_log(folder)
    _check_equal(server, act, folder)
  return f'{killed} kills, {at_work} of them after it wrote; equal, bit for bit'


def _newest(folder):
  """When a file of a folder was last changed."""
  times = [0]
  for path in pathlib.Path(folder).rglob('*'):
    try:
      times.append(path.stat().st_mtime_ns)
    except OSError:
      pass  # it is a temporary file
  return max(times)


def signals(server):
  """Yields names and functions that send a signal to a run, and let it go on."""
  for name in ('SIGINT', 'SIGTERM', 'SIGHUP'):
    for act in ('run', 'command', 'warm-up', 'slow', 'slow command'):
      yield f'{name} to {act}', lambda a=act, n=name: interrupt(server, a, getattr(signal, n))
    yield f'{name} that is ignored', lambda n=name: ignore(server, n)


def interrupt(server, act, number):
  """Sends a signal to a run at work: it ends soon with the right code, and goes on."""
  with tempfile.TemporaryDirectory() as base:
    folder = pathlib.Path(base) / 'run'
    pid = server.start(act, folder)
    events = folder / 'tensorboard'
    _wait_for(lambda: events.exists() or _is_gone(pid))
    time.sleep(4.0 if 'slow' in act else 0.1)  # when it steps, and no longer compiles
    sent = time.monotonic()
    os.kill(pid, number)
    code = server.wait(pid)
    seconds = time.monotonic() - sent
    _check_log(folder)
    allowed = (130,) if 'command' not in act else (128 + number,)
    if code not in (0, *allowed):
      raise Lost(f'exit code {code}: {_log(folder)[-300:]}')
    if 'slow' not in act:
      server.wait(server.start(act, folder))
      _check_equal(server, act, folder)
  return f'exit code {code} after {seconds:.1f} s'


def ignore(server, name):
  """Sends a signal that the parent of a run ignores."""
  with tempfile.TemporaryDirectory() as base:
    folder = pathlib.Path(base) / 'run'
    pid = server.start('command', folder, ignored=[name])
    _wait_for((folder / 'tensorboard').exists)
    os.kill(pid, getattr(signal, name))
    code = server.wait(pid)
    if code not in (0, 3):
      raise Lost(f'exit code {code}: {_log(folder)[-300:]}')
    _check_equal(server, 'command', folder)
  return 'goes on'


def disks(server):
  """Yields names and functions that run with files that can't grow, and then without the limit."""
  for act in ('run', 'command'):
    for limit in (1, 500, 2000, 8000, 14_000, 30_000, 60_000):
      name = f'{act} with files of {limit} bytes at most'
      yield name, lambda a=act, n=limit: fill(server, a, n)


def fill(server, act, limit):
  """A run that cannot write says so in a sentence, and goes on when there is room."""
  with tempfile.TemporaryDirectory() as base:
    folder = pathlib.Path(base) / 'run'
    code = server.wait(server.start(act, folder, limit=limit))
    text = _log(folder)
    if 'Traceback' in text or code not in (0, 1, 3):
      raise Lost(f'exit code {code}: {text[-500:]}')
    has_result = (folder / 'result.json').exists()
    if code == 0 and not has_result:
      raise Lost('exit code 0 without a result')
    again = server.wait(server.start(act, folder))
    if again not in (0, 3):
      raise Lost(f'not to be gone on with: {_log(folder)[-500:]}')
    _check_equal(server, act, folder)
  return f'exit code {code}; equal, bit for bit, when there is room'


def two_starts(server):
  """Yields names and functions that start two runs in one folder at once."""
  for acts in (('run', 'run'), ('run', 'other seed'), ('command', 'other command')):
    for delay in (0.0, 0.3, 1.0):
      name = f'{acts[0]} and {acts[1]} {delay} s later'
      yield name, lambda a=acts, d=delay: start_twice(server, a, d)


def start_twice(server, acts, delay):
  """Two runs begin in one folder: one is refused, or ends the same; the other is not disturbed."""
  with tempfile.TemporaryDirectory() as base:
    folder = pathlib.Path(base) / 'run'
    first = server.start(acts[0], folder)
    time.sleep(delay)
    second = server.start(acts[1], folder)
    codes = [server.wait(pid) for pid in (first, second)]
    _check_log(folder)
    if not set(codes) <= {0, 1, 3} or codes == [1, 1]:
      raise Lost(f'exit codes {codes}: {_log(folder)[-300:]}')
    seed = identity.read(folder)[0]['seed']
    winner = acts[0] if seed == _SEEDS[acts[0]] else acts[1]
    _check_equal(server, winner, folder)
  return f'exit codes {codes[0]} and {codes[1]}; equal, bit for bit'


_SEEDS = {'run': 1, 'other seed': 2, 'command': 0, 'other command': 5}
