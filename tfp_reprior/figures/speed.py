"""Seconds per step, standard and repriorised."""

import numpy as np
import tensorflow as tf

from tfp_reprior import compilation
from tfp_reprior.benchmarks import timing
from tfp_reprior.densities import posterior as posterior_lib
from tfp_reprior.figures import estimate, recipes
from tfp_reprior.plots import drawing
from tfp_reprior.sampling import samplers

_SAMPLERS = ('uncalibrated_standard', 'uncalibrated_langevin')
_TITLES = {'fcn': 'fully connected', 'cnn': 'convolutional'}
_NUM_OUTPUTS = 10
_SCALES = {
  'smoke': {'input_shape': [4, 4, 1], 'num_data': 3, 'num_rounds': 1},
  'laptop': {'input_shape': [32, 32, 3], 'num_data': 64, 'num_rounds': 15},
  'paper': {'input_shape': [32, 32, 3], 'num_data': 256, 'num_rounds': 50},
}
_WIDTHS = {
  'smoke': {'fcn': (4, 8), 'cnn': (2,)},
  'laptop': {'fcn': (64, 128, 256, 512, 1024), 'cnn': (8, 16, 32, 64)},
  'paper': {'fcn': (64, 128, 256, 512, 1024, 2048), 'cnn': (16, 32, 64, 128, 256)},
}


def _pieces(scale, shared):
  return [
    {'model': model, 'width': width, 'seed': shared['seed'], **_SCALES[scale]}
    for model, widths in _WIDTHS[scale].items()
    for width in widths
  ]


def _compute(piece, context):
  """Times both samplers in turn, on random data."""
  rng = np.random.default_rng(piece['seed'])
  x = rng.normal(size=(piece['num_data'], *piece['input_shape'])).astype(np.float32)
  y = rng.normal(size=(piece['num_data'], _NUM_OUTPUTS)).astype(np.float32)
  model = estimate.MODELS[piece['model']](tuple(piece['input_shape']), _NUM_OUTPUTS, piece['width'])
  posterior = posterior_lib.Posterior(model, x, y, noise_scale=0.1)
  contestants = {name: _make_step(posterior, name, piece['seed']) for name in _SAMPLERS}
  seconds = timing.alternate(contestants, piece['num_rounds'])
  standard, repriorised = (seconds[name] for name in _SAMPLERS)
  return {
    'num_parameters': posterior.split.num_parameters,
    'seconds': seconds,
    'ratio': repriorised / standard,
    'machine': timing.machine_facts(),
  }


def _work(piece):
  num_steps = len(_SAMPLERS) * (piece['num_rounds'] + 2)
  shape, network = tuple(piece['input_shape']), {'width': piece['width']}
  return estimate.Work(num_steps, piece['num_data'], piece['model'], network, shape)


def _make_step(posterior, name, seed):
  """A function without arguments that takes a step of one chain."""
  sampler = samplers.make_sampler(posterior, name)
  kernel = sampler.kernel_fn(1e-3, 0.1)
  state = [p[0] for p in sampler.start_fn(1, seed)]
  results = kernel.bootstrap_results(state)
  step = compilation.function(
    lambda state, results: kernel.one_step(state, results, seed=tf.constant([1, 2]))
  )
  # Concrete, because TensorFlow complains of many functions that have one name.
  concrete = step.get_concrete_function(state, results)
  return lambda: concrete(state, results)


def _draw(figure, rows):
  figure.set_size_inches(4.6, 5.4)
  for ax, (model, title) in zip(figure.subplots(2, 1), _TITLES.items(), strict=True):
    chosen = [row for row in rows if row['model'] == model]
    widths = [row['width'] for row in chosen]
    everything = []
    for name in _SAMPLERS:
      seconds = [row['seconds'][name] for row in chosen]
      ax.plot(widths, seconds, markersize=3.5, **drawing.sampler_style(name))
      everything += seconds
    drawing.log_log(ax, widths, everything)
    ax.set_title(title, fontsize=9)
    ax.set_ylabel('seconds per step')
  machine = rows[0]['machine']
  figure.supxlabel(
    f'width, or channels (n = {rows[0]["num_data"]}; {machine["processor"]})',
    fontsize=9,
  )
  drawing.legend(figure)


RECIPES = {'speed': recipes.Recipe(_pieces, _compute, _draw, work=_work)}
