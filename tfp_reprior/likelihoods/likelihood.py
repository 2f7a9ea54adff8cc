"""What the rest of the package asks of a likelihood."""

import abc
from typing import Any

import tensorflow as tf
from numpy.typing import ArrayLike

from tfp_reprior import errors
from tfp_reprior.internal import checks
from tfp_reprior.internal.types import Parts, Scale
from tfp_reprior.likelihoods import parameter_prior


class Likelihood(abc.ABC):
  """What the rest of the package asks of a likelihood.

  A likelihood may have unknown parameters, each a state part with prior N(0, 1) beside the weights.
  One of them belongs to all likelihoods: what the outputs of the network are multiplied by.

  Attributes:
    outputs_per_target: How many outputs the network has for each target.
    has_units: Whether targets are real numbers, which may be standardized: then there is
      `in_units_of`.
    priors: Dict of the priors of unknown parameters, by name, in the order of their parts.
    output_scale: What outputs are multiplied by, a positive float, if it is known. The posterior
      does so: the functions here take outputs that are.
    default_regularizer: That of the map, as of `tfp_reprior.Posterior.reprior`.
    sampler_regularizer: That of samplers; infinity, if they mix better without the map.
    ignores_mean: Whether it depends on differences between outputs alone, not on their mean.

  #### Examples

  ```python
  import tensorflow as tf
  import tfp_reprior as tfr

  class Poisson(tfr.likelihoods.Likelihood):  # counts, with the outputs as log-rates
    settings = {}

    def check_targets(self, y, num_outputs, dtype):
      return tf.cast(y, dtype)

    def mean(self, outputs):
      return tf.exp(outputs)

    def log_prob(self, outputs, targets):
      log_probs = targets * outputs - tf.exp(outputs) - tf.math.lgamma(targets + 1.0)
      return tf.reduce_sum(log_probs, axis=[-2, -1])

    def surrogate(self, targets, num_outputs, dtype):
      return targets - 1.0, 1.0  # the second-order expansion at f = 0

  model = tfr.models.fcn((1,), 1, width=16)
  posterior = tfr.Posterior(model, [[-1.0], [1.0]], [[0], [3]], likelihood=Poisson())
  ```
  """

  has_units: bool = False
  outputs_per_target: int = 1
  priors: dict[str, parameter_prior.ParameterPrior] = {}
  output_scale: float = 1.0
  default_regularizer: str = 'n*noise'
  ignores_mean: bool = False

  @property
  def sampler_regularizer(self) -> float | str:
    return self.default_regularizer

  @property
  def event_shapes(self) -> tuple[tuple[int, ...], ...]:
    """The shapes of the parts of unknown parameters."""
    return tuple(prior.shape for prior in self.priors.values())

  @property
  def is_conjugate(self) -> bool:
    """Whether the readout can be integrated out: Gaussian noise, the same for all outputs."""
    return False

  @property
  @abc.abstractmethod
  def settings(self) -> dict[str, Any]:
    """The arguments of the constructor, a dict for JSON."""

  def num_targets(self, num_outputs: int) -> int:
    """The number of targets of an input, for so many outputs of the network."""
    return num_outputs

  def values(self, parts: Parts) -> dict[str, tf.Tensor]:
    """The unknown parameters by name, `[*chains, *shape]`, for the parts of this likelihood."""
    pairs = zip(self.priors.items(), parts, strict=True)
    return {name: prior.value(tf.convert_to_tensor(u)) for (name, prior), u in pairs}

  def output_scale_given(self, parts: Parts) -> float | tf.Tensor:
    """What outputs are multiplied by: a float, or `[*chains]` for parts of this likelihood."""
    return self.values(parts).get('output_scale', self.output_scale)

  def to_dict(self) -> dict[str, Any]:
    """What `from_dict` makes the likelihood from, a dict for JSON."""
    return {'name': type(self).__name__, **self.settings}

  def given(self, parts: Parts) -> 'Likelihood':
    """The likelihood of known parameters that this one is for given `parts` of its own."""
    del parts  # nothing here depends on them
    return self

  def _set_scale(self, name: str, value: Scale) -> None:
    """Sets an attribute to a positive float, or to None with an entry of `priors`."""
    if parameter_prior.is_given(value):
      self.priors = {**self.priors, name: parameter_prior.ParameterPrior(name, value)}
    else:
      setattr(self, name, float(checks.positive(name, value)))

  def _scale_setting(self, name: str) -> Any:
    """The setting that `_set_scale` was called with, for JSON."""
    return self.priors[name].to_dict() if name in self.priors else getattr(self, name)

  @abc.abstractmethod
  def check_targets(self, y: ArrayLike, num_outputs: int, dtype: tf.DType) -> tf.Tensor:
    """The targets as a tensor `[n, ...]`; what this likelihood cannot be about is refused."""

  @abc.abstractmethod
  def mean(self, outputs: tf.Tensor) -> tf.Tensor:
    """The mean of targets given outputs f `[..., n, k]`; of classes, that of one-hot vectors."""

  @abc.abstractmethod
  def log_prob(self, outputs: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
    """Log-density of all targets.

    Args:
      outputs: f `[..., n, k]`.
      targets: What `check_targets` returned, `[n, ...]`.

    Returns:
      `[...]`.
    """

  @abc.abstractmethod
  def surrogate(
    self, targets: tf.Tensor, num_outputs: int, dtype: tf.DType
  ) -> tuple[tf.Tensor, float | None]:
    """The Gaussian that stands in: targets `[n, k]`, and the variance of the noise, a float.

    The variance is None if it is not known before the parts of the likelihood are.
    """

  def expand(self, outputs: tf.Tensor, targets: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor] | None:
    """What `log_prob` is near some outputs; None if that is not known.

    Args:
      outputs: f `[..., n, k]`.
      targets: What `check_targets` returned, `[n, ...]`.

    Returns:
      gradient: `[..., n, k]`.
      curvature: `[..., n]`, the mean of the eigenvalues of minus the Hessian of each datum, without
        that of the mean if it `ignores_mean`.
    """
    del outputs, targets
    return None


def as_matrix(y, num_outputs, meaning):
  """Targets as `[n, k]`, or `[n]` for one output; others are refused, with what they mean."""
  if y.shape.rank == 1 and num_outputs == 1:
    y = y[:, tf.newaxis]
  if y.shape.rank != 2 or y.shape[1] != num_outputs:
    raise errors.InputError(
      f'`y` must have shape [n, {num_outputs}], {meaning.format(num_outputs)}. Received: y of '
      f'shape {tuple(y.shape)}'
    )
  return y
