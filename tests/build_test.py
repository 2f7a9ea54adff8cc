"""Tests that BUILD holds every Python file, and the lock file every package that is needed."""

import ast
import collections
import importlib.metadata
import pathlib
import re
import shutil
import subprocess
import sys
from typing import NamedTuple
from unittest import mock

import pytest
from packaging import requirements, utils

_ROOT = pathlib.Path(__file__).resolve().parents[1]


class Target(NamedTuple):
  """A `py_*` target of BUILD. The fields but `rule` are arguments of the same name."""

  rule: str
  name: str
  srcs: list[str] = []
  data: list[str] = []
  deps: list[str] = []
  args: list[str] = []
  main: str | None = None
  main_module: str | None = None


def list_paths():
  """The files of the project, as BUILD names them, but for folders that Bazel is told to ignore."""
  ignored = (_ROOT / '.bazelignore').read_text().split()
  paths = [path for path in _ROOT.iterdir() if path.is_file()]
  for folder in _ROOT.iterdir():
    is_ours = folder.name not in ignored and not folder.name.startswith(('.', 'bazel-'))
    paths += [path for path in folder.rglob('*') if path.is_file()] if is_ours else []
  return sorted(path.relative_to(_ROOT).as_posix() for path in paths)


def match(patterns, paths):
  """Those of `paths` that fit a pattern, as Bazel reads it: `**` is any number of folders."""
  meanings = {'**/': '(?:.*/)?', '**': '.*', '*': '[^/]*'}
  pieces = [re.split(r'(\*\*/|\*\*|\*)', pattern) for pattern in patterns]
  regexes = [''.join(meanings.get(x, re.escape(x)) for x in pattern) for pattern in pieces]
  return [path for path in paths if any(re.fullmatch(regex, path) for regex in regexes)]


def evaluate(text, paths):
  """The `py_*` targets of a BUILD file in a folder with the files `paths`. Runs it as Python."""
  targets = []

  def glob(include, exclude=(), allow_empty=False):
    found = match(include, paths)
    excluded = set(match(exclude, paths))
    found = [path for path in found if path not in excluded]
    # Bazel 8 says so, too.
    if not found and not allow_empty:
      raise ValueError(f'`glob` must match a file. Received: include={include}')
    return found

  def make_rule(rule):
    def add(**arguments):
      known = {name: x for name, x in arguments.items() if name in Target._fields}
      targets.append(Target(rule=rule, **known))

    return add

  scope = {rule: make_rule(rule) for rule in ('py_binary', 'py_library', 'py_test')}
  scope |= dict.fromkeys(('exports_files', 'licenses', 'load', 'package'), lambda *_, **__: None)
  exec(compile(text, 'BUILD', 'exec'), scope | {'glob': glob})
  return targets


def find_problems(targets, paths):
  """Sentences that say what is wrong with the targets in a folder with the files `paths`."""
  problems = []
  holders = collections.defaultdict(list)
  for target in targets:
    for path in target.srcs:
      holders[path].append(target)

  for path in match(['**/*.py'], paths):
    rule = 'py_library'
    if path.startswith('scripts/'):
      rule = 'py_binary'
    elif path.startswith('tests/') and path.endswith('_test.py'):
      rule = 'py_test'
    # setup.py is for pip.
    if [x.rule for x in holders[path]] != [rule] and path != 'setup.py':
      names = [x.name for x in holders[path]]
      problems.append(f'{path} must be in one {rule}, and nowhere else. It is in {names}.')

  counts = collections.Counter(target.name for target in targets)
  problems += [f'{count} targets are called {x}.' for x, count in counts.items() if count > 1]
  for target in targets:
    files = [*target.srcs, *target.data, *([target.main] if target.main else [])]
    problems += [f'{target.name} names {x}, which is no file.' for x in files if x not in paths]
    for label in target.deps:
      if not label.startswith('@pypi//') and label.removeprefix(':') not in counts:
        problems.append(f'{target.name} depends on {label}, which is no target.')
    # Otherwise Bazel runs the file as a program, which calls no test and always passes.
    is_run = target.main_module == 'pytest' and target.args == target.srcs
    if target.rule == 'py_test' and not (is_run and len(target.srcs) == 1):
      problems.append(f'{target.name} must run pytest on its one file.')
  return problems


def packages(target, targets):
  """Canonical names of the packages that `target` depends on, by way of others, too."""
  found = set()
  for label in target.deps:
    if label.startswith('@pypi//'):
      found.add(utils.canonicalize_name(label.removeprefix('@pypi//')))
    else:
      other = next(x for x in targets if x.name == label.removeprefix(':'))
      found |= packages(other, targets)
  return found


def parse_lock(text):
  """A dict from canonical names to versions, of a file of requirements with `==`."""
  pins = re.findall(r'^([\w.-]+)==([^\s;]+)', text, flags=re.MULTILINE)
  return {utils.canonicalize_name(name): version for name, version in pins}


