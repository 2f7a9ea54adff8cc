"""The change of variables for a linear model of two weights and one datum."""

import numpy as np
import tensorflow as tf

from tfp_reprior import theory
from tfp_reprior.bijectors import factorization
from tfp_reprior.figures import recipes
from tfp_reprior.plots import drawing

_NUM_POINTS = 101
_LIMIT = 3.5
_LEVELS = (-4.5, -2.0, -0.5)  # of the log-density: 3, 2 and 1 standard deviations
_LABELS = {'theta': r'\theta', 'phi': r'\phi'}


def _pieces(scale, shared):
  paper = {'x': [0.9, 0.5], 'y': 2.0, 'noise_variance': 0.1}
  return [{**paper, 'num_points': _NUM_POINTS}]


def _compute(piece, context):
  """Log-densities relative to their maxima, on a grid of theta and on one of phi."""
  psi, s2 = np.array([piece['x']]), piece['noise_variance']  # [1, 2]
  factor = factorization.factorize(tf.constant(psi), tf.constant([[piece['y']]], psi.dtype), s2)
  axis = np.linspace(-_LIMIT, _LIMIT, piece['num_points'])
  grid = np.stack(np.meshgrid(axis, axis)).reshape(2, -1)  # [2, g * g]

  def log_prior(theta):
    return -0.5 * np.sum(theta**2, axis=0)

  def log_posterior(theta):
    return log_prior(theta) - 0.5 * (psi[0] @ theta - piece['y']) ** 2 / s2

  densities = {}
  for name, theta in (('theta', grid), ('phi', factor.forward(grid).numpy())):
    # The log-determinant of the map does not depend on phi here: it drops out.
    below = log_posterior(theta) - log_posterior(factor.mean().numpy())
    densities[name] = {
      'prior': log_prior(theta).reshape(len(axis), -1).tolist(),
      'posterior': below.reshape(len(axis), -1).tolist(),
    }
  return {
    'axis': axis.tolist(),
    'log_densities': densities,
    'stable_step_size': {
      'theta': theory.stable_step_size(psi, s2**0.5),
      'phi': theory.stable_step_size(psi, s2**0.5, regularizer=s2),
    },
  }


def _draw(figure, rows):
  [row] = rows
  figure.set_size_inches(6.4, 3.5)
  colors = {'prior': drawing.MUTED, 'posterior': drawing.COLORS[0]}
  for ax, (name, densities) in zip(
    figure.subplots(1, 2), row['log_densities'].items(), strict=True
  ):
    for which, color in colors.items():
      style = 'dashed' if which == 'prior' else 'solid'
      ax.contour(
        row['axis'], row['axis'], densities[which], _LEVELS, colors=color, linestyles=style
      )
      ax.plot([], [], color=color, linestyle=style, label=which)
    step_size = row['stable_step_size'][name]
    title = 'weights' if name == 'theta' else 'after the map'
    ax.set_title(f'{title}: stable steps up to {step_size:.3g}', fontsize=9)
    ax.set(xlabel=f'${_LABELS[name]}_1$', ylabel=f'${_LABELS[name]}_2$', aspect='equal')
  drawing.legend(figure)


RECIPES = {'linear-map': recipes.Recipe(_pieces, _compute, _draw)}
