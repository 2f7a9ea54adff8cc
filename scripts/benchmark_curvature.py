"""What limits steps: the largest curvatures of the log-likelihood, in the coordinates of samplers.

Warm-up with a map on every layer brings chains to the posterior, and finds step sizes: with the
readout map, before it puts the other one on, and with that. At the state of each chain we take the
Hessian of minus the log-likelihood, in both coordinates, and its largest eigenvalues by Lanczos
iterations, from differences of gradients in float64; means over chains are shown. An integrator of
kicks and rotations is stable up to a step of about two over the root of the largest, with one
stage: the limit. Step sizes are by gradient.
"""

import functools

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp
from absl import app, flags

import tfp_reprior as tfr
from tfp_reprior.benchmarks import results, timing
from tfp_reprior.sampling import planner

_DATA = flags.DEFINE_enum('data', 'digits', ['digits', 'cifar10'], 'As of `tfr.data.load`.')
_DATA_DIR = flags.DEFINE_string('data_dir', None, 'Of TFDS, for cifar10.')
_WIDTHS = flags.DEFINE_list('widths', ['32'], 'Widths of the network.')
_NUMS_DATA = flags.DEFINE_list('nums_data', ['256'], 'Numbers of training data.')
_REGULARIZER = flags.DEFINE_float('regularizer', 10.0, 'Of hidden layers.', 0.0)
_NUM_CHAINS = flags.DEFINE_integer('num_chains', 2, 'Chains, side by side.', 1)
_NUM_WARMUP_STEPS = flags.DEFINE_integer('num_warmup_steps', 2000, 'Gradients of warm-up.', 100)
_NUM_ITERATIONS = flags.DEFINE_integer('num_iterations', 50, 'Of Lanczos.', 11)
_SEEDS = flags.DEFINE_list('seeds', ['1'], 'Seeds of everything random, the data among it.')
_JSON = flags.DEFINE_string('json', None, 'File to write the figures to, and to go on from.')

_MAPS = ('readout', 'every layer')
_DISTANCE = 1e-3  # between the states whose gradients are compared


@functools.lru_cache(maxsize=1)
def warm_up(width, num_data, seed):
  """A posterior, and what warm-up found for it with a map on every layer."""
  data = tfr.data.load(_DATA.value, num_data, 1, seed, _DATA_DIR.value)
  shape, num_outputs = data.x_train.shape[1:], data.y_train.shape[1]
  model = tfr.models.fcn(shape, num_outputs, width, dtype='float64')
  posterior = tfr.Posterior(model, data.x_train, data.y_train, noise_scale=0.1)
  return posterior, tfr.warm_up(
    posterior,
    layer_regularizer=_REGULARIZER.value,
    num_chains=_NUM_CHAINS.value,
    num_warmup_steps=_NUM_WARMUP_STEPS.value,
    seed=seed,
    progress=False,
  )


def measure(case):
  """The largest curvatures in one kind of coordinates, and the step size that goes with them."""
  posterior, found = warm_up(case['width'], case['n'], case['seed'])
  sampler = tfr.make_sampler(posterior, layer_regularizer=_REGULARIZER.value)
  sampler.anchor.place(found.anchor)
  state, step_size = [tf.constant(p) for p in found.state], found.step_size / sampler.num_stages
  if case['map'] == 'readout':
    state, _ = sampler.unmap_fn(state)
    sampler = tfr.make_sampler(posterior)
    stages = [b.stage for b in found.blocks]
    step_size = found.blocks[stages.index(planner.PLACING) - 1].step_size
  values = np.mean(largest_eigenvalues(sampler, state, _NUM_ITERATIONS.value, case['seed']), axis=0)
  limit = 2.0 / np.sqrt(values[0])
  return {
    'largest': float(values[0]),
    'second': float(values[1]),
    'tenth': float(values[9]),
    'limit': float(limit),
    'step size': step_size,
    'step size / limit': float(step_size / limit),
  }


def largest_eigenvalues(sampler, state, num_iterations, seed):
  """Ritz values of minus the Hessian of the log-likelihood, from the largest, `[c, iterations]`."""
  parts = state[: sampler.num_moving_parts]
  shapes = [p.shape for p in parts]
  sizes = [int(np.prod(shape[1:])) for shape in shapes]

  @tf.function(autograph=False)
  def product(flat):
    """The Hessian times `flat`, `[c, d]`, by a difference of gradients."""
    pieces = [tf.reshape(v, s) for v, s in zip(tf.split(flat, sizes, -1), shapes, strict=True)]
    ends = []
    for distance in (_DISTANCE, -_DISTANCE):
      moved = [p + distance * v for p, v in zip(parts, pieces, strict=True)]
      _, grads = tfp.math.value_and_gradient(sampler.log_likelihood_fn, moved)
      ends.append(tf.concat([tf.reshape(g, [g.shape[0], -1]) for g in grads], axis=-1))
    return (ends[1] - ends[0]) / (2.0 * _DISTANCE)

  start = np.random.default_rng(seed).normal(size=(shapes[0][0], sum(sizes)))
  basis = [start / np.linalg.norm(start, axis=-1, keepdims=True)]
  images = []
  for _ in range(num_iterations):
    images.append(product(basis[-1]).numpy())
    rest = images[-1]
    for _ in range(2):  # once more, for rounding
      for vector in basis:
        rest = rest - np.sum(rest * vector, axis=-1, keepdims=True) * vector
    basis.append(rest / np.linalg.norm(rest, axis=-1, keepdims=True))
  projected = np.einsum('icd,jcd->cij', np.array(basis[:-1]), np.array(images))
  return np.linalg.eigvalsh(projected + np.swapaxes(projected, 1, 2))[:, ::-1] / 2.0


def main(argv):
  if len(argv) > 1:
    raise app.UsageError(f'Unknown arguments: {argv[1:]}')
  settings = {
    'data': _DATA.value,
    'regularizer': _REGULARIZER.value,
    'num_warmup_steps': _NUM_WARMUP_STEPS.value,
    'num_iterations': _NUM_ITERATIONS.value,
  }
  cases = (
    {'width': int(width), 'n': int(n), 'seed': int(seed), 'map': which, 'settings': settings}
    for n in _NUMS_DATA.value
    for width in _WIDTHS.value
    for seed in _SEEDS.value
    for which in _MAPS
  )
  timing.report(results.measured(cases, measure, _JSON.value))


if __name__ == '__main__':
  app.run(main)
