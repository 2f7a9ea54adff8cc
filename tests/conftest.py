"""Fixtures that several tests share."""

import signal

import pytest

import tfp_reprior as tfr


def pytest_configure():
  # A shell that starts the tests in the background has them ignore Ctrl-C, which some send.
  signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def compilation_policy():
  """`tfr.compilation.set_policy`, undone after the test."""
  before = tfr.compilation.get_policy()
  yield tfr.compilation.set_policy
  tfr.compilation.set_policy(before)
