"""Figures with where they come from, kept in a file row by row."""

import datetime
import json
import os
import pathlib
import subprocess
import time

from tfp_reprior import version
from tfp_reprior.benchmarks import timing


def provenance():
  """Version, commit, date and processor of what runs now, as a dict of strings and numbers."""
  return {
    'version': version.__version__,
    'commit': _commit(),
    'date': datetime.datetime.now(datetime.timezone.utc).strftime('%Y-%m-%d %H:%M UTC'),
    'processor': timing.processor(),
    'cores': len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else os.cpu_count(),
  }


def measured(cases, measure_fn, path=None):
  """Yields a row of figures for each case; those that a file has are not measured again.

  Several commands can share a file: rows of other cases stay in it.

  Args:
    cases: Iterable of dicts: what tells one row from another, and what it was made with.
    measure_fn: Function of a case; returns a dict of figures.
    path: A .json file, written anew after each row; by default none.

  Yields:
    Dicts of the case, its figures, and under `'made'` the `provenance` and seconds.
  """
  path = None if path is None else pathlib.Path(path)
  done = load(path) if path is not None and path.exists() else []
  for case in cases:
    known = [row for row in done if case.items() <= row.items()]
    if not known:
      begin = time.monotonic()
      figures = measure_fn(case)
      made = {**provenance(), 'seconds': round(time.monotonic() - begin, 1)}
      known = [{**case, **figures, 'made': made}]
      if path is not None and path.exists():
        done = load(path)  # again: another command may have written to it meanwhile
      done += known
      if path is not None:
        path.write_text(json.dumps(done, indent=1) + '\n')
    yield known[0]


def load(path):
  """The rows of a file of figures."""
  figures = json.loads(pathlib.Path(path).read_text())
  return figures['rows'] if isinstance(figures, dict) else figures


def _commit():
  """The commit of this checkout, marked if code differs from it; empty if there is none."""
  root = pathlib.Path(__file__).parents[2]
  commit = _git(root, 'describe', '--always')
  # Figures that are written to docs while a campaign runs do not change what it measures.
  changed = _git(root, 'status', '--porcelain', '--', 'tfp_reprior', 'scripts')
  return f'{commit}-dirty' if commit and changed else commit


def _git(folder, *words):
  """What a command of git prints; empty if it fails."""
  try:
    return subprocess.run(
      ['git', *words], cwd=folder, capture_output=True, text=True, check=True
    ).stdout.strip()
  except (OSError, subprocess.CalledProcessError):
    return ''
