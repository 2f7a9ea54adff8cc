"""Scripts as modules, for tests of their functions."""

import importlib.util
import pathlib

from absl import flags

SCRIPTS = pathlib.Path(__file__).resolve().parents[1] / 'scripts'


def load(name):
  """The module of `scripts/<name>.py`, whose flags are forgotten: other scripts have the same."""
  known = set(flags.FLAGS)
  spec = importlib.util.spec_from_file_location(name, SCRIPTS / f'{name}.py')
  script = importlib.util.module_from_spec(spec)
  spec.loader.exec_module(script)
  for flag in set(flags.FLAGS) - known:
    delattr(flags.FLAGS, flag)
  return script
