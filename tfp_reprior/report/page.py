"""The report page."""

import pathlib

from tfp_reprior.diagnostics import verdict
from tfp_reprior.internal import files
from tfp_reprior.plots import mixing, predictions
from tfp_reprior.report import comparison, measures, tables
from tfp_reprior.version import __version__

_MAX_TILES = 12


def write_report(results, path, names=None):
  """Writes a page of HTML about one run or several: verdict, settings, mixing, predictions.

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
  template = _template()  # first, because it fails without Jinja2
  sections = [_section(run) | {'id': f'run-{i}'} for i, run in enumerate(runs, 1)]
  compared = comparison.section(runs) if len(runs) > 1 else None
  page = template.render(sections=sections, comparison=compared, version=__version__).encode()
  files.write_atomically(path, lambda file: file.write(page))
  return pathlib.Path(path)


def _template():
  try:
    import jinja2  # kept out of `import tfp_reprior`
  except ImportError as e:
    raise ImportError('The report needs Jinja2: pip install tfp-reprior[plot]') from e
  environment = jinja2.Environment(
    loader=jinja2.PackageLoader('tfp_reprior.report'),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
  )
  return environment.get_template('page.html')


def _section(run):
  """What `templates/run.html` shows."""
  result, judged = run.result, run.verdict
  plots, note = _predictions(run)
  return {
    'title': run.label,
    'verdict': {
      'level': judged.level,
      'headline': judged.headline,
      'reasons': [reason.text for reason in judged.reasons],
      'text': ' '.join(judged.advice),
    },
    'tiles': _tiles(run),
    'settings': [(name.replace('_', ' '), _setting(v)) for name, v in result.settings.items()],
    'tables': [tables.time(result), *([tables.metrics(run.metrics)] if run.metrics else [])],
    'warmup': None if result.warmup is None else tables.warmup(result.warmup),
    'mixing_tables': [*([tables.mixing(result)] if judged.mixing else []), tables.chains(result)],
    'mixing_plots': _mixing(run),
    'chain_plots': _chains(run),
    'prediction_plots': plots,
    'prediction_note': note,
  }


_HEADLINE_METRICS = (
  'accuracy',
  'class negative log likelihood',
  'expected calibration error',
  *measures.METRICS.values(),
)


def _tiles(run):
  """Pairs of a name and a number."""
  tiles = [('draws × chains', f'{run.result.num_draws:,} × {run.result.num_chains}')]
  for name in run.names:
    m, what = run.verdict.mixing[name], verdict.NAMES[name]
    tiles.append((f'largest R-hat, {what}', tables.r_hat(m.r_hat)))
    tiles.append((f'smallest ESS, {what}', tables.figure(m.bulk_ess)))
  tiles.append(('mean acceptance', tables.figure(run.figures['acceptance, mean'])))
  name = 'milliseconds per step of all chains'
  tiles.append((name, tables.figure(run.figures[name])))
  known = [name for name in _HEADLINE_METRICS if name in run.metrics]
  tiles += [(f'test {name}', tables.figure(run.metrics[name])) for name in known]
  return tiles[:_MAX_TILES]


def _setting(value):
  if isinstance(value, dict):
    return ', '.join(f'{k} {v}' for k, v in value.items())
  if isinstance(value, (list, tuple)):
    return ', '.join(map(str, value))
  return f'{value:.5g}' if isinstance(value, float) else str('none' if value is None else value)


def _mixing(run):
  if not run.names:
    return []
  plots = []
  for unit in ('step', 'second'):
    groups = [(verdict.NAMES[name], ess) for name, ess in run.ess_per(unit).items()]
    plots.append(mixing.effective_sample_sizes(f'ESS per {unit}', groups, unit))
  if run.result.num_chains > 1:
    groups = [run.r_hat_group(name, verdict.NAMES[name]) for name in run.names]
    plots.append(mixing.r_hat('R-hat against steps', groups))
  return [plot for plot in plots if plot is not None]


def _chains(run):
  """A column for each name, and one for the sampler, row by row."""
  thinning = run.result.settings['thinning']
  columns = [
    mixing.projections(verdict.NAMES[name], run.draws(name), run.ess[name], thinning)
    for name in run.names
  ]
  columns.append(mixing.histories(run.result))
  return [plot for row in zip(*columns, strict=True) for plot in row]


def _predictions(run):
  """Plots, and what to say of those that are not there."""
  result, prediction, y = run.result, run.prediction, run.y_test
  if prediction is None:
    what = 'test inputs (x_test)' if result.x_test is None else 'kept draws'
    return [], f'There are no plots of predictions, because the run has no {what}.'
  plots = []
  if result.x_test.size == len(result.x_test):
    first = predictions.probabilities if prediction.is_discrete else predictions.bands
    plots.append(first(result, prediction))
  if run.classes is not None:
    plots.append(predictions.reliability(*run.classes))
    plots.append(predictions.accuracy_of_surest(*run.classes))
    plots.append(predictions.true_classes(*run.classes))
  elif y is not None:
    plots.append(predictions.coverage(prediction, y))
  if y is not None and not prediction.is_discrete:
    plots.append(predictions.errors(prediction, y))
  return plots, '' if y is not None else 'The run has no test targets (y_test).'
