"""Times whole sampler transitions against the gradient that they contain.

A transition is value and gradient, the random numbers for the momentum, the updates, the energy
error and accept / reject. The gradient is that of the log-density in phi. Kernels take that of the
log-likelihood alone, which is cheaper, and add the prior in their updates; both are compared.
Contestants run in turn in one process; data are random, as in benchmark_density. Prints a table,
and with --json writes the figures to a file.
"""

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp
from absl import app, flags

import tfp_reprior as tfr
from tfp_reprior.benchmarks import results, timing

_WIDTHS = flags.DEFINE_list('widths', ['64', '256', '512', '1024'], 'Widths of the network.')
_NUMS_DATA = flags.DEFINE_list('nums_data', ['64', '256', '1024'], 'Numbers of data.')
_NUMS_CHAINS = flags.DEFINE_list('nums_chains', ['1', '4'], 'Numbers of chains; 1 has no axis.')
_NUM_ROUNDS = flags.DEFINE_integer('num_rounds', 15, 'Rounds of which the median is taken.', 1)
_NUM_STEPS = flags.DEFINE_integer('num_steps', 4, 'Transitions in a timed run.', 1)
_JSON = flags.DEFINE_string('json', None, 'File to write the figures to.')

TRANSITIONS = ('leapfrog', '8 leapfrogs', 'rotation', '8 rotations')


def contestants(posterior, num_chains, num_steps):
  """Dict of functions; each runs `num_steps` gradients, alone or in transitions."""
  collapsed = tfr.CollapsedPosterior(posterior)
  chains = () if num_chains == 1 else num_chains
  phi, other = (posterior.sample_prior(chains, seed=seed) for seed in (1, 2))
  seed = tf.constant([1, 2])

  def gradients(log_prob_fn, num_parts):
    # In turn at one state and another: of what does not change in a loop, TensorFlow would keep
    # the prior. All gradients are used, by operations that cost nothing.
    def step(i, here, there, total):
      value, grads = tfp.math.value_and_gradient(log_prob_fn, here)
      used = tf.reduce_sum(value) + tf.add_n([tf.reshape(g, [-1])[0] for g in grads])
      return i + 1, there, here, total + used

    @tfr.compilation.function
    def run(*states):
      return tf.while_loop(
        lambda i, *_: i < num_steps,
        step,
        (tf.constant(0), *states, tf.constant(0.0)),
        parallel_iterations=1,
      )

    return lambda: run(phi[:num_parts], other[:num_parts])

  def transitions(sampler_name, num_integrator_steps):
    kernel = tfr.make_sampler(posterior, sampler_name).kernel_fn(0.05, 0.1, num_integrator_steps)
    results = kernel.bootstrap_results(phi)

    @tfr.compilation.function
    def run(phi, results):
      def step(i, phi, results):
        return i + 1, *kernel.one_step(phi, results, seed=seed + i)

      return tf.while_loop(
        lambda i, *_: i < num_steps // num_integrator_steps, step, (tf.constant(0), phi, results)
      )

    return lambda: run(phi, results)

  return {
    'gradient': gradients(collapsed.target_log_prob_fn, len(phi)),
    'gradient of likelihood': gradients(collapsed.log_likelihood_fn, posterior.split.num_hidden),
    'leapfrog': transitions('langevin', 1),
    '8 leapfrogs': transitions('langevin', 8),
    'rotation': transitions('rotation', 1),
    '8 rotations': transitions('rotation', 8),
  }


def rows():
  """Yields the figures, row by row."""
  num_steps = 8 * -(-_NUM_STEPS.value // 8)
  for width in map(int, _WIDTHS.value):
    for num_data in map(int, _NUMS_DATA.value):
      rng = np.random.default_rng(0)
      x = rng.normal(size=(num_data, 3072)).astype(np.float32)
      y = rng.normal(size=(num_data, 10)).astype(np.float32)
      posterior = tfr.Posterior(tfr.models.fcn((3072,), 10, width), x, y, noise_scale=0.1)
      for num_chains in map(int, _NUMS_CHAINS.value):
        runs = contestants(posterior, num_chains, num_steps)
        seconds = timing.alternate(runs, _NUM_ROUNDS.value)
        yield {
          'width': width,
          'n': num_data,
          'chains': num_chains,
          'parameters': posterior.split.num_parameters,
          'gradient ms': 1000 * seconds['gradient'] / num_steps,
          'gradient of likelihood ms': 1000 * seconds['gradient of likelihood'] / num_steps,
          **{
            f'{name} / {unit}': seconds[name] / seconds[unit]
            for unit in ('gradient', 'gradient of likelihood')
            for name in TRANSITIONS
          },
        }


def main(argv):
  if len(argv) > 1:
    raise app.UsageError(f'Unknown arguments: {argv[1:]}')
  tfr.compilation.keep_freed_memory()
  timing.report(rows(), _JSON.value, timing.machine_facts() | results.provenance())


if __name__ == '__main__':
  app.run(main)
