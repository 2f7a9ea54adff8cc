"""The inputs that a prediction is least certain about, as a table."""

import numpy as np

from tfp_reprior.data import tables
from tfp_reprior.plots import of_results
from tfp_reprior.report.numbers import figure

_MAX_COLUMNS = 6


def table(run):
  """Dict of the head and the rows of a table; None for images, and for one input or none.

  Rows have the number of the datum, the first columns of its input, and what was predicted and
  observed, in the units of the user.
  """
  if run.y_test is None:
    return None
  x = np.asarray(run.result.x_test)
  if x.ndim != 2 or x.shape[1] < 2:
    return None
  if run.classes is not None:
    probabilities, labels = run.classes
    if len(probabilities) != len(x):
      return None  # several answers for each input
    classes = of_results.class_names(run.result, probabilities.shape[1])
    chosen = of_results.least_certain(probabilities)
    best = np.argmax(probabilities, axis=-1)
    head = ['Predicted', 'Probability', 'True']
    cells = [
      [classes[best[i]], f'{probabilities[i, best[i]]:.2f}', classes[labels[i]]] for i in chosen
    ]
  else:
    stddev = run.prediction.stddev.reshape([len(x), -1])
    chosen = np.argsort(-stddev[:, 0], kind='stable')[: of_results.NUM_UNCERTAIN]
    mean, y = (np.reshape(a, [len(x), -1]) for a in (run.prediction.mean, run.y_test))
    head = ['Predicted', '±', 'Observed']
    cells = [[figure(mean[i, 0]), figure(stddev[i, 0]), figure(y[i, 0])] for i in chosen]

  columns = _columns(run.result.preparation, x)
  shown = list(columns)[:_MAX_COLUMNS]
  rows = [
    (str(i + 1), [_cell(columns[name][i]) for name in shown] + row)
    for i, row in zip(chosen, cells, strict=True)
  ]
  more = len(columns) - len(shown)
  return {'head': ['Test datum', *shown, *head], 'rows': rows, 'num_hidden': more}


def _columns(preparation, x):
  """The columns of inputs `[m, d]` by name, as the user has them."""
  if preparation.columns is not None:
    return tables.decode(preparation.columns, x)
  names = preparation.feature_names or [f'input {i}' for i in range(1, 1 + x.shape[1])]
  return dict(zip(names, x.T, strict=True))


def _cell(value):
  return value if isinstance(value, str) else f'{value:.4g}'
