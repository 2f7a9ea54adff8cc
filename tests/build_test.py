"""Tests that BUILD lists every Python file, once, in a target of the right kind."""

import ast
import collections
import pathlib
from typing import NamedTuple

import pytest

_ROOT = pathlib.Path(__file__).resolve().parents[1]


class Target(NamedTuple):
  """A call in BUILD. `rule` is its function; the other fields are arguments of the same name."""

  rule: str
  name: str
  srcs: tuple[str, ...] = ()
  args: tuple[str, ...] = ()
  deps: tuple[str, ...] = ()
  main_module: str | None = None


def parse_targets(text):
  """The `py_*` targets of a BUILD file. Its language is close enough to Python to be parsed so."""
  targets = []
  for node in ast.parse(text).body:
    call = getattr(node, 'value', None)
    if isinstance(call, ast.Call) and getattr(call.func, 'id', '').startswith('py_'):
      fields = {
        keyword.arg: ast.literal_eval(keyword.value)
        for keyword in call.keywords
        if keyword.arg in Target._fields
      }
      targets.append(Target(rule=call.func.id, **fields))
  return targets


def rule_for(path):
  """The rule that has to list the Python file `path`."""
  if path.startswith('scripts/'):
    return 'py_binary'
  return 'py_test' if path.startswith('tests/') and path.endswith('_test.py') else 'py_library'


def library_for(path):
  """The name of the library that has to list `path`: one for each folder."""
  folder = pathlib.PurePosixPath(path).parent
  return 'testing' if folder.parts[0] == 'tests' else folder.name


def addition_for(path, targets):
  """What to add to BUILD so that it lists `path`."""
  rule, name = rule_for(path), pathlib.PurePosixPath(path).stem
  if rule == 'py_library':
    name = library_for(path)
    if any(target.name == name for target in targets):
      return f'Add this line to `srcs` of "{name}":\n        "{path}",'
  lines = [f'    name = "{name}",', f'    srcs = ["{path}"],']
  if rule == 'py_test':
    lines += [f'    args = ["{path}"],', '    main_module = "pytest",', '    deps = [":testing"],']
  elif rule == 'py_binary':
    lines += ['    deps = [":tfp_reprior"],']
  return '\n'.join(['Add this target:', f'{rule}(', *lines, ')'])


def find_problems(targets, paths):
  """Sentences that say what to change in BUILD for it to fit the Python files `paths`."""
  problems = []
  holders = collections.defaultdict(list)
  for target in targets:
    for path in target.srcs:
      holders[path].append(target)

  for path in paths:
    if not holders[path]:
      problems.append(f'BUILD does not list {path}. {addition_for(path, targets)}')
    elif len(holders[path]) > 1:
      names = ', '.join(f'"{target.name}"' for target in holders[path])
      problems.append(f'Keep {path} in one only of the targets {names}.')
    elif holders[path][0].rule != rule_for(path):
      problems.append(f'Move {path} from "{holders[path][0].name}" to a {rule_for(path)}.')
    elif rule_for(path) == 'py_library' and holders[path][0].name != library_for(path):
      problems.append(
        f'Move {path} from "{holders[path][0].name}" to the library "{library_for(path)}".'
      )

  for path in sorted(set(holders) - set(paths)):
    problems.append(f'Remove {path} from "{holders[path][0].name}": there is no such file.')

  counts = collections.Counter(target.name for target in targets)
  problems += [
    f'Rename all but one of the targets "{x}".' for x, count in counts.items() if count > 1
  ]

  for target in targets:
    for label in target.deps:
      # Labels that start with @ are of other repositories.
      if not label.startswith('@') and label.removeprefix(':') not in counts:
        problems.append(
          f'Remove "{label}" from `deps` of "{target.name}": there is no such target.'
        )
    if target.rule == 'py_test':
      if len(target.srcs) != 1:
        problems.append(f'Give each of the files in "{target.name}" a py_test of its own.')
      # Otherwise Bazel runs the file as a program, which calls no test and always passes.
      elif target.main_module != 'pytest' or target.args != list(target.srcs):
        problems.append(
          f'Set args = ["{target.srcs[0]}"] and main_module = "pytest" in "{target.name}".'
        )
  return problems


def test_build_fits_the_python_files():
  patterns = ['tfp_reprior/**/*.py', 'tests/**/*.py', 'scripts/*.py']
  paths = [path.relative_to(_ROOT).as_posix() for x in patterns for path in _ROOT.glob(x)]
  assert 'tests/build_test.py' in paths
  problems = find_problems(parse_targets((_ROOT / 'BUILD').read_text()), sorted(paths))
  assert not problems, '\n'.join(['BUILD is out of date.', *problems])


_GOOD = """
load("@rules_python//python:defs.bzl", "py_library")
LICENSE = "LICENSE"
py_library(name = "tfp_reprior", srcs = ["tfp_reprior/a.py"], deps = [":mcmc", "@pypi//numpy"])
py_library(name = "mcmc", srcs = ["tfp_reprior/mcmc/b.py"], data = glob(["*"]))
py_binary(name = "demo", srcs = ["scripts/demo.py"])
py_test(
    name = "a_test",
    srcs = ["tests/a_test.py"],
    args = ["tests/a_test.py"],
    main_module = "pytest",
)
"""
_PATHS = ['scripts/demo.py', 'tests/a_test.py', 'tfp_reprior/a.py', 'tfp_reprior/mcmc/b.py']


def test_a_build_that_fits_has_no_problems():
  assert not find_problems(parse_targets(_GOOD), _PATHS)


@pytest.mark.parametrize(
  ('old', 'new', 'problem'),
  [
    ('"tfp_reprior/a.py"', '', 'does not list tfp_reprior/a.py. Add this line to `srcs` of "tfp_'),
    ('py_library(name = "mcmc"', 'filegroup(name = "mcmc"', 'py_library(\n    name = "mcmc",'),
    ('py_test(', 'sh_test(', 'py_test(\n    name = "a_test",'),
    ('py_binary(', 'sh_binary(', 'py_binary(\n    name = "demo",'),
    ('mcmc/b.py"', 'mcmc/b.py", "tfp_reprior/a.py"', 'Keep tfp_reprior/a.py in one only'),
    ('py_binary(', 'py_library(', 'Move scripts/demo.py from "demo" to a py_binary'),
    ('"mcmc"', '"sampling"', 'Move tfp_reprior/mcmc/b.py from "sampling" to the library "mcmc"'),
    (
      'mcmc/b.py"',
      'mcmc/b.py", "tfp_reprior/mcmc/c.py"',
      'Remove tfp_reprior/mcmc/c.py from "mcmc"',
    ),
    ('"demo"', '"mcmc"', 'Rename all but one of the targets "mcmc"'),
    ('":mcmc"', '":mcm"', 'Remove ":mcm" from `deps` of "tfp_reprior"'),
    ('main_module = "pytest",', '', 'main_module = "pytest" in "a_test"'),
    ('args = ["tests/a_test.py"],', '', 'Set args = ["tests/a_test.py"]'),
    ('srcs = ["tests/a_test.py"]', 'srcs = []', 'a py_test of its own'),
  ],
)
def test_each_problem_is_found(old, new, problem):
  assert _GOOD.count(old) == 1
  problems = find_problems(parse_targets(_GOOD.replace(old, new)), _PATHS)
  assert any(problem in x for x in problems), problems
