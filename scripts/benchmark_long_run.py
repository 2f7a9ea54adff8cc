"""Memory and time of a long run of a small model, and of many runs in one process (Linux only).

A thread looks at the resident memory of the process while a run goes on, and at the file that the
trace is appended to, which says how many draws there are.
"""

import gc
import pathlib
import tempfile
import threading
import time
import warnings

import numpy as np
from absl import app, flags

import tfp_reprior as tfr
from tfp_reprior.benchmarks import results, timing

_NUMS_DRAWS = flags.DEFINE_list('nums_draws', ['2000', '20000', '200000'], 'When to look.')
_NUM_RUNS = flags.DEFINE_integer('num_runs', 0, 'Runs in one process, instead of a long one.', 0)
_CHECKPOINT_SECONDS = flags.DEFINE_float('checkpoint_seconds', 5.0, 'Time between checkpoints.')
_JSON = flags.DEFINE_string('json', None, 'File to write the figures to.')


def rss_mib():
  """Resident memory of this process."""
  lines = pathlib.Path('/proc/self/status').read_text().splitlines()
  return sum(int(line.split()[1]) for line in lines if line.startswith('VmRSS')) / 1024


def sample(num_results, run_dir=None, seed=0):
  x = np.linspace(-1, 1, 10, dtype=np.float32)[:, np.newaxis]
  return tfr.sample_posterior(
    tfr.models.fcn((1,), 1, width=8, depth=1),
    x,
    np.sin(3 * x),
    noise_scale=0.1,
    x_test=x[::3],
    num_chains=2,
    num_results=num_results,
    thinning=1,
    num_burnin_steps=0,
    step_size=0.1,
    seed=seed,
    run_dir=run_dir,
    checkpoint_seconds=_CHECKPOINT_SECONDS.value,
    progress=False,
  )


def long_run(nums_draws):
  """Yields the figures of one run, row by row."""
  seen, is_over = [], threading.Event()
  with tempfile.TemporaryDirectory() as folder:
    path = pathlib.Path(folder) / 'checkpoints' / 'trace-sampling.bin'

    def watch():
      is_last = False
      while not is_last:
        is_last = is_over.wait(0.1)  # then once more, as runs may take less than that
        seen.append((time.monotonic(), path.stat().st_size if path.exists() else 0, rss_mib()))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
      sample(nums_draws[-1], folder)
    finally:
      is_over.set()
      thread.join()
    num_bytes = path.stat().st_size / nums_draws[-1]  # of a draw
  begin = next(moment for moment in seen if moment[1])
  for num_draws in nums_draws:
    reached = next((m for m in seen if m[1] >= num_draws * num_bytes), seen[-1])
    made = max(1.0, (reached[1] - begin[1]) / num_bytes)
    yield {
      'draws': round(reached[1] / num_bytes),
      'RSS MiB': reached[2],
      'ms a draw': 1000 * (reached[0] - begin[0]) / made,
    }
  yield {'draws': 'with verdict', 'RSS MiB': seen[-1][2], 'ms a draw': ''}


def many_runs(num_runs):
  """Yields the memory after each of some runs."""
  for i in range(num_runs):
    sample(50, seed=i)
    gc.collect()
    if i in (0, 4, num_runs // 2, num_runs - 1):
      yield {'runs': i + 1, 'RSS MiB': rss_mib()}


def main(argv):
  if len(argv) > 1:
    raise app.UsageError(f'Unknown arguments: {argv[1:]}')
  warnings.simplefilter('ignore')
  nums_draws = sorted(map(int, _NUMS_DRAWS.value))
  rows = many_runs(_NUM_RUNS.value) if _NUM_RUNS.value else long_run(nums_draws)
  timing.report(({**row, 'made': results.provenance()} for row in rows), _JSON.value)


if __name__ == '__main__':
  app.run(main)
