"""Settings that have a default, side by side: where chains start, and the map of classes.

Each row is a run of two hidden layers, all of them with the same number of gradients.

  --choice=start        diamonds with 5,000 rows, CIFAR-10 with 4,096 images (--data_dir): far more
                        than the 64 units of a layer. Chains start at draws of the prior, where an
                        optimization took these, or at weights that Keras trained for 30 epochs
  --choice=regularizer  classes of tables, with the maps that there are, and without

Prices are in standardized logarithms. Rows are saved when they are made, and the same command goes
on.
"""

import math
import time
import warnings

import keras
import numpy as np
import sklearn.pipeline
import sklearn.preprocessing
from absl import app, flags

import tfp_reprior as tfr
from tfp_reprior.benchmarks import results, table_data, table_models

_CHOICE = flags.DEFINE_enum('choice', 'start', ['start', 'regularizer'], 'What to compare.')
_VALUES = flags.DEFINE_list('values', None, 'Values of it; by default those that there are.')
_PROBLEMS = flags.DEFINE_list('problems', None, 'Tables, or cifar10; by default those above.')
_WIDTH = flags.DEFINE_integer('width', 64, 'Units of each hidden layer.', 1)
_NUM_TRAIN = flags.DEFINE_integer('num_train', None, 'Rows to train on; by default see above.', 10)
_NUM_CHAINS = flags.DEFINE_integer('num_chains', 4, 'Chains, side by side.', 2)
_NUM_WARMUP_STEPS = flags.DEFINE_integer('num_warmup_steps', 1000, 'Gradients of warm-up.', 100)
_NUM_RESULTS = flags.DEFINE_integer('num_results', 300, 'Draws of a chain, ten gradients each.', 4)
_SEED = flags.DEFINE_integer('seed', 0, 'Of split and chains.')
_DATA_DIR = flags.DEFINE_string('data_dir', None, 'Of TFDS, with cifar10.')
_JSON = flags.DEFINE_string('json', None, 'File of the rows.')

_ALL_VALUES = {
  'start': ['prior', 'optimized', 'model'],
  'regularizer': ['inf', 'sites', 'n*noise', 'noise'],
}
_NUM_ROWS = {
  'start': {'diamonds': 5000, 'cifar10': 4096},
  'regularizer': {'wine': 500, 'penguins': 500, 'breast cancer': 500},
}


def _load(problem, num_train, seed):
  """Inputs and targets to train on, and to test with, and the number of outputs."""
  if problem == 'cifar10':
    data = tfr.data.load('cifar10', num_train, 500, seed, _DATA_DIR.value)
    return data.x_train, data.y_train, data.x_test, data.y_test, data.y_train.shape[1]
  rows = table_data.load(problem, seed, num_train)
  to_numbers = sklearn.pipeline.make_pipeline(
    table_models.numbers(), sklearn.preprocessing.StandardScaler()
  )
  x, x_test = to_numbers.fit_transform(rows.x_train), to_numbers.transform(rows.x_test)
  y, y_test = rows.y_train, rows.y_test
  if not rows.is_class:
    mean, std = np.mean(np.log(y)), np.std(np.log(y))
    y, y_test = ((np.log(v) - mean) / std for v in (y, y_test))
  num_classes = len(np.unique(y)) if rows.is_class else 2
  return x, y, x_test, y_test, num_classes if num_classes > 2 else 1


def measure(case):
  """Figures of one run."""
  settings = {
    name: case[name] for name in ('num_chains', 'num_results', 'num_warmup_steps', 'seed')
  }
  value = case[_CHOICE.value]
  settings[_CHOICE.value] = math.inf if value == 'inf' else value
  x, y, x_test, y_test, num_outputs = _load(case['problem'], case['num_train'], case['seed'])
  model = tfr.models.fcn(x.shape[1:], num_outputs, case['width'], depth=2)
  begin = time.process_time()
  if value == 'model':
    keras.utils.set_random_seed(case['seed'])
    model.compile(keras.optimizers.Adam(0.01), 'mse')
    model.fit(x, y, batch_size=100, epochs=30, verbose=0)
  with warnings.catch_warnings():
    warnings.simplefilter('ignore', tfr.diagnostics.SamplingWarning)
    result = tfr.sample_posterior(
      model, x, y, x_test=x_test, y_test=y_test, progress=False, **settings
    )
  figures = result.evaluate()
  names = [n for n in figures if n.endswith('negative_log_likelihood')]
  log_likelihood = result.trace['log_likelihood']
  mixing = result.verdict.mixing
  return {
    'n': len(y),
    'gradients': result.settings['num_warmup_steps'] + result.num_steps,
    'first log-likelihood': float(np.mean(log_likelihood[0])),
    'last log-likelihood': float(np.mean(log_likelihood[-1])),
    'R-hat of outputs': mixing['f'].r_hat,
    'R-hat of the log-likelihood': mixing['log_likelihood'].r_hat,
    'outputs / 1k gradients': 1000 * mixing['f'].bulk_ess / result.num_steps / case['num_chains'],
    'test NLL': figures[names[-1]],
    'verdict': result.verdict.level,
    'CPU seconds': time.process_time() - begin,
  }


def main(argv):
  if len(argv) > 1:
    raise app.UsageError(f'Unknown arguments: {argv[1:]}')
  choice = _CHOICE.value
  for problem in _PROBLEMS.value or _NUM_ROWS[choice]:
    for value in _VALUES.value or _ALL_VALUES[choice]:
      case = {
        'problem': problem,
        choice: value,
        'width': _WIDTH.value,
        'num_train': _NUM_TRAIN.value or _NUM_ROWS[choice][problem],
        'num_chains': _NUM_CHAINS.value,
        'num_warmup_steps': _NUM_WARMUP_STEPS.value,
        'num_results': _NUM_RESULTS.value,
        'seed': _SEED.value,
      }
      [row] = results.measured([case], measure, _JSON.value)
      shown = [f'{k} {v:.4g}' for k, v in row.items() if isinstance(v, float)]
      print(f'{problem}, {choice} {value}: {", ".join(shown)}', flush=True)


if __name__ == '__main__':
  app.run(main)
