"""`tfp-reprior predict`: predictions of a finished run at new inputs."""

import csv
import dataclasses
import io
import pathlib

import numpy as np

import tfp_reprior as tfr
from tfp_reprior import errors
from tfp_reprior.cli import flags
from tfp_reprior.internal import files, parsing

HELP = 'predict at new inputs'

DESCRIPTION = """\
Predicts at new inputs with a finished run, in the units of the training data: new inputs are
standardized as those were, and predictions brought back.

The inputs come as they went into `tfp-reprior sample`: a .csv file with the same columns, in any
order, or a .npz file with an array x. If the targets are there too (the column, or an array y), the
predictions are compared with them.

The output has, for each input, the mean and standard deviation of an observation and its quantiles
at 0.05, 0.5 and 0.95; for classes also their probabilities and the label of the most probable one.
A .csv file has a line for each input, with its columns if the inputs came in one. A .npz file has
arrays mean and stddev [m, k], quantiles [3, m, k], and class_probabilities [m, k], class_names [k]
and label [m].

Runs with --likelihood=categorical or bernoulli have the last three, and probability_stddev [m, k],
how much the probabilities vary over draws of the weights, instead of the first three.

examples:
  tfp-reprior predict runs/house --data=new.csv --output=predictions.csv
  tfp-reprior predict runs/digits --data=images.npz --output=predictions.npz"""

_LEVELS = (0.05, 0.5, 0.95)
_FORMULA = ('=', '+', '-', '@', '\t', '\r')


def add_arguments(parser):
  """Adds the flags of this command."""
  parser.add_argument('run_dir', type=flags.path, metavar='RUN_DIR', help='folder of a run')
  parser.add_argument(
    '--data', type=flags.path, required=True, metavar='FILE', help='inputs, .csv or .npz'
  )
  parser.add_argument(
    '--output',
    type=flags.path,
    default='predictions.csv',
    metavar='FILE',
    help='file to write, .csv or .npz (default: %(default)s)',
  )


def run(args):
  """Runs the command. Returns the exit code."""
  output = pathlib.Path(args.output)
  is_writable = output.parent.is_dir() and (output.is_file() or not output.exists())
  if output.suffix not in ('.csv', '.npz') or not is_writable:
    raise errors.InputError(
      '--output must be a file in a folder that exists, and end in .csv or .npz. Received: '
      f'--output={args.output}'
    )
  result = tfr.load_result(args.run_dir)
  preparation = result.preparation
  if preparation.class_names is None:
    preparation = dataclasses.replace(preparation, class_names=class_names(result.posterior))
  x, y = tfr.data.load_new(args.data, preparation)
  prediction = result.predict(x)
  arrays = to_arrays(prediction, preparation)
  if output.suffix == '.npz':
    files.write_atomically(output, lambda file: np.savez(file, **arrays))
  else:
    write_table(output, arrays, getattr(x, 'columns', {}))
  if y is not None:
    for name, value in result.evaluate(prediction, y).items():
      print(f'{name.replace("_", " ")}: {value:.4g}')
  print(f'{len(x)} predictions are in {output}')
  return 0


def class_names(posterior):
  """Numbers as names of classes, of a run whose labels were given as numbers; None without any."""
  num_classes = posterior.split.num_outputs
  if not isinstance(posterior.likelihood, tfr.likelihoods.CLASSES):
    return None
  if isinstance(posterior.likelihood, tfr.likelihoods.Bernoulli):
    if num_classes > 1:
      raise tfr.errors.InputError(
        'Runs on several outputs of zeros and ones are predicted with in Python only, by '
        f'`tfp_reprior.load_result`. Received: a run with {num_classes} outputs'
      )
    num_classes = 2
  return tuple(str(i) for i in range(num_classes))


def to_arrays(prediction, preparation):
  """What to write: a dict of arrays."""
  if prediction.is_discrete:
    shape = prediction.class_probabilities.shape
    arrays = {'probability_stddev': np.broadcast_to(prediction.function_stddev, shape)}
  else:
    arrays = {
      'mean': prediction.mean,
      'stddev': prediction.stddev,
      'quantiles': prediction.quantile(_LEVELS),
    }
  if preparation.class_names is not None:
    names = np.array(preparation.class_names)
    probabilities = prediction.class_probabilities
    arrays['class_probabilities'] = probabilities
    arrays['class_names'] = names
    arrays['label'] = names[np.argmax(probabilities, axis=-1)]
  return arrays


def write_table(path, arrays, inputs=None):
  """Writes predictions as a .csv file, a line for each input, after columns of inputs."""
  outputs = arrays['class_names'] if 'label' in arrays else range(arrays['mean'].shape[-1])
  columns = {}
  if 'label' in arrays:
    columns['label'] = arrays['label']
    for j, name in enumerate(outputs):
      columns[f'probability_{name}'] = arrays['class_probabilities'][:, j]
  for j, name in enumerate(outputs):
    ending = f'_{name}' if len(outputs) > 1 else ''
    for key in ('mean', 'stddev', 'probability_stddev'):
      if key in arrays:
        columns[f'{key}{ending}'] = arrays[key][:, j]
    for level, quantile in zip(_LEVELS, arrays.get('quantiles', ()), strict=False):
      columns[f'quantile_{level}{ending}'] = quantile[:, j]
  kept = {n if n not in columns else f'input_{n}': v for n, v in (inputs or {}).items()}
  columns = {**kept, **columns}
  text = io.StringIO(newline='')
  writer = csv.writer(text)
  for row in (columns, *zip(*columns.values(), strict=True)):
    writer.writerow([_cell(value) for value in row])
  files.write_atomically(path, lambda file: file.write(text.getvalue().encode()))


def _cell(value):
  """A number with six digits, text as it is, and nothing for what is missing.

  Text that spreadsheet programs would take for a formula, and run, has an apostrophe before it.
  """
  if isinstance(value, str) and value.startswith(_FORMULA) and not parsing.is_finite_number(value):
    return f"'{value}"
  if value is None or isinstance(value, str):
    return value
  return '' if np.isnan(value) else f'{value:.6g}'