def find_lock_problems(lock, needed, labels):
  """Sentences that say what `lock` lacks of the requirements `needed` and the names `labels`."""
  problems = [f'BUILD names @pypi//{x}, which is not locked.' for x in sorted(labels - set(lock))]
  for requirement in map(requirements.Requirement, needed):
    version = lock.get(utils.canonicalize_name(requirement.name))
    if version is None or version not in requirement.specifier:
      problems.append(f'setup.py asks for {requirement}. The lock has {version}.')
  return problems


def imported_packages(path, providers):
  """For each third-party module that a file imports, the set of the packages that provide it."""
  modules = set()
  for node in ast.walk(ast.parse((_ROOT / path).read_text())):
    if isinstance(node, ast.Import):
      modules |= {x.name.split('.')[0] for x in node.names}
    elif isinstance(node, ast.ImportFrom) and node.module:
      modules.add(node.module.split('.')[0])
  found = [set(map(utils.canonicalize_name, providers.get(x, ()))) for x in sorted(modules)]
  return [x for x in found if x and 'tfp-reprior' not in x]


@pytest.fixture(name='targets')
def fixture_targets():
  return evaluate((_ROOT / 'BUILD').read_text(), list_paths())


@pytest.fixture(name='lock')
def fixture_lock():
  return parse_lock((_ROOT / 'requirements_lock.txt').read_text())


def test_every_python_file_is_in_one_target(targets):
  assert 'tests/build_test.py' in list_paths()
  assert not find_problems(targets, list_paths())


def test_a_new_file_needs_no_edit():
  new = ['scripts/new.py', 'tests/mcmc/new_test.py', 'tests/new.py', 'tfp_reprior/new/new.py']
  paths = list_paths() + new
  targets = evaluate((_ROOT / 'BUILD').read_text(), paths)
  assert not find_problems(targets, paths)
  holders = {path: x.name for x in targets for path in x.srcs if path in new}
  assert [holders[path] for path in new] == ['new', 'mcmc_new_test', 'testing', 'tfp_reprior']


def test_the_library_has_the_packages_that_setup_asks_for(targets, setup):
  library = next(x for x in targets if x.name == 'tfp_reprior')
  needed = setup['install_requires'] + setup['extras_require']['all']
  names = {utils.canonicalize_name(requirements.Requirement(x).name) for x in needed}
  assert packages(library, targets) == names


def test_targets_depend_on_the_packages_that_they_import(targets):
  known = importlib.metadata.packages_distributions()
  missing = [
    (path, providers)
    for target in targets
    for path in target.srcs
    for providers in imported_packages(path, known)
    if not providers & packages(target, targets)
  ]
  assert not missing


def test_the_lock_has_what_build_and_setup_ask_for(targets, setup, lock):
  labels = set().union(*(packages(x, targets) for x in targets))
  needed = setup['install_requires'] + setup['extras_require']['test']
  assert len(needed) > 10 and not find_lock_problems(lock, needed, labels)


def test_the_lock_names_no_place():
  text = (_ROOT / 'requirements_lock.txt').read_text()
  assert not re.search(r'://|^--|(?<=\s)/', text, flags=re.MULTILINE)


def test_the_module_fits_the_package_and_the_lock(setup):
  names = ('bazel_dep', 'module', 'use_extension', 'use_repo')
  scope = {name: mock.MagicMock() for name in names}
  exec(compile((_ROOT / 'MODULE.bazel').read_text(), 'MODULE.bazel', 'exec'), scope)
  scope['module'].assert_called_once_with(name='tfp_reprior', version=setup['version'])
  extension = scope['use_extension'].return_value
  python = extension.toolchain.call_args.kwargs['python_version']
  extension.parse.assert_called_once_with(
    hub_name='pypi', python_version=python, requirements_lock='//:requirements_lock.txt'
  )
  scope['use_repo'].assert_called_once_with(extension, 'pypi')
  # The lock tells the command that made it.
  assert f'--python-version {python} ' in (_ROOT / 'requirements_lock.txt').read_text()


@pytest.fixture(scope='module')
def found_by_bazel():
  """Labels of all targets, and of all that they depend on."""
  if shutil.which('bazel') is None:
    pytest.skip('There is no `bazel`. Debian has it in the package bazel-bootstrap.')
  version = subprocess.run(['bazel', '--version'], capture_output=True, text=True).stdout.strip()
  # Debian's knows no version of its own.
  if not re.fullmatch(r'bazel (no_version|4\..*)', version):
    pytest.skip(f'scripts/bazel_query.sh is for Bazel 4. Here is {version!r}.')
  expression = '//... union labels(deps, //...)'  # at once, for Bazel takes seconds to start
  command = ['bash', str(_ROOT / 'scripts/bazel_query.sh'), expression]
  links = sorted(_ROOT.glob('bazel-*'))
  result = subprocess.run(command, capture_output=True, text=True, timeout=300)
  assert result.returncode == 0, result.stderr
  assert sorted(_ROOT.glob('bazel-*')) == links
  return result.stdout.split()


