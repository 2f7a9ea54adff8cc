"""Times whole sampler transitions against the gradient that they contain.

A transition is value and gradient, the random numbers for the momentum, the updates, the energy
error and accept / reject. Leapfrog takes them of the log-density, rotation of the log-likelihood,
and each is compared with its own. Contestants run in turn in one process; data are random, as in
benchmark_density. Prints a table and, with --json, writes the figures to a file.
"""

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp
from absl import app, flags

import tfp_reprior as tfr
from tfp_reprior.internal import timing

_WIDTHS = flags.DEFINE_list('widths', ['64', '256', '512', '1024'], 'Widths of the network.')
_NUMS_DATA = flags.DEFINE_list('nums_data', ['64', '256', '1024'], 'Numbers of data.')
_NUMS_CHAINS = flags.DEFINE_list('nums_chains', ['1', '4'], 'Numbers of chains; 1 has no axis.')
_NUM_ROUNDS = flags.DEFINE_integer('num_rounds', 15, 'Rounds of which the median is taken.', 1)
_NUM_STEPS = flags.DEFINE_integer('num_steps', 4, 'Transitions in a timed run.', 1)
_JSON = flags.DEFINE_string('json', None, 'File to write the figures to.')

TRANSITIONS = {
  'gradient': ('leapfrog', '8 leapfrogs'),
  'gradient of likelihood': ('rotation', '8 rotations'),
}


def contestants(posterior, num_chains, num_steps):
  """Dict of functions; each runs `num_steps` gradients, alone or in transitions."""
  collapsed = tfr.CollapsedPosterior(posterior)
  phi = posterior.sample_prior(() if num_chains == 1 else num_chains, seed=1)
  hidden = phi[: posterior.split.num_hidden]
  seed = tf.constant([1, 2])

  def gradients(log_prob_fn, phi):
    # The smallest part takes a step along its gradient, so that no evaluation can be shared with
    # the one before; the value and the other gradients are used by operations that cost nothing.
    def step(i, *phi):
      value, grads = tfp.math.value_and_gradient(log_prob_fn, phi)
      used = tf.reduce_sum(value) + tf.add_n([tf.reshape(g, [-1])[0] for g in grads])
      return i + 1, *phi[:-1], phi[-1] + 1e-9 * (grads[-1] + used)

    @tfr.compilation.function
    def run(*phi):
      return tf.while_loop(lambda i, *_: i < num_steps, step, (tf.constant(0), *phi))

    return lambda: run(*phi)

  def transitions(kernel_class, log_prob_fn, phi, num_leapfrog_steps):
    kernel = kernel_class(log_prob_fn, 0.05, 0.1, num_leapfrog_steps)
    results = kernel.bootstrap_results(phi)

    @tfr.compilation.function
    def run(phi, results):
      def step(i, phi, results):
        return i + 1, *kernel.one_step(phi, results, seed=seed + i)

      return tf.while_loop(
        lambda i, *_: i < num_steps // num_leapfrog_steps, step, (tf.constant(0), phi, results)
      )

    return lambda: run(phi, results)

  leapfrog = (tfr.mcmc.UnderdampedLangevin, collapsed.target_log_prob_fn, phi)
  rotation = (tfr.mcmc.RotationLangevin, collapsed.log_likelihood_fn, hidden)
  return {
    'gradient': gradients(*leapfrog[1:]),
    'leapfrog': transitions(*leapfrog, 1),
    '8 leapfrogs': transitions(*leapfrog, 8),
    'gradient of likelihood': gradients(*rotation[1:]),
    'rotation': transitions(*rotation, 1),
    '8 rotations': transitions(*rotation, 8),
  }


def rows():
  """Yields the figures, row by row."""
  num_steps = 8 * -(-_NUM_STEPS.value // 8)
  for width in map(int, _WIDTHS.value):
    for num_data in map(int, _NUMS_DATA.value):
      rng = np.random.default_rng(0)
      x = rng.normal(size=(num_data, 3072)).astype(np.float32)
      y = rng.normal(size=(num_data, 10)).astype(np.float32)
      posterior = tfr.Posterior(tfr.models.fcn((3072,), 10, width), x, y)
      for num_chains in map(int, _NUMS_CHAINS.value):
        runs = contestants(posterior, num_chains, num_steps)
        seconds = timing.alternate(runs, _NUM_ROUNDS.value)
        yield {
          'width': width,
          'n': num_data,
          'chains': num_chains,
          'parameters': posterior.split.num_parameters,
          'gradient ms': 1000 * seconds['gradient'] / num_steps,
          'leapfrog ms': 1000 * seconds['leapfrog'] / num_steps,
          **{
            f'{name} / {unit}': seconds[name] / seconds[unit]
            for unit, names in TRANSITIONS.items()
            for name in names
          },
        }


def main(argv):
  if len(argv) > 1:
    raise app.UsageError(f'Unknown arguments: {argv[1:]}')
  tfr.compilation.keep_freed_memory()
  timing.report(rows(), _JSON.value, timing.machine_facts())


if __name__ == '__main__':
  app.run(main)
