"""What is said about the package outside of it: setup.py, sdist, site, workflow."""

import pathlib
import re
import sys

import pytest

import tfp_reprior as tfr

ROOT = pathlib.Path(__file__).resolve().parents[1]


def test_links_and_pictures_of_readme_work_elsewhere(setup):
  before = re.findall(r'\]\(([^)]+)\)', (ROOT / 'README.md').read_text())
  after = re.findall(r'\]\(([^)]+)\)', setup['long_description'])
  assert len(before) == len(after) > 20
  for old, new in zip(before, after, strict=True):
    if not re.match('https:|#', old):
      kind = 'raw' if old.endswith('.png') else 'blob'
      assert new == f'{setup["url"]}/{kind}/main/{old}'
      assert (ROOT / old.partition('#')[0]).is_file()


def test_all_name_one_repository(setup):
  for path in ('mkdocs.yml', 'CITATION.cff', 'docs/notebooks.md'):
    text = (ROOT / path).read_text()
    assert setup['url'].removeprefix('https://github.com/') in text, path
    for other in re.findall(r'https://github\.com/[\w-]+/[\w-]+', text):
      assert other == setup['url'], path


def test_all_name_one_version(setup):
  assert f'version: {setup["version"]}\n' in (ROOT / 'CITATION.cff').read_text()
  assert f'## {setup["version"]} - ' in (ROOT / 'CHANGELOG.md').read_text()


def test_pages_that_order_names_have_all_of_them():
  for path in (ROOT / 'docs/reference').glob('*.md'):
    text = path.read_text()
    if names := re.findall(r'^ {8}- (\w+)$', text, re.M):
      (room,) = re.findall(r'^::: tfp_reprior\.(\w+)$', text, re.M)
      assert sorted(names) == sorted(getattr(tfr, room).__all__), path


def test_the_sdist_takes_files_that_exist():
  names = []
  for line in (ROOT / 'MANIFEST.in').read_text().splitlines():
    if line.startswith(('include', 'graft')):
      names += line.split()[1:]
  assert {'CHANGELOG.md', 'docs', 'tests'} <= set(names)
  assert all((ROOT / name).exists() for name in names)


def test_the_workflow_tests_the_pythons_of_the_classifiers(setup):
  text = (ROOT / '.github/workflows/test.yml').read_text()
  matrix = re.findall(r"'(3\.\d+)'", re.search(r'python-version: (\[.*\])', text).group(1))
  assert [f'Programming Language :: Python :: {version}' for version in matrix] == [
    x for x in setup['classifiers'] if re.search(r':: 3\.\d+$', x)
  ]
  for script in re.findall(r'bash (scripts/\S+)', text):
    assert (ROOT / script).is_file()


def test_the_lowest_versions_are_those_of_setup(setup):
  needed = setup['install_requires'] + setup['extras_require']['plot']
  lowest = dict(re.findall(r'^([\w-]+)>=([\d.]+)', '\n'.join(needed), re.M))
  pins = re.findall(
    r'^([\w-]+)==([\d.]+)', (ROOT / 'scripts/lowest_versions.txt').read_text(), re.M
  )
  assert set(dict(pins)) <= set(lowest)
  assert all(version.removesuffix('.0') == lowest[name] for name, version in pins)


def test_extras_are_those_that_errors_and_pages_name(setup):
  text = '\n'.join(
    path.read_text()
    for path in [*ROOT.glob('tfp_reprior/**/*.py'), *ROOT.glob('*.md'), *ROOT.glob('docs/*.md')]
  )
  named = {
    extra
    for group in re.findall(r'(?:tfp-reprior|\.)\[([a-z,]+)\]', text)
    for extra in group.split(',')
  }
  assert {'data', 'plot', 'tfds'} <= named <= set(setup['extras_require'])


def test_a_name_that_needs_tensorflow_datasets_says_so_without_it(monkeypatch):
  monkeypatch.setitem(sys.modules, 'tensorflow_datasets', None)
  message = r"which is not installed: pip install tfp-reprior\[tfds\]. Received: name='cifar10'"
  with pytest.raises(tfr.errors.MissingPackageError, match=message):
    tfr.data.load('cifar10')