def test_bazel_finds_the_same_targets(targets, found_by_bazel):
  found = [x for x in found_by_bazel if not x.startswith('@')]
  assert sorted(found) == sorted(f'//:{target.name}' for target in targets)


def test_bazel_finds_every_package(targets, found_by_bazel):
  labels = {x for target in targets for x in target.deps if x.startswith('@')}
  found = {x.split(':')[0] for x in found_by_bazel if x.startswith('@')}
  assert found == labels


@pytest.mark.parametrize(('target', 'code'), [('//:build_test', 0), (None, 5)])
def test_a_file_without_slow_tests_passes_when_bazel_asks_for_slow_ones(target, code, monkeypatch):
  monkeypatch.delenv('TEST_TARGET', raising=False)
  if target is not None:
    monkeypatch.setenv('TEST_TARGET', target)
  command = [sys.executable, '-m', 'pytest', '-m', 'slow', 'tests/build_test.py']
  result = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, timeout=300)
  assert result.returncode == code, result.stdout


_GOOD = """
load("@rules_python//python:defs.bzl", "py_library")
py_library(name = "lib", srcs = glob(["tfp_reprior/**/*.py"]), data = glob(["**"], ["**/*.py"]))
py_binary(name = "demo", srcs = ["scripts/demo.py"], main = "scripts/demo.py", deps = [":lib"])
[
    py_test(
        name = path[6:-3].replace("/", "_"),
        srcs = [path],
        args = [path],
        main_module = "pytest",
        deps = [":lib", "@pypi//pytest"],
    )
    for path in glob(["tests/**/*_test.py"])
]
"""
_PATHS = [
  'LICENSE',
  'scripts/demo.py',
  'setup.py',
  'tests/a_test.py',
  'tests/mcmc/b_test.py',
  'tfp_reprior/a.py',
  'tfp_reprior/mcmc/b.py',
]


def test_targets_that_fit_have_no_problems():
  targets = evaluate(_GOOD, _PATHS)
  assert [x.name for x in targets] == ['lib', 'demo', 'a_test', 'mcmc_b_test']
  assert targets[0].srcs == ['tfp_reprior/a.py', 'tfp_reprior/mcmc/b.py']
  assert targets[0].data == ['LICENSE']
  assert not find_problems(targets, _PATHS)


@pytest.mark.parametrize(
  ('old', 'new', 'problem'),
  [
    ('tfp_reprior/**/*.py', 'tfp_reprior/*.py', 'mcmc/b.py must be in one py_library'),
    ('tests/**/*_test.py', 'tests/*_test.py', 'tests/mcmc/b_test.py must be in one py_test'),
    ('py_binary(', 'py_library(', 'scripts/demo.py must be in one py_binary'),
    ('tfp_reprior/**/*.py', '**/*.py', "It is in ['lib', 'demo']"),
    ('.replace("/", "_")', '.split("/")[-1][1:]', '2 targets are called _test.'),
    ('srcs = ["scripts/demo.py"]', 'srcs = ["scripts/dem.py"]', 'scripts/dem.py, which is no file'),
    ('main = "scripts/demo.py"', 'main = "scripts/dem.py"', 'scripts/dem.py, which is no file'),
    ('glob(["**"], ["**/*.py"])', '["LICENCE"]', 'LICENCE, which is no file'),
    ('deps = [":lib"])', 'deps = [":li"])', 'demo depends on :li, which is no target'),
    ('main_module = "pytest",', '', 'a_test must run pytest on its one file'),
    ('args = [path],', '', 'a_test must run pytest on its one file'),
  ],
)
def test_each_problem_is_found(old, new, problem):
  assert _GOOD.count(old) == 1
  problems = find_problems(evaluate(_GOOD.replace(old, new), _PATHS), _PATHS)
  assert any(problem in x for x in problems), problems


def test_patterns_without_a_file_are_refused():
  with pytest.raises(ValueError, match='`glob` must match a file'):
    evaluate(_GOOD, ['scripts/demo.py'])


def test_problems_of_the_lock_are_found():
  lock = parse_lock(
    "# uv\nTf_Keras==2.21.0 \\\n    --hash=sha256:0\ntqdm==4.70.1 ; python == '3'\n"
  )
  assert lock == {'tf-keras': '2.21.0', 'tqdm': '4.70.1'}
  assert not find_lock_problems(lock, ['tf_keras>=2.18,<2.22', 'tqdm'], {'tqdm'})
  problems = find_lock_problems(lock, ['tf-keras<2.21', 'keras'], {'scipy'})
  assert problems == [
    'BUILD names @pypi//scipy, which is not locked.',
    'setup.py asks for tf-keras<2.21. The lock has 2.21.0.',
    'setup.py asks for keras. The lock has None.',
  ]
