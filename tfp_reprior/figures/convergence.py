"""What width does: divergences from the prior, and distances of gradients."""

import numpy as np

from tfp_reprior import data as data_lib
from tfp_reprior import models, theory
from tfp_reprior.densities import collapsed_posterior
from tfp_reprior.densities import posterior as posterior_lib
from tfp_reprior.figures import estimate, recipes
from tfp_reprior.internal import random
from tfp_reprior.plots import drawing
from tfp_reprior.sampling import runner, samplers

_WIDTHS = {
  'smoke': (8, 32),
  'laptop': (32, 64, 128, 256, 512),
  'paper': (32, 64, 128, 256, 512, 1024, 2048, 4096),
}
# The divergence grows with the number of data; beyond a few nats it cannot be estimated.
_NUM_TRAIN = {
  'kl-width': {'smoke': 3, 'laptop': 4, 'paper': 4},
  'gradient-width': {'smoke': 4, 'laptop': 16, 'paper': 256},
}
_NOISE_SCALE = 0.1
_FEW = 10  # effective draws
_NUM_DRAWS = {'smoke': 50, 'laptop': 1000, 'paper': 100_000}
_CHAIN = {
  'smoke': {'num_chains': 2, 'num_draws': 5, 'thinning': 2, 'step_size': 0.05},
  'laptop': {'num_chains': 4, 'num_draws': 100, 'thinning': 10, 'step_size': 0.05},
  'paper': {'num_chains': 8, 'num_draws': 1000, 'thinning': 20, 'step_size': 0.05},
}


def _posterior(piece, context):
  data = data_lib.load(
    piece['data'], piece['num_train'], 1, seed=piece['seed'], data_dir=context.data_dir
  )
  model = models.fcn(data.x_train.shape[1:], data.y_train.shape[1], piece['width'])
  return posterior_lib.Posterior(model, data.x_train, data.y_train, piece['noise_scale'])


def _make_pieces(name, settings):
  def pieces(scale, shared):
    fixed = {'num_train': _NUM_TRAIN[name][scale], 'noise_scale': _NOISE_SCALE, **settings(scale)}
    return [{**shared, 'width': width, **fixed} for width in _WIDTHS[scale]]

  return pieces


def _work(piece):
  chain = piece.get('chain')
  if chain is None:
    # In two coordinates, by values; to draw the weights takes longer than that for few data.
    num_gradients, num_chains = 3 * piece['num_draws'], 1
  else:
    num_gradients, num_chains = chain['num_draws'] * (chain['thinning'] + 3), chain['num_chains']
  shape = estimate.INPUT_SHAPES[piece['data']]
  network = {'width': piece['width']}
  return estimate.Work(num_gradients, piece['num_train'], 'fcn', network, shape, num_chains)


def _compute_kl(piece, context):
  posterior = _posterior(piece, context)
  kernel = theory.nngp_kernel(posterior.split, posterior.x)
  return {
    'theta_limit': theory.kl_limit(kernel, posterior.y, piece['noise_scale']),
    **{
      name: theory.kl_to_prior(posterior, piece['num_draws'], name, piece['seed'])._asdict()
      for name in ('phi', 'theta')
    },
  }


def _draw_kl(figure, rows):
  widths = [row['width'] for row in rows]
  for ax, name in zip(drawing.stacked(figure, 2), ('phi', 'theta'), strict=True):
    values, errors = (
      np.array([row[name][key] for row in rows]) for key in ('value', 'standard_error')
    )
    style = drawing.REPRIORISED if name == 'phi' else drawing.STANDARD
    ax.errorbar(widths, values, 2 * errors, capsize=2, markersize=3.5, **style)
    # White, where the normalizer hangs on a few draws and the estimate is too low.
    few = [i for i, row in enumerate(rows) if row[name]['effective_sample_size'] < _FEW]
    open_style = {**style, 'markerfacecolor': 'white', 'linestyle': 'none', 'label': None}
    ax.plot(np.array(widths)[few], values[few], markersize=3.5, zorder=3, **open_style)
    if name == 'theta':
      ax.axhline(rows[0]['theta_limit'], color=drawing.INK, linestyle=':', label='limit')
    else:
      expected = values[-1] * widths[-1] / np.array(widths)
      ax.plot(widths, expected, color=drawing.INK, linestyle=':', label='1 / width')
    drawing.log_log(ax, widths, values)
    ax.set_title(f'posterior of {name}', fontsize=9)
    ax.set_ylabel('divergence of N(0, I), nats')
  figure.supxlabel(f'width ({recipes.describe(rows[0])})', fontsize=9)
  drawing.legend(figure)


def _compute_gradients(piece, context):
  posterior = _posterior(piece, context)
  chain = piece['chain']
  densities = {
    'repriorised': collapsed_posterior.CollapsedPosterior(posterior),
    'standard': posterior,
  }
  sampler = samplers.make_sampler(posterior, 'rotation')
  start_seed, seed = random.split_seed(piece['seed'], n=2)

  def trace_fn(phi, results):
    states = {'repriorised': phi, 'standard': sampler.theta_fn(phi)}
    return {
      name: theory.gradient_distance(density, states[name]) for name, density in densities.items()
    }

  trace, _ = runner.run_chains(
    sampler.kernel_fn(chain['step_size'], 0.1),
    sampler.start_fn(chain['num_chains'], start_seed),
    trace_fn,
    chain['num_draws'],
    chain['thinning'],
    seed,
  )
  kept = {name: values[len(values) // 5 :] for name, values in trace.items()}
  acceptance = float(np.mean(kept.pop('acceptance')))
  quantiles = {
    name: np.quantile(values, [0.05, 0.5, 0.95]).tolist() for name, values in kept.items()
  }
  root = float(np.sqrt(posterior.split.num_parameters))
  return {'acceptance': acceptance, 'distance': quantiles, 'normal': root}


def _draw_gradients(figure, rows):
  figure.set_size_inches(5.2, 3.4)
  ax = figure.subplots()
  widths = [row['width'] for row in rows]
  everything = []
  for style in (drawing.STANDARD, drawing.REPRIORISED):
    low, middle, high = np.transpose([row['distance'][style['label']] for row in rows])
    drawing.curve_with_band(ax, widths, middle, low, high, **style)
    everything += [*low, *high]
  expected = middle[-1] * np.sqrt(widths[-1] / np.array(widths))
  ax.plot(widths, expected, color=drawing.INK, linestyle=':', label=r'width$^{-1/2}$')
  normal = [row['normal'] for row in rows]
  ax.plot(widths, normal, color=drawing.MUTED, linestyle='--', label='gradient of N(0, I)')
  drawing.log_log(ax, widths, [*everything, *normal])
  ax.set_xlabel(f'width ({recipes.describe(rows[0])})')
  ax.set_ylabel('distance of the gradient from that of N(0, I)')
  drawing.legend(figure)


RECIPES = {
  'kl-width': recipes.Recipe(
    _make_pieces('kl-width', lambda scale: {'num_draws': _NUM_DRAWS[scale]}),
    _compute_kl,
    _draw_kl,
    work=_work,
  ),
  'gradient-width': recipes.Recipe(
    _make_pieces('gradient-width', lambda scale: {'chain': _CHAIN[scale]}),
    _compute_gradients,
    _draw_gradients,
    work=_work,
  ),
}
