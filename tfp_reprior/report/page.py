"""The report page."""

import base64
import hashlib
import math
import pathlib
from collections.abc import Iterable, Sequence

import numpy as np

from tfp_reprior import errors
from tfp_reprior.diagnostics import verdict
from tfp_reprior.internal import checks, files
from tfp_reprior.internal.types import Path
from tfp_reprior.plots import mixing, of_results, svg
from tfp_reprior.report import comparison, measures, uncertain
from tfp_reprior.report.numbers import figure, r_hat
from tfp_reprior.sampling import result as result_lib
from tfp_reprior.version import __version__

_MAX_CHAINS = 12  # in a table
_MAX_METRICS = 4  # tiles of test figures
_CLASS_METRICS = ('accuracy', 'class negative log likelihood', 'expected calibration error')
_HEADLINE_METRICS = (*_CLASS_METRICS, *measures.METRICS.values())


def write_report(
  results: Sequence[result_lib.Result], path: Path, names: Sequence[str] | None = None
) -> pathlib.Path:
  """Writes a page of HTML about one run or several: verdict, predictions, mixing, settings.

  The page needs no other file, no network and no script. To write it takes matplotlib and
  Jinja2 (`pip install tfp-reprior[plot]`).

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
  model = tfr.models.fcn((1,), 1, width=16, depth=1)
  settings = dict(num_chains=2, num_results=20, num_burnin_steps=0, step_size=0.1)
  result = tfr.sample_posterior(model, x, np.sin(3 * x), **settings, progress=False)
  with tempfile.TemporaryDirectory() as folder:
    tfr.report.write_report([result], f'{folder}/report.html')
  ```
  """
  results = list(results) if isinstance(results, Iterable) else [None]
  if not results or not all(isinstance(r, result_lib.Result) for r in results):
    raise errors.InputError(
      f'`results` must hold one result or more, in a list. Received: results={results}'
    )
  target = checks.path('path', path)
  if not target.parent.is_dir() or (target.exists() and not target.is_file()):
    raise errors.InputError(
      f'`path` must be a file in a folder that exists. Received: path={str(path)!r}'
    )
  if names is None:
    names = [f'{r.settings["model"]}, {r.settings["sampler"]}' for r in results]
    if len(set(names)) < len(names):
      names = [f'{i}. {name}' for i, name in enumerate(names, 1)]
  if len(names) != len(results):
    raise errors.InputError(
      f'`names` must hold a name for each of the {len(results)} results. Received: names={names}'
    )
  runs = [measures.Run(result, str(name)) for result, name in zip(results, names, strict=True)]
  environment = _environment()  # first, because it fails without Jinja2
  sections = [_section(run) | {'id': f'run-{i}'} for i, run in enumerate(runs, 1)]
  compared = comparison.section(runs) if len(runs) > 1 else None
  style = environment.get_template('style.css').render()
  page = environment.get_template('page.html').render(
    sections=sections,
    comparison=compared,
    version=__version__,
    style=style,
    policy=_policy(style),
  )
  files.write_atomically(path, lambda file: file.write(page.encode()))
  return pathlib.Path(path)


def _policy(style):
  """What browsers let the page do: show its own style sheet and drawings, and nothing else."""
  digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
  return (
    f"default-src 'none'; style-src-elem 'sha256-{digest}'; style-src-attr 'unsafe-inline'; "
    'img-src data:; '  # images of the data, which are in the page itself
    "base-uri 'none'; form-action 'none'"
  )


def _environment():
  try:
    import jinja2  # kept out of `import tfp_reprior`
  except ImportError as e:
    raise errors.MissingPackageError(
      'The report needs Jinja2: pip install tfp-reprior[plot]'
    ) from e
  return jinja2.Environment(
    loader=jinja2.PackageLoader('tfp_reprior.report'),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
  )


