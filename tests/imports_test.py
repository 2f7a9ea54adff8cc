"""What `import tfp_reprior` does, and what it leaves for later."""

import importlib
import inspect
import subprocess
import sys

import pytest

import tfp_reprior as tfr


def test_import_is_quick_and_quiet_and_keras_loads_saved_models(tmp_path):
  tfr.models.fcn((1,), 1, width=2).save(tmp_path / 'fcn.keras')
  code = (
    'import sys, tfp_reprior as tfr\n'
    'assert not {"tensorflow", "keras", "numpy"} & set(sys.modules), "before they are needed"\n'
    'import tensorflow, tensorflow_probability as tfp, keras, tqdm; tfp.mcmc, tfp.bijectors\n'
    'before = set(sys.modules)\n'
    'def mark():\n'
    '  for stream in (sys.stdout, sys.stderr):\n'
    '    print("---", file=stream, flush=True)\n'
    'mark()\n'
    'for name in tfr.__all__:\n'
    '  getattr(tfr, name)\n'
    'mark()\n'
    'optional = {"matplotlib", "jinja2", "arviz", "tensorflow_datasets", "sklearn"}\n'
    'imported = optional & (set(sys.modules) - before)  # Keras imports some of them by itself\n'
    'assert not imported, imported\n'
    f'assert keras.models.load_model({str(tmp_path / "fcn.keras")!r}).name == "fcn"\n'
  )
  result = subprocess.run(
    [sys.executable, '-W', 'ignore', '-c', code], capture_output=True, text=True, timeout=300
  )
  assert result.returncode == 0, result.stderr
  assert result.stdout.split('---\n')[1] == result.stderr.split('---\n')[1] == ''


@pytest.mark.parametrize('name', [n for n in tfr.__all__ if n != '__version__'])
def test_every_public_name_is_that_of_its_module_and_room(name):
  value = getattr(tfr, name)
  assert name in dir(tfr)
  if inspect.ismodule(value):
    assert value.__name__ == f'tfp_reprior.{name}'
    assert value is importlib.import_module(f'tfp_reprior.{name}')
    return
  # A class or function knows its name, and the module in which it was written.
  assert value.__name__ == name and value.__module__.startswith('tfp_reprior.')
  module = importlib.import_module(value.__module__)
  assert vars(module)[name] is value
  room = importlib.import_module(value.__module__.rpartition('.')[0])
  assert name in room.__all__ and vars(room)[name] is value


def test_the_version_is_that_of_its_module():
  assert tfr.__version__ == importlib.import_module('tfp_reprior.version').__version__


def test_other_names_are_not_there():
  assert not hasattr(tfr, 'Prior')
  with pytest.raises(ImportError, match="cannot import name 'Prior'"):
    from tfp_reprior import Prior  # noqa: F401
