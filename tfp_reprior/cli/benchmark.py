"""`tfp-reprior benchmark`: what a gradient and a step cost here."""

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


def add_arguments(parser):
  """Adds the flags of this command."""
  flags.add(parser, '--width', flags.positive_integer, 256, 'width of the hidden layers')
  flags.add(parser, '--num_data', flags.positive_integer, 256, 'number of data')
  flags.add_likelihood(parser, 'gaussian')
  flags.add(parser, '--num_chains', flags.positive_integer, 1, 'chains, side by side')
  flags.add(parser, '--num_rounds', flags.positive_integer, 15, 'times that each is run')


def run(args):
  """Runs the command. Returns the exit code."""
  from tfp_reprior.benchmarks import contestants, timing  # imports TensorFlow

  tfr.compilation.keep_freed_memory()
  posterior = contestants.make_posterior(args.width, args.num_data, args.likelihood)
  functions = contestants.gradients_and_step(posterior, args.num_chains)
  seconds = timing.alternate(functions, args.num_rounds)
  for name, fact in timing.machine_facts().items():
    print(f'{name}: {fact}')
  print(f'{posterior}, {args.num_chains} chains\n')
  reference = seconds[contestants.REFERENCE]
  timing.report(
    {'': name, 'milliseconds': 1000 * s, 'relative': s / reference} for name, s in seconds.items()
  )
  return 0
