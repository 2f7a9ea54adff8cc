"""How good predictions are on data with known targets."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tfp_reprior import errors
from tfp_reprior.internal import checks

_NUM_BINS = 10


def evaluate(prediction: Any, y: ArrayLike) -> dict[str, float]:
  """Figures of merit of a prediction.

  Args:
    prediction: A `Prediction` or `ClassPrediction` of `tfp_reprior.sampling` at m inputs.
    y: Targets `[m, k]` (`[m]` if k is 1); for a `CategoricalPrediction` labels `[m]`.

  Returns:
    Dict of floats. With Gaussian noise: `rmse`; `negative_log_likelihood`, the mean of that of an
    output; `coverage_90`, the share of targets within the central 90 % of their predictive
    distribution. For classes, centered one-hot targets among them: `accuracy`;
    `class_negative_log_likelihood`; `expected_calibration_error`, the mean gap between confidence
    and accuracy over ten bins.

  #### Examples

  ```python
  import tfp_reprior as tfr

  prediction = tfr.sampling.CategoricalPrediction([[[0.9, 0.1], [0.3, 0.7]]])
  tfr.diagnostics.evaluate(prediction, [0, 1])['accuracy']  # ==> 1.0
  ```
  """
  figures = {} if prediction.is_discrete else _figures_of_reals(prediction, y)
  observed = classes(prediction, y)
  if observed is not None:
    probabilities, labels = observed
    chosen = probabilities[np.arange(len(labels)), labels]
    if not prediction.is_discrete:
      # Finitely many draws give some classes a probability of zero: one count is added to each.
      num_components, num_classes = len(prediction.means), probabilities.shape[-1]
      chosen = (num_components * chosen + 1) / (num_components + num_classes)
    # `tfp.stats.expected_calibration_error` takes float32 logits only; the bins are plotted, too.
    _, confidence, accuracy, share = reliability(probabilities, labels)
    figures |= {
      'accuracy': np.mean(np.argmax(probabilities, axis=-1) == labels),
      'class_negative_log_likelihood': -np.mean(np.log(chosen)),
      'expected_calibration_error': np.sum(share * np.abs(confidence - accuracy)),
    }
  return {name: float(value) for name, value in figures.items()}


def classes(prediction, y):
  """Class probabilities `[m, c]` and labels `[m]`; None for targets that are no classes."""
  if prediction.is_discrete:
    return prediction.class_probabilities, prediction.labels(y)
  y = np.asarray(y)
  return (prediction.class_probabilities, np.argmax(y, axis=-1)) if is_one_hot(y) else None


def _figures_of_reals(prediction, y):
  y = checks.reals('y', checks.finite_array('y', y))
  y = y[:, np.newaxis] if y.ndim == 1 and prediction.mean.shape[-1] == 1 else y
  if y.shape != prediction.mean.shape:
    raise errors.InputError(
      f'`y` must have the shape of the prediction, {prediction.mean.shape}. Received: y of shape '
      f'{y.shape}'
    )
  level = prediction.cdf(y)
  return {
    'rmse': np.sqrt(np.mean((prediction.mean - y) ** 2)),
    'negative_log_likelihood': -np.mean(prediction.log_prob(y)),
    'coverage_90': np.mean((level > 0.05) & (level < 0.95)),
  }


def is_one_hot(y):
  """Whether targets are centered one-hot vectors, as of `tfp_reprior.data.centered_one_hot`."""
  k = y.shape[-1]
  if y.ndim < 2 or k < 2:
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


def wilson(share, count, z=1.96):
  """Wilson's interval for a probability, of the `share` of `count` trials: lower and upper ends."""
  share, count = np.asarray(share, np.float64), np.asarray(count, np.float64)
  middle = (share + z**2 / (2 * count)) / (1 + z**2 / count)
  reach = z / (1 + z**2 / count) * np.sqrt(share * (1 - share) / count + (z / (2 * count)) ** 2)
  return middle - reach, middle + reach


def coverage(prediction, y, levels):
  """The share of `y` `[m, k]` within the central interval of each probability in `levels`."""
  distance = np.abs(2 * prediction.cdf(y) - 1).ravel()
  return np.array([np.mean(distance <= level) for level in levels])


def accuracy_of_surest(probabilities, labels):
  """Accuracy on the inputs of greatest confidence, `[m]`: on one of them, on two, ..., on all."""
  order = np.argsort(-np.max(probabilities, axis=-1), kind='stable')
  is_right = np.argmax(probabilities, axis=-1) == labels
  return np.cumsum(is_right[order]) / np.arange(1, len(labels) + 1)


def binned_errors(stddev, errors, num_bins=10):
  """Root mean squares of both vectors in groups of like `stddev`, five or more each: `[b, 2]`."""
  pairs = np.stack([stddev, errors], axis=-1)[np.argsort(stddev)]
  groups = np.array_split(pairs, min(num_bins, max(1, len(pairs) // 5)))
  return np.array([np.sqrt(np.mean(group**2, axis=0)) for group in groups])
