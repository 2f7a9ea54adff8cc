"""How good predictions are on data with known targets."""

import numpy as np

_NUM_BINS = 10


def evaluate(prediction, y):
  """Figures of merit of a `Prediction`.

  Args:
    prediction: A `Prediction` at m inputs.
    y: Targets `[m, k]` (`[m]` if k is 1).

  Returns:
    Dict of floats. `rmse`; `negative_log_likelihood`, the mean of that of an output; `coverage_90`,
    the share of targets within the central 90 % of their predictive distribution. For centered
    one-hot targets also `accuracy`; `class_negative_log_likelihood`, with one count added to every
    class, because finitely many draws give some a probability of zero; and
    `expected_calibration_error`, the mean gap between confidence and accuracy over ten bins.
  """
  y = np.asarray(y, np.float64)
  y = y[:, np.newaxis] if y.ndim == 1 and prediction.mean.shape[-1] == 1 else y
  if y.shape != prediction.mean.shape:
    raise ValueError(
      f'`y` must have the shape of the prediction, {prediction.mean.shape}. Received: y of shape '
      f'{y.shape}'
    )
  level = prediction.cdf(y)
  figures = {
    'rmse': np.sqrt(np.mean((prediction.mean - y) ** 2)),
    'negative_log_likelihood': -np.mean(prediction.log_prob(y)),
    'coverage_90': np.mean((level > 0.05) & (level < 0.95)),
  }
  if is_one_hot(y):
    labels = np.argmax(y, axis=-1)
    num_components, num_classes = len(prediction.means), y.shape[-1]
    probabilities = prediction.class_probabilities
    figures['accuracy'] = np.mean(np.argmax(probabilities, -1) == labels)
    smoothed = (num_components * probabilities + 1) / (num_components + num_classes)
    figures['class_negative_log_likelihood'] = -np.mean(
      np.log(smoothed[np.arange(len(labels)), labels])
    )
    _, confidence, accuracy, share = reliability(probabilities, labels)
    figures['expected_calibration_error'] = np.sum(share * np.abs(confidence - accuracy))
  return {name: float(value) for name, value in figures.items()}


def is_one_hot(y):
  """Whether targets are centered one-hot vectors, as of `tfp_reprior.data.centered_one_hot`."""
  k = y.shape[-1]
  if k < 2:
    return False
  expected = np.eye(k)[np.argmax(y, axis=-1)] - 1 / k
  return bool(np.allclose(y, expected, atol=1e-5))


def reliability(probabilities, labels):
  """Confidence against accuracy, in bins of equal width.

  Args:
    probabilities: `[m, k]`.
    labels: Integers `[m]`.

  Returns:
    centers, confidence, accuracy, share: Of the bins that are not empty, `[bins]` each; the mean
      probability of the predicted class, how often it is right, and the share of inputs.
  """
  confidence = np.max(probabilities, axis=-1)
  is_right = np.argmax(probabilities, axis=-1) == labels
  bins = np.minimum((confidence * _NUM_BINS).astype(int), _NUM_BINS - 1)
  filled = np.unique(bins)
  return (
    (filled + 0.5) / _NUM_BINS,
    np.array([np.mean(confidence[bins == b]) for b in filled]),
    np.array([np.mean(is_right[bins == b]) for b in filled]),
    np.array([np.mean(bins == b) for b in filled]),
  )
