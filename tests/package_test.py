"""The package as a whole: imports, examples, scripts."""

import ast
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parent.parent
SOURCES = sorted(ROOT.glob('tfp_reprior/**/*.py'))
PAGES = [ROOT / 'README.md', *sorted(ROOT.glob('docs/**/*.md'))]


def _examples():
  """Every Python block in the docstrings of the package and in the pages."""
  for path in SOURCES:
    for node in ast.walk(ast.parse(path.read_text())):
      if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
        text = ast.get_docstring(node) or ''
        for i, code in enumerate(_blocks(text)):
          name = getattr(node, 'name', 'module')
          yield pytest.param(code, id=f'{path.relative_to(ROOT)}:{name}:{i}')
  for path in PAGES:  # the blocks of a page run in turn, as one program
    yield pytest.param('\n'.join(_blocks(path.read_text())), id=str(path.relative_to(ROOT)))


def _blocks(text):
  return re.findall(r'```python\n(.*?)```', text, flags=re.DOTALL)


@pytest.mark.parametrize('code', list(_examples()))
def test_examples_run_as_printed(code, tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)  # for those that write files
  exec(compile(code, 'example', 'exec'), {'__name__': 'example'})


def test_modules_keep_to_their_size():
  long = [str(p.relative_to(ROOT)) for p in SOURCES if len(p.read_text().splitlines()) > 400]
  assert not long
