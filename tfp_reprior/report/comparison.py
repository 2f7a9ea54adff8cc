"""The comparison of several runs on the report page."""

import math

from tfp_reprior.diagnostics import verdict
from tfp_reprior.plots import mixing, svg
from tfp_reprior.report import measures, numbers


def section(runs):
  """What `templates/comparison.html` shows: runs against the first, with verdicts and plots."""
  return _verdict(runs) | _table(runs) | {'plots': _plots(runs)}


def _verdict(runs):
  """The verdicts in brief, and by how much the runs differ."""
  first, *others = runs
  failed = dict.fromkeys(run.label for run in runs if run.is_failed)
  if failed:
    headline = f'{" and ".join(failed)} failed: do not use these draws.'
  else:
    headline = ' · '.join(f'{run.label}: {run.verdict.headline}' for run in runs)
  compared = [run for run in others if not _refusal(run, first)]
  ratios = [text for text in (_ratios(run, first) for run in compared) if text]
  text = (
    f'Effective samples per second against {first.label}: {"; ".join(ratios)}. ' if ratios else ''
  )
  refusals = dict.fromkeys(_refusal(run, first) for run in others)
  text += ' '.join(f'{r[0].upper()}{r[1:]}.' for r in refusals if r)
  return {
    'level': max((run.verdict.level for run in runs), key=verdict.LEVELS.index),
    'headline': headline,
    'reasons': [f'{run.label}: {r.text}' for run in runs for r in run.verdict.reasons[:1]],
    'text': text,
  }


def _ratios(run, first):
  """By how much the speeds of two runs differ; empty if they have nothing in common."""
  ratios = []
  for name in (n for n in measures.DRAWN if n in run.ess and n in first.ess):
    known = measures.ess_names('second', name, len(run.ess[name]))[0]
    ratios.append(f'{_ratio(run, first, known)} ({verdict.NAMES[name]})')
  return f'{run.label} {", ".join(ratios)}' if ratios else ''


def _table(runs):
  """All figures, and their ratios to those of the first run."""
  first, *others = runs
  head = ['', first.label]
  for run in others:
    head += [run.label, _refusal(run, first) or 'ratio']
  rows = []
  for name in dict.fromkeys(name for run in runs for name in run.figures):
    show = numbers.r_hat if name.startswith('R-hat') else numbers.figure
    cells = [show(first.figures.get(name))]
    for run in others:
      ratio = '' if _refusal(run, first) else _ratio(run, first, name)
      cells += [show(run.figures.get(name)), ratio]
    rows.append((name[0].upper() + name[1:], cells))
  return {'head': head, 'rows': rows}


def _plots(runs):
  plots = []
  labels = [f'{run.label} (failed)' if run.is_failed else run.label for run in runs]
  for name in measures.DRAWN:
    what = verdict.NAMES[name]
    for unit in ('step', 'second'):
      sizes = [run.ess_per(unit).get(name, ()) for run in runs]
      groups = list(zip(labels, sizes, strict=True))
      plots.append(mixing.effective_sample_sizes(f'ESS per {unit}, {what}', groups, unit))
    groups = [run.r_hat_group(name, label) for run, label in zip(runs, labels, strict=True)]
    if any(draws is not None for _, draws, _ in groups):
      plots.append(mixing.r_hat(f'R-hat of {what}', groups))
  return [svg.plot(plot) for plot in plots if plot is not None]


def _refusal(run, first):
  """Why two runs are not compared; empty if they are."""
  failed = dict.fromkeys(r.label for r in (first, run) if r.is_failed)
  return f'not compared: {" and ".join(failed)} failed' if failed else ''


def _ratio(run, first, name):
  value, reference = (r.figures.get(name, math.nan) for r in (run, first))
  if not (math.isfinite(value) and math.isfinite(reference) and reference):
    return '–'
  if 'log likelihood' in name:
    return f'{value - reference:+#.3g}'
  return f'×{numbers.figure(value / reference)}'
