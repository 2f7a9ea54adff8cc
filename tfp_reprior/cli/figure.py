"""`tfp-reprior figure`: the figures of the paper."""

import shutil

import tfp_reprior as tfr
from tfp_reprior import figures
from tfp_reprior.cli import flags

HELP = 'make a figure of the paper'
_COPIES = {
  'json': 'file to copy its numbers to; rows that it has are not computed again',
  'png': 'file to copy the picture to',
}

_LIST = '\n'.join(f'  {name:22}{text}' for name, (_, text) in figures.FIGURES.items())

DESCRIPTION = f"""\
Computes a figure of the paper, or of what it proves, and writes it as .png and .pdf, with its
numbers as .json. What is finished is kept: the same command goes on after Ctrl-C. It takes
matplotlib (pip install tfp-reprior[plot]).

examples:
  tfp-reprior figure ess-width --scale=smoke
  tfp-reprior figure ess-width --data_dir=tensorflow_datasets --out=figures

figures:
{_LIST}

scales:
  smoke    seconds, to see that it runs
  laptop   minutes to an hour on two cores
  paper    the settings of the paper; for most figures that needs an accelerator"""


def add_arguments(parser):
  """Adds the flags of this command."""
  parser.add_argument('name', choices=tuple(figures.FIGURES), metavar='NAME', help='see above')
  parser.add_argument(
    '--scale',
    choices=figures.SCALES,
    default='laptop',
    help='how large it is; see above (default: %(default)s)',
  )
  flags.add(parser, '--out', flags.path, 'figures', 'folder to write to', metavar='DIR')
  flags.add(
    parser,
    '--data_dir',
    flags.path,
    None,
    'folder where TensorFlow Datasets prepared cifar10; by default the digits of scikit-learn',
    metavar='DIR',
  )
  flags.add(parser, '--seed', flags.natural_number, 1, 'seed of everything random')
  flags.add(
    parser,
    '--seeds',
    flags.seeds,
    None,
    'several of them, with commas, for figures of chains, such as ess-width: means and their range',
    metavar='I,J,...',
  )
  for name, what in _COPIES.items():
    flags.add(parser, f'--{name}', flags.path, None, what, metavar='FILE')
  parser.add_argument('--quiet', action='store_true', help='show no progress')


def run(args):
  """Runs the command. Returns the exit code."""
  tfr.compilation.keep_freed_memory()
  path = figures.make_figure(
    args.name,
    args.scale,
    args.out,
    args.data_dir,
    args.seeds or args.seed,
    not args.quiet,
    known=args.json,
  )
  for name in _COPIES:
    if getattr(args, name) is not None:
      shutil.copyfile(path.with_suffix(f'.{name}'), getattr(args, name))
  print(f'The figure is {path}')
  return 0
