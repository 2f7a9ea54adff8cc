"""Tables of the page, and how it writes numbers."""

import math
from typing import NamedTuple

import numpy as np

from tfp_reprior.diagnostics import verdict

_MAX_CHAINS = 12


class Table(NamedTuple):
  """Plain text for a table.

  Attributes:
    label: What it holds, for those who do not see it.
    head: List of headings.
    rows: List of pairs: a heading, and a list of cells.
    title: What to write above it.
    note: What to write below it.
  """

  label: str
  head: list
  rows: list
  title: str = ''
  note: str = ''


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


def time(result):
  """Time by phase."""
  total = sum(result.seconds.values()) or math.inf
  rows = [(phase, [f'{s:,.1f} s', f'{s / total:.0%}']) for phase, s in result.seconds.items()]
  return Table('Time by phase', ['Phase', 'Time', 'Share'], rows, title='Time')


def metrics(figures):
  """Figures on test data, a dict."""
  rows = [(name, [figure(value)]) for name, value in figures.items()]
  return Table('Figures on test data', ['Figure', 'Value'], rows, title='Test data')


def mixing(result):
  """How each kind of quantity mixed."""
  head = ['Slowest of', 'R-hat', 'Bulk ESS', 'Tail ESS', 'Bulk ESS per 1,000 steps']
  rows = []
  for name, m in result.verdict.mixing.items():
    per_step = 1000 * m.bulk_ess / (result.num_steps * result.num_chains)
    cells = [r_hat(m.r_hat), *map(figure, (m.bulk_ess, m.tail_ess, per_step))]
    rows.append((verdict.NAMES[name], cells))
  return Table('Mixing of each kind of quantity', head, rows)


def chains(result):
  """What each chain did."""
  acceptance = np.mean(result.trace['acceptance'], axis=0)
  level = np.mean(result.trace['log_likelihood'], axis=0)
  rows = [
    (f'chain {c + 1}', [figure(acceptance[c]), figure(level[c])])
    for c in range(min(_MAX_CHAINS, result.num_chains))
  ]
  note = ''
  if result.num_chains > _MAX_CHAINS:
    low, high = map(figure, (np.min(acceptance), np.max(acceptance)))
    note = f'{result.num_chains} chains in all, with an acceptance from {low} to {high}.'
  head = ['', 'Mean acceptance', 'Mean log-likelihood']
  return Table('What each chain did', head, rows, note=note)


def warmup(found):
  """What a `tfp_reprior.sampling.Warmup` tried."""
  rows = []
  for b in found.blocks:
    acceptance = f'{min(b.acceptance):.2f} to {max(b.acceptance):.2f}'
    counts = [str(b.num_integrator_steps), f'{b.num_transitions:,}', acceptance]
    measured = map(figure, (b.log_likelihood, 1000 * b.ess_per_gradient))
    rows.append((b.stage, [figure(b.step_size), figure(b.damping), *counts, *measured]))
  head = ['Stage', 'Step size', 'Damping', 'Steps', 'Transitions', 'Acceptance by chain']
  head += ['Log-likelihood', 'ESS per 1,000 gradients']
  title = (
    f'Warm-up found step size {figure(found.step_size)} with {found.num_gradients:,} gradients of '
    'each chain'
  )
  return Table('Warm-up', head, rows, title)
