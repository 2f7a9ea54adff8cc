"""What several commands share: kinds of flags, and those of data and model."""

import argparse
import math
import shlex

from tfp_reprior.cli import likelihood, networks
from tfp_reprior.internal import parsing

SAMPLERS = """\
samplers:
  auto            rotation
  rotation        Langevin dynamics that solves the Gaussian part exactly, repriorised
  crank_nicolson  preconditioned Crank-Nicolson, repriorised
  langevin        underdamped Langevin dynamics, repriorised
  standard        underdamped Langevin dynamics on the weights, not repriorised
  uncalibrated_rotation, uncalibrated_langevin, uncalibrated_standard
                  the same without accept / reject"""

# Settings of `sample_posterior` that are flags of the same name.
CHAINS = (
  'sampler',
  'damping',
  'num_integrator_steps',
  'num_chains',
  'num_results',
  'thinning',
  'num_warmup_steps',
  'num_burnin_steps',
  'start',
)

DATA = """\
data:
  toy, digits, diabetes      built in (the last two need scikit-learn)
  FILE.npz                   arrays x and y, or x_train, y_train, x_test and y_test; text in y and
                             integers of few values are classes, the rest real targets
  FILE.csv                   a line of names, then numbers or text, which is one-hot; --target names
                             the column of targets, by default the last; text in it and integers of
                             few values are classes
  cifar10, mnist, ...        images that TensorFlow Datasets prepared in --data_dir"""


def positive_integer(text):
  """The type of a flag."""
  value = parsing.integer(text)
  if value < 1:
    raise argparse.ArgumentTypeError(f'{value} is not positive')
  return value


def natural_number(text):
  """The type of a flag: an integer that may be 0."""
  value = parsing.integer(text)
  if value < 0:
    raise argparse.ArgumentTypeError(f'{value} is negative')
  return value


def path(text):
  """The type of a flag: the name of a file or folder."""
  if not text.strip() or '\0' in text:
    raise argparse.ArgumentTypeError('is empty: a variable that is not set, perhaps?')
  return text


def positive_number(text):
  """The type of a flag."""
  value = parsing.number(text)
  if not 0 < value < float('inf'):
    raise argparse.ArgumentTypeError(f'{value} is not positive and finite')
  return value


def regularizer(text):
  """The type of a flag: a name, infinity, or a positive number."""
  if text in ('noise', 'n*noise', 'sites', 'tuned'):
    return text
  return math.inf if text == 'inf' else positive_number(text)


def seeds(text):
  """The type of a flag: natural numbers with commas, a list."""
  return [natural_number(word) for word in text.split(',')]


def layer_regularizer(text):
  """The type of a flag: positive numbers, or infinity, with commas, or tuned; the text itself."""
  layer_regularizers(text)
  return text


def layer_regularizers(text):
  """The number that such a text is, or the list of them, or `'tuned'`."""
  if text == 'tuned':
    return text
  values = [math.inf if word == 'inf' else positive_number(word) for word in text.split(',')]
  return values if len(values) > 1 else values[0]


def scale(text):
  """The type of a flag: a positive number, or a prior by its name and parameters."""
  return text if likelihood.is_prior(text) else positive_number(text)


def add(group, name, kind, default, text, **kwargs):
  """Adds a flag whose help shows its default, if it has one."""
  shown = '' if default is None else ' (default: %(default)s)'
  kwargs.setdefault('metavar', 'X' if kind in (parsing.number, positive_number) else 'N')
  group.add_argument(name, type=kind, default=default, help=text + shown, **kwargs)


