"""Effective sample sizes of two maps over lambda: of the readout, and linearised."""

import numpy as np
import tensorflow as tf

from tfp_reprior import data as data_lib
from tfp_reprior import diagnostics, experimental, models
from tfp_reprior.densities import composed_posterior
from tfp_reprior.densities import posterior as posterior_lib
from tfp_reprior.figures import estimate, recipes
from tfp_reprior.internal import parts as parts_lib
from tfp_reprior.internal import random
from tfp_reprior.mcmc import underdamped_langevin
from tfp_reprior.plots import drawing
from tfp_reprior.sampling import runner

_MAPS = {
  'readout': {**drawing.REPRIORISED, 'label': 'readout (NNGP) map'},
  'linearised': {'color': drawing.COLORS[3], 'marker': 'D', 'label': 'linearised (NTK) map'},
}
_MEASURES = {'proj': 'weights', 'dots': 'squared norm of weights'}
_REGULARIZERS = {
  'smoke': (0.1,),
  'laptop': (1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0),
  'paper': (1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0),
}
_NUMS_TRAIN = {'smoke': (2,), 'laptop': (4, 16), 'paper': (64, 256, 1024)}
_SETTINGS = {
  'smoke': {
    'network': {'width': 3, 'depth': 1},
    'series': {'order': 2, 'num_probes': 1, 'batch_size': 1},
    'step_sizes': [0.01, 0.1],
    'num_chains': 1,
    'num_draws': 10,
    'thinning': 1,
  },
  'laptop': {
    'network': {'width': 64, 'depth': 1},
    'series': {'order': 4, 'num_probes': 2, 'batch_size': 1},
    'step_sizes': [0.01, 0.02, 0.04, 0.08, 0.16],
    'num_chains': 1,
    'num_draws': 400,
    'thinning': 2,
  },
  'paper': {
    'network': {'width': 512, 'depth': 3},
    'series': {'order': 4, 'num_probes': 8, 'batch_size': 2},
    'step_sizes': [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2],
    'num_chains': 3,
    'num_draws': 30_000,
    'thinning': 25,
  },
}
_DAMPING = 0.1
_SMALLEST_ACCEPTANCE = 0.98  # of the paper, which leaves out accept / reject


def _pieces(scale, shared):
  return [
    {**shared, 'map': name, 'num_train': num_train, 'regularizer': lam, **_SETTINGS[scale]}
    for num_train in _NUMS_TRAIN[scale]
    for lam in _REGULARIZERS[scale]
    for name in _MAPS
  ]


def _compute(piece, context):
  """Chains with several step sizes side by side, and the best of them."""
  data = data_lib.load(
    piece['data'], piece['num_train'], 1, seed=piece['seed'], data_dir=context.data_dir
  )
  model = models.fcn(data.x_train.shape[1:], data.y_train.shape[1], **piece['network'])
  posterior = posterior_lib.Posterior(model, data.x_train, data.y_train, noise_scale=0.1)
  target_log_prob_fn, theta_fn = _map(piece, posterior)
  split = posterior.split
  projections_seed, start_seed, seed = random.split_seed(piece['seed'], n=3)
  project = diagnostics.RandomProjections(split.event_shapes, seed=projections_seed)

  def trace_fn(phi, _):
    theta = theta_fn(phi)
    squares = [parts_lib.sum_events(p**2, chain_ndims=2) for p in theta]
    return {'proj': project(theta), 'dots': tf.add_n(squares)[..., tf.newaxis]}

  num_steps = len(piece['step_sizes'])
  step_sizes = [
    tf.reshape(tf.constant(piece['step_sizes'], split.dtype), [num_steps, 1, *[1] * ndims])
    for ndims in split.event_ndims
  ]
  trace, _ = runner.run_chains(
    underdamped_langevin.UncalibratedUnderdampedLangevin(target_log_prob_fn, step_sizes, _DAMPING),
    posterior.sample_prior((num_steps, piece['num_chains']), start_seed),
    trace_fn,
    piece['num_draws'],
    piece['thinning'],
    seed,
  )
  return choose(trace, piece['step_sizes'], piece['thinning'])


def _work(piece):
  series = piece['series']
  # A term of the series is two passes more for each probe, forth and back.
  cost = 1 if piece['map'] == 'readout' else 1 + 2 * series['order'] * series['num_probes']
  return estimate.Work(
    cost * piece['num_draws'] * piece['thinning'],
    piece['num_train'],
    'fcn',
    piece['network'],
    estimate.INPUT_SHAPES[piece['data']],
    len(piece['step_sizes']) * piece['num_chains'],
  )


