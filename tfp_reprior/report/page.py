"""The report page."""

import html
import math
import pathlib

import numpy as np

from tfp_reprior.diagnostics import verdict
from tfp_reprior.internal import files
from tfp_reprior.report import (
  comparison,
  elements,
  measures,
  mixing_plots,
  prediction_plots,
  style,
)
from tfp_reprior.sampling import prediction
from tfp_reprior.version import __version__

_MAX_CHAINS = 12  # in a table


def write_report(results, path, names=None):
  """Writes a page of HTML about one run or several: verdict, settings, mixing, predictions.

  The page needs no other file, no network and no script. To write it takes matplotlib
  (`pip install tfp-reprior[plot]`).

  Args:
    results: List of `tfp_reprior.sampling.Result`. Several are compared with the first.
    path: The file to write, `.html`.
    names: List of what to call them; by default, their models and samplers.

  Returns:
    The path.

  #### Examples

  ```python
  import tempfile

  import numpy as np
  import tfp_reprior as tfr

  x = np.linspace(-1, 1, 10, dtype=np.float32)[:, np.newaxis]
  result = tfr.sample_posterior(tfr.models.fcn((1,), 1, width=16), x, np.sin(3 * x), num_chains=2,
    num_results=20, num_burnin_steps=10, step_size=0.1, progress=False)
  with tempfile.TemporaryDirectory() as folder:
    tfr.report.write_report([result], f'{folder}/report.html')
  ```
  """
  results = list(results)
  if not results:
    raise ValueError('`results` must hold one result or more. Received: results=[]')
  if names is None:
    names = [f'{r.settings["model"]}, {r.settings["sampler"]}' for r in results]
    if len(set(names)) < len(names):
      names = [f'{i}. {name}' for i, name in enumerate(names, 1)]
  if len(names) != len(results):
    raise ValueError(
      f'`names` must hold a name for each of the {len(results)} results. Received: names={names}'
    )
  runs = [measures.Run(result, str(name)) for result, name in zip(results, names, strict=True)]
  page = _page(runs).encode()
  files.write_atomically(path, lambda file: file.write(page))
  return pathlib.Path(path)


def _page(runs):
  sections = {f'run-{i}': (run.label, _run(run)) for i, run in enumerate(runs, 1)}
  nav = ''
  if len(runs) > 1:
    sections = {'comparison': ('Comparison', comparison.section(runs)), **sections}
    links = (f'<a href="#{i}">{html.escape(label)}</a>' for i, (label, _) in sections.items())
    nav = f'<nav aria-label="Sections">{"".join(links)}</nav>'
  body = ''.join(
    f'<section><h2 id="{i}">{html.escape(label)}</h2>{content}</section>\n'
    for i, (label, content) in sections.items()
  )
  return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Posterior sampling: {html.escape(', '.join(run.label for run in runs))}</title>