def add_problem(parser):
  """Adds the flags of data and model, and the seed."""
  add(
    parser,
    '--preset',
    str,
    None,
    'settings by name, in place of the defaults; `tfp-reprior presets` lists them',
    metavar='NAME',
  )
  data = parser.add_argument_group('data')
  data.add_argument(
    '--data',
    type=path,
    metavar='NAME|FILE',
    help='what to fit; see above; required without a --preset',
  )
  add(data, '--data_dir', path, None, 'folder of TensorFlow Datasets', metavar='DIR')
  add(
    data,
    '--target',
    str,
    None,
    'column of targets of a .csv file; NAME:class or NAME:real says what the numbers in it are',
    metavar='NAME',
  )
  add(
    data,
    '--missing',
    str,
    'refuse',
    'missing inputs in a .csv file: refuse them, or impute the median or most frequent category',
    choices=('refuse', 'impute'),
    metavar='refuse|impute',
  )
  add(
    data,
    '--log_targets',
    str,
    'auto',
    'take logarithms of real targets, as of prices, whose noise grows with them; auto: if all are '
    'positive, logarithms are far easier to explain, and no flag is about the noise',
    choices=('auto', 'yes', 'no'),
    metavar='auto|yes|no',
  )
  add(data, '--num_train', positive_integer, None, 'number of training data; by default all')
  add(data, '--num_test', positive_integer, None, 'number of test data; by default all, or a fifth')
  add(
    data,
    '--subset',
    str,
    'random',
    'which data: random ones, the first, or balanced, with as many of each class',
    metavar='random|balanced|first',
  )
  model = parser.add_argument_group('model')
  add(model, '--model', str, 'fcn', 'one of those above', metavar='NAME|FILE.keras')
  _add_model_flag(model, '--width', positive_integer, 'width of the hidden layers')
  _add_model_flag(model, '--depth', positive_integer, 'number of hidden layers, or of blocks')
  _add_model_flag(
    model, '--pooling', str, 'what comes before the readout', metavar='flatten|average'
  )
  _add_model_flag(model, '--num_heads', positive_integer, 'heads of self-attention')
  add(
    model,
    '--patch_size',
    positive_integer,
    None,
    'side of a patch of an image, for attention; by default 4',
  )
  add(model, '--activation', str, None, 'erf, or a name of Keras; by default gelu', metavar='NAME')
  add(
    model,
    '--weight_std',
    positive_number,
    None,
    'prior scale of hidden weights, of fcn and cnn; by default the square root of 2',
  )
  add(
    model,
    '--bias_std',
    positive_number,
    None,
    'prior scale of hidden biases, of fcn and cnn; by default 0.1. Larger ones let functions of '
    'few inputs bend',
  )
  add_likelihood(model)
  add(
    model,
    '--noise_scale',
    scale,
    None,
    'standard deviation of Gaussian noise, where that of real targets is 1; or a prior of it (see '
    'above), by default lognormal:-1,1',
    metavar='X|PRIOR',
  )
  add(
    model,
    '--output_scale',
    scale,
    None,
    'what outputs of the network are multiplied by, or a prior of it; by default unknown for '
    'classes (see above)',
    metavar='X|PRIOR',
  )
  add(parser, '--seed', natural_number, 0, 'seed of everything random, the choice of data too')


def _add_model_flag(group, name, kind, text, **kwargs):
  """Adds a flag of some models, whose help shows their defaults."""
  add(group, name, kind, None, f'{text} {networks.describe_defaults(name[2:])}', **kwargs)


def add_likelihood(group, default='auto'):
  """Adds the flag of the likelihood; `'auto'` is for data that say what they are."""
  names = likelihood.NAMES if default != 'auto' else ('auto', *likelihood.NAMES)
  text = f'of the targets: {", ".join(names)}'
  add(group, '--likelihood', str, default, text, choices=names, metavar='NAME')


