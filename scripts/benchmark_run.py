"""Resident memory over a long run of the driver (Linux only).

Samples the digits by `tfr.sample_posterior`, with checkpoints, and reads the memory of the process
twice a second. Prints it at ten moments from the first steps to the last: it should stay flat.
"""

import pathlib
import tempfile
import threading

from absl import app, flags

import tfp_reprior as tfr
from tfp_reprior.benchmarks import results, timing

_WIDTH = flags.DEFINE_integer('width', 128, 'Width of the network.', 1)
_NUM_TRAIN = flags.DEFINE_integer('num_train', 64, 'Number of training images.', 1)
_NUM_CHAINS = flags.DEFINE_integer('num_chains', 2, 'Number of chains.', 1)
_NUM_STEPS = flags.DEFINE_integer('num_steps', 20000, 'Steps of a chain.', 100)
_JSON = flags.DEFINE_string('json', None, 'File to write the figures to.')
_THINNING = flags.DEFINE_integer('thinning', 20, 'Steps for each draw.', 1)


def resident_mib():
  """Resident memory of this process."""
  [line] = [s for s in pathlib.Path('/proc/self/status').read_text().splitlines() if 'VmRSS' in s]
  return int(line.split()[1]) / 1024


def watch(folder, stop, readings):
  """Reads the memory while the run is past its burn-in, until `stop` is set."""
  while not stop.wait(0.5):
    if any(folder.glob('draws/*')):
      readings.append(resident_mib())


def main(argv):
  if len(argv) > 1:
    raise app.UsageError(f'Unknown arguments: {argv[1:]}')
  data = tfr.data.load('digits', _NUM_TRAIN.value, num_test=100)
  model = tfr.models.fcn(data.x_train.shape[1:], 10, _WIDTH.value)
  stop, readings = threading.Event(), []
  with tempfile.TemporaryDirectory() as folder:
    thread = threading.Thread(target=watch, args=(pathlib.Path(folder), stop, readings))
    thread.start()
    try:
      result = tfr.sample_posterior(
        model,
        data.x_train,
        data.y_train,
        x_test=data.x_test,
        run_dir=folder,
        num_chains=_NUM_CHAINS.value,
        num_results=_NUM_STEPS.value // _THINNING.value,
        thinning=_THINNING.value,
        step_size=0.1,
        checkpoint_seconds=5.0,
        noise_scale=0.1,
      )
    finally:
      readings.append(resident_mib())
      stop.set()
      thread.join()
  print(result.summary())
  last = len(readings) - 1
  rows = [
    # A run too short for any reading but the closing one has that at its end.
    {'share of the run': f'{i / last if last else 1:.0%}', 'MiB': round(readings[i])}
    for i in dict.fromkeys(round(i * last / 9) for i in range(10))
  ]
  timing.report(rows, _JSON.value, results.provenance())


if __name__ == '__main__':
  app.run(main)
