"""Makes a figure: computes what is missing, draws, writes."""

import hashlib
import importlib
import json
import os
import pathlib
import shutil
import sys
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
  known: str | os.PathLike[str] | None = None,
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
    seed: Integer, of everything random; or several, if the figure is of chains, such as effective
      samples against width: it then shows means over seeds, and their range.
    progress: Whether to say how long it will take, which takes some seconds to find out, and to
      show progress bars.
    known: The `.json` of the same figure, perhaps with fewer seeds or settings, made by this
      version: its rows are not computed again. The file need not exist.

  Returns:
    The path of the `.png`.

  #### Examples

  ```python
  import tfp_reprior as tfr

  path = tfr.figures.make_figure('linear-map', scale='smoke', out='figures', progress=False)
  ```
  """
  from tfp_reprior.internal import checks, files  # kept out of `tfp-reprior figure --help`
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
    store = _Store(recipe, family, out / 'pieces', data_dir, progress)
    if known is not None and pathlib.Path(known).exists():
      store.adopt(_rows_of(known, name), pieces)
    _finish_all(store, pieces, f'{name}, scale {scale}', scale == 'smoke')
    rows = [{**piece, **store.load(piece)} for piece in pieces]
    recipe.draw(figure, rows)
    lines = ',\n'.join(json.dumps(row) for row in rows)
    text = f'{{"figure": "{name}", "scale": "{scale}", "rows": [\n{lines}\n]}}\n'
    path = out / f'{name}-{scale}'
    files.write_atomically(path.with_suffix('.json'), lambda file: file.write(text.encode()))
    figure.savefig(path.with_suffix('.pdf'), metadata={'CreationDate': None})
    figure.savefig(path.with_suffix('.png'), dpi=200)
  return path.with_suffix('.png')


def _rows_of(path, name):
  """The rows of a figure that this version made, from its numbers."""
  try:
    numbers = json.loads(pathlib.Path(path).read_bytes())
    figure, rows = numbers['figure'], numbers['rows']
    rows = [row for row in rows if row['made']['version'] == __version__]
  except (OSError, ValueError, TypeError, KeyError) as e:
    raise errors.InputError(f'{path} has no numbers of a figure to go on from ({e!r})') from e
  if figure != name:
    raise errors.InputError(f'{path} has the numbers of {figure!r}, and not of {name!r}')
  return rows


class _Store:
  """The results of pieces and how they were made, in a folder."""

  def __init__(self, recipe, family, folder, data_dir, progress):
    self.recipe = recipe
    self.progress = progress
    self._family, self._folder, self._data_dir = family, folder, data_dir

  def load(self, piece):
    """The results of a piece; None if there are none."""
    from tfp_reprior.internal import files

    path = self._path(piece)
    if not path.exists():
      return None
    try:
      return files.load_json(path)[0]['results']
    except errors.InputError as e:
      warnings.warn(f'{e}; it is made again.', stacklevel=2)
      return None

  def adopt(self, rows, pieces):
    """Keeps the results of those pieces that rows have and this folder has not."""
    for piece in pieces:
      row = next((row for row in rows if piece.items() <= row.items()), None)
      if row is not None and self.load(piece) is None:
        self._keep(piece, {key: row[key] for key in row.keys() - piece.keys()})

  def make(self, piece):
    """Computes a piece, and keeps its results. Returns the seconds that it took."""
    from tfp_reprior.benchmarks import results as results_lib
    from tfp_reprior.figures import recipes

    run_dir = self._path(piece).with_suffix('')
    begin = time.monotonic()
    results = self.recipe.compute(piece, recipes.Context(self._data_dir, run_dir, self.progress))
    seconds = time.monotonic() - begin
    made = {**results_lib.provenance(), 'seconds': round(seconds, 1)}
    self._keep(piece, {**results, 'made': made})
    shutil.rmtree(run_dir, ignore_errors=True)
    return seconds

  def _keep(self, piece, results):
    from tfp_reprior.internal import files

    files.save_json(self._path(piece), {'piece': piece, 'results': results})

  def _path(self, piece):
    key = {'family': self._family, 'version': __version__, 'piece': piece}
    digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:16]
    return self._folder / f'{self._family}-{digest}.json'


def _finish_all(store, pieces, what, is_smoke):
  """Computes the pieces that are missing; says before how long it takes, and then what is left."""
  from tqdm import auto

  from tfp_reprior.figures import estimate

  todo = [piece for piece in pieces if store.load(piece) is None]
  if not store.progress or not todo:
    for piece in todo:
      store.make(piece)
    return
  work = store.recipe.work
  works = [None if work is None else work(piece) for piece in todo]
  clock = estimate.Clock(estimate.seconds_of(works, is_smoke))
  auto.tqdm.write(
    f'{what}: {len(pieces)} pieces, {len(pieces) - len(todo)} of them done before; '
    f'{estimate.as_text(clock.seconds_left)} for the others.',
    file=sys.stderr,
  )
  bar_format = '{desc}: {n_fmt} of {total_fmt} pieces [{elapsed}{postfix}]'
  with auto.tqdm(desc=what, total=len(todo), bar_format=bar_format) as bar:
    for piece in todo:
      bar.set_postfix_str(f'{estimate.as_text(clock.seconds_left)} left')
      clock.finish(store.make(piece))
      bar.update()
