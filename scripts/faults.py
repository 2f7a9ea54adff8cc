"""Misuse, damage and interruption: what the package answers to a table of cases.

Every case has to be answered by a sentence that names what is wrong, or do no harm: results that
are equal, bit for bit. Printed are the cases; the first silent one ends it, with exit code 1.

  python scripts/faults.py                  # all but the kills; a quarter of an hour on one core
  python scripts/faults.py --kills=200      # and kills at random moments; as long again
  python scripts/faults.py --groups=damage  # one group

Groups are flags, arguments, files, inputs (what users have in hand), runs (what is done with
finished ones), damage (of every file of a run), signals, disks (that are full), starts (two at
once) and kills.
"""

import contextlib
import io
import os
import pathlib
import random
import shutil
import sys
import tempfile
import warnings

import numpy as np
from absl import app, flags

import tfp_reprior as tfr
from tfp_reprior.cli import main as cli

_CASES = str(pathlib.Path(__file__).resolve().parents[1] / 'tests')
sys.path.append(_CASES)
import fault_cases  # noqa: E402
import fault_inputs  # noqa: E402
import fault_processes  # noqa: E402
import fault_runs  # noqa: E402

_GROUPS = flags.DEFINE_list('groups', ['all'], 'Which; see above.')
_EVERY = flags.DEFINE_integer('every', 1, 'One case in how many.', 1)
_KILLS = flags.DEFINE_integer('kills', 0, 'Kills at random moments.', 0)
_GO_ON = flags.DEFINE_bool('go_on', False, 'Whether to go on after a silent one.')
_SEED = flags.DEFINE_integer('seed', 0, 'Of damage and kills.')


class Silent(Exception):
  """A case without an answer."""


def check_refused(act, named):
  """Runs what must be refused with an `InputError` that has the text `named` in it."""
  try:
    act()
  except tfr.errors.InputError as e:
    if named not in str(e):
      raise Silent(f'unnamed: {named!r} is not in {str(e)!r}') from e
    return f'refused: {e}'
  except Exception as e:
    raise Silent(f'traceback: {type(e).__name__}: {e}') from e
  raise Silent('accepted')


def check_right(act):
  """Runs what must be refused, or give what is expected."""
  try:
    given, expected = act()
  except tfr.errors.InputError as e:
    return f'refused: {e}'
  except Exception as e:
    raise Silent(f'traceback: {type(e).__name__}: {e}') from e
  if not np.array_equal(given, expected):
    raise Silent('other numbers')
  return 'right'


def check_survived(act):
  """Runs what a run must survive."""
  try:
    return act()
  except fault_processes.Lost as e:
    raise Silent(f'lost: {e}') from e
  except tfr.errors.InputError as e:
    raise Silent(f'lost: {e}') from e


def check_command(arguments, named):
  """Runs a command that must end with code 1 or 2, a sentence, and leave nothing behind."""
  error, folder = io.StringIO(), os.getcwd()
  before = sorted(os.listdir(folder))
  try:
    with contextlib.redirect_stderr(error), contextlib.redirect_stdout(io.StringIO()):
      code = cli.main(arguments)
  except SystemExit as e:
    code = e.code
  except Exception as e:
    raise Silent(f'traceback: {type(e).__name__}: {e}') from e
  text = error.getvalue().strip()
  if code not in (1, 2):
    raise Silent(f'exit code {code}: {text}')
  if named not in text.splitlines()[-1]:
    raise Silent(f'unnamed: {named!r} is not in {text.splitlines()[-1]!r}')
  if sorted(os.listdir(folder)) != before:
    raise Silent(f'litter: {set(os.listdir(folder)) - set(before)}')
  return text.splitlines()[-1]


def check_damage(folder, path, damage, expected, is_resumed):
  """Damages a file of a run: it is refused by name, or what it gives is equal to `expected`."""
  with tempfile.TemporaryDirectory() as other:
    run = pathlib.Path(other) / 'run'
    shutil.copytree(folder, run)
    damage(run / path)
    with warnings.catch_warnings(record=True):
      warnings.simplefilter('always')
      try:
        result = fault_cases.sample(run) if is_resumed else tfr.load_result(run)
        given = fault_cases.outcome(result)
      except tfr.errors.InputError as e:
        if path.name not in str(e) and 'draws' not in path.parts:
          raise Silent(f'unnamed: {path.name} is not in {str(e)!r}') from e
        return f'refused: {e}'
      except Exception as e:
        raise Silent(f'traceback: {type(e).__name__}: {e}') from e
  if not all(np.array_equal(a, b) for a, b in zip(given, expected, strict=True)):
    raise Silent('other numbers')
  return 'equal, bit for bit'


