"""How good predictions are on data with known targets."""

import numpy as np
from numpy.typing import ArrayLike

from tfp_reprior.sampling.class_prediction import ClassPrediction
from tfp_reprior.sampling.prediction import Prediction

_NUM_BINS = 10


def evaluate(prediction: Prediction | ClassPrediction, y: ArrayLike) -> dict[str, float]:
  """Figures of merit of a prediction.

  Args:
    prediction: A `Prediction` or `ClassPrediction` at m inputs.
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
  tfr.sampling.evaluate(prediction, [0, 1])['accuracy']  # ==> 1.0
  ```
  """
  figures = {} if isinstance(prediction, ClassPrediction) else _figures_of_reals(prediction, y)
  observed = classes(prediction, y)
  if observed is not None:
    probabilities, labels = observed
    chosen = probabilities[np.arange(len(labels)), labels]
    if not isinstance(prediction, ClassPrediction):
      # Finitely many draws give some classes a probability of zero: one count is added to each.
      num_components, num_classes = len(prediction.means), probabilities.shape[-1]
      chosen = (num_components * chosen + 1) / (num_components + num_classes)
    _, confidence, accuracy, share = reliability(probabilities, labels)
    figures |= {
      'accuracy': np.mean(np.argmax(probabilities, axis=-1) == labels),
      'class_negative_log_likelihood': -np.mean(np.log(chosen)),
      'expected_calibration_error': np.sum(share * np.abs(confidence - accuracy)),
    }
  return {name: float(value) for name, value in figures.items()}


def classes(prediction, y):
  """Class probabilities `[m, c]` and labels `[m]`; None for targets that are no classes."""
  if isinstance(prediction, ClassPrediction):
    return prediction.class_probabilities, prediction.labels(y)
  y = np.asarray(y)
  return (prediction.class_probabilities, np.argmax(y, axis=-1)) if is_one_hot(y) else None


def _figures_of_reals(prediction, y):
  y = np.asarray(y, np.float64)
  y = y[:, np.newaxis] if y.ndim == 1 and prediction.mean.shape[-1] == 1 else y
  if y.shape != prediction.mean.shape:
    raise ValueError(
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
