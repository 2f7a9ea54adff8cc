"""Fixtures that several tests share."""

import gc
import os
import pathlib
import signal
import sys
import types

import pytest

import tfp_reprior as tfr

gc.disable()  # while TensorFlow and the tests are imported, which are never collected

# Tests are small and run side by side: more threads of TensorFlow would only wait. Processes with
# several devices need them, and have the environment `script_modules.several_threads()`.
for _name in ('TF_NUM_INTEROP_THREADS', 'TF_NUM_INTRAOP_THREADS'):
  os.environ.setdefault(_name, '1')


def pytest_configure():
  # A shell that starts the tests in the background has them ignore Ctrl-C, which some send.
  signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish():
  gc.freeze()  # there is no use in looking at them later, either
  gc.enable()
  gc.set_threshold(50_000, 10, 10)  # nor often at graphs while they are traced


def pytest_collection_modifyitems(items):
  # Runs of tests are short. Not among the filters of pyproject.toml, which would import the
  # package, and TensorFlow, in the process that only hands out the tests.
  for item in items:
    item.add_marker(pytest.mark.filterwarnings('ignore::tfp_reprior.diagnostics.SamplingWarning'))


def pytest_runtest_setup(item):
  import tensorflow as tf  # not in the process that only hands out the tests

  # TensorFlow rewrites a graph before its first run. That takes a third of the time of most tests,
  # whose graphs run once. `graph_optimizer_test.py` shows that it changes nothing but rounding, and
  # what is marked runs as users run it.
  is_plain = not any(item.iter_markers('optimized')) and not any(item.iter_markers('slow'))
  if tf.config.optimizer.get_experimental_options().get('disable_meta_optimizer') != is_plain:
    tf.config.optimizer.set_experimental_options({'disable_meta_optimizer': is_plain})


def pytest_sessionfinish(session, exitstatus):
  # Bazel runs pytest once for each file. A file of slow tests only has not failed if none ran.
  reporter = session.config.pluginmanager.get_plugin('terminalreporter')
  is_empty = exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED
  if 'TEST_TARGET' in os.environ and is_empty and reporter.stats.get('deselected'):
    session.exitstatus = pytest.ExitCode.OK


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item, nextitem):
  result = yield
  if nextitem is None or nextitem.path != item.path:
    gc.collect()  # graphs, of which the collector does not know how large they are
    gc.freeze()  # what other files share
  return result


@pytest.fixture
def no_drawings(monkeypatch):
  """Pages without drawings, which take most of their time."""
  from tfp_reprior.plots import svg

  def plot(picture):
    label = f'{picture.title}: {picture.legend}'
    return svg.Plot(picture.title, [], label, '0 0 1 1', '', picture.caption)

  monkeypatch.setattr(svg, 'plot', plot)


@pytest.fixture
def compilation_policy():
  """`tfr.compilation.set_policy`, undone after the test."""
  before = tfr.compilation.get_policy()
  yield tfr.compilation.set_policy
  tfr.compilation.set_policy(before)


@pytest.fixture
def setup(monkeypatch):
  """The arguments of `setuptools.setup` in setup.py."""
  arguments = {}
  fake = types.SimpleNamespace(find_packages=lambda **_: [])
  fake.setup = lambda **x: arguments.update(x)
  monkeypatch.setitem(sys.modules, 'setuptools', fake)
  path = pathlib.Path(__file__).resolve().parents[1] / 'setup.py'
  exec(compile(path.read_text(), 'setup.py', 'exec'), {'__file__': str(path)})
  return arguments