<style>{style.CSS}</style>
</head>
<body>
<header><h1>Posterior sampling</h1>{nav}</header>
<main>
{body}</main>
<footer><p>Bulk and tail effective sample size (ESS) and R-hat are of all chains together, split in
halves and rank-normalized, as in Vehtari et al. (2021). Weights and outputs at the test inputs are
seen through random one-dimensional projections, as in Hron et al. (2022), and so are the curves of
R-hat² − 1: the variance between chains over the mean variance within a chain. Written by
tfp_reprior {__version__}.</p></footer>
</body>
</html>
"""


def _run(run):
  judged = run.verdict
  reasons = [reason.text for reason in judged.reasons]
  parts = [
    elements.verdict(judged.level, judged.headline, reasons, ' '.join(judged.advice)),
    _tiles(run),
  ]
  parts += ['<h3>Settings</h3>', _settings(run), _tables(run), _warmup(run)]
  parts += ['<h3>Mixing</h3>', _mixing(run)]
  if run.names:
    plots = []
    for unit in ('step', 'second'):
      groups = [(verdict.NAMES[name], ess) for name, ess in run.ess_per(unit).items()]
      plots.append(mixing_plots.effective_sample_sizes(f'ESS per {unit}', groups, unit))
    if run.result.num_chains > 1:
      groups = [mixing_plots.draws_of(run, verdict.NAMES[name], name) for name in run.names]
      plots.append(mixing_plots.r_hat('R-hat against steps', groups))
    parts.append(elements.grid(plots))
  # A column for each name, and one for the sampler.
  columns = [
    *(mixing_plots.projections(run, name) for name in run.names),
    mixing_plots.histories(run),
  ]
  parts += [
    '<h3>Chains</h3>',
    elements.grid([plot for row in zip(*columns, strict=True) for plot in row]),
  ]
  return ''.join(parts) + '<h3>Predictions</h3>' + _predictions(run)


_HEADLINE_METRICS = (
  'accuracy',
  'class negative log likelihood',
  'expected calibration error',
  *measures.METRICS.values(),
)


def _tiles(run):
  result = run.result
  tiles = [('draws × chains', f'{result.num_draws:,} × {result.num_chains}')]
  for name in run.names:
    mixing, what = run.verdict.mixing[name], verdict.NAMES[name]
    tiles.append((f'largest R-hat, {what}', elements.r_hat(mixing.r_hat)))
    tiles.append((f'smallest ESS, {what}', elements.figure(mixing.bulk_ess)))
  tiles.append(('mean acceptance', elements.figure(run.figures['acceptance, mean'])))
  name = 'milliseconds per step of all chains'
  tiles.append((name, elements.figure(run.figures[name])))
  for name in _HEADLINE_METRICS:
    if name in run.metrics and len(tiles) < 12:
      tiles.append((f'test {name}', elements.figure(run.metrics[name])))
  items = ''.join(f'<div class="tile"><dt>{n}</dt><dd>{value}</dd></div>' for n, value in tiles)
  return f'<dl class="tiles">{items}</dl>'


def _settings(run):
  items = []
  for name, value in run.result.settings.items():
    if isinstance(value, dict):
      value = ', '.join(f'{k} {v}' for k, v in value.items())
    elif isinstance(value, (list, tuple)):
      value = ', '.join(map(str, value))
    text = f'{value:.5g}' if isinstance(value, float) else str('none' if value is None else value)
    size = ' class="wide"' if len(text) > 20 else ''
    items.append(f'<div{size}><dt>{name.replace("_", " ")}</dt><dd>{html.escape(text)}</dd></div>')
  return f'<dl class="card settings">{"".join(items)}</dl>'


def _tables(run):
  """Time by phase, and figures on test data."""
  seconds = run.result.seconds
  total = sum(seconds.values()) or math.inf
  rows = [(phase, [f'{s:,.1f} s', f'{s / total:.0%}']) for phase, s in seconds.items()]
  cards = [('Time', elements.table('Time by phase', ['Phase', 'Time', 'Share'], rows))]
  if run.metrics:
    rows = [(name, [elements.figure(value)]) for name, value in run.metrics.items()]
    cards.append(('Test data', elements.table('Figures on test data', ['Figure', 'Value'], rows)))
  return elements.grid(
    [f'<div class="card"><h4>{title}</h4>{content}</div>' for title, content in cards]
  )


def _mixing(run):
  """How each kind of quantity mixed, and what each chain did."""
  result = run.result
  rows = []
  for name, m in run.verdict.mixing.items():
    per_step = 1000 * m.bulk_ess / (result.num_steps * result.num_chains)
    cells = [elements.r_hat(m.r_hat), *map(elements.figure, (m.bulk_ess, m.tail_ess, per_step))]
    rows.append((verdict.NAMES[name], cells))
  head = ['Slowest of', 'R-hat', 'Bulk ESS', 'Tail ESS', 'Bulk ESS per 1,000 steps']
  cards = [elements.table('Mixing of each kind of quantity', head, rows)] if rows else []
  acceptance = np.mean(result.trace['acceptance'], axis=0)
  level = np.mean(result.trace['log_likelihood'], axis=0)
  rows = [
    (f'chain {c + 1}', [elements.figure(acceptance[c]), elements.figure(level[c])])
    for c in range(min(_MAX_CHAINS, result.num_chains))
  ]
  note = ''
  if result.num_chains > _MAX_CHAINS:
    low, high = map(elements.figure, (np.min(acceptance), np.max(acceptance)))
    note = f'{result.num_chains} chains in all, with an acceptance from {low} to {high}.'
  head = ['', 'Mean acceptance', 'Mean log-likelihood']
  cards.append(elements.table('What each chain did', head, rows) + f'<p class="note">{note}</p>')
  return elements.grid([f'<div class="card">{content}</div>' for content in cards])


def _warmup(run):
  found = run.result.warmup
  if found is None:
    return ''
  rows = []
  for b in found.blocks:
    acceptance = f'{min(b.acceptance):.2f} to {max(b.acceptance):.2f}'
    counts = [str(b.num_integrator_steps), f'{b.num_transitions:,}', acceptance]
    measured = map(elements.figure, (b.log_likelihood, 1000 * b.ess_per_gradient))
    rows.append(
      (b.stage, [elements.figure(b.step_size), elements.figure(b.damping), *counts, *measured])
    )
  head = ['Stage', 'Step size', 'Damping', 'Steps', 'Transitions', 'Acceptance by chain']
  head += ['Log-likelihood', 'ESS per 1,000 gradients']
  summary = (
    f'Warm-up found step size {elements.figure(found.step_size)} with {found.num_gradients:,} '
    'gradients of each chain'
  )
  content = elements.table('Warm-up', head, rows)
  return f'<details class="card"><summary>{summary}</summary>{content}</details>'


def _predictions(run):
  if run.prediction is None:
    what = 'test inputs (x_test)' if run.result.x_test is None else 'kept draws'
    return f'<p class="note">There are no plots of predictions, because the run has no {what}.</p>'
  plots, y = [], run.y_test
  has_noise = isinstance(run.prediction, prediction.Prediction)
  if run.result.x_test.size == len(run.result.x_test):
    first = prediction_plots.bands if has_noise else prediction_plots.probabilities
    plots.append(first(run))
  if run.classes is not None:
    plots.append(prediction_plots.reliability(*run.classes))
    plots.append(prediction_plots.accuracy_of_surest(*run.classes))
    plots.append(prediction_plots.true_classes(*run.classes))
  elif y is not None:
    plots.append(prediction_plots.coverage(run.prediction, y))
  if y is not None and has_noise:
    plots.append(prediction_plots.errors(run.prediction, y))
  note = '' if y is not None else '<p class="note">The run has no test targets (y_test).</p>'
  return elements.grid(plots) + note
