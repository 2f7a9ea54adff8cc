"""What tests of plots share."""

import re

import pytest


@pytest.fixture
def tick_labels():
  """Function that lists the text in a `Plot`."""
  return lambda plot: re.findall(r'<text[^>]*>([^<]*)</text>', plot.content)
