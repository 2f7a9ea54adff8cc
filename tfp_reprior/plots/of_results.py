"""Which pictures suit a result and its predictions: for its methods, and for the page."""

import numpy as np

from tfp_reprior import errors
from tfp_reprior.diagnostics import metrics
from tfp_reprior.plots import classes, predictions

_MAX_CHANNELS = (1, 3)
NUM_UNCERTAIN = 8


def class_names(result, num_classes):
  """What classes are called: their names, or numbers; a yes or no has these."""
  names = result.preparation.class_names
  if names and len(names) == num_classes:
    return list(names)
  return ['no', 'yes'] if num_classes == 2 else [str(i) for i in range(num_classes)]


def prediction(result, x, predicted, y=None):
  """The picture of predictions.

  Of one input, bands or probabilities against it; else what was predicted against what was
  observed, or a table of which class is taken for which.

  Args:
    result: A `Result`.
    x: Inputs `[m, ...]` in the units of the user.
    predicted: Its prediction there.
    y: Targets, or None, where an input of its own is enough.
  """
  if np.size(x) == len(x):
    if predicted.is_discrete:
      return classes.probabilities(result, x, predicted)
    return predictions.bands(result, x, predicted, y)
  if y is None:
    raise errors.InputError(
      'Inputs of more than one number are shown by their targets: give `y`. Received: y=None for '
      f'x of shape {np.shape(x)}'
    )
  observed = metrics.classes(predicted, y)
  if observed is None:
    return predictions.observed(predicted, y, result.preparation.target_name or 'target')
  return classes.confusion(*observed, class_names(result, observed[0].shape[1]))


def reliability(predicted, y):
  """The picture of whether probabilities, or intervals, are right as often as they say."""
  observed = metrics.classes(predicted, y)
  return predictions.coverage(predicted, y) if observed is None else classes.reliability(*observed)


def of_test_data(result, predicted, y):
  """All pictures of a prediction at the test inputs, the most telling first; y may be None."""
  x = result.x_test
  is_line = np.size(x) == len(x)
  observed = None if y is None else metrics.classes(predicted, y)
  shown = [prediction(result, x, predicted, y)] if is_line or y is not None else []
  if observed is not None:
    probabilities, labels = observed
    names = class_names(result, probabilities.shape[1])
    if is_line:
      shown.append(classes.confusion(*observed, names))
    shown += [
      classes.reliability(*observed),
      classes.accuracy_of_surest(*observed),
      classes.true_classes(*observed),
    ]
    if is_images(x) and len(probabilities) == len(x):
      chosen = least_certain(probabilities)
      shown.append(classes.uncertain_images(x, probabilities, labels, names, chosen))
  elif y is not None:
    shown += [predictions.coverage(predicted, y), predictions.pit(predicted, y)]
  if y is not None and not predicted.is_discrete:
    shown.append(predictions.errors(predicted, y))
  return shown


def is_images(x):
  """Whether inputs `[m, ...]` can be shown as images."""
  shape = np.shape(x)[1:]
  return len(shape) == 2 or (len(shape) == 3 and shape[-1] in _MAX_CHANNELS)


def least_certain(probabilities):
  """The numbers of the inputs whose likeliest class is least probable, at most eight."""
  return np.argsort(np.max(probabilities, axis=-1), kind='stable')[:NUM_UNCERTAIN]
