"""`tfp-reprior presets`: named settings, those of the paper and smaller ones."""

import difflib
import shlex
from typing import NamedTuple

from tfp_reprior import errors

HELP = 'list the named settings of --preset'

DESCRIPTION = """\
Lists the settings that --preset of `tfp-reprior sample` and `tfp-reprior warmup` knows by name, or
shows the flags of one of them. Flags that you pass override the preset. With a --step_size there is
no warm-up: its steps are burn-in instead.

The full ones are the settings of Hron et al. (2022) on CIFAR-10: data, network, noise, Langevin
dynamics without accept / reject, and 3 million steps after 20,000 of warm-up, as many as the paper
burns in; they are meant for accelerators. Numbers of chains and of test data are ours, and so is
that of training data with the categorical likelihood. Those that end in -small are for two CPU
cores: fewer data or a narrower network, fewer steps, and the default sampler.

examples:
  tfp-reprior presets fcn-width-1024
  tfp-reprior sample --preset=fcn-width-1024-small --data_dir=tfds --run_dir=runs/small
  tfp-reprior sample --preset=fcn-width-128-small --data=digits --run_dir=runs/digits"""

_NUM_STEPS, _NUM_WARMUP_STEPS = 3_000_000, 20_000
_WIDTHS = (32, 64, 128, 384, 512, 768, 1024)
_SIZES = (64, 256, 1024, 10_240, 40_960)
_LARGEST_SMALL_SIZE = 1024
_CATEGORICAL_WIDTHS = (32, 64, 128, 256)
_WIDE_RESNET_SIZES = (1024, 10_240, 40_960)


class Preset(NamedTuple):
  """Settings by name.

  Attributes:
    summary: What they are, in a line.
    flags: Dict of the flags of `tfp-reprior sample`.
  """

  summary: str
  flags: dict


def _full(summary, thinning=25, **flags):
  """Settings of the paper."""
  run = {
    'sampler': 'uncalibrated_langevin',
    'num_results': _NUM_STEPS // thinning,
    'thinning': thinning,
    'num_warmup_steps': _NUM_WARMUP_STEPS,
  }
  return Preset(summary, {'data': 'cifar10', 'num_test': 256, **flags, **run})


def _small(summary, **flags):
  """The same for two CPU cores."""
  run = {'num_chains': 2, 'num_results': 300, 'thinning': 10, 'num_warmup_steps': 1000}
  return Preset(summary, {'data': 'cifar10', 'num_test': 200, **run, **flags})


def _fcn(width, num_train):
  model = {'model': 'fcn', 'width': width, 'depth': 3, 'activation': 'gelu'}
  return {'num_train': num_train, **model, 'likelihood': 'gaussian', 'noise_scale': 0.1}


def _categorical(width, num_train):
  flags = _fcn(width, num_train)
  del flags['noise_scale']
  return {**flags, 'likelihood': 'categorical', 'output_scale': 1.0, 'regularizer': 'noise'}


def _wide_resnet(width, num_train):
  model = {'model': 'wide_resnet', 'width': width, 'depth': 20, 'activation': 'gelu'}
  noise = {'likelihood': 'gaussian', 'noise_scale': 0.1, 'regularizer': 'n*noise'}
  return {'num_train': num_train, **model, **noise}


def _make_presets():
  presets = {}
  for width in _WIDTHS:
    text = f'fully connected, width {width}'
    presets[f'fcn-width-{width}'] = _full(f'{text}, 256 images', **_fcn(width, 256))
    presets[f'fcn-width-{width}-small'] = _small(f'{text}, 64 images', **_fcn(width, 64))
  for size in _SIZES:
    text = f'{size} images, fully connected'
    presets[f'fcn-data-size-{size}'] = _full(f'{text}, width 512', **_fcn(512, size))
    if size <= _LARGEST_SMALL_SIZE:
      presets[f'fcn-data-size-{size}-small'] = _small(f'{text}, width 128', **_fcn(128, size))
  for width in _CATEGORICAL_WIDTHS:
    text = f'categorical likelihood, fully connected, width {width}'
    name = f'categorical-width-{width}'
    presets[name] = _full(f'{text}, 256 images', **_categorical(width, 256))
    presets[f'{name}-small'] = _small(f'{text}, 64 images', **_categorical(width, 64))
  for size in _WIDE_RESNET_SIZES:
    presets[f'wide-resnet-{size}'] = _full(
      f'Wide ResNet-20, width 128, {size} images, regularizer n*noise',
      thinning=100,
      chunk_size=64,
      **_wide_resnet(128, size),
    )
  presets['wide-resnet-small'] = _small(
    'Wide ResNet-20, width 16, 128 images, regularizer n*noise',
    **_wide_resnet(16, 128),
    **{'num_results': 100, 'thinning': 2, 'num_warmup_steps': 300},
  )
  return presets


PRESETS = _make_presets()


def check(name):
  """Refuses a name that is not that of a preset."""
  if name not in PRESETS:
    close = difflib.get_close_matches(name, PRESETS, n=1)
    hint = f'did you mean {close[0]}? ' if close else ''
    raise errors.InputError(
      f'--preset must be one of those that `tfp-reprior presets` lists; {hint}Received: '
      f'--preset={name}'
    )


def parse_args(parser, argv):
  """Parses a command line, with the flags of its --preset in place of the defaults."""
  args = parser.parse_args(argv)
  if getattr(args, 'preset', None) is None:
    return args
  check(args.preset)
  known = {k: v for k, v in PRESETS[args.preset].flags.items() if hasattr(args, k)}
  if getattr(args, 'step_size', None) is not None:
    known['num_burnin_steps'] = known.pop('num_warmup_steps')
  args.parser.set_defaults(**known)
  return parser.parse_args(argv)


def add_arguments(parser):
  """Adds the flags of this command."""
  parser.add_argument('name', nargs='?', metavar='NAME', help='one of them (default: list all)')


def run(args):
  """Runs the command. Returns the exit code."""
  if args.name is None:
    width = max(map(len, PRESETS))
    for name, preset in PRESETS.items():
      print(f'{name:{width}}  {preset.summary}')
    return 0
  check(args.name)
  print(command(args.name))
  return 0


def command(name):
  """The command without --preset that a preset stands for, as text to paste."""
  words = [f'--{flag}={value}' for flag, value in PRESETS[name].flags.items()]
  return shlex.join(['tfp-reprior', 'sample', *words, '--data_dir=DIR', '--run_dir=DIR'])