def damage_cases(folder):
  """Yields cases of every file of a finished run: gone, cut, and with one bit flipped."""
  rng = random.Random(_SEED.value)
  expected = fault_cases.outcome(tfr.load_result(folder))
  paths = [p.relative_to(folder) for p in sorted(folder.rglob('*')) if p.is_file()]
  for path in paths:
    if 'tensorboard' in path.parts:  # is not read
      continue
    size = (folder / path).stat().st_size
    damages = {'gone': pathlib.Path.unlink}
    for length in (0, size // 2, size - 1):
      damages[f'cut to {length}'] = lambda p, n=length: p.write_bytes(p.read_bytes()[:n])
    for _ in range(4):
      i = rng.randrange(8 * size)
      damages[f'bit {i} flipped'] = lambda p, i=i: fault_cases.flip(p, i)
    for name, damage in damages.items():
      for is_resumed in (False, True):
        how = 'resumed' if is_resumed else 'loaded'
        yield (
          f'{path} {name}, {how}',
          lambda p=path, d=damage, r=is_resumed: check_damage(folder, p, d, expected, r),
        )


def all_cases(groups, folder):
  """Yields pairs of a name and a function that returns the answer, or raises `Silent`."""
  if groups & {'all', 'flags'}:
    for arguments, named in fault_cases.commands():
      yield ' '.join(arguments), lambda a=arguments, n=named: check_command(a, n)
  tables = (
    ('arguments', fault_cases.calls),
    ('files', fault_cases.files),
    ('inputs', fault_inputs.refused),
    ('runs', lambda: fault_runs.refused(folder)),
  )
  if groups & {'all', 'runs', 'damage'}:
    fault_cases.sample(folder)
  for group, table in tables:
    if groups & {'all', group}:
      for name, act, named in table():
        yield name, lambda a=act, n=named: check_refused(a, n)
  for group, table in (
    ('inputs', fault_inputs.right),
    ('runs', lambda: fault_runs.right(folder)),
  ):
    if groups & {'all', group}:
      for name, act in table():
        yield name, lambda a=act: check_right(a)
  if groups & {'all', 'runs'}:
    fault_runs.prepare_commands(cli.main)
    for arguments, named in fault_runs.commands():
      yield ' '.join(arguments), lambda a=arguments, n=named: check_command(a, n)
  if groups & {'all', 'damage'}:
    yield from damage_cases(folder)
  processes = {
    'signals': fault_processes.signals,
    'disks': fault_processes.disks,
    'starts': fault_processes.two_starts,
    'kills': lambda server: fault_processes.kills(server, _KILLS.value, _SEED.value),
  }
  if groups & {'all', *processes}:
    server = fault_processes.Server()
    try:
      for group, table in processes.items():
        if groups & {'all', group}:
          for name, act in table(server):
            yield name, lambda a=act: check_survived(a)
    finally:
      server.close()


def main(argv):
  if len(argv) > 1:
    raise app.UsageError(f'Unknown arguments: {argv[1:]}')
  before, count, num_silent = os.getcwd(), 0, 0
  warnings.simplefilter('ignore')
  with tempfile.TemporaryDirectory() as folder:
    work = pathlib.Path(folder) / 'work'
    work.mkdir()
    os.chdir(work)
    try:
      for i, (name, act) in enumerate(all_cases(set(_GROUPS.value), pathlib.Path(folder) / 'run')):
        if i % _EVERY.value:
          continue
        count += 1
        try:
          answer = act()
        except Silent as e:
          num_silent += 1
          answer = f'SILENT: {e}'
        print(f'{i:4} {name[:60]:60} {answer[:160]}', flush=True)
        if num_silent and not _GO_ON.value:
          break
    finally:
      os.chdir(before)
  print(f'{count} cases, {num_silent} silent, with a traceback, or unnamed')
  if num_silent:
    raise SystemExit(1)


if __name__ == '__main__':
  app.run(main)
