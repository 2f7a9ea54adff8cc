"""What warm-up does on many problems and seeds, and how close to the best settings it comes.

Two tables. By default, for each problem, sampler and seed, a run of `sample_posterior`: what chains
accept after warm-up, how many stand still or have no finite numbers, and how many gradients warm-up
took. With --grid, effective samples per gradient of the slowest quantity, for the
settings that warm-up found and for a grid around them: longer and shorter steps, transitions and
momentum. The best point of the grid is chosen by the first half of the draws and measured by the
second, as warm-up's own is: the best of many noisy figures would flatter it.

With --json each row is saved when it is made, and the same command goes on.
"""

import itertools
import math
import pathlib
import tempfile
import time
import warnings

import numpy as np
from absl import app, flags

import tfp_reprior as tfr
from tfp_reprior.benchmarks import results, timing
from tfp_reprior.sampling import observations, runner, warmup

_PROBLEMS = flags.DEFINE_list(
  'problems',
  ['toy', 'wine', 'diabetes', 'digits-64', 'digits-128', 'digits-256'],
  'Also cifar10-256 and so on, with --data_dir; the number is the width.',
)
_SAMPLERS = flags.DEFINE_list('samplers', ['standard', 'langevin', 'auto'], 'Names of samplers.')
_NUM_SEEDS = flags.DEFINE_integer('num_seeds', None, 'Runs of each: 20, with --grid 1.', 1)
_NUM_TRAIN = flags.DEFINE_integer('num_train', 64, 'Images of digits and cifar10.', 1)
_NUM_RESULTS = flags.DEFINE_integer('num_results', 50, 'Draws of a chain.', 8)
_NUM_WARMUP_STEPS = flags.DEFINE_integer('num_warmup_steps', None, 'By default that of runs.', 100)
_GRID = flags.DEFINE_bool('grid', False, 'Compare with a grid.')
_NUM_GRADIENTS = flags.DEFINE_integer('num_gradients', 3000, 'Of a chain, for a point of it.', 50)
_DATA_DIR = flags.DEFINE_string('data_dir', None, 'Of TFDS, with cifar10.')
_JSON = flags.DEFINE_string('json', None, 'File to write the figures to, and to go on from.')

_NUM_CHAINS = 4


def make_posterior(problem, seed):
  """A posterior and test inputs, by the name of a problem."""
  name, _, width = problem.partition('-')
  width = int(width or 64)
  likelihood = tfr.likelihoods.Gaussian(0.1)
  if name in ('wine', 'diabetes'):
    data = _load_table(name, seed)
  else:
    data = tfr.data.load(
      name, None if name == 'toy' else _NUM_TRAIN.value, 100, seed, _DATA_DIR.value
    )
  y = data.y_train
  if name == 'wine':
    y, likelihood = data.labels_train, tfr.likelihoods.Categorical()
  elif name == 'diabetes':
    likelihood = None  # unknown noise
  model = tfr.models.fcn(data.x_train.shape[1:], data.y_train.shape[1], width)
  return tfr.Posterior(model, data.x_train, y, likelihood=likelihood), data.x_test


def _load_table(name, seed):
  """A table of scikit-learn by way of a .csv file, as a user would load it."""
  import sklearn.datasets

  table = getattr(sklearn.datasets, f'load_{name}')()
  with tempfile.TemporaryDirectory() as folder:
    path = pathlib.Path(folder) / f'{name}.csv'
    rows = np.column_stack([table.data, table.target])
    header = ','.join([*(n.replace(',', ' ') for n in table.feature_names), 'target'])
    np.savetxt(path, rows, delimiter=',', header=header, comments='')
    target = 'target:class' if name == 'wine' else 'target'
    num_train = 100 if name == 'wine' else 200
    return tfr.data.load(str(path), num_train, 50, seed, target=target)


def run(problem, sampler, seed):
  """The figures of one run."""
  posterior, x_test = make_posterior(problem, seed)
  begin = time.perf_counter()
  try:
    with warnings.catch_warnings():
      warnings.simplefilter('ignore', tfr.diagnostics.SamplingWarning)
      result = tfr.sample_posterior(
        posterior,
        x_test=x_test,
        sampler=sampler,
        num_chains=_NUM_CHAINS,
        num_results=_NUM_RESULTS.value,
        num_warmup_steps=_NUM_WARMUP_STEPS.value,
        num_kept_draws=0,
        seed=seed,
        progress=False,
      )
  except tfr.sampling.WarmupError as e:
    return {'error': str(e), 'seconds': time.perf_counter() - begin}
  acceptance = np.mean(result.trace['acceptance'], axis=0)
  return {
    'lowest acceptance': float(np.min(acceptance)),
    'mean acceptance': float(np.mean(acceptance)),
    'highest acceptance': float(np.max(acceptance)),
    'chains below 0.4': int(np.sum(acceptance < 0.4)),
    'chains above 0.99': int(np.sum(acceptance > 0.99)),
    'frozen chains': int(np.sum(np.ptp(result.trace['log_likelihood'], axis=0) == 0)),
    'is finite': bool(all(np.all(np.isfinite(v)) for v in result.trace.values())),
    'error': 'none',
    'step size': float(result.settings['step_size']),
    'steps': result.settings['num_integrator_steps'],
    'gradients of warm-up': float(result.settings['num_warmup_steps']),
    'verdict': result.verdict.level,
    'seconds': time.perf_counter() - begin,
  }


