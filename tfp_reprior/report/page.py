"""The report page."""

import html
import math
import pathlib

from tfp_reprior.internal import files
from tfp_reprior.report import measures, mixing_plots, prediction_plots, style
from tfp_reprior.sampling import prediction
from tfp_reprior.version import __version__


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
    sections = {'comparison': ('Comparison', _comparison(runs)), **sections}
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
<footer><p>Effective sample size (ESS) and R-hat are of random one-dimensional projections of the
weights and of the outputs at the test inputs, as in Hron et al. (2022): R-hat² is the variance of
all draws over the mean variance within a chain. Written by tfp_reprior {__version__}.</p></footer>
</body>
</html>
"""


def _comparison(runs):
  first, *others = runs
  head = ['', html.escape(first.label)]
  for run in others:
    head += [html.escape(run.label), 'ratio']
  rows = []
  for name in dict.fromkeys(name for run in runs for name in run.figures):
    cells = [_figure(first.figures.get(name))]
    for run in others:
      cells += [_figure(run.figures.get(name)), _ratio(run, first, name)]
    rows.append((name[0].upper() + name[1:], cells))
  plots = []
  for name, what in measures.NAMES.items():
    if any(name in run.names for run in runs):
      for unit in ('step', 'second'):
        groups = [(run.label, run.ess_per(unit).get(name, ())) for run in runs]
        plots.append(mixing_plots.effective_sample_sizes(f'ESS per {unit}, {what}', groups, unit))
      if any(name in run.r_hat for run in runs):
        plots.append(
          mixing_plots.r_hat(f'R-hat of {what}', [_draws(r, r.label, name) for r in runs])
        )
  return (
    _headline(runs)
    + f'<div class="card">{_table("Runs compared", head, rows)}<p class="note">Ratios are to the '
    'first run; of log-likelihoods, differences. ESS is per step of one chain, and per second of '
    'all chains together.</p></div><h3>Mixing side by side</h3>' + _grid(plots)
  )


def _headline(runs):
  """The verdicts in brief, and by how much the runs differ."""
  verdicts = [measures.verdict(run) for run in runs]
  worst = max((level for level, *_ in verdicts), key=measures.LEVELS.index)
  badges = [f'{run.label}: {badge}' for run, (_, badge, _) in zip(runs, verdicts, strict=True)]
  first, *others = runs
  text = (
    'The effective sample sizes are too large where chains disagree. ' if worst == 'bad' else ''
  )
  for what in measures.NAMES.values():
    name = f'ESS per second, {what}, median'
    ratios = ', '.join(f'{run.label} {_ratio(run, first, name)}' for run in others)
    if any(name in run.figures for run in others):
      text += f'{name}, against {first.label}: {ratios}. '
  return _verdict(worst, ' · '.join(badges), text)


def _run(run):
  level, badge, sentences = measures.verdict(run)
  parts = [_verdict(level, badge, ' '.join(sentences)), _tiles(run)]
  parts += ['<h3>Settings</h3>', _settings(run), _tables(run), _tuning(run)]
  if run.names:
    plots = []
    for unit in ('step', 'second'):
      groups = [(measures.NAMES[name], ess) for name, ess in run.ess_per(unit).items()]
      plots.append(mixing_plots.effective_sample_sizes(f'ESS per {unit}', groups, unit))
    if run.r_hat:
      groups = [_draws(run, measures.NAMES[name], name) for name in run.names]
      plots.append(mixing_plots.r_hat('R-hat against steps', groups))
    parts += ['<h3>Mixing</h3>', _grid(plots)]
  # A column for each name, and one for the sampler.
  columns = [
    *(mixing_plots.projections(run, name) for name in run.names),
    mixing_plots.histories(run),
  ]
  parts += ['<h3>Chains</h3>', _grid([plot for row in zip(*columns, strict=True) for plot in row])]
  return ''.join(parts) + '<h3>Predictions</h3>' + _predictions(run)


def _draws(run, label, name):
  draws = run.result.trace[name] if name in run.r_hat else None
  return label, draws, run.result.settings['thinning']


def _verdict(level, badge, text):
  return f'<div class="verdict {level}"><b>{html.escape(badge)}</b><p>{html.escape(text)}</p></div>'


_HEADLINE_METRICS = (
  'accuracy',
  'class negative log likelihood',
  'expected calibration error',
  *measures.METRICS.values(),
)


def _tiles(run):
  result = run.result
  tiles = [('draws × chains', f'{result.num_draws:,} × {result.num_chains}')]
  for name, what in measures.NAMES.items():
    if name in run.r_hat:
      tiles.append((f'largest R-hat, {what}', f'{run.r_hat[name].max():.3f}'))
    if name in run.ess:
      tiles.append((f'smallest ESS, {what}', _figure(run.ess[name].min())))
  tiles.append(('mean acceptance', _figure(run.figures['acceptance, mean'])))
  name = 'milliseconds per step of all chains'
  tiles.append((name, _figure(run.figures[name])))
  for name in _HEADLINE_METRICS:
    if name in run.metrics and len(tiles) < 10:
      tiles.append((f'test {name}', _figure(run.metrics[name])))
  items = ''.join(f'<div class="tile"><dt>{n}</dt><dd>{value}</dd></div>' for n, value in tiles)
  return f'<dl class="tiles">{items}</dl>'


def _settings(run):
  items = []
  for name, value in run.result.settings.items():
    if isinstance(value, dict):
      value = ', '.join(f'{k} {v}' for k, v in value.items())
    text = f'{value:.5g}' if isinstance(value, float) else str('none' if value is None else value)
    size = ' class="wide"' if len(text) > 20 else ''
    items.append(f'<div{size}><dt>{name.replace("_", " ")}</dt><dd>{html.escape(text)}</dd></div>')
  return f'<dl class="card settings">{"".join(items)}</dl>'


def _tables(run):
  """Time by phase, and figures on test data."""
  seconds = run.result.seconds
  total = sum(seconds.values()) or math.inf
  rows = [(phase, [f'{s:,.1f} s', f'{s / total:.0%}']) for phase, s in seconds.items()]
  cards = [('Time', _table('Time by phase', ['Phase', 'Time', 'Share'], rows))]
  if run.metrics:
    rows = [(name, [_figure(value)]) for name, value in run.metrics.items()]
    cards.append(('Test data', _table('Figures on test data', ['Figure', 'Value'], rows)))
  return _grid([f'<div class="card"><h4>{title}</h4>{content}</div>' for title, content in cards])


def _tuning(run):
  tuning = run.result.tuning
  if tuning is None:
    return ''
  rows = []
  for t in tuning.trials:
    note = 'chosen' if tuning.is_chosen(t) else '' if t.is_feasible else 'not allowed'
    measured = map(_figure, (t.acceptance, 1000 * t.ess_per_gradient))
    cells = [_figure(t.damping), str(t.num_integrator_steps), *measured, note]
    rows.append((_figure(t.step_size), cells))
  head = ['Step size', 'Damping', 'Steps', 'Acceptance', 'ESS per 1,000 gradients', '']
  return (
    f'<details class="card"><summary>Tuning chose step size {_figure(tuning.step_size)} '
    f'after {len(rows)} pilot runs</summary>{_table("Tuning", head, rows)}</details>'
  )


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
  return _grid(plots) + note


def _grid(items):
  return f'<div class="grid">{"".join(items)}</div>'


def _table(label, head, rows):
  """A table in a box that scrolls by itself. Rows are pairs of a heading and cells; all is HTML."""
  columns = ''.join(f'<th scope="col">{cell}</th>' for cell in head)
  body = ''.join(
    f'<tr><th scope="row">{name}</th>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>'
    for name, cells in rows
  )
  return (
    f'<div class="scroll" tabindex="0" role="region" aria-label="{label}"><table><thead><tr>'
    f'{columns}</tr></thead><tbody>{body}</tbody></table></div>'
  )


def _figure(value):
  """A measured number, to three digits."""
  if value is None or math.isnan(value):
    return '–'
  return f'{value:,.0f}' if abs(value) >= 100 else f'{value:#.3g}'


def _ratio(run, first, name):
  value, reference = run.figures.get(name), first.figures.get(name)
  if value is None or not reference:
    return '–'
  return (
    f'{value - reference:+#.3g}' if 'log likelihood' in name else f'×{_figure(value / reference)}'
  )
