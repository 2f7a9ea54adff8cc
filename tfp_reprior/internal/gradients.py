"""Custom gradients, which TensorFlow would keep, with their graphs, until the process ends."""

import contextlib
import inspect

try:
  # Of `tf.custom_gradient`, which registers a function for each place in a graph that it traces,
  # and never forgets one. There is no public way to it; without it, graphs only stay in memory.
  from tensorflow.python.framework import ops
except ImportError:
  ops = None

_registry = getattr(getattr(ops, 'gradient_registry', None), '_registry', {})
_PACKAGE = __name__.partition('.')[0]


@contextlib.contextmanager
def forgotten():
  """A context whose custom gradients of this package are forgotten when it ends.

  For graphs that are not differentiated any more after it: a run takes its gradients while it is
  traced. Without this the graphs of each run stay in memory, some 40 MB of a small one.
  """
  before = set(_registry)
  try:
    yield
  finally:
    for name in set(_registry) - before:
      if _is_ours(_registry[name]['type']):
        del _registry[name]


def _is_ours(gradient_fn):
  """Whether a function, or one that it refers to, was written here; others may still be needed."""
  inner = [v for v in inspect.getclosurevars(gradient_fn).nonlocals.values() if callable(v)]
  inner += [
    v
    for fn in inner
    if inspect.isfunction(fn)
    for v in inspect.getclosurevars(fn).nonlocals.values()
  ]
  return any(str(getattr(fn, '__module__', '')).partition('.')[0] == _PACKAGE for fn in inner)
