"""`tfp-reprior report`: one page on one run or several."""

import pathlib

import tfp_reprior as tfr
from tfp_reprior import errors
from tfp_reprior.cli import flags

HELP = 'write a report on runs'

DESCRIPTION = """\
Writes one page of HTML on finished runs: verdict, predictions, mixing, settings. Several runs are
compared with the first. The page needs no other file and no network. It takes matplotlib and Jinja2
(pip install tfp-reprior[plot]).

example:
  tfp-reprior report runs/rotation runs/standard --output=comparison.html"""


def add_arguments(parser):
  """Adds the flags of this command."""
  parser.add_argument(
    'run_dirs', type=flags.path, nargs='+', metavar='RUN_DIR', help='folder of a run'
  )
  parser.add_argument(
    '--output',
    type=flags.path,
    default='report.html',
    metavar='FILE',
    help='file to write (default: %(default)s)',
  )


def run(args):
  """Runs the command. Returns the exit code."""
  output = pathlib.Path(args.output)
  if not output.parent.is_dir() or (output.exists() and not output.is_file()):
    raise errors.InputError(
      f'--output must be a file in a folder that exists. Received: --output={args.output}'
    )
  results = [tfr.load_result(run_dir) for run_dir in args.run_dirs]
  tfr.report.write_report(results, output, args.run_dirs)
  print(f'The report is {output}')
  return 0
