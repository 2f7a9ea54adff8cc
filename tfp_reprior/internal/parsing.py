"""Numbers from text, as everyone writes them, and nothing that only Python takes for a number.

`int` and `float` also take `1_000`, spaces around, and digits of other scripts.
"""

import re

from tfp_reprior import errors

_INTEGER = re.compile(r'[+-]?[0-9]{1,300}')
_NUMBER = re.compile(r'[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?')


def integer(text):
  """The integer that a text is, or a `ValueError`."""
  if not _INTEGER.fullmatch(text):
    raise errors.InputError(f'not an integer: {text!r}')
  return int(text)


def number(text):
  """The float that a text is, or a `ValueError`; those too large are infinite."""
  if not _NUMBER.fullmatch(text):
    raise errors.InputError(f'not a number: {text!r}')
  return float(text)


def is_finite_number(text):
  """Whether a text is a number that a float can hold."""
  try:
    return abs(number(text)) < float('inf')
  except ValueError:
    return False
