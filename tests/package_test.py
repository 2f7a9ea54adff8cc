"""The package as a whole: examples in docstrings, sizes of modules."""

import ast
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parent.parent
SOURCES = sorted(ROOT.glob('tfp_reprior/**/*.py'))


def _examples():
  """Every Python block in the docstrings of the package; pages_test.py has those of the pages."""
  for path in SOURCES:
    for node in ast.walk(ast.parse(path.read_text())):
      if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
        text = ast.get_docstring(node) or ''
        for i, code in enumerate(_blocks(text)):
          name = getattr(node, 'name', 'module')
          yield pytest.param(code, id=f'{path.relative_to(ROOT)}:{name}:{i}')


def _blocks(text):
  return re.findall(r'```python\n(.*?)```', text, flags=re.DOTALL)


@pytest.mark.parametrize('code', list(_examples()))
def test_examples_run_as_printed(code, tmp_path, monkeypatch, no_drawings):
  monkeypatch.chdir(tmp_path)  # for those that write files
  exec(compile(code, 'example', 'exec'), {'__name__': 'example'})


def test_modules_keep_to_their_size():
  long = [str(p.relative_to(ROOT)) for p in SOURCES if len(p.read_text().splitlines()) > 400]
  assert not long
