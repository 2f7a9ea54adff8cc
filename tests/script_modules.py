"""Scripts as modules, for tests of their functions, and their programs in this process."""

import contextlib
import importlib.util
import os
import pathlib
import re
import sys
from unittest import mock

from absl import flags

SCRIPTS = pathlib.Path(__file__).resolve().parents[1] / 'scripts'


def several_threads():
  """The environment of a process with several devices, which must not wait for one another."""
  return {name: x for name, x in os.environ.items() if not re.match('TF_NUM_.*_THREADS', name)}


@contextlib.contextmanager
def loaded(name):
  """The module of `scripts/<name>.py`, whose flags are forgotten: other scripts have the same."""
  known = set(flags.FLAGS)
  spec = importlib.util.spec_from_file_location(name, SCRIPTS / f'{name}.py')
  script = importlib.util.module_from_spec(spec)
  try:
    spec.loader.exec_module(script)
    yield script
  finally:
    for flag in set(flags.FLAGS) - known:
      delattr(flags.FLAGS, flag)


def load(name):
  """The module of `scripts/<name>.py`, for its functions that read no flags."""
  with loaded(name) as script:
    return script


def run(name, arguments):
  """Calls `main` of `scripts/<name>.py` as `app.run` does, without a process of its own.

  Args:
    name: String.
    arguments: List of strings, as on the command line.
  """
  program = [str(SCRIPTS / f'{name}.py'), *arguments]
  with loaded(name) as script, mock.patch.object(sys, 'argv', program):
    try:
      script.main(flags.FLAGS([name, *arguments]))
    finally:
      flags.FLAGS.unparse_flags()
