"""Makes a figure: computes what is missing, draws, writes."""

import hashlib
import importlib
import json
import os
import pathlib
import shutil
import time
import warnings
from collections.abc import Sequence

from tfp_reprior import errors
from tfp_reprior.version import __version__

SCALES = ('smoke', 'laptop', 'paper')

# Name: the module that makes it, and what it shows.
FIGURES = {
  'linear-map': ('linear_map', 'prior and posterior of a linear model, before and after the map'),
  'function-convergence': ('function_convergence', 'mapped N(0, I) against the limit of width'),
  'energy-landscape': ('energy_landscape', 'slices of the log-density through three solutions'),
  'speed': ('speed', 'seconds per step against width'),
  'ess-width': ('mixing', 'effective samples per step against width'),
  'ess-dataset': ('mixing', 'effective samples per step against the number of data'),
  'ess-architecture': ('architectures', 'effective samples per step against steps'),
  'rhat': ('architectures', 'R-hat against steps'),
  'categorical': ('mixing', 'as ess-width, with the categorical likelihood'),
  'kl-width': ('convergence', 'divergence of the posterior from the prior against width'),
  'gradient-width': ('convergence', 'distance of gradients from those of N(0, I) against width'),
  'ntk-vs-nngp': ('ntk_vs_nngp', 'effective samples per step of the linearised map over lambda'),
  'samplers': ('sampler_comparison', 'our samplers against that of the paper'),
}


def make_figure(
  name: str,
  scale: str = 'laptop',
  out: str | os.PathLike[str] = 'figures',
  data_dir: str | None = None,
  seed: int | Sequence[int] = 1,
  progress: bool = True,
) -> pathlib.Path:
  """Makes a figure, and writes it as `NAME-SCALE.png`, `.pdf` and, its numbers, `.json`.

  Each row of the numbers has what it was made with: settings, seed, version, commit, date,
  processor and seconds. What is finished is kept in the folder `pieces` of `out`: the same call
  goes on after an interruption, and a call after that computes nothing again.

  Args:
    name: One of `FIGURES`.
    scale: `'smoke'` for seconds, to see that it runs; `'laptop'` for minutes to an hour on two
      cores; `'paper'` for the settings of Hron et al. (2022), or those that its theorems are about,
      which for most figures needs an accelerator.
    out: Folder to write to; it is made if need be.
    data_dir: Folder where TensorFlow Datasets prepared CIFAR-10. By default, figures that need data
      use scikit-learn's digits.
    seed: Integer, of everything random; or several, if the figure is of effective samples against
      width or data: it then shows means over seeds, and their range.
    progress: Whether to show progress bars.

  Returns:
    The path of the `.png`.

  #### Examples

  ```python
  import tfp_reprior as tfr

  path = tfr.figures.make_figure('linear-map', scale='smoke', out='figures', progress=False)
  ```
  """
  from tqdm import auto  # with what follows, kept out of `tfp-reprior figure --help`

  from tfp_reprior.internal import checks, files
  from tfp_reprior.plots import drawing

  checks.one_of('name', name, tuple(FIGURES))
  checks.one_of('scale', scale, SCALES)
  seeds = [checks.seed('seed', s) for s in ([seed] if isinstance(seed, int) else seed)]
  family, _ = FIGURES[name]
  recipe = importlib.import_module(f'tfp_reprior.figures.{family}').RECIPES[name]
  if not seeds or len(seeds) > 1 and not recipe.takes_seeds:
    raise errors.InputError(f'{name!r} takes one `seed`. Received: seed={seed}')
  data = 'digits' if data_dir is None else 'cifar10'
  pieces = [p for s in seeds for p in recipe.pieces(scale, {'data': data, 'seed': s})]
  out = pathlib.Path(out)
  with files.writing_to('out', out):
    files.make_folder(out / 'pieces')
  with drawing.canvas(7.2, 2.9) as figure:  # first, because it fails without matplotlib
    rows = []
    for piece in auto.tqdm(pieces, desc=name, unit='piece', disable=not progress):
      rows.append({**piece, **_finish(recipe, piece, family, out / 'pieces', data_dir, progress)})
    recipe.draw(figure, rows)
    lines = ',\n'.join(json.dumps(row) for row in rows)
    text = f'{{"figure": "{name}", "scale": "{scale}", "rows": [\n{lines}\n]}}\n'
    path = out / f'{name}-{scale}'
    files.write_atomically(path.with_suffix('.json'), lambda file: file.write(text.encode()))
    figure.savefig(path.with_suffix('.pdf'), metadata={'CreationDate': None})
    figure.savefig(path.with_suffix('.png'), dpi=200)
  return path.with_suffix('.png')


def _finish(recipe, piece, family, folder, data_dir, progress):
  """The results of a piece and how they were made, read if there are any, or computed and kept."""
  from tfp_reprior.benchmarks import results as results_lib
  from tfp_reprior.figures import recipes
  from tfp_reprior.internal import files

  key = json.dumps({'family': family, 'version': __version__, 'piece': piece}, sort_keys=True)
  digest = hashlib.sha256(key.encode()).hexdigest()[:16]
  path = folder / f'{family}-{digest}.json'
  if path.exists():
    try:
      return files.load_json(path)[0]['results']
    except errors.InputError as e:
      warnings.warn(f'{e}; it is made again.', stacklevel=2)
  run_dir = folder / f'{family}-{digest}'
  begin = time.monotonic()
  results = recipe.compute(piece, recipes.Context(data_dir, run_dir, progress))
  made = {**results_lib.provenance(), 'seconds': round(time.monotonic() - begin, 1)}
  results = {**results, 'made': made}
  files.save_json(path, {'piece': piece, 'results': results})
  shutil.rmtree(run_dir, ignore_errors=True)
  return results
