"""Functions of mapped N(0, I), against the posterior of the Gaussian process that is the limit."""

import numpy as np

from tfp_reprior import models, theory
from tfp_reprior.densities import collapsed_posterior
from tfp_reprior.densities import posterior as posterior_lib
from tfp_reprior.figures import estimate, recipes
from tfp_reprior.internal import random
from tfp_reprior.plots import drawing
from tfp_reprior.theory import prior_draws

_SCALES = {
  'smoke': {'widths': (4, 64), 'num_draws': 50, 'num_points': 21},
  'laptop': {'widths': (8, 64, 512), 'num_draws': 2000, 'num_points': 101},
  'paper': {'widths': (8, 64, 512, 4096), 'num_draws': 10000, 'num_points': 101},
}
_NUM_SHOWN = 8
# Three observations, of a network with biases that bend its functions.
_X, _Y = [-1.0, 0.2, 1.0], [0.5, -0.6, 0.8]
_NETWORK = {'depth': 3, 'activation': 'gelu', 'weight_std': 1.7, 'bias_std': 0.5}


def _pieces(scale, shared):
  settings = dict(_SCALES[scale])
  fixed = {'x': _X, 'y': _Y, 'noise_scale': 0.1, 'network': _NETWORK, 'seed': shared['seed']}
  return [{'width': width, **settings, **fixed} for width in settings.pop('widths')]


def _compute(piece, context):
  x, y = (np.array(values, np.float32)[:, np.newaxis] for values in (piece['x'], piece['y']))
  x_test = np.linspace(-2, 2, piece['num_points'], dtype=np.float32)[:, np.newaxis]
  model = models.fcn((1,), 1, piece['width'], **piece['network'])
  posterior = posterior_lib.Posterior(model, x, y, piece['noise_scale'])
  split, collapsed = posterior.split, collapsed_posterior.CollapsedPosterior(posterior)
  shown_seed, seed = random.split_seed(piece['seed'], n=2)
  shown = split.apply(
    posterior.reprior().forward(posterior.sample_prior(_NUM_SHOWN, shown_seed)), x_test
  )
  # Over the readout exactly, over the hidden parts by draws.
  batches = prior_draws.map_prior(
    lambda phi: collapsed.predict(phi[: split.num_hidden], x_test),
    split,
    piece['num_draws'],
    seed,
  )
  means, variances = (np.concatenate(v)[..., 0] for v in zip(*batches, strict=True))
  pairs = ((x, x), (x_test, x), (x_test, x_test))
  kernels = [theory.nngp_kernel(split, *pair) for pair in pairs]
  limit_mean, limit_covariance = theory.nngp_posterior(*kernels, y, piece['noise_scale'])
  curves = {
    'mean': means.mean(axis=0),
    'stddev': np.sqrt(variances.mean(axis=0) + means.var(axis=0)),
    'limit_mean': limit_mean[:, 0],
    'limit_stddev': np.sqrt(np.diag(limit_covariance)),
  }
  return {
    'x_test': x_test[:, 0].tolist(),
    'functions': shown.numpy()[..., 0].tolist(),
    **{name: values.tolist() for name, values in curves.items()},
    'largest_difference': {
      name: float(np.max(np.abs(curves[name] - curves[f'limit_{name}'])))
      for name in ('mean', 'stddev')
    },
  }


def _draw(figure, rows):
  axes = np.atleast_1d(drawing.stacked(figure, len(rows), height=1.8))
  for ax, row in zip(axes, rows, strict=True):
    x = row['x_test']
    mean, stddev = np.array(row['limit_mean']), np.array(row['limit_stddev'])
    ax.fill_between(
      x,
      mean - 2 * stddev,
      mean + 2 * stddev,
      color=drawing.LINE,
      label='limit, ± 2 deviations',
    )
    ax.plot(x, np.transpose(row['functions']), color=drawing.COLORS[5], linewidth=0.6)
    for sign in (-2, 0, 2):
      curve = np.array(row['mean']) + sign * np.array(row['stddev'])
      label = 'networks, likewise' if sign == 0 else None
      ax.plot(x, curve, color=drawing.COLORS[0], linestyle='-' if sign == 0 else '--', label=label)
    ax.plot(x, mean, color=drawing.INK, linestyle=':')
    ax.plot(row['x'], row['y'], 'o', color=drawing.INK, markersize=4)
    ax.set_title(f'width {row["width"]}', fontsize=9)
    ax.set_ylabel('output')
  axes[-1].set_xlabel('input')
  drawing.legend(figure)


def _work(piece):
  network = {'width': piece['width'], 'depth': piece['network']['depth']}
  num_data = piece['num_points'] + len(piece['x'])
  return estimate.Work(piece['num_draws'] / 3, num_data, 'fcn', network, (1,))


RECIPES = {'function-convergence': recipes.Recipe(_pieces, _compute, _draw, work=_work)}
