"""A process that has imported everything, and forks one for each run that it is asked for.

To import TensorFlow takes longer than a small run. Before the fork nothing is computed, so that no
thread of TensorFlow is there to be lost. Commands come as lines of JSON, one of

  {"act": NAME, "folder": PATH, "limit": BYTES or null, "ignored": [NAMES of signals]}
  {"wait": PID}

and are answered by the number of the process, or by its exit code, minus the signal that ended it.
"""

import json
import os
import resource
import signal
import subprocess
import sys
import traceback
import warnings

import fault_cases

import tfp_reprior as tfr
from tfp_reprior import cli, diagnostics, report, sampling  # noqa: F401
from tfp_reprior.cli import main as cli_main

SLOW = 10**7  # steps of a draw that no one waits for


def command(folder, **flags):
  """Arguments of a small run on the command line."""
  given = dict(data='toy', num_train=6, num_test=5, width=4, depth=1, num_chains=2, step_size=0.2)
  given |= dict(num_results=60, thinning=1, num_burnin_steps=10, checkpoint_seconds=1e-9) | flags
  return ['sample', '--quiet', f'--run_dir={folder}', *(f'--{k}={v}' for k, v in given.items())]


ACTS = {
  'run': fault_cases.sample,
  'other seed': lambda folder: fault_cases.sample(folder, seed=2),
  'slow': lambda folder: fault_cases.sample(folder, thinning=SLOW, num_results=3),
  'warm-up': lambda folder: fault_cases.sample(folder, step_size=None, num_burnin_steps=None),
  'command': lambda folder: cli_main.main(command(folder)),
  'slow command': lambda folder: cli_main.main(command(folder, thinning=SLOW)),
  'other command': lambda folder: cli_main.main(command(folder, seed=5)),
}


def _child(order):
  """Does what was asked for, and ends the process."""
  os.setsid()
  # By way of another process, for which there is no limit.
  with open(f'{order["folder"]}.log', 'ab') as log:
    writer = subprocess.Popen(['cat'], stdin=subprocess.PIPE, stdout=log)
  for descriptor in (1, 2):
    os.dup2(writer.stdin.fileno(), descriptor)
  for name in order.get('ignored', ()):
    signal.signal(getattr(signal, name), signal.SIG_IGN)
  if order.get('limit'):
    resource.setrlimit(resource.RLIMIT_FSIZE, (order['limit'], order['limit']))
  code = 70
  try:
    code = ACTS[order['act']](order['folder'])
    code = code if isinstance(code, int) else 0
  except KeyboardInterrupt as e:
    print('interrupted:', e)
    code = 130
  except tfr.errors.InputError as e:
    print('refused:', e)
    code = 1
  except tfr.errors.RunError as e:
    print('failed:', e)
    code = 3
  except BaseException:
    traceback.print_exc()
  finally:
    sys.stdout.flush()
    sys.stderr.flush()
    writer.stdin.close()
    os.closerange(1, 3)
    writer.wait()
    os._exit(code)


def main():
  warnings.simplefilter('ignore', diagnostics.SamplingWarning)
  print('ready', flush=True)
  for line in sys.stdin:
    order = json.loads(line)
    if 'wait' in order:
      print(os.waitstatus_to_exitcode(os.waitpid(order['wait'], 0)[1]), flush=True)
    else:
      pid = os.fork()
      if pid == 0:
        _child(order)
      print(pid, flush=True)


if __name__ == '__main__':
  main()
