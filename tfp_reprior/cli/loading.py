"""The data that the flags ask for."""

import tfp_reprior as tfr
from tfp_reprior import errors

_LOG_TARGETS = {'auto': 'auto', 'yes': True, 'no': False}


def load(args):
  """The `Dataset` that the flags ask for."""
  if args.data is None:
    args.parser.error('the following arguments are required: --data, or a --preset')
  log_targets = _LOG_TARGETS[args.log_targets]
  is_gaussian = args.likelihood in ('auto', 'gaussian')
  if log_targets is True and not is_gaussian:
    raise errors.InputError(
      'Logarithms of targets have Gaussian noise. Received: --log_targets=yes with '
      f'--likelihood={args.likelihood}'
    )
  if log_targets == 'auto' and not (is_gaussian and args.noise_scale is None):
    log_targets = False
  return tfr.data.load(
    args.data,
    args.num_train,
    args.num_test,
    args.seed,
    args.data_dir,
    args.target,
    args.subset,
    args.missing,
    log_targets,
  )


def describe(data):
  """A line about the data."""
  kind = f'{data.num_classes} classes'
  if data.num_classes is None:
    kind = f'{data.y_train.shape[1]} real target' + 's' * (data.y_train.shape[1] > 1)
  return (
    f'{len(data.x_train)} training and {len(data.x_test)} test data, inputs of shape '
    f'{data.x_train.shape[1:]}, {kind}'
  )
