"""What can be predicted without inputs: the least that a network has to beat."""

import numpy as np

from tfp_reprior import diagnostics
from tfp_reprior.diagnostics import metrics
from tfp_reprior.sampling import class_prediction, prediction


def name(predicted, y):
  """What pages and summaries call the baseline of a prediction of targets `y`."""
  return 'predict the mean' if metrics.classes(predicted, y) is None else 'majority class'


def evaluate(predicted, y_train, y):
  """The figures of `diagnostics.evaluate` for predictions that do not look at the inputs.

  For classes, how frequent each is in training, so that the most frequent one is predicted; for
  real targets, a Gaussian with their mean and deviation.

  Args:
    predicted: The prediction of a network at m inputs, which says what targets are.
    y_train: Training targets `[n, ...]`.
    y: Targets `[m, ...]`.

  Returns:
    Dict of floats.
  """
  y_train, y = np.asarray(y_train), np.asarray(y)
  if isinstance(predicted, class_prediction.BernoulliPrediction):
    yes = (np.sum(y_train.reshape([len(y_train), -1]), axis=0) + 1) / (len(y_train) + 2)
    shares = np.broadcast_to(yes, [1, *predicted.mean.shape])
    return diagnostics.evaluate(class_prediction.BernoulliPrediction(shares), y)
  if predicted.is_discrete:
    return _evaluate_classes(y_train, y, predicted.mean.shape[1])
  shape = (1, *predicted.mean.shape)
  targets = y_train.reshape([len(y_train), *shape[2:]]).astype(np.float64)
  mean, variance = (np.broadcast_to(f(targets, axis=0), shape) for f in (np.mean, np.var))
  simple = prediction.Prediction(mean, np.zeros(shape), np.maximum(variance, 1e-300))
  figures = diagnostics.evaluate(simple, y)
  if metrics.is_one_hot(y):
    labels = (np.argmax(values, axis=-1) for values in (y_train, y))
    figures |= _evaluate_classes(*labels, y.shape[-1])
  return figures


def _evaluate_classes(labels_train, labels, num_classes):
  # One count is added to each class: there may be some that training data do not have.
  counts = 1 + np.bincount(labels_train, minlength=num_classes)
  shares = np.broadcast_to(counts / np.sum(counts), [1, len(labels), num_classes])
  return diagnostics.evaluate(class_prediction.CategoricalPrediction(shares), labels)
