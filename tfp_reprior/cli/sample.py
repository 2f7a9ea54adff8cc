"""`tfp-reprior sample`: from data and a model to draws, predictions and a report."""

import pathlib

import tfp_reprior as tfr
from tfp_reprior.cli import flags, likelihood, networks

HELP = 'sample the posterior of a network'

DESCRIPTION = f"""\
Samples the posterior of a network's weights: tunes the step size, burns in, samples, and writes
everything to --run_dir, with a report. It is saved every minute: after Ctrl-C, or worse, the same
command goes on where it stopped; with more --num_results it goes on with a finished run.

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
  flags.add_sampler(sampler)
  flags.add(sampler, '--step_size', flags.positive_number, None, 'by default it is tuned')
  flags.add(
    sampler, '--damping', float, None, 'from 0 to 1; by default tuned, and 0.1 with a --step_size'
  )
  flags.add(
    sampler,
    '--num_integrator_steps',
    flags.positive_integer,
    None,
    'steps for each accept / reject; by default tuned, and 1 with a --step_size',
  )
  flags.add(sampler, '--num_chains', flags.positive_integer, 4, 'chains, side by side')
  flags.add(sampler, '--num_results', flags.positive_integer, 1000, 'draws of each chain')
  flags.add(sampler, '--thinning', flags.positive_integer, 10, 'steps for each draw, about')
  flags.add(
    sampler,
    '--num_burnin_steps',
    flags.natural_number,
    None,
    'steps before the first draw; by default a fifth of the others',
  )
  flags.add(
    sampler, '--num_tuning_steps', flags.positive_integer, 200, 'steps of a chain that tunes'
  )
  flags.add(
    sampler, '--max_tuning_seconds', flags.positive_number, None, 'by default as long as it takes'
  )
  devices = parser.add_argument_group('devices')
  flags.add(
    devices,
    '--chunk_size',
    flags.positive_integer,
    None,
    'inputs that go through the network at once, to save memory; by default all',
  )
  flags.add(
    devices,
    '--strategy',
    str,
    None,
    'mirrored: splits the work over the devices of this machine; multiworker: over machines that '
    'all run this command, each with its TF_CONFIG; tpu: over the cores of a TPU; by default one '
    'device is used',
    metavar='NAME',
  )
  flags.add(
    devices,
    '--devices',
    str,
    None,
    'for mirrored: how many, or names such as GPU:0,GPU:1; by default all GPUs, or else CPUs; for '
    'tpu: its address; by default that of this machine',
    metavar='N|NAMES|ADDRESS',
  )
  run = parser.add_argument_group('run')
  run.add_argument('--run_dir', required=True, metavar='DIR', help='folder for everything')
  run.add_argument(
    '--resume',
    action='store_true',
    default=True,
    help='go on with the run that --run_dir holds, if it holds one (the default)',
  )
  run.add_argument(
    '--no-resume', action='store_false', dest='resume', help='refuse if --run_dir holds a run'
  )
  flags.add(
    run, '--checkpoint_seconds', flags.positive_number, 60.0, 'time after which it is saved again'
  )
  run.add_argument(
    '--report', action='store_true', default=True, help='write DIR/report.html (the default)'
  )
  run.add_argument('--no-report', action='store_false', dest='report', help='write no report')
  run.add_argument('--quiet', action='store_true', help='show no progress')


def run(args):
  """Runs the command. Returns the exit code."""
  tfr.compilation.keep_freed_memory()
  from tfp_reprior.internal import workers as workers_lib  # imports TensorFlow

  strategy = _strategy(args)
  workers = workers_lib.Workers(strategy)
  with workers.watched():
    return _sample(args, strategy, workers.is_chief)


def _sample(args, strategy, is_chief):
  data = flags.load_data(args)
  chosen = likelihood.make(args)
  y_train, y_test = (
    likelihood.targets(chosen, data.preparation, y) for y in (data.y_train, data.y_test)
  )
  model = networks.make(args, data)
  if is_chief:
    keep_preparation(args.run_dir, data.preparation)
    print(f'{args.data}: {flags.describe(data)}; devices: {flags.devices()}', flush=True)
  result = tfr.sample_posterior(
    model,
    data.x_train,
    y_train,
    likelihood=chosen,
    x_test=data.x_test,
    y_test=y_test,
    run_dir=args.run_dir,
    resume=args.resume,
    checkpoint_seconds=args.checkpoint_seconds,
    progress=not args.quiet,
    strategy=strategy,
    chunk_size=args.chunk_size,
    num_chains=args.num_chains,
    num_results=args.num_results,
    thinning=args.thinning,
    num_burnin_steps=args.num_burnin_steps,
    sampler=args.sampler,
    regularizer=args.regularizer,
    step_size=args.step_size,
    damping=args.damping,
    num_integrator_steps=args.num_integrator_steps,
    num_tuning_steps=args.num_tuning_steps,
    max_tuning_seconds=args.max_tuning_seconds,
    seed=args.seed,
  )
  if is_chief:
    _tell(result, args)
  return 0 if result.is_complete else 130


def _tell(result, args):
  """Prints what came out, and writes the report."""
  print(result.summary())
  if not result.is_complete:
    print(f'\nInterrupted. {args.run_dir} holds what there is; the same command goes on with it.')
  elif args.report:
    write_report(result, args.run_dir)


def _strategy(args):
  if args.strategy is None:
    if args.devices is not None:
      raise ValueError(f'--devices needs a --strategy. Received: --devices={args.devices}')
    return None
  from tfp_reprior.internal import strategies  # imports TensorFlow

  return strategies.make_strategy(args.strategy, args.devices)


def write_report(result, run_dir):
  """Writes the report beside the run, if matplotlib is there."""
  path = pathlib.Path(run_dir) / 'report.html'
  try:
    tfr.report.write_report([result], path, [run_dir])
    print(f'\nThe report is {path}')
  except ImportError as e:
    print(f'\nNo report was written. {e}')


def keep_preparation(run_dir, preparation):
  """Writes how the data were prepared beside the run, for `tfp-reprior predict`."""
  folder = pathlib.Path(run_dir)
  path, text = folder / 'data.json', preparation.to_json()
  if (folder / 'settings.json').exists() and (not path.exists() or path.read_text() != text):
    raise ValueError(
      f'--run_dir holds a run of other data: choose another folder. Received: --run_dir={run_dir}'
    )
  folder.mkdir(parents=True, exist_ok=True)
  path.write_text(text)


def read_preparation(run_dir):
  """What `keep_preparation` wrote; `None` for a run that another program made."""
  path = pathlib.Path(run_dir) / 'data.json'
  return tfr.data.Preparation.from_json(path.read_text()) if path.exists() else None
