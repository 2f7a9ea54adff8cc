"""`tfp-reprior sample`: from data and a model to draws, predictions and a report."""

import argparse
import pathlib
import sys
import warnings

import tfp_reprior as tfr
from tfp_reprior import errors
from tfp_reprior.cli import flags, likelihood, networks
from tfp_reprior.internal import interrupts

HELP = 'sample the posterior of a network'

DESCRIPTION = f"""\
Samples the posterior of a network's weights: warms up, which finds the settings of the sampler,
samples, and writes everything to --run_dir, with a report. It is saved every minute: after Ctrl-C,
or worse, the same command goes on where it stopped; with more --num_results it goes on with a
finished run. In the end it says whether to trust the draws; exit code 3 is for those that failed.

examples:
  tfp-reprior sample --data=toy --width=64 --run_dir=runs/toy
  tfp-reprior sample --data=house.csv --target=price --noise_scale=0.3 --run_dir=runs/house
  tfp-reprior sample --data=digits --num_train=64 --likelihood=categorical --run_dir=runs/digits
  tfp-reprior sample --data=cifar10 --data_dir=tfds --num_train=256 --num_test=200 --width=512 \\
    --run_dir=runs/cifar10
  tfp-reprior sample --preset=fcn-width-512-small --data_dir=tfds --run_dir=runs/small

{flags.DATA}

{networks.HELP}

{likelihood.HELP}

{flags.SAMPLERS}"""


def add_arguments(parser):
  """Adds the flags of this command."""
  flags.add_problem(parser)
  sampler = parser.add_argument_group('sampler')
  flags.add(sampler, '--step_size', flags.positive_number, None, 'by default warm-up finds it')
  flags.add_chains(sampler)
  flags.add_devices(parser)
  run = parser.add_argument_group('run')
  run.add_argument(
    '--run_dir', type=flags.path, required=True, metavar='DIR', help='folder for everything'
  )
  run.add_argument(
    '--resume',
    action=argparse.BooleanOptionalAction,
    default=True,
    help='go on with the run that --run_dir holds, the default, or refuse to',
  )
  flags.add(
    run, '--checkpoint_seconds', flags.positive_number, 60.0, 'time after which it is saved again'
  )
  run.add_argument(
    '--report',
    action=argparse.BooleanOptionalAction,
    default=True,
    help='write DIR/report.html, the default, or not',
  )
  run.add_argument('--quiet', action='store_true', help='show no progress')


def run(args):
  """Runs the command. Returns the exit code."""
  return with_workers(args, _sample)


def with_workers(args, fn):
  """Calls `fn` with `args`, the strategy, and whether this is the chief of its workers."""
  tfr.compilation.keep_freed_memory()
  from tfp_reprior.internal import workers as workers_lib  # imports TensorFlow

  strategy = _strategy(args)
  workers = workers_lib.Workers(strategy)
  with workers.watched():
    return fn(args, strategy, workers.is_chief)


def arguments(args, strategy, is_chief):
  """The arguments of `sample_posterior` and `warm_up` that the flags ask for, by name.

  The chief also says what the data are.
  """
  data = flags.load_data(args)
  args.likelihood, choice = likelihood.choose(args, data)
  chosen = likelihood.make(args)
  y_train, y_test = (
    likelihood.targets(chosen, data.preparation, y) for y in (data.y_train, data.y_test)
  )
  model = networks.make(args, data)
  if is_chief:
    print(f'{args.data}: {flags.describe(data)}; devices: {flags.devices()}', flush=True)
    logs = args.log_targets == 'auto' and data.preparation.log_below is not None
    logs = (
      'targets in logarithms, where noise is even: --log_targets=no leaves them' if logs else ''
    )
    for note in filter(None, (data.note, choice, logs)):
      print(note, flush=True)
  return {
    'model': model,
    'x': data.x_train,
    'y': y_train,
    'likelihood': chosen,
    'x_test': data.x_test,
    'y_test': y_test,
    'run_dir': args.run_dir,
    'progress': not args.quiet,
    'strategy': strategy,
    'chunk_size': args.chunk_size,
    'standardize': data.preparation,
    'regularizer': args.regularizer,
    'hidden_space': args.hidden_space,
    'layer_regularizer': None
    if args.layer_regularizer is None
    else flags.layer_regularizers(args.layer_regularizer),
    'seed': args.seed,
    **{name: getattr(args, name) for name in flags.CHAINS},
  }


def _sample(args, strategy, is_chief):
  with warnings.catch_warnings():
    # `_tell` says it, in a line without that of the code.
    warnings.simplefilter('ignore', tfr.diagnostics.SamplingWarning)
    result = tfr.sample_posterior(
      **arguments(args, strategy, is_chief),
      step_size=args.step_size,
      resume=args.resume,
      checkpoint_seconds=args.checkpoint_seconds,
    )
  if is_chief:
    _tell(result, args)
  if not result.is_complete:
    return interrupts.exit_code()
  return 3 if result.verdict.level == 'failed' else 0


def _tell(result, args):
  """Prints what came out, and writes the report."""
  print(result.summary())
  if not result.is_complete:
    print(f'\nInterrupted. {args.run_dir} holds what there is; the same command goes on with it.')
  elif args.report:
    write_report(result, args.run_dir)
  sys.stdout.flush()
  if result.verdict.level != 'good':
    print(f'tfp-reprior: {_warning(result.verdict)}', file=sys.stderr)


def _warning(verdict):
  """The verdict in one line, if it is not good."""
  if verdict.level == 'failed':
    return f'sampling failed: {str(verdict).removeprefix("Sampling failed: ")}'
  return f'warning: {verdict}'


def _strategy(args):
  if args.strategy is None:
    if args.devices is not None:
      raise errors.InputError(f'--devices needs a --strategy. Received: --devices={args.devices}')
    return None
  from tfp_reprior.internal import strategies  # imports TensorFlow

  return strategies.make_strategy(args.strategy, args.devices)


def write_report(result, run_dir):
  """Writes the report beside the run, if matplotlib and Jinja2 are there."""
  path = pathlib.Path(run_dir) / 'report.html'
  try:
    tfr.report.write_report([result], path, [run_dir])
    print(f'\nThe report is {path}')
  except ImportError as e:
    print(f'\nNo report was written. {e}')
