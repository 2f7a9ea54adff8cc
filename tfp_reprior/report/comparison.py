"""The comparison of several runs on the report page."""

import html
import math

from tfp_reprior.diagnostics import verdict
from tfp_reprior.report import elements, measures, mixing_plots


def section(runs):
  """Runs against the first: verdicts in brief, figures with their ratios, and plots. HTML."""
  first, *others = runs
  head = ['', html.escape(first.label)]
  for run in others:
    head += [html.escape(run.label), html.escape(_refusal(run, first)) or 'ratio']
  rows = []
  for name in dict.fromkeys(name for run in runs for name in run.figures):
    show = elements.r_hat if name.startswith('R-hat') else elements.figure
    cells = [show(first.figures.get(name))]
    for run in others:
      ratio = '' if _refusal(run, first) else _ratio(run, first, name)
      cells += [show(run.figures.get(name)), ratio]
    rows.append((name[0].upper() + name[1:], cells))
  plots = []
  labels = [f'{run.label} (failed)' if run.is_failed else run.label for run in runs]
  for name in measures.DRAWN:
    what = verdict.NAMES[name]
    if any(name in run.names for run in runs):
      for unit in ('step', 'second'):
        sizes = [run.ess_per(unit).get(name, ()) for run in runs]
        groups = list(zip(labels, sizes, strict=True))
        plots.append(mixing_plots.effective_sample_sizes(f'ESS per {unit}, {what}', groups, unit))
      groups = [
        mixing_plots.draws_of(run, label, name) for run, label in zip(runs, labels, strict=True)
      ]
      if any(draws is not None for _, draws, _ in groups):
        plots.append(mixing_plots.r_hat(f'R-hat of {what}', groups))
  return (
    _headline(runs)
    + f'<div class="card">{elements.table("Runs compared", head, rows)}<p class="note">'
    'Ratios are to the first run; of log-likelihoods, differences. ESS is per step of one chain, '
    'and per second of all chains together.</p></div><h3>Mixing side by side</h3>'
    + elements.grid(plots)
  )


def _refusal(run, first):
  """Why two runs are not compared; empty if they are."""
  failed = dict.fromkeys(r.label for r in (first, run) if r.is_failed)
  return f'not compared: {" and ".join(failed)} failed' if failed else ''


def _headline(runs):
  """The verdicts in brief, and by how much the runs differ."""
  first, *others = runs
  worst = max((run.verdict.level for run in runs), key=verdict.LEVELS.index)
  failed = dict.fromkeys(run.label for run in runs if run.is_failed)
  if failed:
    headline = f'{" and ".join(failed)} failed: do not use these draws.'
  else:
    headline = ' · '.join(f'{run.label}: {run.verdict.headline}' for run in runs)
  reasons = [f'{run.label}: {r.text}' for run in runs for r in run.verdict.reasons[:1]]
  text = ''
  for what in (verdict.NAMES[n] for n in measures.DRAWN):
    name = f'ESS per second, {what}, median'
    known = [run for run in others if name in run.figures and not _refusal(run, first)]
    if known:
      ratios = ', '.join(f'{run.label} {_ratio(run, first, name)}' for run in known)
      text += f'{name}, against {first.label}: {ratios}. '
  refusals = dict.fromkeys(_refusal(run, first) for run in others)
  text += ' '.join(f'{r[0].upper()}{r[1:]}.' for r in refusals if r)
  return elements.verdict(worst, headline, reasons, text)


def _ratio(run, first, name):
  value, reference = (r.figures.get(name, math.nan) for r in (run, first))
  if not (math.isfinite(value) and math.isfinite(reference) and reference):
    return '–'
  return (
    f'{value - reference:+#.3g}'
    if 'log likelihood' in name
    else f'×{elements.figure(value / reference)}'
  )
