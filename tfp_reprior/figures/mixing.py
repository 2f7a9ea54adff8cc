"""Effective sample sizes of chains after warm-up: those of the paper, and our default."""

from tfp_reprior.figures import chains, recipes
from tfp_reprior.plots import drawing

_SAMPLERS = ('uncalibrated_standard', 'uncalibrated_langevin', 'auto')
_RUN = {
  'smoke': chains.SMOKE_RUN,
  'laptop': {'num_results': 300, 'thinning': 5, 'num_warmup_steps': 1500},
  'paper': {'num_results': 120_000, 'thinning': 25, 'num_warmup_steps': 20_000},
}
_DEPTH = {'smoke': 1, 'laptop': 3, 'paper': 3}
_NUM_TEST = {'smoke': 3, 'laptop': 100, 'paper': 100}
_SWEEPS = {
  'ess-width': {
    'smoke': [(8, 6)],  # width, number of data
    'laptop': [(w, 256) for w in (32, 64, 128, 384, 512, 768, 1024)],
    'paper': [(w, 256) for w in (32, 64, 128, 384, 512, 768, 1024)],
  },
  'categorical': {
    'smoke': [(4, 6)],
    'laptop': [(w, 256) for w in (32, 64, 128, 256)],
    'paper': [(w, 256) for w in (32, 64, 128, 256)],
  },
  'ess-dataset': {
    'smoke': [(8, 6)],  # of which ess-width has the pieces, too
    'laptop': [(512, n) for n in (64, 256, 1024)],
    'paper': [(512, n) for n in (16, 32, 64, 128, 256, 512, 1024, 2048)],
  },
}


def _make_pieces(name, likelihood='gaussian'):
  def pieces(scale, shared):
    fixed = {**shared, 'num_test': _NUM_TEST[scale], 'likelihood': likelihood, 'model': 'fcn'}
    run = {'num_chains': 1, **_RUN[scale]}
    return [
      {
        **fixed,
        'num_train': num_train,
        'network': {'width': width, 'depth': _DEPTH[scale]},
        'run': {'sampler': sampler, **run},
      }
      for width, num_train in _SWEEPS[name][scale]
      for sampler in _SAMPLERS[scale == 'smoke' :]
    ]

  return pieces


def _draw_width(figure, rows):
  label = f'width ({recipes.describe(rows[0])})'
  _draw(figure, rows, lambda row: row['network']['width'], label)


def _draw_dataset(figure, rows):
  name, width = recipes.DATA[rows[0]['data']], rows[0]['network']['width']
  _draw(figure, rows, lambda row: row['num_train'], f'number of data ({name}, width {width})')


def _draw(figure, rows, x_fn, label):
  for ax, name in zip(drawing.stacked(figure, 2), chains.NAMES, strict=True):
    everything = []
    for sampler in _SAMPLERS:
      chosen = [row for row in rows if row['run']['sampler'] == sampler]
      x = sorted({x_fn(row) for row in chosen})
      figures = [[row['ess_per_step'][name] for row in chosen if x_fn(row) == at] for at in x]
      low, mean, high = 1000 * recipes.spread([recipes.over_seeds(f) for f in figures])
      style = drawing.sampler_style(sampler)
      if sampler == 'auto':  # in data space, with a map on every layer, or without: where it pays
        style = {**style, 'label': 'auto, our default'}
      drawing.curve_with_band(ax, x, mean, low, high, **style)
      everything += [*low, *high]
    drawing.log_log(ax, x, everything)
    ax.set_title(chains.NAMES[name], fontsize=9)
    ax.set_ylabel('effective samples\nper 1,000 gradients')
  figure.supxlabel(label, fontsize=9)
  drawing.legend(figure)


RECIPES = {
  'ess-width': recipes.Recipe(
    _make_pieces('ess-width'), chains.compute, _draw_width, True, chains.work
  ),
  'ess-dataset': recipes.Recipe(
    _make_pieces('ess-dataset'), chains.compute, _draw_dataset, True, chains.work
  ),
  'categorical': recipes.Recipe(
    _make_pieces('categorical', 'categorical'), chains.compute, _draw_width, True, chains.work
  ),
}
