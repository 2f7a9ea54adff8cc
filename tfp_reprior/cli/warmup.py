"""`tfp-reprior warmup`: the settings of a sampler, and nothing else."""

import math

import tfp_reprior as tfr
from tfp_reprior.cli import flags, likelihood, networks, sample

HELP = 'find the step size, damping and length of the transitions of a sampler'

DESCRIPTION = f"""\
Warms chains up, which finds the step size, damping and length of a transition on the chains
themselves. Prints what was tried, and the `tfp-reprior sample` command that uses what was found.
`tfp-reprior sample` does the same before it samples; this is for looking at it, or to warm up once
for several runs. With a --run_dir, `tfp-reprior sample` with the same flags goes on from there.

examples:
  tfp-reprior warmup --data=digits --num_train=64 --width=256 --sampler=langevin
  tfp-reprior warmup --data=toy --run_dir=runs/toy

{flags.DATA}

{networks.HELP}

{likelihood.HELP}

{flags.SAMPLERS}"""


def add_arguments(parser):
  """Adds the flags of this command."""
  flags.add_problem(parser)
  flags.add_chains(parser.add_argument_group('sampler'))
  flags.add_devices(parser)
  run = parser.add_argument_group('run')
  run.add_argument(
    '--run_dir', type=flags.path, metavar='DIR', help='folder of the run; by default none is kept'
  )
  run.add_argument('--quiet', action='store_true', help='show no progress')


def run(args):
  """Runs the command. Returns the exit code."""
  return sample.with_workers(args, _warm_up)


def _warm_up(args, strategy, is_chief):
  found = tfr.warm_up(**sample.arguments(args, strategy, is_chief))
  if is_chief:
    print(found.table())
    print(f'\n{command(args, found)}')
  return 0


def command(args, found):
  """The command that samples with what was found: text to paste."""
  if args.run_dir is not None:
    return flags.command(args, 'sample', {'run_dir': args.run_dir})
  given = {'step_size': f'{found.step_size:.4g}', 'num_warmup_steps': None}
  if args.regularizer == 'tuned':
    given['regularizer'] = found.regularizer
  if args.layer_regularizer in (None, 'tuned'):
    values = found.layer_regularizer
    given['layer_regularizer'] = None if values is None else ','.join(f'{v:g}' for v in values)
  if math.isnan(found.damping):
    given |= {'damping': None, 'num_integrator_steps': None}
  else:
    given |= {
      'damping': f'{found.damping:.4g}',
      'num_integrator_steps': found.num_integrator_steps,
    }
  return flags.command(args, 'sample', {**given, 'run_dir': 'DIR'})
