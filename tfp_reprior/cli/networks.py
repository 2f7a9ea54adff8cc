"""Models on the command line: those of this package by name, with their flags, and Keras files."""

import pathlib

import tfp_reprior as tfr
from tfp_reprior import errors

_PRIOR = {'weight_std': 2**0.5, 'bias_std': 0.1}
# The models, and what their flags are by default; a flag that is not here does not apply.
MODELS = {
  'fcn': {'width': 256, 'depth': 3, 'activation': 'gelu', **_PRIOR},
  'cnn': {'width': 64, 'depth': 3, 'activation': 'gelu', 'pooling': 'flatten', **_PRIOR},
  'wide_resnet': {'width': 16, 'depth': 20, 'activation': 'gelu'},
  'attention': {'width': 64, 'depth': 1, 'activation': 'gelu', 'num_heads': 4, 'patch_size': None},
}

FLAGS = tuple({flag: None for defaults in MODELS.values() for flag in defaults})

HELP = """\
models:
  fcn           fully connected: --depth hidden layers of --width units; the prior of their weights
                has the scales --weight_std / sqrt(fan-in) and --bias_std
  cnn           convolutional: --depth layers of --width channels, then --pooling; prior as of fcn
  wide_resnet   residual, without normalisers: --depth 8, 14, 20, ...; --width channels at first,
                four times as many at the end (the paper has --depth=20 --width=128)
  attention     --depth blocks of self-attention with --num_heads over patches of images, each
                --patch_size wide, or over sequences; --width features of each
  FILE.keras    a saved Keras model that ends in a linear layer; it has no flags"""


def describe_defaults(flag):
  """The models that have a flag with its defaults, as text."""
  known = [f'{model} {defaults[flag]}' for model, defaults in MODELS.items() if flag in defaults]
  return f'(default: {", ".join(known)})'


def make(args, data):
  """The Keras model that the flags ask for.

  Args:
    args: With `model`, `likelihood` and `FLAGS`, the last `None` if they were not given.
    data: A `tfp_reprior.data.Dataset`.
  """
  given = {flag: getattr(args, flag) for flag in FLAGS if getattr(args, flag) is not None}
  defaults = MODELS.get(args.model, {})
  is_file = args.model.endswith('.keras') and pathlib.Path(args.model).is_file()
  if not defaults and not is_file:
    raise errors.InputError(
      f'--model must be {", ".join(MODELS)}, or a file that ends in .keras. Received: '
      f'--model={args.model}'
    )
  for flag in given:
    if flag not in defaults:
      allowed = ', '.join(f'--{name}' for name in defaults) or 'no flags'
      raise errors.InputError(
        f'--model={args.model} has {allowed}. Received: --{flag}={given[flag]}'
      )
  if is_file:
    return _load(args.model)
  make_model = getattr(tfr.models, args.model)
  is_binary = args.likelihood == 'bernoulli'
  num_outputs = 1 if is_binary else data.y_train.shape[1]
  num_outputs *= tfr.likelihoods.NAMES[args.likelihood].outputs_per_target
  try:
    return make_model(data.x_train.shape[1:], num_outputs, **{**defaults, **given})
  except ValueError as e:
    words = [f'--{flag}={value}' for flag, value in {'model': args.model, **given}.items()]
    raise errors.InputError(f'{" ".join(words)} for {args.data}: {e}') from e


def _load(path):
  import keras  # imports TensorFlow

  try:
    return keras.models.load_model(path, safe_mode=True)
  except Exception as e:  # what is damaged can fail in any way
    raise errors.InputError(f'Keras cannot load --model={path}: {e}') from e
