"""The command `tfp-reprior`."""

import argparse
import contextlib
import gc
import os
import sys
import tempfile

from tfp_reprior import errors
from tfp_reprior.cli import benchmark, figure, predict, presets, report, sample, warmup
from tfp_reprior.internal import interrupts
from tfp_reprior.version import __version__

_DESCRIPTION = """\
Samples the exact posterior of wide Bayesian neural networks.

  tfp-reprior sample --data=toy --run_dir=runs/toy     samples, and writes a report
  tfp-reprior predict runs/toy --data=new.csv          predicts at new inputs
  tfp-reprior report runs/toy runs/other               compares runs on one page

Each command has a --help of its own."""

_EPILOG = """\
Exit codes: 0 if all went well; 1 for a mistake in what was asked for; 2 for flags that do not
exist; 3 if sampling failed: chains stood still, disagree, or are not finite, or what came out could
not be saved; 130 after Ctrl-C, 143 after SIGTERM and 129 after SIGHUP, which all save and stop. A
traceback is a bug of ours.
TensorFlow's log is left out; TF_CPP_MIN_LOG_LEVEL=0 in the environment brings it back."""

_COMMANDS = (sample, warmup, predict, report, figure, benchmark, presets)


def main(argv=None):
  """Runs a command.

  Args:
    argv: List of strings; by default those that the program was called with.

  Returns:
    The exit code.
  """
  try:
    args = presets.parse_args(_parser(), argv)
    _import_tensorflow()
    return args.run(args)
  except KeyboardInterrupt as e:
    print(f'tfp-reprior: {str(e) or "Interrupted."}', file=sys.stderr)
    return interrupts.exit_code()
  except BrokenPipeError:  # of `tfp-reprior ... | head`
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is still in there
    return 141
  except (errors.InputError, errors.RunError, OSError, MemoryError) as e:
    print('tfp-reprior: error:', _sentence(e), file=sys.stderr)
    return 3 if isinstance(e, errors.RunError) else 1


def _sentence(error):
  """What an error says, in one line without characters that a terminal would obey."""
  text = str(error)
  if isinstance(error, OSError) and error.strerror is not None:
    text = f'{error.strerror}: {error.filename}' if error.filename else error.strerror
  elif isinstance(error, MemoryError):
    text = f'The memory is not enough: take a smaller model, fewer data or chains. {text}'
  return ''.join(c if c.isprintable() else '?' for c in ' '.join(text.split()))


def _parser():
  parser = argparse.ArgumentParser(
    'tfp-reprior',
    description=_DESCRIPTION,
    epilog=_EPILOG,
    formatter_class=argparse.RawDescriptionHelpFormatter,
    allow_abbrev=False,
  )
  parser.add_argument('--version', action='version', version=f'tfp-reprior {__version__}')
  subparsers = parser.add_subparsers(title='commands', metavar='COMMAND', required=True)
  for command in _COMMANDS:
    subparser = subparsers.add_parser(
      command.__name__.rpartition('.')[-1],
      help=command.HELP,
      description=command.DESCRIPTION,
      formatter_class=argparse.RawDescriptionHelpFormatter,
      allow_abbrev=False,
    )
    command.add_arguments(subparser)
    subparser.set_defaults(run=command.run, parser=subparser)
  return parser


def _import_tensorflow():
  """Imports TensorFlow, without the lines that it logs meanwhile, unless they were asked for."""
  level = os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '2')  # errors only
  if 'tensorflow' in sys.modules or level in ('0', '1'):
    return
  with _held_back_stderr(), _without_collector():
    import tensorflow as tf

    # Complains of missing GPUs when it is first called. Not logical devices: once those are there,
    # no strategy of several workers can be made any more.
    tf.config.list_physical_devices()


@contextlib.contextmanager
def _without_collector():
  """What is imported is there to stay: to look for garbage in it takes a second of five."""
  was_enabled = gc.isenabled()
  gc.disable()
  try:
    yield
  finally:
    gc.freeze()
    if was_enabled:
      gc.enable()


@contextlib.contextmanager
def _held_back_stderr():
  """Holds back what is written to stderr, by C++ too, and shows it only after an exception."""
  sys.stderr.flush()
  with tempfile.TemporaryFile() as held:
    stderr = os.dup(2)
    os.dup2(held.fileno(), 2)
    try:
      yield
    except BaseException:
      held.seek(0)
      os.write(stderr, held.read())
      raise
    finally:
      os.dup2(stderr, 2)
      os.close(stderr)
