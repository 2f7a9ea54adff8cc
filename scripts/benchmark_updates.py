"""Times what a transition does beyond the gradient, piece by piece.

The state is that of a fully connected network with three hidden layers. `start` makes the noise,
refreshes the momentum, and takes the first half kick and move; `proceed` is a kick and a move
between two gradients; `finish` is the last half kick and the energy error. Leapfrog adds the prior.
Prints a table and, with --json, writes the figures to a file.
"""

import tensorflow as tf
from absl import app, flags

import tfp_reprior as tfr
from tfp_reprior.benchmarks import results, timing
from tfp_reprior.internal import random
from tfp_reprior.mcmc import integrators

_WIDTH = flags.DEFINE_integer('width', 1024, 'Width of the network.', 1)
_NUM_INPUTS = flags.DEFINE_integer('num_inputs', 3072, 'Number of inputs.', 1)
_NUM_ROUNDS = flags.DEFINE_integer('num_rounds', 15, 'Rounds of which the median is taken.', 1)
_JSON = flags.DEFINE_string('json', None, 'File to write the figures to.')


def contestants(shapes):
  """Dict of functions without arguments."""
  state, momentum, grads, start_state, start_grads, start_momentum = (
    random.normal_parts(shapes, tf.float32, seed=seed) for seed in range(6)
  )
  step_sizes, dampings = ([tf.constant(v)] * len(shapes) for v in (0.05, 0.1))
  log_prob, seed = tf.constant(0.0), tf.constant([1, 2])

  @tfr.compilation.fuse
  def copy(parts):
    return [p + 1.0 for p in parts]

  @tfr.compilation.fuse
  def to_normal(bits):
    return [random.bits_to_normal(b, tf.float32) for b in bits]

  @tf.function(autograph=False)
  def draw_bits():
    return [
      random.random_bits(shape, tf.float32, s)
      for shape, s in zip(shapes, random.split_seed(seed, n=len(shapes)), strict=True)
    ]

  bits = draw_bits()
  runs = {
    'copy': lambda: copy(state),
    'Philox bits': draw_bits,
    'bits to normal by erfinv': lambda: to_normal(bits),
  }
  sources = {
    'its own noise': random.sources_like(state, seed),
    'bits given': [random.Bits(b) for b in bits],
  }
  for name, integrator in {
    'leapfrog': integrators.leapfrog_with_prior,
    'rotation': integrators.rotations[1],
  }.items():
    for which, given in sources.items():
      runs[f'{name}, start, {which}'] = lambda integrator=integrator, given=given: integrator.start(
        given, momentum, dampings, grads, state, step_sizes, step_sizes
      )
    runs[f'{name}, proceed'] = lambda integrator=integrator: integrator.proceed(
      state, momentum, grads, step_sizes, step_sizes, log_prob
    )
    kicked = [] if integrator is integrators.leapfrog_with_prior else start_momentum
    runs[f'{name}, finish'] = lambda integrator=integrator, kicked=kicked: integrator.finish(
      momentum, grads, state, kicked, start_grads, start_state, step_sizes, log_prob
    )
  return runs


def main(argv):
  if len(argv) > 1:
    raise app.UsageError(f'Unknown arguments: {argv[1:]}')
  tfr.compilation.keep_freed_memory()
  width = _WIDTH.value
  layers = [(_NUM_INPUTS.value, width), (width, width), (width, width)]
  shapes = [shape for layer in layers for shape in (layer, layer[1:])]
  seconds = timing.alternate(contestants(shapes), _NUM_ROUNDS.value)
  rows = [{'piece': name, 'ms': 1000 * s} for name, s in seconds.items()]
  timing.report(rows, _JSON.value, timing.machine_facts() | results.provenance())


if __name__ == '__main__':
  app.run(main)
