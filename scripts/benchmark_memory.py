"""Peak memory: of value and gradient against the number of data, or of a run in data space.

By default that of evaluating the gradient three times, whole and in chunks, after data, weights and
the traced function are there. With --run that of everything since the process began: importing
TensorFlow, making the model, warm-up, draws of four chains, predictions at 100 test inputs. Each
measurement runs in a process of its own.
"""

import contextlib
import gc
import itertools
import subprocess
import sys
import warnings

import keras
import numpy as np
import tensorflow_probability as tfp
from absl import app, flags

import tfp_reprior as tfr
from tfp_reprior.benchmarks import results, timing

_MODEL = flags.DEFINE_enum(
  'model',
  'fcn',
  ['fcn', 'wide_resnet'],
  'fcn has the readout integrated out; wide_resnet has not, with the regularizer n*noise.',
)
_WIDTH = flags.DEFINE_integer('width', 512, 'Width of the network.', 1)
_NUMS_DATA = flags.DEFINE_list('nums_data', ['1024', '10240'], 'Numbers of data.')
_CHUNK_SIZES = flags.DEFINE_list('chunk_sizes', ['0', '256'], 'Sizes of chunks; 0 for the whole.')
_DATA_DIR = flags.DEFINE_string('data_dir', None, 'Of TFDS, with cifar10; else random data.')
_RUN = flags.DEFINE_enum(
  'run',
  None,
  ['with_weights', 'without_weights'],
  'A run of the fcn in data space, by a model with weights, or by one that was made without.',
)
_NUM_RESULTS = flags.DEFINE_integer('num_results', 10, 'Draws of a chain of --run.', 8)
_JSON = flags.DEFINE_string('json', None, 'File to write the figures to, and to go on from.')
_MEASURE = flags.DEFINE_string('measure', None, 'Internal: one measurement, as n,chunk_size.')


def load(num_data):
  """CIFAR-10 if there is a folder with it, else random numbers of its shape."""
  if _DATA_DIR.value is None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(num_data, 32, 32, 3)).astype(np.float32)
    return x, rng.normal(size=(num_data, 10)).astype(np.float32)
  data = tfr.data.load('cifar10', num_data, 1, data_dir=_DATA_DIR.value)
  return data.x_train, data.y_train


def peak_mib():
  """Peak of the resident memory of this process since the last reset (Linux only)."""
  with open('/proc/self/status') as status:
    [line] = [line for line in status if line.startswith('VmHWM')]
  return int(line.split()[1]) / 1024


def reset_peak():
  gc.collect()
  with open('/proc/self/clear_refs', 'w') as file:
    file.write('5')


def measure(num_data, chunk_size):
  x, y = load(num_data)
  model = getattr(tfr.models, _MODEL.value)(x.shape[1:], 10, _WIDTH.value)
  is_collapsed, chunk_size = _MODEL.value == 'fcn', chunk_size or None
  posterior = tfr.Posterior(
    model, x, y, chunk_size=None if is_collapsed else chunk_size, noise_scale=0.1
  )
  num_data, data_mib = len(x), x.nbytes / 2**20
  del x, y  # the posterior has its own copy
  if is_collapsed:
    density = tfr.CollapsedPosterior(posterior, chunk_size)
  else:
    density = tfr.ComposedPosterior(posterior, 'n*noise')
  phi = posterior.sample_prior(seed=1)[: posterior.split.num_hidden if is_collapsed else None]
  evaluate = tfr.compilation.function(
    lambda *phi: tfp.math.value_and_gradient(density.log_likelihood_fn, phi)
  )
  evaluate.get_concrete_function(*phi)
  reset_peak()
  before = peak_mib()
  value, _ = evaluate(*phi)
  for _ in range(2):
    evaluate(*phi)
  print(f'{num_data},{data_mib},{before},{peak_mib()},{float(value)}')


def measure_run(num_data):
  """Prints the peaks since the process began, after each stage of a run."""
  x, y = load(num_data)
  peaks = [peak_mib()]
  # Without weights: Keras leaves them out until somebody asks for them.
  is_lazy = _RUN.value == 'without_weights'
  with keras.StatelessScope(initialize_variables=False) if is_lazy else contextlib.nullcontext():
    model = tfr.models.fcn(x.shape[1:], 10, _WIDTH.value)
  peaks.append(peak_mib())
  with warnings.catch_warnings():
    warnings.simplefilter('ignore', tfr.diagnostics.SamplingWarning)  # it is a short run
    result = tfr.sample_posterior(
      model,
      x,
      y,
      noise_scale=0.1,
      hidden_space='data',
      num_chains=4,
      num_results=_NUM_RESULTS.value,
      num_warmup_steps=100,
      num_kept_draws=_NUM_RESULTS.value,
      progress=False,
      seed=1,
    )
  peaks.append(peak_mib())
  result.predict(np.random.default_rng(1).normal(size=(100, *x.shape[1:])).astype(np.float32))
  # The kernel counts roughly: its figure of the peak may fall a little.
  peaks = itertools.accumulate([*peaks, peak_mib()], max)
  print(*peaks, result.posterior.split.network.num_parameters, sep=',')


def rows_of_runs():
  """Yields the figures of runs, row by row."""
  cases = (
    {'run': _RUN.value, 'width': _WIDTH.value, 'n': int(n), 'draws': _NUM_RESULTS.value}
    for n in _NUMS_DATA.value
  )

  def run(case):
    command = [sys.executable, *sys.argv, f'--measure={case["n"]},0']
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    *peaks, num_weights = map(float, result.stdout.split()[-1].split(','))
    stages = ('imports and data', 'model', 'sampling', 'predictions')
    figures = {f'{stage} GiB': p / 1024 for stage, p in zip(stages, peaks, strict=True)}
    return {'weights': int(num_weights), **figures}

  yield from results.measured(cases, run, _JSON.value)


def rows():
  """Yields the figures, row by row."""
  network = {'model': _MODEL.value, 'width': _WIDTH.value}
  cases = (
    {**network, 'chunk_size': int(size) or 'whole', 'n': int(n)}
    for size, n in itertools.product(_CHUNK_SIZES.value, _NUMS_DATA.value)
  )

  def evaluate(case):
    size = 0 if case['chunk_size'] == 'whole' else case['chunk_size']
    command = [sys.executable, *sys.argv, f'--measure={case["n"]},{size}']
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    _, data, before, after, value = map(float, result.stdout.split()[-1].split(','))
    return {
      'data MiB': data,
      'before MiB': before,
      'peak MiB': after,
      'peak less data MiB': after - data,
      'log-likelihood': f'{value:.1f}',
    }

  yield from results.measured(cases, evaluate, _JSON.value)


def main(argv):
  if len(argv) > 1:
    raise app.UsageError(f'Unknown arguments: {argv[1:]}')
  if _MEASURE.value:
    num_data, chunk_size = map(int, _MEASURE.value.split(','))
    measure_run(num_data) if _RUN.value else measure(num_data, chunk_size)
    return
  timing.report(rows_of_runs() if _RUN.value else rows())


if __name__ == '__main__':
  app.run(main)
