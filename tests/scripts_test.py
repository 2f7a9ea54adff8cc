"""Each script's `main`, at toy size."""

import importlib.util
import pathlib

from absl import flags
from absl.testing import flagsaver

SCRIPTS = pathlib.Path(__file__).parent.parent / 'scripts'


def _load(name):
  specification = importlib.util.spec_from_file_location(f'scripts_{name}', SCRIPTS / f'{name}.py')
  module = importlib.util.module_from_spec(specification)
  specification.loader.exec_module(module)
  if not flags.FLAGS.is_parsed():
    flags.FLAGS([name])
  return module


def test_demo_prints_what_is_gained(capsys):
  demo = _load('demo')
  with flagsaver.flagsaver(width=8, num_train=10, num_test=20, num_steps=40, thinning=2):
    demo.main(['demo'])
  table = capsys.readouterr().out
  for row in ('mean acceptance', 'ESS per 1,000 steps, theta', 'ESS per second', 'test error'):
    assert row in table
