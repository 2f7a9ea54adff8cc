"""`tfp-reprior tune`: the settings of a sampler, and nothing else."""

import math

import tfp_reprior as tfr
from tfp_reprior.cli import flags, likelihood, networks

HELP = 'find the step size, damping and length of the transitions of a sampler'

DESCRIPTION = f"""\
Finds the step size, damping and length of a transition that mix fastest, by short chains with
different settings side by side, and prints what they did and the command that uses what was found.
`tfp-reprior sample` does the same before it samples; this is for looking at it, or to tune once for
several runs.

example:
  tfp-reprior tune --data=digits --num_train=64 --width=256 --sampler=langevin

{flags.DATA}

{networks.HELP}

{likelihood.HELP}

{flags.SAMPLERS}"""


def add_arguments(parser):
  """Adds the flags of this command."""
  flags.add_problem(parser)
  tuning = parser.add_argument_group('tuning')
  flags.add_sampler(tuning)
  flags.add(
    tuning, '--num_tuning_steps', flags.positive_integer, 400, 'steps of a chain that tunes'
  )
  flags.add(tuning, '--num_chains', flags.positive_integer, 1, 'chains for each pair of settings')
  flags.add(
    tuning, '--max_tuning_seconds', flags.positive_number, None, 'by default as long as it takes'
  )
  flags.add(
    tuning,
    '--path',
    str,
    None,
    'file to save finished rounds to; if it exists, they are not run again',
    metavar='FILE.json',
  )
  tuning.add_argument('--quiet', action='store_true', help='show no progress')


def run(args):
  """Runs the command. Returns the exit code."""
  tfr.compilation.keep_freed_memory()
  data = flags.load_data(args)
  chosen = likelihood.make(args)
  y = likelihood.targets(chosen, data.preparation, data.y_train)
  model = networks.make(args, data)
  posterior = tfr.Posterior(model, data.x_train, y, likelihood=chosen)
  how = dict(
    num_steps=args.num_tuning_steps,
    num_chains=args.num_chains,
    max_seconds=args.max_tuning_seconds,
    seed=args.seed,
    progress=not args.quiet,
    path=args.path,
  )
  if args.regularizer == 'tuned':
    best, tunings = tfr.mcmc.tune_regularizer(posterior, args.sampler, **how)
  else:
    best = args.regularizer
    sampler = tfr.mcmc.make_sampler(posterior, args.sampler, regularizer=best)
    tunings = {best: tfr.mcmc.tune(posterior, sampler, **how)}
  for name, tuning in tunings.items():
    print(('' if name is None else f'regularizer {name}\n') + tuning.table())
  tuning = tunings[best]
  found = {'sampler': args.sampler, 'step_size': f'{tuning.step_size:.4g}'}
  if best is not None:
    found['regularizer'] = best
  if not math.isnan(tuning.damping):
    found['damping'] = f'{tuning.damping:.4g}'
    found['num_integrator_steps'] = tuning.num_integrator_steps
  print(f'\n{flags.command(args, "sample", {**found, "run_dir": "DIR"})}')
  return 0
