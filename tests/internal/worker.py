"""A worker: started by `workers_test.py`, in a process of its own, with its TF_CONFIG."""

import functools
import gc
import json
import os
import pathlib
import signal
import sys

gc.disable()  # it ends soon, and to look for garbage among imports takes a second
signal.alarm(450)  # nobody waits longer, and TensorFlow would wait for ever
sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

import numpy as np  # noqa: E402
import sampling_runs  # noqa: E402

import tfp_reprior as tfr  # noqa: E402
from tfp_reprior.cli import main as cli  # noqa: E402
from tfp_reprior.internal import strategies  # noqa: E402
from tfp_reprior.sampling import progress  # noqa: E402

INDEX = json.loads(os.environ['TF_CONFIG'])['task']['index']


@functools.cache  # a process can make one only
def make_strategy():
  return strategies.make_strategy('multiworker', most_seconds=100.0)


def sample(**changes):
  """A run in float64, whose numbers do not depend on rounding, on 5 data and 4."""
  strategy = make_strategy()  # before anything else
  model = tfr.models.fcn((1,), 2, width=8, depth=1, dtype='float64')
  x, y = sampling_runs.X[:9], sampling_runs.Y[:9]
  return sampling_runs.sample(model, x, y, strategy=strategy, **changes)


def save(result, path):
  """Writes what the test compares."""
  theta = {f'theta {i}': p for i, p in enumerate(result.draws[-1])}
  np.savez(path, **result.trace, **theta)


def watch_writes(folder):
  """A list, from now on, of the files of a folder that this process opens to write, or moves."""
  writes = []

  def hook(event, arguments):
    is_write = event in ('os.rename', 'os.mkdir', 'os.remove') or (
      event == 'open' and set(str(arguments[1])) & set('wax+')
    )
    if is_write and str(arguments[0]).startswith(str(folder)):
      writes.append(f'{event} {arguments[0]}')

  sys.addaudithook(hook)
  return writes


def run_and_go_on(folder):
  """A run, and the same run with more draws."""
  writes = watch_writes(folder / 'run')
  run = functools.partial(sample, run_dir=folder / 'run', num_burnin_steps=0, progress=True)
  run(num_results=6)
  save(run(), folder / f'{INDEX}.npz')
  (folder / f'{INDEX}.json').write_text(json.dumps(writes))


def run_command(folder):
  """The command line."""
  flags = '--data=toy --num_test=4 --width=4 --depth=1 --num_chains=2 --num_results=2 --thinning=1'
  more = '--num_burnin_steps=0 --step_size=0.1 --strategy=multiworker'
  sys.exit(cli.main(['sample', *flags.split(), *more.split(), f'--run_dir={folder}']))


def fail_alone(folder):
  """The command line, with a file that is not there for one of them."""
  data = 'toy' if INDEX == 0 else folder / 'nothing.csv'
  flags = [f'--data={data}', '--strategy=multiworker', f'--run_dir={folder / "run"}']
  sys.exit(cli.main(['sample', *flags]))


def refuse(folder):
  """Runs that are not the same for both, and one whose folder is not."""
  messages = []
  for changes in ({'seed': 7 + INDEX}, {'run_dir': folder / str(INDEX)}):
    try:
      sample(**changes)
    except (ValueError, RuntimeError) as e:
      messages.append(str(e))
  (folder / f'{INDEX}.json').write_text(json.dumps(messages))


def split_chains_and_warm_up(folder):
  """The other split, and a warm-up."""
  save(sample(sampler='langevin', regularizer=0.5), folder / f'{INDEX}.npz')
  warmed = dict(step_size=None, num_warmup_steps=100, num_burnin_steps=0)
  save(sample(run_dir=folder / 'run', **warmed), folder / f'warmed {INDEX}.npz')


def run_to_the_end(folder):
  """A run, or the rest of it."""
  save(sample(run_dir=folder / 'run', checkpoint_seconds=1e-9), folder / f'{INDEX}.npz')


def signal_second_worker(number):
  """Has the second worker send itself a signal, at the fifth piece of a run."""
  update, num_updates = progress.Progress.update, 0

  def update_and_signal(self, *arguments):
    nonlocal num_updates
    update(self, *arguments)
    num_updates += 1
    if INDEX == 1 and num_updates == 5:
      os.kill(os.getpid(), number)

  progress.Progress.update = update_and_signal


def interrupt(folder):
  """A run in which one worker is stopped by Ctrl-C."""
  signal_second_worker(signal.SIGINT)
  result = sample()
  (folder / f'{INDEX}.json').write_text(json.dumps([result.is_complete, result.num_draws]))


def die(folder):
  """A run in which the second worker is killed."""
  signal_second_worker(signal.SIGKILL)
  try:
    run_to_the_end(folder)
  except RuntimeError as e:
    print(e)
    sys.exit(3)


if __name__ == '__main__':
  globals()[sys.argv[1]](pathlib.Path(sys.argv[2]))
