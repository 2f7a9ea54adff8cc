"""Our samplers against that of the paper, each after the same warm-up."""

import numpy as np

from tfp_reprior.figures import chains, recipes
from tfp_reprior.plots import drawing
from tfp_reprior.sampling import samplers

_WIDTHS = {'smoke': (4,), 'laptop': (64, 256), 'paper': (64, 256, 1024)}
_NUM_TRAIN = {'smoke': 4, 'laptop': 64, 'paper': 256}
_DEPTH = {'smoke': 1, 'laptop': 3, 'paper': 3}
_NUM_TEST = {'smoke': 3, 'laptop': 100, 'paper': 100}
_RUN = {
  'smoke': chains.SMOKE_RUN,
  'laptop': {'num_results': 300, 'thinning': 4, 'num_warmup_steps': 500},
  'paper': {'num_results': 100_000, 'thinning': 10, 'num_warmup_steps': 20_000},
}
_PAPER = 'uncalibrated_langevin'


def _pieces(scale, shared):
  names = ('rotation', _PAPER) if scale == 'smoke' else samplers.NAMES
  fixed = {**shared, 'num_train': _NUM_TRAIN[scale], 'num_test': _NUM_TEST[scale]}
  return [
    {
      **fixed,
      'likelihood': 'gaussian',
      'model': 'fcn',
      'network': {'width': width, 'depth': _DEPTH[scale]},
      'run': {'sampler': name, 'num_chains': 2, **_RUN[scale]},
    }
    for width in _WIDTHS[scale]
    for name in names
  ]


def _draw(figure, rows):
  widths = sorted({row['network']['width'] for row in rows})
  names = list(dict.fromkeys(row['run']['sampler'] for row in rows))
  figure.set_size_inches(7.2, 1.2 + 0.28 * len(names))
  axes = figure.subplots(1, len(chains.NAMES), sharey=True)
  for ax, name in zip(axes, chains.NAMES, strict=True):
    everything = []
    for i, (width, color) in enumerate(zip(widths, drawing.shades(len(widths)), strict=True)):
      chosen = [row for row in rows if row['network']['width'] == width]
      figures = [
        [r['ess_per_step'][name] for r in chosen if r['run']['sampler'] == n] for n in names
      ]
      low, mean, high = 1000 * recipes.spread([recipes.over_seeds(f) for f in figures])
      y = np.arange(len(names)) + 0.18 * (i - (len(widths) - 1) / 2)
      ax.hlines(y, low, high, color=color, alpha=0.4, linewidth=3)
      ax.plot(mean, y, 'o', color=color, markersize=4, label=f'width {width}')
      everything += [*low, *high]
    drawing.log_scale(ax, 'x', everything)
    ax.set_title(chains.NAMES[name], fontsize=9)
  labels = [f'{n} (paper)' if n == _PAPER else n for n in names]
  axes[0].set_yticks(range(len(names)), [label.replace('_', ' ') for label in labels])
  axes[0].set_ylim(len(names) - 0.5, -0.5)
  label = f'effective samples per 1,000 gradients ({recipes.describe(rows[0])})'
  figure.supxlabel(label, fontsize=9)
  drawing.legend(figure)


RECIPES = {'samplers': recipes.Recipe(_pieces, chains.compute, _draw, True, chains.work)}
