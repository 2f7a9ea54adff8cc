"""How the page writes numbers."""

import math


def figure(value):
  """A measured number, to three digits."""
  if value is None or math.isnan(value):
    return '–'
  return f'{value:,.0f}' if abs(value) >= 100 else f'{value:#.3g}'


def r_hat(value):
  """A value of R-hat, to three decimals; that of chains that stand still is huge."""
  if value is None or math.isnan(value):
    return '–'
  return f'{value:.3f}' if value < 100 else 'over 100'