def _section(run):
  """What `templates/run.html` shows: numbers as text, tables as pairs of a heading and cells."""
  result = run.result
  total = sum(result.seconds.values()) or math.inf
  acceptance, level = (np.mean(result.trace[n], axis=0) for n in ('acceptance', 'log_likelihood'))
  guilty = run.verdict.guilty_chains
  shown = sorted({*range(min(_MAX_CHAINS, result.num_chains)), *guilty[:_MAX_CHAINS]})
  return {
    'run': run,
    'tiles': _tiles(run),
    'settings': [(name.replace('_', ' '), _setting(v)) for name, v in result.settings.items()],
    'time': [(phase, [f'{s:,.1f} s', f'{s / total:.0%}']) for phase, s in result.seconds.items()],
    'metrics': [
      (name[0].upper() + name[1:], [figure(value), figure(run.baseline.get(name))])
      for name, value in run.metrics.items()
    ],
    'warmup': None if result.warmup is None else _warmup(result.warmup),
    'mixing': [
      (
        verdict.NAMES[n],
        [r_hat(m.r_hat), figure(m.bulk_ess), figure(m.tail_ess)],
      )
      for n, m in run.verdict.mixing.items()
    ],
    'acceptance': [figure(np.min(acceptance)), figure(np.max(acceptance))],
    'chains': [
      (f'chain {c + 1}{", at fault" * (c in guilty)}', [figure(acceptance[c]), figure(level[c])])
      for c in shown
    ],
    'mixing_plots': _drawn(_mixing_pictures(run)),
    'chain_plots': _drawn(_chain_pictures(run)),
    'prediction_plots': _drawn(_prediction_pictures(run)),
    'uncertain': uncertain.table(run),
  }


def _tiles(run):
  """Triples of a name, a number, and a note: test figures first, then mixing, then time."""
  known = [name for name in _HEADLINE_METRICS if name in run.metrics]
  tiles = [
    (f'test {name}', figure(run.metrics[name]), f'{run.baseline_name}: {figure(simple)}')
    for name, simple in ((name, run.baseline.get(name)) for name in known)
  ][:_MAX_METRICS]
  mixing = {n: m for n, m in run.verdict.mixing.items() if not math.isnan(m.bulk_ess)}
  if mixing:
    name = max(mixing, key=lambda n: mixing[n].r_hat)
    note = f'{verdict.NAMES[name]}; {verdict.GOOD_R_HAT} is good'
    tiles.append(('largest R-hat', r_hat(mixing[name].r_hat), note))
    name = min(mixing, key=lambda n: mixing[n].bulk_ess)
    note = f'{verdict.NAMES[name]}; {verdict.GOOD_ESS} are good'
    tiles.append(('fewest effective samples', figure(mixing[name].bulk_ess), note))
  step = figure(run.figures['milliseconds per step of all chains'])
  seconds = sum(run.result.seconds.values())
  tiles.append(('time', _duration(seconds), f'{step} ms for a step of all chains'))
  return tiles


def _duration(seconds):
  if seconds < 100:
    return f'{seconds:.0f} s'
  return f'{seconds / 60:.0f} min' if seconds < 6000 else f'{seconds / 3600:.1f} h'


def _setting(value):
  if isinstance(value, dict):
    return ', '.join(f'{k} {v}' for k, v in value.items())
  if isinstance(value, (list, tuple)):
    return ', '.join(map(str, value))
  return f'{value:.5g}' if isinstance(value, float) else str('none' if value is None else value)


def _warmup(found):
  rows = []
  for b in found.blocks:
    counts = [str(b.num_integrator_steps), f'{b.num_transitions:,}', b.acceptance_text]
    measured = map(figure, (b.log_likelihood, 1000 * b.ess_per_gradient))
    rows.append((b.stage, [figure(b.step_size), figure(b.damping), *counts, *measured]))
  gradients = f'{found.num_gradients:,}'
  return {'step_size': figure(found.step_size), 'num_gradients': gradients, 'rows': rows}


def _drawn(pictures):
  return [svg.plot(picture) for picture in pictures if picture is not None]


def _mixing_pictures(run):
  shown = []
  if run.names and run.result.num_chains > 1:
    groups = [run.r_hat_group(name, verdict.NAMES[name]) for name in run.names]
    shown.append(mixing.r_hat('R-hat against steps', groups))
  shown += [mixing.energy(run.result), mixing.acceptance(run.result)]
  for unit in ('step', 'second'):
    groups = [(verdict.NAMES[name], ess) for name, ess in run.ess_per(unit).items()]
    shown.append(mixing.effective_sample_sizes(f'ESS per {unit}', groups, unit))
  return shown


def _chain_pictures(run):
  """Traces and autocorrelations of each quantity, side by side."""
  thinning, guilty = run.result.settings['thinning'], run.verdict.guilty_chains
  columns = [
    mixing.projections(verdict.NAMES[name], run.draws(name), run.ess[name], thinning, guilty)
    for name in run.names
  ]
  return [picture for row in zip(*columns, strict=True) for picture in row]


def _prediction_pictures(run):
  if run.prediction is None:
    return []
  return of_results.of_test_data(run.result, run.prediction, run.y_test)
