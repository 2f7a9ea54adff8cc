"""What several commands share: kinds of flags, and those of data and model."""

import argparse
import pathlib
import shlex

import tfp_reprior as tfr

SAMPLERS = """\
samplers:
  auto            rotation
  rotation        Langevin dynamics that solves the Gaussian part exactly, repriorised
  crank_nicolson  preconditioned Crank-Nicolson, repriorised
  langevin        underdamped Langevin dynamics, repriorised
  standard        underdamped Langevin dynamics on the weights, not repriorised
  uncalibrated_rotation, uncalibrated_langevin, uncalibrated_standard
                  the same without accept / reject"""

DATA = """\
data:
  toy, digits, diabetes      built in (the last two need scikit-learn)
  FILE.npz                   arrays x and y, or x_train, y_train, x_test and y_test; integers or
                             text in y are classes, floats are real targets
  FILE.csv                   a line of names, then numbers; --target names the column of targets,
                             by default the last; text in it are classes
  cifar10, mnist, ...        images that TensorFlow Datasets prepared in --data_dir"""


def positive_integer(text):
  """The type of a flag."""
  value = int(text)
  if value < 1:
    raise argparse.ArgumentTypeError(f'{value} is not positive')
  return value


def natural_number(text):
  """The type of a flag: an integer that may be 0."""
  value = int(text)
  if value < 0:
    raise argparse.ArgumentTypeError(f'{value} is negative')
  return value


def positive_number(text):
  """The type of a flag."""
  value = float(text)
  if not 0 < value < float('inf'):
    raise argparse.ArgumentTypeError(f'{value} is not positive and finite')
  return value


def add(group, name, kind, default, text, **kwargs):
  """Adds a flag whose help shows its default, if it has one."""
  shown = '' if default is None else ' (default: %(default)s)'
  kwargs.setdefault('metavar', 'X' if kind in (float, positive_number) else 'N')
  group.add_argument(name, type=kind, default=default, help=text + shown, **kwargs)


def add_problem(parser):
  """Adds the flags of data and model, and the seed."""
  data = parser.add_argument_group('data')
  data.add_argument('--data', required=True, metavar='NAME|FILE', help='what to fit; see above')
  add(data, '--data_dir', str, None, 'folder of TensorFlow Datasets', metavar='DIR')
  add(
    data,
    '--target',
    str,
    None,
    'column of targets of a .csv file; NAME:class if the numbers in it are classes',
    metavar='NAME',
  )
  add(data, '--num_train', positive_integer, None, 'number of training data; by default all')
  add(data, '--num_test', positive_integer, None, 'number of test data; by default all, or a fifth')
  model = parser.add_argument_group('model')
  add(
    model,
    '--model',
    str,
    'fcn',
    'fcn, a fully connected network, or a saved Keras model that ends in a linear layer',
    metavar='fcn|FILE.keras',
  )
  add(model, '--width', positive_integer, 256, 'width of the hidden layers of fcn')
  add(model, '--depth', positive_integer, 3, 'number of hidden layers of fcn')
  add(model, '--activation', str, 'gelu', 'activation of fcn, a name of Keras', metavar='NAME')
  add(
    model,
    '--noise_scale',
    positive_number,
    0.1,
    'standard deviation of the noise, where that of real targets is 1',
  )
  add(parser, '--seed', int, 0, 'seed of everything random, the choice of data too')


def load_data(args):
  """The `Dataset` that the flags ask for."""
  return tfr.data.load(
    args.data, args.num_train, args.num_test, args.seed, args.data_dir, args.target
  )


def make_model(args, data):
  """The Keras model that the flags ask for."""
  if args.model == 'fcn':
    return tfr.models.fcn(
      data.x_train.shape[1:], data.y_train.shape[1], args.width, args.depth, args.activation
    )
  if not args.model.endswith('.keras') or not pathlib.Path(args.model).is_file():
    raise ValueError(
      f'--model must be fcn, or a file that ends in .keras. Received: --model={args.model}'
    )
  import keras  # imports TensorFlow

  try:
    return keras.models.load_model(args.model)
  except (ValueError, TypeError) as e:
    raise ValueError(f'Keras cannot load {args.model}: {e}') from e


def describe(data):
  """A line about the data."""
  kind = f'{data.num_classes} classes'
  if data.num_classes is None:
    kind = f'{data.y_train.shape[1]} real target' + 's' * (data.y_train.shape[1] > 1)
  return (
    f'{len(data.x_train)} training and {len(data.x_test)} test data, inputs of shape '
    f'{data.x_train.shape[1:]}, {kind}'
  )


def devices():
  """What TensorFlow computes on, as text."""
  import tensorflow as tf

  return ', '.join(d.device_type for d in tf.config.list_logical_devices())


def command(args, name, given):
  """A command with the flags of data and model of this one, and more: text to paste.

  Args:
    args: Of this command.
    name: Of the other one.
    given: Dict of other flags.
  """
  names = ['data', 'data_dir', 'target', 'num_train', 'num_test']
  names += ['model', 'width', 'depth', 'activation', 'noise_scale', 'seed']
  changed = {n: getattr(args, n) for n in names if getattr(args, n) != args.parser.get_default(n)}
  words = [f'--{key}={value}' for key, value in {**changed, **given}.items()]
  return shlex.join(['tfp-reprior', name, *words])
