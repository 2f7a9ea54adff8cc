"""Runs the commands of README and docs that write figures to docs/results, and renders the pages.

The commands are read off the pages, so that what is documented is what is run. One runs at a time,
those that took least the last time first. Each keeps the rows that it has made: the same call goes
on after Ctrl-C, or when its hours are over. To make figures again, remove their file.
"""

import datetime
import json
import math
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import time

from absl import app, flags

_HOURS = flags.DEFINE_float('hours', math.inf, 'Stop after so long, and go on another time.', 0.0)
_DATA_DIR = flags.DEFINE_string(
  'data_dir', None, 'Folder of TFDS with cifar10; commands that need it are left out without.'
)
_LIST = flags.DEFINE_bool('list', False, 'Only say what there is, and what is done.')

ROOT = pathlib.Path(__file__).resolve().parents[1]
LOG = pathlib.Path('docs/results/reproduced.json')  # of `root`
_BLOCK = re.compile(r'^```bash\n(.*?)^```', re.M | re.S)
_RESULT = re.compile(r'--json=(docs/results/\S+)')
_DATA = '--data_dir=tfds'  # as pages have it


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


def plan(root, data_dir):
  """What is done, what is to do in this order, and what needs data: a dict of all commands."""
  log = load_log(root)

  def seconds(command):
    return log[command]['seconds'] if command in log else math.inf

  status = {}
  for command in sorted(commands(root), key=seconds):
    if command in log and (root / _RESULT.search(command)[1]).exists():
      status[command] = 'done'
    else:
      status[command] = 'needs --data_dir' if _DATA in command and data_dir is None else 'to do'
  return status


def run(root, command, data_dir, deadline):
  """Runs a command until it ends or time is over; returns what became of it."""
  words = [f'--data_dir={data_dir}' if word == _DATA else word for word in shlex.split(command)]
  words[0] = sys.executable if words[0] == 'python' else words[0]
  begin = time.monotonic()
  with subprocess.Popen(words, cwd=root) as process:
    try:
      if process.wait(deadline - begin) != 0:
        return 'FAILED'
    except subprocess.TimeoutExpired:
      process.send_signal(signal.SIGINT)
      return 'stopped'
  date = datetime.datetime.now(datetime.timezone.utc).strftime('%Y-%m-%d %H:%M UTC')
  log = load_log(root) | {command: {'seconds': round(time.monotonic() - begin), 'date': date}}
  (root / LOG).write_text(json.dumps(log, indent=1, sort_keys=True) + '\n')
  return 'done'


def reproduce(root, data_dir=None, hours=math.inf):
  """Runs what is to do, and tells of each command; returns the status of all, as `plan`."""
  deadline = time.monotonic() + 3600 * hours
  status, log = plan(root, data_dir), load_log(root)
  todo = [command for command, what in status.items() if what == 'to do']
  for i, command in enumerate(todo):
    if time.monotonic() >= deadline:
      break
    known = [log[c]['seconds'] for c in todo[i:] if c in log]
    print(
      f'[{i + 1}/{len(todo)}] {command}\n  left: {sum(known) / 60:.0f} min, and '
      f'{len(todo) - i - len(known)} commands that were not timed yet',
      flush=True,
    )
    status[command] = run(root, command, data_dir, deadline)
  return status


def main(argv):
  if len(argv) > 1:
    raise app.UsageError(f'Unknown arguments: {argv[1:]}')
  if _LIST.value:
    status = plan(ROOT, _DATA_DIR.value)
  else:
    status = reproduce(ROOT, _DATA_DIR.value, _HOURS.value)
    subprocess.run([sys.executable, str(ROOT / 'scripts' / 'render_docs.py')], check=True)
  log = load_log(ROOT)
  for command, what in status.items():
    minutes = f'{log[command]["seconds"] / 60:.0f} min' if command in log else ''
    print(f'{what:17}{minutes:>8}  {command}')
  if 'FAILED' in status.values():
    sys.exit(1)


if __name__ == '__main__':
  app.run(main)