def grid_points(found):
  """Settings around those that warm-up found, which come first."""
  chosen = {n: getattr(found, n) for n in ('step_size', 'damping', 'num_integrator_steps')}
  points = [chosen]
  for factor in (0.7, 1.0, 1.4):
    for angle in (math.pi / 2, math.pi / 6):
      for friction in (1.0, 0.3):
        step_size = min(factor * found.step_size, math.pi / 2)
        steps = max(1, round(angle / step_size))
        damping = warmup.default_damping(step_size, steps, friction)
        points.append(dict(step_size=step_size, damping=damping, num_integrator_steps=steps))
  return points


def measure(sampler, state, point, x_test):
  """The trace of a run with given settings."""
  observer = observations.Observer(sampler, x_test, 32, seed=1)
  kernel = warmup.sampling_kernel(sampler, point)

  def trace_fn(state, results):
    trace, _ = observer.draw(state, results, observer.empty(_NUM_CHAINS))
    return {n: v for n, v in trace.items() if n != 'theta'}

  num_draws = max(20, _NUM_GRADIENTS.value // point['num_integrator_steps'])
  trace, _ = runner.run_chains(kernel, state, trace_fn, num_draws, 1, seed=2)
  return trace


def halves(trace, point):
  """Effective samples per 1,000 gradients of the slowest quantity: by each half of the draws.

  Of single chains, because chains in different regions say nothing of step sizes; mean over chains,
  and over projections.
  """
  figures = []
  for half in (0, 1):
    sizes = []
    for name in ('hidden', 'f', 'log_likelihood', 'log_prob', 'squared_norms'):
      draws = np.array_split(np.asarray(trace[name], np.float64), 2)[half]
      size = np.mean(tfr.diagnostics.effective_sample_size(draws), axis=0)
      sizes.append(np.min(size) if name == 'squared_norms' else np.mean(size))
    figures.append(1000 * min(sizes) / (len(draws) * point['num_integrator_steps']))
  return figures


def compare(problem, sampler_name, seed):
  """The row of warm-up against the grid."""
  posterior, x_test = make_posterior(problem, seed)
  found = tfr.warm_up(
    posterior,
    x_test=x_test,
    sampler=sampler_name,
    num_chains=_NUM_CHAINS,
    num_warmup_steps=_NUM_WARMUP_STEPS.value,
    seed=seed,
    progress=False,
  )
  sampler = tfr.make_sampler(posterior, sampler_name)
  points = grid_points(found)
  traces = [measure(sampler, found.state, point, x_test) for point in points]
  first, second = np.transpose([halves(t, p) for t, p in zip(traces, points, strict=True)])
  best = int(np.argmax(first))

  def describe(point):
    return (
      f'{point["step_size"]:.3g}, {point["damping"]:.2g}, {point["num_integrator_steps"]}, '
      f'{np.mean(traces[points.index(point)]["acceptance"]):.2f}'
    )

  return {
    'warm-up: step size, damping, steps, acceptance': describe(points[0]),
    'ESS / 1k gradients': float(second[0]),
    'best of the grid': describe(points[best]),
    'its ESS / 1k gradients': float(second[best]),
    'ratio': float(second[0] / second[best]),
    'gradients of warm-up': found.num_gradients,
  }


def main(argv):
  if len(argv) > 1:
    raise app.UsageError(f'Unknown arguments: {argv[1:]}')
  tfr.compilation.keep_freed_memory()
  num_seeds = _NUM_SEEDS.value or (1 if _GRID.value else 20)
  settings = ('num_train', 'num_warmup_steps', 'num_gradients' if _GRID.value else 'num_results')
  settings = {name: flags.FLAGS[name].value for name in settings}
  keys = ('problem', 'sampler', 'seed')
  cases = (
    {**dict(zip(keys, case, strict=True)), 'settings': settings}
    for case in itertools.product(_PROBLEMS.value, _SAMPLERS.value, range(num_seeds))
  )
  measure_fn = compare if _GRID.value else run
  rows = results.measured(cases, lambda case: measure_fn(*map(case.get, keys)), _JSON.value)
  timing.report(rows)


if __name__ == '__main__':
  app.run(main)