def add_chains(group):
  """Adds the flags of the sampler and its chains, but for the step size."""
  add(group, '--sampler', str, 'auto', 'one of those above', metavar='NAME')
  add(
    group,
    '--regularizer',
    regularizer,
    None,
    'of the map: noise, the default for real targets, is the variance of the noise; n*noise is n '
    'times that; sites, for classes, is fitted to each datum, and their default if the scale of '
    'the outputs is known; or a number: larger ones move the map towards the identity, which is '
    'inf, the default for other classes; tuned warms up with noise, n*noise and inf, and takes the '
    'fastest',
    metavar='NAME|X',
  )
  add(
    group,
    '--hidden_space',
    str,
    None,
    'where hidden layers move: weights; data, what they do to the training inputs, if they have '
    'more weights a unit than there are of these; auto, data for those with twice as many or more. '
    'By default auto for the sampler auto, else weights',
    choices=('auto', 'weights', 'data'),
    metavar='NAME',
  )
  add(
    group,
    '--layer_regularizer',
    layer_regularizer,
    None,
    'for a map on every fully connected layer: a number, such as 10, or one for each layer, with '
    'commas, inf for none; tuned puts one of 10 on in warm-up, and takes it off again unless steps '
    'are twice as long. The sampler auto does so by default where the data outnumber the width',
    metavar='X',
  )
  text = 'part of the momentum that a transition replaces, from 0 to 1'
  add(group, '--damping', parsing.number, None, f'{text}; by default warm-up finds it')
  add(
    group,
    '--num_integrator_steps',
    positive_integer,
    None,
    'mean steps for each accept / reject; by default warm-up finds them, and 1 with a --step_size',
  )
  add(group, '--num_chains', positive_integer, 4, 'chains, side by side')
  add(group, '--num_results', positive_integer, 1000, 'draws of each chain')
  add(group, '--thinning', positive_integer, 10, 'steps for each draw, about')
  add(
    group,
    '--num_warmup_steps',
    positive_integer,
    None,
    'steps of a chain for warm-up, 100 or more; by default 700 and a fifth of those that follow',
  )
  add(
    group,
    '--num_burnin_steps',
    natural_number,
    None,
    'steps between warm-up and the first draw; by default 0, and a fifth of the others with a '
    '--step_size, which leaves warm-up out',
  )
  add(
    group,
    '--start',
    str,
    'auto',
    'where chains start: prior, at draws; optimized, where these climb to, in a phase that is part '
    'of warm-up; auto, draws',
    choices=('auto', 'prior', 'optimized'),
    metavar='NAME',
  )


def add_devices(parser):
  """Adds the flags that say where to compute."""
  devices = parser.add_argument_group('devices')
  add(
    devices,
    '--chunk_size',
    positive_integer,
    None,
    'inputs that go through the network at once, to save memory; by default all',
  )
  add(
    devices,
    '--strategy',
    str,
    None,
    'mirrored: splits the work over the devices of this machine; multiworker: over machines that '
    'all run this command, each with its TF_CONFIG; tpu: over the cores of a TPU; by default one '
    'device is used',
    metavar='NAME',
  )
  add(
    devices,
    '--devices',
    str,
    None,
    'for mirrored: how many, or names such as GPU:0,GPU:1; by default all GPUs, or else CPUs; for '
    'tpu: its address; by default that of this machine',
    metavar='N|NAMES|ADDRESS',
  )


def devices():
  """What TensorFlow computes on, as text."""
  import tensorflow as tf

  return ', '.join(d.device_type for d in tf.config.list_logical_devices())


def command(args, name, given):
  """A command with the flags of data, model and sampler of this one, and more: text to paste.

  Args:
    args: Of this command.
    name: Of the other one.
    given: Dict of other flags; None leaves one out.
  """
  names = ['data', 'data_dir', 'target', 'num_train', 'num_test', 'subset', 'missing']
  names += [
    'log_targets',
    'model',
    *networks.FLAGS,
    'likelihood',
    'noise_scale',
    'output_scale',
    'regularizer',
    'hidden_space',
    'layer_regularizer',
    'seed',
  ]
  names += [*CHAINS, 'chunk_size', 'strategy', 'devices']
  changed = {n: getattr(args, n) for n in names if getattr(args, n) != args.parser.get_default(n)}
  preset = {} if args.preset is None else {'preset': args.preset}
  everything = {**preset, **changed, **given}
  words = [f'--{key}={value}' for key, value in everything.items() if value is not None]
  return shlex.join(['tfp-reprior', name, *words])
