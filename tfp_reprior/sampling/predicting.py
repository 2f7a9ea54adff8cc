"""From kept draws to predictions at new inputs."""

import numpy as np
import tensorflow as tf

from tfp_reprior import errors, likelihoods
from tfp_reprior.densities import collapsed_posterior
from tfp_reprior.internal import checks
from tfp_reprior.sampling import class_prediction, distribution_prediction, log_prediction
from tfp_reprior.sampling import prediction as prediction_lib

Prediction = (
  prediction_lib.Prediction
  | class_prediction.ClassPrediction
  | distribution_prediction.DistributionPrediction
  | log_prediction.LogPrediction
)
_MOST_JOINT_ROWS = 128  # new inputs whose outputs `DataSpaceSplit.embed_new` draws jointly


class Predictor:
  """Predicts by the draws of a run, each jointly over inputs.

  Args:
    posterior: A `Posterior`.
  """

  def __init__(self, posterior):
    self._posterior = posterior
    self._components_fn = tf.function(_Components(posterior), autograph=False)

  def predict(self, x, draws, preparation, batch_size=1024, f_moments=None):
    """The prediction at prepared inputs `[m, ...]`, in the units of the user.

    Args:
      x: Inputs.
      draws: The kept draws.
      preparation: The `tfp_reprior.data.Preparation` that the data have been through.
      batch_size: Positive integer, inputs at a time.
      f_moments: Pair of mean and variance over all draws of means of observations, or None.
    """
    x = self._posterior.check_inputs(x)
    if not len(draws):
      raise errors.InputError(
        'There are no kept draws to predict with: the run was stopped before the first of them, or '
        'num_kept_draws was 0'
      )
    # In data space rows are drawn jointly, but batches are not: all of them see the same weights.
    split, batch_size = self._posterior.split, checks.positive_integer('batch_size', batch_size)
    needs_weights = split.names_in_data_space and x.shape[0] > min(batch_size, _MOST_JOINT_ROWS)
    components_fn = self._components_fn
    if needs_weights:
      in_weights = self._posterior.in_space('weights')
      components_fn = tf.function(_Components(in_weights), autograph=False)
    found, likelihood_parts = [], []
    for i, number in enumerate(draws.numbers):
      parts = [tf.constant(p) for p in draws[i]]
      likelihood_parts.append(self._posterior.likelihood_parts(parts))
      if needs_weights:
        parts = split.to_weights(parts, [number, 0])
      batches = [
        components_fn(parts, x[first : first + batch_size], tf.constant([number, first]))
        for first in range(0, x.shape[0], batch_size)
      ]
      found.append([np.concatenate(pieces, axis=-2) for pieces in zip(*batches, strict=True)])
    given = self._given(likelihood_parts)
    components = [np.concatenate(pieces) for pieces in zip(*found, strict=True)]  # [s * c, m, k]
    return self._make(given, preparation, *components, f_moments=f_moments)

  def fitted(self, draws, preparation):
    """The prediction at the training inputs, by all weights of each draw, chains in their order.

    Given a component of it, data are independent: nothing is integrated out.
    """
    x, split = self._posterior.x, self._posterior.split
    outputs_fn = tf.function(lambda *parts: split.apply(parts, x), autograph=False)
    found, likelihood_parts = [], []
    for i in range(len(draws)):
      parts = [tf.constant(p) for p in draws[i]]
      likelihood_parts.append(self._posterior.likelihood_parts(parts))
      found.append(outputs_fn(*parts).numpy())
    return self._make(self._given(likelihood_parts), preparation, np.concatenate(found))

  def _given(self, likelihood_parts):
    """The likelihood given its parts, a list of them for each draw."""
    return self._posterior.likelihood.given(
      [tf.concat(pieces, axis=0) for pieces in zip(*likelihood_parts, strict=True)]
    )

  def _make(self, given, preparation, f, mean=None, variance=None, f_moments=None):
    """The prediction of a likelihood with known parameters, by draws of outputs f `[s, m, k]`."""
    likelihood = self._posterior.likelihood
    if isinstance(likelihood, likelihoods.Categorical):
      return class_prediction.CategoricalPrediction(given.mean(f), f_moments)
    if isinstance(likelihood, likelihoods.Bernoulli):
      return class_prediction.BernoulliPrediction(given.mean(f), f_moments)
    shift, scale = np.zeros([]), np.ones([])
    if likelihood.has_units:
      shift, scale = (np.asarray(a) for a in (preparation.y_mean, preparation.y_std))
    if f_moments is not None:
      f_moments = shift + scale * f_moments[0], scale**2 * f_moments[1]
    if not isinstance(likelihood, likelihoods.Gaussian):
      distribution = given.distribution(tf.constant(f))
      return distribution_prediction.DistributionPrediction(distribution, f_moments, shift, scale)
    noise_variance = given.noise_variance
    if 'noise_scale' in likelihood.priors:
      noise_variance = noise_variance.numpy()[:, np.newaxis, np.newaxis]  # [s, 1, 1]
    mean, variance = (f, np.zeros_like(f)) if mean is None else (mean, variance)
    functions, means = shift + scale * f, shift + scale * mean
    made = prediction_lib.Prediction(
      means, scale**2 * variance, scale**2 * noise_variance, f_moments, functions
    )
    if preparation.log_below is None:
      return made
    return log_prediction.LogPrediction(made, preparation.log_below)


class _Components:
  """Outputs f of a draw, and their mean and variance over the readout, if that is integrated out.

  Args:
    posterior: A `Posterior`.
  """

  def __init__(self, posterior):
    self._split = posterior.split
    self._collapsed = None
    if posterior.likelihood.is_conjugate:
      self._collapsed = collapsed_posterior.CollapsedPosterior(posterior)

  def __call__(self, parts, x, seed):
    if self._collapsed is None:
      return [self._split.apply_new(parts, x, seed)]
    hidden, readout = parts[: self._split.num_hidden], parts[self._split.num_hidden :]
    mean, variance, f = self._collapsed.given(hidden).predict(x, readout, seed)
    return [f, mean, variance]
