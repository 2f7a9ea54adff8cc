"""`tfp-reprior benchmark`: what a gradient and a step cost here."""

import numpy as np

import tfp_reprior as tfr
from tfp_reprior.cli import flags

HELP = 'time gradients and steps on this machine'

DESCRIPTION = """\
Times, in turn and on random data, value and gradient of the posterior density in the standard
parametrisation and repriorised (with Gaussian noise the readout is integrated out), and a step of
the default sampler; for a fully connected network with 3072 inputs, as CIFAR-10, three hidden
layers and 10 outputs. Prints medians, ratios to the standard gradient, and what they depend on.

examples:
  tfp-reprior benchmark --width=512 --num_data=256
  tfp-reprior benchmark --likelihood=categorical"""

_NUM_INPUTS, _NUM_OUTPUTS = 3072, 10


def add_arguments(parser):
  """Adds the flags of this command."""
  flags.add(parser, '--width', flags.positive_integer, 256, 'width of the hidden layers')
  flags.add(parser, '--num_data', flags.positive_integer, 256, 'number of data')
  flags.add_likelihood(parser)
  flags.add(parser, '--num_chains', flags.positive_integer, 1, 'chains, side by side')
  flags.add(parser, '--num_rounds', flags.positive_integer, 15, 'times that each is run')


def run(args):
  """Runs the command. Returns the exit code."""
  from tfp_reprior.internal import timing  # imports TensorFlow

  tfr.compilation.keep_freed_memory()
  rng = np.random.default_rng(0)
  x = rng.normal(size=(args.num_data, _NUM_INPUTS)).astype(np.float32)
  shape = (args.num_data, _NUM_OUTPUTS)
  likelihood, y = {
    'gaussian': (tfr.likelihoods.Gaussian(), rng.normal(size=shape)),
    'categorical': (tfr.likelihoods.Categorical(), rng.integers(_NUM_OUTPUTS, size=shape[0])),
    'bernoulli': (tfr.likelihoods.Bernoulli(), rng.integers(2, size=shape)),
  }[args.likelihood]
  model = tfr.models.fcn((_NUM_INPUTS,), _NUM_OUTPUTS, args.width)
  posterior = tfr.Posterior(model, x, y, likelihood=likelihood)
  seconds = timing.alternate(contestants(posterior, args.num_chains), args.num_rounds)
  for name, fact in timing.machine_facts().items():
    print(f'{name}: {fact}')
  print(f'{posterior}, {args.num_chains} chains\n')
  standard = seconds['standard: value and gradient']
  rows = [
    {'': name, 'milliseconds': 1000 * s, 'relative': s / standard} for name, s in seconds.items()
  ]
  timing.report(rows)
  return 0


def contestants(posterior, num_chains):
  """Dict of functions without arguments; each is one evaluation, or one step, of all chains."""
  import tensorflow as tf
  import tensorflow_probability as tfp

  phi = posterior.sample_prior(num_chains, seed=1)
  targets = {'standard': posterior}
  if posterior.likelihood.is_conjugate:
    targets['collapsed'] = tfr.CollapsedPosterior(posterior)
  else:
    targets['composed'] = tfr.ComposedPosterior(posterior)
  functions = {
    f'{name}: value and gradient': tfr.compilation.function(
      lambda *parts, fn=target.target_log_prob_fn: tfp.math.value_and_gradient(fn, parts)
    )
    for name, target in targets.items()
  }
  sampler = tfr.make_sampler(posterior)
  kernel = sampler.kernel_fn(0.1, 0.1)
  results = kernel.bootstrap_results(phi)
  step = tfr.compilation.function(lambda *state: kernel.one_step(*state, seed=tf.constant([1, 2])))
  return {
    **{name: (lambda fn=fn: fn(*phi)) for name, fn in functions.items()},
    f'{sampler.name}: step': lambda: step(phi, results),
  }
