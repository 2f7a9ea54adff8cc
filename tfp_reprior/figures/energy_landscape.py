"""Slices of the log-density through three solutions, standard and repriorised."""

import keras
import numpy as np
import tensorflow as tf

from tfp_reprior import compilation, models
from tfp_reprior import data as data_lib
from tfp_reprior.densities import collapsed_posterior
from tfp_reprior.densities import posterior as posterior_lib
from tfp_reprior.figures import estimate, recipes

_NAMES = ('standard', 'repriorised')
_SCALES = {
  'smoke': {'num_points': 6, 'num_training_steps': 20, 'learning_rate': 0.03},
  'laptop': {'num_points': 31, 'num_training_steps': 1000, 'learning_rate': 0.03},
  'paper': {'num_points': 61, 'num_training_steps': 10000, 'learning_rate': 0.01},
}
# Widths at one number of data, and numbers of data at one width.
_PROBLEMS = {
  'smoke': [(4, 6), (16, 6)],
  'laptop': [(32, 128), (128, 128), (512, 128), (128, 32), (128, 512)],
  'paper': [(32, 128), (128, 128), (512, 128), (2048, 128), (128, 32), (128, 512), (128, 2048)],
}
_CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, 0.75**0.5]])


def _pieces(scale, shared):
  return [
    {**shared, 'width': width, 'num_train': num_train, **_SCALES[scale]}
    for width, num_train in _PROBLEMS[scale]
  ]


def _compute(piece, context):
  """Log-densities on a triangle whose corners are the solutions.

  At barycentric weights `((1 - b)(1 - a), (1 - b) a, b)` is the point with the direction
  `slerp(slerp(u1, u2, a), u3, b)`, u the directions of the corners, and a norm that is linear in
  the weights: a straight line between random directions passes through much smaller norms.
  """
  data = data_lib.load(
    piece['data'], piece['num_train'], 1, seed=piece['seed'], data_dir=context.data_dir
  )
  model = models.fcn(data.x_train.shape[1:], data.y_train.shape[1], piece['width'])
  posterior = posterior_lib.Posterior(model, data.x_train, data.y_train, noise_scale=0.1)
  theta = _train(posterior, piece)
  slices = {
    'standard': (posterior.target_log_prob_fn, theta),
    'repriorised': (
      collapsed_posterior.CollapsedPosterior(posterior).target_log_prob_fn,
      posterior.reprior().inverse(theta),
    ),
  }
  fractions = np.linspace(0, 1, piece['num_points'])
  pairs = [(a, b) for b in fractions for a in (fractions if b < 1 else [0.0])]
  weights = np.array([((1 - b) * (1 - a), (1 - b) * a, b) for a, b in pairs])
  log_prob = {name: _slice(*pair, pairs) for name, pair in slices.items()}
  depth = {name: max(values) - min(values) for name, values in log_prob.items()}
  return {
    'positions': (weights @ _CORNERS).tolist(),
    'log_prob': log_prob,
    'depth': {**depth, 'ratio': depth['standard'] / depth['repriorised']},
  }


def _work(piece):
  num_values = len(_NAMES) * piece['num_points'] ** 2 / 3  # at a third of a gradient
  return estimate.Work(
    piece['num_training_steps'] + num_values / 3,  # for three corners
    piece['num_train'],
    'fcn',
    {'width': piece['width']},
    estimate.INPUT_SHAPES[piece['data']],
    num_chains=3,
  )


def _train(posterior, piece):
  """Three maxima of the posterior density of the weights, by Adam from draws of the prior."""
  theta = [keras.Variable(p) for p in posterior.sample_prior(3, piece['seed'])]
  optimizer = keras.optimizers.Adam(piece['learning_rate'])
  optimizer.build(theta)

  @compilation.function
  def step():
    with tf.GradientTape() as tape:
      loss = -tf.reduce_sum(posterior.target_log_prob_fn(*[v.value for v in theta]))
    optimizer.apply(tape.gradient(loss, [v.value for v in theta]), theta)

  for _ in range(piece['num_training_steps']):
    step()
  return [tf.convert_to_tensor(v.value) for v in theta]


def _slice(log_prob_fn, solutions, pairs):
  """Log-densities at the points of `pairs`, of a triangle with corners `[3, *event_shape]`."""
  shapes = [p.shape[1:] for p in solutions]
  flat = tf.concat([tf.reshape(p, [3, -1]) for p in solutions], axis=1)
  norms = tf.norm(flat, axis=1)
  u1, u2, u3 = tf.unstack(flat / norms[:, tf.newaxis])
  sizes = [shape.num_elements() for shape in shapes]

  @compilation.function
  def log_prob(a, b):
    direction = slerp(slerp(u1, u2, a), u3, b)
    norm = (1 - b) * ((1 - a) * norms[0] + a * norms[1]) + b * norms[2]
    parts = tf.split(norm * direction, sizes)
    return log_prob_fn(*(tf.reshape(p, s) for p, s in zip(parts, shapes, strict=True)))

  return [float(log_prob(*tf.constant(pair, flat.dtype))) for pair in pairs]


def slerp(u, v, t):
  """The unit vector at the fraction t of the arc from u to v, unit vectors that differ."""
  angle = tf.acos(tf.clip_by_value(tf.reduce_sum(u * v), -1.0, 1.0))
  return (tf.sin((1 - t) * angle) * u + tf.sin(t * angle) * v) / tf.sin(angle)


def _draw(figure, rows):
  # Tall, so that text is large enough on a phone.
  figure.set_size_inches(4.2, 0.8 + 1.35 * len(rows))
  grid = figure.subplots(len(rows), len(_NAMES), squeeze=False)
  depths = {
    name: [np.log10(1 + max(r['log_prob'][name]) - np.array(r['log_prob'][name])) for r in rows]
    for name in _NAMES
  }
  deepest = max(np.max(d) for ds in depths.values() for d in ds)
  for axes, name in zip(grid.T, _NAMES, strict=True):
    for ax, row, depth in zip(axes, rows, depths[name], strict=True):
      x, y = np.transpose(row['positions'])
      levels = np.linspace(0, deepest, 20)
      contours = ax.tricontourf(x, y, depth, levels=levels, cmap='viridis_r')
      ax.plot(*_CORNERS.T, 'o', color='white', markeredgecolor='black', markersize=4, clip_on=False)
      ax.set(aspect='equal', xticks=[], yticks=[])
      ax.grid(False)
      ax.spines[:].set_visible(False)
    axes[0].set_title(name, fontsize=10)
  for ax, row in zip(grid[:, 0], rows, strict=True):
    ax.set_ylabel(f'width {row["width"]}\nn = {row["num_train"]}', fontsize=10)
  bar = figure.colorbar(
    contours, ax=grid, location='bottom', aspect=30, ticks=range(int(deepest) + 1)
  )
  bar.set_label(f'log10(1 + nats below the highest point), {recipes.DATA[rows[0]["data"]]}')


RECIPES = {'energy-landscape': recipes.Recipe(_pieces, _compute, _draw, work=_work)}
