"""Effective sample sizes and R-hat against steps, of two architectures."""

from tfp_reprior.figures import chains, recipes
from tfp_reprior.plots import drawing

_SAMPLERS = ('uncalibrated_standard', 'uncalibrated_langevin')
_TITLES = {'fcn': 'fully connected', 'wide_resnet': 'Wide ResNet'}
_PROBLEMS = {
  'smoke': {
    'fcn': ({'width': 4, 'depth': 1}, (4,)),  # the network, and numbers of data
    'wide_resnet': ({'width': 2, 'depth': 8}, (4,)),
  },
  'laptop': {
    'fcn': ({'width': 128, 'depth': 3}, (256, 1024, 10240)),
    'wide_resnet': ({'width': 8, 'depth': 8}, (32,)),
  },
  'paper': {
    'fcn': ({'width': 1024, 'depth': 3}, (1024, 10240, 40960)),
    'wide_resnet': ({'width': 128, 'depth': 20}, (1024, 10240, 40960)),
  },
}
_RUN = {
  'smoke': chains.SMOKE_RUN,
  'laptop': {'num_results': 150, 'thinning': 5, 'num_warmup_steps': 500},
  'paper': {'num_results': 30_000, 'thinning': 100, 'num_warmup_steps': 20_000},
}
# Those of the map: that of the theory, and for the residual network that of the paper, too.
_REGULARIZERS = {'fcn': ('noise',), 'wide_resnet': ('n*noise', 'noise')}
_NUM_TEST = {'smoke': 3, 'laptop': 100, 'paper': 100}
_DASHES = ('-', '--', ':')


def _runs(model):
  """Samplers, each with its regularizer."""
  standard, repriorised = _SAMPLERS
  return [(standard, None), *((repriorised, value) for value in _REGULARIZERS[model])]


def _pieces(scale, shared):
  fixed = {**shared, 'num_test': _NUM_TEST[scale], 'likelihood': 'gaussian'}
  return [
    {
      **fixed,
      'model': model,
      'network': network,
      'num_train': num_train,
      'run': {
        'sampler': sampler,
        'num_chains': 2 if scale == 'smoke' else 3,
        'regularizer': regularizer,
        **_RUN[scale],
      },
    }
    for model, (network, nums_train) in _PROBLEMS[scale].items()
    for num_train in nums_train
    for sampler, regularizer in _runs(model)
  ]


def _make_draw(key, label):
  def draw(figure, rows):
    from matplotlib import lines

    figure.set_size_inches(5.2, 5.2)
    grid = figure.subplots(len(chains.NAMES), len(_TITLES), squeeze=False)
    for column, (model, title) in zip(grid.T, _TITLES.items(), strict=True):
      chosen = [row for row in rows if row['model'] == model]
      groups = {}
      for row in chosen:
        groups.setdefault((_kind(row), row['run']['sampler']), []).append(row['curves'])
      kinds = list(dict.fromkeys(kind for kind, _ in groups))
      for ax, name in zip(column, chains.NAMES, strict=True):
        everything = []
        for (kind, sampler), seeds in groups.items():
          curves = zip(*(curves[name][key] for curves in seeds), strict=True)
          low, mean, high = recipes.spread([recipes.over_seeds(figures) for figures in curves])
          style = {**drawing.sampler_style(sampler), 'marker': None}
          style['linestyle'] = _DASHES[kinds.index(kind)]
          style['label'] = style['label'] if kind == kinds[0] else None
          steps = seeds[0][name]['steps']
          drawing.curve_with_band(ax, steps, mean, low, high, **style)
          everything += [*low, *high]
        drawing.log_scale(ax, 'x', steps)
        drawing.log_scale(ax, 'y', everything)
      column[0].set_title(title, fontsize=9)
      low, high = column[0].get_ylim()
      column[0].set_ylim(low * (low / high) ** 0.3, high)
      column[0].legend(
        [
          lines.Line2D([], [], color=drawing.MUTED, linestyle=dashes)
          for dashes in _DASHES[: len(kinds)]
        ],
        kinds,
        loc='lower left',  # curves fall, and there is room below them
        frameon=False,
      )
    for ax, name in zip(grid[:, 0], chains.NAMES, strict=True):
      ax.set_ylabel(f'{label},\n{chains.NAMES[name]}')
    figure.supxlabel(f'steps ({recipes.DATA[rows[0]["data"]]})', fontsize=9)
    drawing.legend(figure)

  return draw


def _kind(row):
  """What curves of the same color differ in."""
  other = row['run']['regularizer'] not in (None, _REGULARIZERS[row['model']][0])
  return f'n = {row["num_train"]}' + (', λ without n' if other else '')


RECIPES = {
  'ess-architecture': recipes.Recipe(
    _pieces,
    chains.compute,
    _make_draw('ess_per_step', 'effective samples per gradient'),
    True,
    chains.work,
  ),
  'rhat': recipes.Recipe(
    _pieces,
    chains.compute,
    _make_draw('r_hat_squared_minus_1', 'R-hat² − 1'),
    True,
    chains.work,
  ),
}
