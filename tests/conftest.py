"""Fixtures that several tests share."""

import os
import signal

import pytest

import tfp_reprior as tfr


def pytest_configure():
  # A shell that starts the tests in the background has them ignore Ctrl-C, which some send.
  signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_sessionfinish(session, exitstatus):
  # Bazel runs pytest once for each file. A file of slow tests only has not failed if none ran.
  reporter = session.config.pluginmanager.get_plugin('terminalreporter')
  is_empty = exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED
  if 'TEST_TARGET' in os.environ and is_empty and reporter.stats.get('deselected'):
    session.exitstatus = pytest.ExitCode.OK


@pytest.fixture
def compilation_policy():
  """`tfr.compilation.set_policy`, undone after the test."""
  before = tfr.compilation.get_policy()
  yield tfr.compilation.set_policy
  tfr.compilation.set_policy(before)
