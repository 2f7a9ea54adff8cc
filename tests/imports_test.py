"""What `import tfp_reprior` does, and what it leaves for later."""

import subprocess
import sys

import pytest

import tfp_reprior as tfr


def _run(code):
  result = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, timeout=300)
  assert result.returncode == 0, result.stderr


def test_tensorflow_is_imported_when_it_is_needed():
  _run(
    'import sys, tfp_reprior as tfr\n'
    'assert not {"tensorflow", "keras", "numpy"} & set(sys.modules)\n'
    'tfr.Posterior\n'
    'assert "tensorflow" in sys.modules\n'
  )


def test_keras_loads_saved_models_after_the_import(tmp_path):
  tfr.models.fcn((1,), 1, width=2).save(tmp_path / 'fcn.keras')
  _run(
    'import keras\n'
    'import tfp_reprior\n'
    f'assert keras.models.load_model({str(tmp_path / "fcn.keras")!r}).name == "fcn"\n'
  )


@pytest.mark.parametrize('name', tfr.__all__)
def test_every_public_name_is_there(name):
  assert getattr(tfr, name) is getattr(tfr, name)
  assert name in dir(tfr)


def test_other_names_are_not_there():
  assert not hasattr(tfr, 'Prior')
  with pytest.raises(ImportError, match="cannot import name 'Prior'"):
    from tfp_reprior import Prior  # noqa: F401