def _map(piece, posterior):
  """The density in phi, and the map from phi to theta."""
  if piece['map'] == 'readout':
    density = composed_posterior.ComposedPosterior(posterior, piece['regularizer'])
    return density.target_log_prob_fn, posterior.reprior(piece['regularizer']).forward
  linearized = experimental.LinearizedReprior(
    posterior, piece['regularizer'], log_det=experimental.TaylorSeries(**piece['series'])
  )

  def target_log_prob_fn(*phi):
    phi = list(phi)
    value = posterior.target_log_prob_fn(*linearized.forward(phi))
    return value + linearized.forward_log_det_jacobian(phi)

  return target_log_prob_fn, linearized.forward


def choose(trace, step_sizes, thinning):
  """Measures chains with different step sizes, and chooses those that mix fastest.

  Only step sizes count whose mean acceptance reaches 0.98; if there is none, the smallest that
  ended with finite numbers is taken.

  Args:
    trace: Dict of arrays, `proj` `[s, e, c, r]`, `dots` `[s, e, c, 1]` and `acceptance`
      `[s, e, c]`, for `e` step sizes. The first fifth of the draws is not counted.
    step_sizes: List of e floats.
    thinning: Steps for each draw.

  Returns:
    Dict: the step size, its acceptance, whether that was enough, and effective samples per step of
    a chain: mean, least and greatest over projections, and mean over chains.
  """
  kept = {name: v[len(v) // 5 :] for name, v in trace.items()}
  candidates = []
  for i, step_size in enumerate(step_sizes):
    if not all(np.all(np.isfinite(v[:, i])) for v in kept.values()):
      continue
    acceptance = float(np.mean(kept['acceptance'][:, i]))
    figures = {'step_size': step_size, 'acceptance': acceptance}
    figures['is_accepted'] = acceptance >= _SMALLEST_ACCEPTANCE
    for name in _MEASURES:
      draws = kept[name][:, i]
      ess = np.mean(diagnostics.effective_sample_size(draws), axis=0) / (len(draws) * thinning)
      figures[name] = {which: float(getattr(np, which)(ess)) for which in ('mean', 'min', 'max')}
    candidates.append(figures)
  good = [c for c in candidates if c['is_accepted']]
  if good:
    return max(good, key=lambda c: c['proj']['mean'])
  if candidates:
    return candidates[0]
  nothing = dict.fromkeys(('mean', 'min', 'max'), 0.0)
  return {
    'step_size': 0.0,
    'acceptance': 0.0,
    'is_accepted': False,
    'proj': nothing,
    'dots': nothing,
  }


def _draw(figure, rows):
  nums_train = sorted({row['num_train'] for row in rows})
  figure.set_size_inches(5.2, 5.0)
  grid = figure.subplots(len(_MEASURES), len(nums_train), squeeze=False, sharex=True)
  for column, num_train in zip(grid.T, nums_train, strict=True):
    for ax, name in zip(column, _MEASURES, strict=True):
      everything = []
      for map_name, style in _MAPS.items():
        chosen = [r for r in rows if r['map'] == map_name and r['num_train'] == num_train]
        x = [row['regularizer'] for row in chosen]
        low, mean, high = recipes.spread([row[name] for row in chosen])
        drawing.curve_with_band(ax, x, mean, low, high, **style)
        # White, where no step size was accepted often enough.
        rough = [i for i, row in enumerate(chosen) if not row['is_accepted']]
        open_style = {**style, 'markerfacecolor': 'white', 'linestyle': 'none', 'label': None}
        ax.plot(np.array(x)[rough], np.array(mean)[rough], markersize=3.5, zorder=3, **open_style)
        everything += [*low, *high]
      drawing.log_log(ax, x, everything)
      ax.set_xticks(x[::2])  # there is no room for more
    column[0].set_title(f'n = {num_train}', fontsize=9)
  for ax, name in zip(grid[:, 0], _MEASURES, strict=True):
    ax.set_ylabel(f'effective samples per step,\n{_MEASURES[name]}')
  width = rows[0]['network']['width']
  figure.supxlabel(
    f'regularizer λ ({recipes.DATA[rows[0]["data"]]}, width {width}, noise variance 0.01)',
    fontsize=9,
  )
  drawing.legend(figure)


RECIPES = {'ntk-vs-nngp': recipes.Recipe(_pieces, _compute, _draw, work=_work)}
