"""Runs the commands of README and docs that write figures to docs/results, and renders the pages.

The commands are read off the pages, figures of the paper among them, so that what is documented is
what is run. One runs at a time, those that took least the last time first. Each keeps the rows that
it has made: the same call goes on after Ctrl-C, or when its hours are over. Before each command it
says how long the rest takes: by the times of the last time, at the speed of today, and for commands
that were never timed by the median of the others. To make figures again, remove their file.
"""

import datetime
import json
import math
import pathlib
import re
import shlex
import signal
import statistics
import subprocess
import sys
import time

from absl import app, flags

_HOURS = flags.DEFINE_float('hours', math.inf, 'Stop after so long, and go on another time.', 0.0)
_DATA_DIR = flags.DEFINE_string(
  'data_dir', None, 'Folder of TFDS with cifar10; commands that need it are left out without.'
)
_ONLY = flags.DEFINE_string('only', '', 'Leave out commands without this text, such as a file.')
_LIST = flags.DEFINE_bool('list', False, 'Only say what there is, and what is done.')

ROOT = pathlib.Path(__file__).resolve().parents[1]
LOG = pathlib.Path('docs/results/reproduced.json')  # of `root`
_BLOCK = re.compile(r'^```bash\n(.*?)^```', re.M | re.S)
_RESULT = re.compile(r'--json=(docs/results/\S+)')
_DATA = '--data_dir=tfds'  # as pages have it
_FILE_IS_THERE = 'file is there'


def commands(root):
  """The commands of the pages, each with the page that it is on: a dict."""
  found = {}
  for page in [root / 'README.md', *sorted(root.glob('docs/**/*.md'))]:
    for block in _BLOCK.findall(page.read_text()):
      for line in block.replace('\\\n', ' ').splitlines():
        command = ' '.join(line.partition(' #')[0].split())
        if _RESULT.search(command):
          found.setdefault(command, str(page.relative_to(root)))
  return found


def load_log(root):
  """What was run: a dict of commands, each with its seconds and date."""
  path = root / LOG
  return json.loads(path.read_text()) if path.exists() else {}


def plan(root, data_dir, only=''):
  """What is done, what is to do in this order, and what needs data: a dict of all commands.

  Where the file is there, but no command of the log wrote to it, it was made without this script. A
  run looks for rows that it lacks.
  """
  log = load_log(root)
  logged = {_RESULT.search(command)[1] for command in log if _RESULT.search(command)}

  def seconds(command):
    return log[command]['seconds'] if is_done(command) else math.inf

  def is_done(command):
    return command in log and log[command]['is_done']

  status = {}
  for command in sorted(commands(root), key=seconds):
    if only not in command:
      continue
    result = _RESULT.search(command)[1]
    if is_done(command) and (root / result).exists():
      status[command] = 'done'
    elif _DATA in command and data_dir is None:
      status[command] = 'needs --data_dir'
    else:
      is_there = result not in logged and (root / result).exists()
      status[command] = _FILE_IS_THERE if is_there else 'to do'
  return status


def run(root, command, data_dir, deadline):
  """Runs a command until it ends or time is over; returns what became of it."""
  words = [f'--data_dir={data_dir}' if word == _DATA else word for word in shlex.split(command)]
  programs = {'python': [sys.executable], 'tfp-reprior': [sys.executable, '-m', 'tfp_reprior']}
  words[:1] = programs.get(words[0], words[:1])
  begin = time.monotonic()
  with subprocess.Popen(words, cwd=root) as process:
    try:
      result = 'done' if process.wait(deadline - begin) == 0 else 'FAILED'
    except subprocess.TimeoutExpired:
      process.send_signal(signal.SIGINT)
      result = 'stopped'
  if result != 'FAILED':
    keep_time(root, command, time.monotonic() - begin, result == 'done')
  return result


def keep_time(root, command, seconds, is_done):
  """Adds to the log; the seconds of a command that was stopped and goes on add up."""
  log = load_log(root)
  before = log.get(command, {'is_done': True})
  if not before['is_done']:
    seconds += before['seconds']
  date = datetime.datetime.now(datetime.timezone.utc).strftime('%Y-%m-%d %H:%M UTC')
  log[command] = {'seconds': round(seconds), 'is_done': is_done, 'date': date}
  (root / LOG).write_text(json.dumps(log, indent=1, sort_keys=True) + '\n')


def time_left(todo, log, speed=1.0):
  """How long commands take, as text.

  Args:
    todo: Commands.
    log: As of `load_log`.
    speed: How much longer than by the log commands took today.
  """
  timed = {command: entry['seconds'] for command, entry in log.items() if entry['is_done']}
  never = [command for command in todo if command not in timed]
  if not timed:
    return f'no command was timed yet; {len(never)} to do'
  typical = statistics.median(timed.values())
  seconds = speed * sum(timed.get(command, typical) for command in todo)
  unsure = f', {len(never)} of them never timed: as the median of the others' if never else ''
  return f'about {seconds / 60:.0f} min left for {len(todo)}{unsure}'


def reproduce(root, data_dir=None, hours=math.inf, only=''):
  """Runs what is to do, and tells of each command; returns the status of all, as `plan`."""
  deadline = time.monotonic() + 3600 * hours
  status, before = plan(root, data_dir, only), load_log(root)
  todo = [command for command, what in status.items() if what in ('to do', _FILE_IS_THERE)]
  expected = taken = 0.0
  for i, command in enumerate(todo):
    if time.monotonic() >= deadline:
      break
    left = time_left(todo[i:], load_log(root), taken / expected if expected else 1.0)
    print(f'[{i + 1}/{len(todo)}] {left}\n  {command}', flush=True)
    begin = time.monotonic()
    status[command] = run(root, command, data_dir, deadline)
    if status[command] == 'done' and command in before and before[command]['is_done']:
      expected += before[command]['seconds']
      taken += time.monotonic() - begin
  return status


def summary(status, log):
  """What is done and what is not, as lines of text."""
  for command, what in status.items():
    minutes = f'{log[command]["seconds"] / 60:.0f} min' if command in log else ''
    yield f'{what:17}{minutes:>8}  {command}'
  numbers = {what: list(status.values()).count(what) for what in dict.fromkeys(status.values())}
  yield ', '.join(f'{number} {what}' for what, number in numbers.items()) or 'nothing to do'


def main(argv):
  if len(argv) > 1:
    raise app.UsageError(f'Unknown arguments: {argv[1:]}')
  if _LIST.value:
    status = plan(ROOT, _DATA_DIR.value, _ONLY.value)
  else:
    status = reproduce(ROOT, _DATA_DIR.value, _HOURS.value, _ONLY.value)
    subprocess.run([sys.executable, str(ROOT / 'scripts' / 'render_docs.py')], check=True)
  print('\n'.join(summary(status, load_log(ROOT))))
  if 'FAILED' in status.values():
    sys.exit(1)


if __name__ == '__main__':
  app.run(main)
