"""The rooms of the package: modules import from rooms above their own, and from no others."""

import ast
import pathlib
import re

import pytest

import tfp_reprior

ROOT = pathlib.Path(__file__).resolve().parents[1]
PACKAGE = ROOT / 'tfp_reprior'


def read_order(text):
  """The rooms in the picture of CONTRIBUTING.md, from top to bottom."""
  picture = text.split('```none\n')[1].split('```')[0]
  return re.findall(r'^(\w+)/? ', picture, re.MULTILINE)


def imported(source):
  """The rooms that a module imports from anywhere in it, or reaches by `tfr`."""
  rooms = set()
  for node in ast.walk(ast.parse(source)):
    names = []
    if isinstance(node, ast.ImportFrom) and node.module:
      names = [f'{node.module}.{alias.name}' for alias in node.names]
    elif isinstance(node, ast.Import):
      names = [alias.name for alias in node.names]
    elif isinstance(node, ast.Attribute) and getattr(node.value, 'id', '') == 'tfr':
      names = [f'tfp_reprior.{tfp_reprior._NAMES.get(node.attr, node.attr)}']
    rooms |= {name.split('.')[1] for name in names if name.startswith('tfp_reprior.')}
  return rooms - {'version', '__version__'}


def graph():
  """Dict from each room to the rooms that it imports from, others than itself."""
  edges = {}
  for path in sorted(PACKAGE.rglob('*.py')):
    relative = path.relative_to(PACKAGE)
    if relative.name in ('__main__.py', 'version.py') or relative.parts == ('__init__.py',):
      continue
    room = relative.parts[0].removesuffix('.py')
    edges.setdefault(room, set()).update(imported(path.read_text()) - {room})
  return edges


def back_edges(order, edges):
  """Pairs of a room and one that it imports from, but that is not above it."""
  place = {room: i for i, room in enumerate(order)}
  return [(a, b) for a in order for b in sorted(edges[a]) if place[b] >= place[a]]


def drawn(order, edges):
  """The graph as text: a row for each room, with a mark below each that it imports from."""
  rows = [
    f'{room:14}' + ''.join('x' if above in edges[room] else '.' for above in order[:i])
    for i, room in enumerate(order)
  ]
  return '\n'.join(rows)


def test_modules_import_from_rooms_above_only():
  order, edges = read_order((ROOT / 'CONTRIBUTING.md').read_text()), graph()
  assert sorted(order) == sorted(edges)  # the picture shows every room, once
  assert not back_edges(order, edges), drawn(order, edges)


def test_a_back_edge_is_noticed():
  edges = {'internal': {'mcmc'}, 'mcmc': {'internal'}}
  assert back_edges(['internal', 'mcmc'], edges) == [('internal', 'mcmc')]


@pytest.mark.parametrize(
  'source',
  [
    'from tfp_reprior.mcmc import integrators',
    'from tfp_reprior import mcmc',
    'import tfp_reprior.mcmc.integrators',
    'def f():\n  from tfp_reprior.mcmc.kernel import accept',
    'import tfp_reprior as tfr\ntfr.mcmc.Jittered',
  ],
)
def test_imports_are_seen(source):
  assert imported(source) == {'mcmc'}


def test_names_at_the_top_are_seen_as_of_their_rooms():
  assert imported('import tfp_reprior as tfr\ntfr.sample_posterior(model)') == {'sampling'}


def test_rooms_hold_two_modules_or_more():
  for folder in PACKAGE.iterdir():
    if folder.is_dir() and folder.name != '__pycache__':
      assert len([p for p in folder.glob('*.py') if p.name != '__init__.py']) >= 2, folder.name
