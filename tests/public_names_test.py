"""What users see of the package: its public names, their docstrings, examples and types."""

import functools
import inspect
import pathlib
import types

import pytest

import tfp_reprior as tfr

ROOMS = [name for name in tfr.__all__ if inspect.ismodule(getattr(tfr, name))]

# Names without an example of their own, and the name whose example shows them.
SHOWN_ELSEWHERE = {
  'diagnostics.Mixing': 'measure',
  'diagnostics.Reason': 'judge',
  'diagnostics.Verdict': 'judge',
  'sampling.Block': 'Warmup.table',  # which the example of `warm_up` prints
  'sampling.ClassPrediction': 'CategoricalPrediction',  # it is abstract
  'sampling.Warmup': 'warm_up',
}


def public_names():
  """Classes and functions by name, with their rooms; those at the top are in a room as well."""
  for room in ROOMS:
    module = getattr(tfr, room)
    for name in module.__all__:
      if isinstance(getattr(module, name), (type, types.FunctionType)):
        yield f'{room}.{name}', getattr(module, name)


NAMES = dict(public_names())


def functions(value):
  """The functions that a user may call: itself, or the constructor, methods and properties."""
  if not isinstance(value, type):
    return {value.__qualname__: value}
  found = {}
  for cls in value.__mro__:
    if not cls.__module__.startswith('tfp_reprior'):
      continue
    for name, member in vars(cls).items():
      if isinstance(member, property):
        member = member.fget
      elif isinstance(member, functools.cached_property):
        member = member.func
      elif isinstance(member, (classmethod, staticmethod)):
        member = member.__func__
      # Not what a dataclass or named tuple writes, nor the default of a field.
      is_ours = getattr(member, '__module__', None) == cls.__module__ and (
        member.__qualname__ == f'{cls.__qualname__}.{name}'
      )
      is_public = not name.startswith('_') or name in ('__init__', '__call__')
      if isinstance(member, types.FunctionType) and is_ours and is_public:
        found[member.__qualname__] = member
  return found


def untyped(fn):
  """The parameters of a function that have no type, and `'return'`."""
  signature = inspect.signature(fn)
  missing = [
    name
    for name, parameter in signature.parameters.items()
    if parameter.annotation is parameter.empty and name not in ('self', 'cls')
  ]
  has_return = signature.return_annotation is not signature.empty
  return missing if has_return else [*missing, 'return']


def test_there_are_rooms_and_names():
  assert len(ROOMS) >= 14 and len(NAMES) >= 70
  assert {'mcmc.Jittered', 'sampling.sample_posterior', 'compilation.fuse'} <= set(NAMES)


def test_the_package_shows_its_public_names_only():
  assert dir(tfr) == sorted(tfr.__all__)


@pytest.mark.parametrize('room', ROOMS)
def test_a_room_shows_its_public_names_only(room):
  module = getattr(tfr, room)
  assert dir(module) == sorted(module.__all__) and len(set(module.__all__)) == len(module.__all__)
  assert all(hasattr(module, name) for name in module.__all__)


def test_names_at_the_top_are_those_of_rooms():
  at_the_top = [getattr(tfr, name) for name in tfr.__all__ if name not in (*ROOMS, '__version__')]
  assert at_the_top and all(any(value is v for v in NAMES.values()) for value in at_the_top)


@pytest.mark.parametrize('name', NAMES)
def test_a_public_name_has_a_docstring_with_an_example(name):
  text = inspect.cleandoc(NAMES[name].__doc__ or '')
  # A dataclass or named tuple without one gets its signature.
  assert text and not text.startswith(f'{name.split(".")[1]}(')
  if name in SHOWN_ELSEWHERE:
    assert '```python' not in text, 'it needs no exception'
    assert f'{SHOWN_ELSEWHERE[name]}`' in text
  else:
    assert '#### Examples\n' in text and '```python\n' in text.split('#### Examples\n')[1]


@pytest.mark.parametrize('name', NAMES)
def test_public_signatures_have_types(name):
  missing = {key: untyped(fn) for key, fn in functions(NAMES[name]).items()}
  missing = {key: names for key, names in missing.items() if names}
  assert not missing


def test_a_missing_type_is_noticed():
  def half(x: int, y):
    return x + y

  class Example:
    def __init__(self, x) -> None:
      self.x = x

    @property
    def y(self):
      return self.x

  Example.__module__ = Example.__init__.__module__ = Example.y.fget.__module__ = 'tfp_reprior'
  assert untyped(half) == ['y', 'return']
  assert [untyped(fn) for fn in functions(Example).values()] == [['x'], ['return']]


def test_the_package_says_that_it_has_types():
  assert (pathlib.Path(tfr.__file__).parent / 'py.typed').exists()
