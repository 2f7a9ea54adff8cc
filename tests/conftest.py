"""Fixtures that several tests share."""

import pytest

import tfp_reprior as tfr


@pytest.fixture
def compilation_policy():
  """`tfr.compilation.set_policy`, undone after the test."""
  before = tfr.compilation.get_policy()
  yield tfr.compilation.set_policy
  tfr.compilation.set_policy(before)
