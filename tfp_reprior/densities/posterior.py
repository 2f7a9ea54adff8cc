"""The posterior of a network's weights, as a target for `tfp.mcmc`."""

import contextlib
import copy
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf
from numpy.typing import ArrayLike

from tfp_reprior import compilation, errors, likelihoods
from tfp_reprior.bijectors import readout_reprior
from tfp_reprior.densities import sites
from tfp_reprior.internal import checks
from tfp_reprior.internal import parts as parts_lib
from tfp_reprior.internal.types import NoiseScale, Parts, Seed
from tfp_reprior.models import data_space_split, extended_split, readout_split


class Posterior:
  """Prior N(0, I) on the state parts, times the likelihood of the data.

  ```none
  target_log_prob_fn(*parts) = log_prior_fn(*parts) + log_likelihood_fn(*parts)
  ```

  Constants: `log_likelihood_fn` is normalized, while `log_prior_fn` is centered so that its mean
  under the prior is zero,

  ```none
  log_prior_fn(*parts) = -1/2 sum(parts**2 - 1) = log N(parts; 0, I) + prior_entropy
  ```

  With millions of weights this is what keeps float32 meaningful: the normalized value is of the
  order of their number, where float32 resolves differences of 0.25 to 1; the centered one is of
  the order of its square root.

  Args:
    model: A `keras.Model` that ends in a linear readout, or a `tfp_reprior.models.ReadoutSplit`
      (which also takes the prior scales of plain Keras layers).
    x: Inputs `[n, ...]`, floating point unless the input of the model is integer.
    y: Targets: for Gaussian noise `[n, k]`, floating point (`[n]` is taken as `[n, 1]` if the model
      has one output); else as the likelihood says. Inputs and targets are cast to the dtype of the
      model.
    noise_scale: Positive float, the standard deviation of Gaussian noise, or one for each output;
      or its prior, a distribution of `tfp.distributions`, by default that of
      `tfp_reprior.likelihoods.Gaussian`, for standardized targets. With a prior the parts are
      `[*hidden, u, kernel, bias]`, where `u` `[*chains]` has prior N(0, 1) and stands for the noise
      scale, which is `parameters_given(parts)['noise_scale']`.
    likelihood: An object of `tfp_reprior.likelihoods`, instead of `noise_scale`.
    chunk_size: Positive integer, the number of inputs that go through the network at once, for
      bounded memory (see `tfp_reprior.models.ReadoutSplit.in_chunks`); by default all.

  #### Examples

  ```python
  import numpy as np
  import tfp_reprior as tfr

  x = np.linspace(-1, 1, 20, dtype=np.float32)[:, np.newaxis]
  posterior = tfr.Posterior(tfr.models.fcn((1,), 1, width=64), x, np.sin(3 * x), noise_scale=0.1)
  parts = posterior.sample_prior(4, seed=1)
  posterior.target_log_prob_fn(*parts).shape  # ==> [4]
  ```
  """

  def __init__(
    self,
    model: keras.Model | readout_split.ReadoutSplit,
    x: ArrayLike | None = None,
    y: ArrayLike | None = None,
    noise_scale: NoiseScale | None = None,
    likelihood: likelihoods.Likelihood | None = None,
    chunk_size: int | None = None,
  ) -> None:
    for name, value in (('x', x), ('y', y)):
      if value is None:
        raise errors.InputError(
          f'`{name}` is missing: a posterior needs data. Received: {name}=None'
        )
    if not (noise_scale is None or likelihood is None):
      raise errors.InputError(
        '`noise_scale` is that of a Gaussian likelihood: give it, or a `likelihood`. Received: '
        f'noise_scale={noise_scale!r}, likelihood={likelihood!r}'
      )
    is_split = isinstance(model, readout_split.ReadoutSplit)
    split = model if is_split else readout_split.ReadoutSplit(model)
    self.likelihood = likelihood
    if likelihood is None:
      self.likelihood = likelihoods.Gaussian(noise_scale)
    if not isinstance(self.likelihood, likelihoods.Likelihood):
      raise errors.InputError(
        '`likelihood` must be one of `tfp_reprior.likelihoods`. Received: '
        f'likelihood={likelihood!r}'
      )
    split = split.inner if isinstance(split, extended_split.ExtendedSplit) else split
    split = split if chunk_size is None else split.in_chunks(chunk_size)
    self.split = self._extended(split)
    self.x = self.check_inputs(x)
    self.y = self.check_targets(y, self.x)
    self.surrogate_targets, self.surrogate_variance = self.likelihood.surrogate(
      self.y, self.split.num_outputs, self.split.dtype
    )

  @property
  def prior_entropy(self) -> float:
    """The entropy of the prior, `-E[log N(parts; 0, I)]`, as a Python float."""
    return self.split.num_parameters / 2 * (1 + math.log(2 * math.pi))

  def target_log_prob_fn(self, *parts: tf.Tensor) -> tf.Tensor:
    """Log of the posterior density, up to a constant: `[*chains]`."""
    return self.log_prior_fn(*parts) + self.log_likelihood_fn(*parts)

  def log_prior_fn(self, *parts: tf.Tensor) -> tf.Tensor:
    """`log N(parts; 0, I) + prior_entropy`: `[*chains]`."""
    return self._log_prior(self.split.check_parts(parts))

  def log_hidden_prior_fn(self, *hidden_parts: tf.Tensor) -> tf.Tensor:
    """As `log_prior_fn`, of the hidden parts alone: `[*chains]`."""
    return self._log_prior(self.split.check_parts(hidden_parts, hidden=True))

  def _log_prior(self, parts):
    chain_ndims = parts[0].shape.rank - self.split.event_ndims[0]
    return parts_lib.add_up([_centered_log_normal(p, chain_ndims) for p in parts])

  def log_likelihood_fn(
    self, *parts: tf.Tensor, inverse_temperature: float | tf.Tensor = 1.0
  ) -> tf.Tensor:
    """Log-density of the targets given all parts, times `inverse_temperature`: `[*chains]`."""
    outputs = self.split.apply(parts, self.x)
    return inverse_temperature * self.likelihood_given(parts).log_prob(outputs, self.y)

  def readout_log_likelihood_fn(self, hidden_parts: Parts) -> Callable[..., tf.Tensor]:
    """`log_likelihood_fn` as a function of the readout parts alone, which is cheap."""
    psi = self.features_fn(*hidden_parts)
    likelihood = self.likelihood_given(hidden_parts)

    def log_likelihood_fn(*readout_parts, inverse_temperature=1.0):
      outputs = tf.matmul(psi, parts_lib.stack_readout(readout_parts))
      return inverse_temperature * likelihood.log_prob(outputs, self.y)

    return log_likelihood_fn

  def likelihood_given(self, parts: Parts) -> Any:
    """The likelihood given its own parts, for which all parts or the hidden ones are taken."""
    return self.likelihood.given(self.likelihood_parts(parts))

  def parameters_given(self, parts: Parts) -> dict[str, tf.Tensor]:
    """The unknown parameters of the likelihood by name, `[*chains, ...]`; parts as above."""
    return self.likelihood.values(self.likelihood_parts(parts))

  def likelihood_parts(self, parts: Parts) -> Parts:
    """The parts of the likelihood, of all parts or the hidden ones."""
    end = self.split.num_hidden
    return parts[end - len(self.likelihood.event_shapes) : end]

  def sample_prior(
    self, sample_shape: int | Sequence[int] = (), seed: Seed = None
  ) -> list[tf.Tensor]:
    """Draws parts from N(0, I): a list of tensors `[*sample_shape, *event_shape]`."""
    return self.split.sample_prior(sample_shape, seed)

  def reprior(
    self, regularizer: float | str | None = None, space: str = 'auto', validate_args: bool = False
  ) -> readout_reprior.ReadoutReprior:
    """The change of variables that brings this posterior close to N(0, I).

    Args:
      regularizer: Positive float `lam`; `'noise'` for the variance of the noise (of the surrogate,
        if the likelihood is not Gaussian), or `'n*noise'` for n times that. The larger it is, the
        closer the map is to the identity. By default that of the likelihood: `'noise'` for Gaussian
        noise, else `'n*noise'`. For classes also `'sites'`: a Gaussian fitted to the likelihood of
        each datum, with a variance of its own, by the mean kernel of random networks.
      space: `'feature'`, `'data'`, or `'auto'` for the cheaper.
      validate_args: Whether to check values at run time.

    Returns:
      A `tfp_reprior.ReadoutReprior`, from phi (close to N(0, I)) to the parts of this posterior.
    """
    targets, projection = self.surrogate_targets, None
    if regularizer == 'sites':
      projection = self.sites.projection
      targets = tf.matmul(projection, self.sites.targets)
    return readout_reprior.ReadoutReprior(
      features_fn=self.features_fn,
      targets=targets,
      regularizer=self.regularizer(regularizer),
      event_ndims=self.split.event_ndims,
      space=space,
      keeps_mean=projection is not None and self.likelihood.ignores_mean,
      projection=projection,
      validate_args=validate_args,
    )

  @functools.cached_property
  def sites(self) -> sites.Sites:
    """The Gaussians that stand in for the likelihood of each datum, of the map `'sites'`."""
    is_known = checks.static_value(self.x) is not None and checks.static_value(self.y) is not None
    # What a graph makes cannot be kept for others.
    with tf.init_scope() if is_known else contextlib.nullcontext():
      return sites.fit(self)

  def regularizer(self, value: float | str | None = None) -> float | Callable[..., tf.Tensor]:
    """The number `lam` that a `regularizer` of `reprior` stands for.

    If the noise is unknown, a function of the hidden parts instead, which returns `[*chains]`. One,
    for `'sites'`, which have variances of their own.
    """
    value = self.likelihood.default_regularizer if value is None else value
    if not isinstance(value, str):
      return checks.positive('regularizer', value)
    checks.one_of('regularizer', value, ('noise', 'n*noise', 'sites'))
    if value == 'sites':
      return 1.0
    factor = 1 if value == 'noise' else self.x.shape[0]
    if self.surrogate_variance is not None:
      return factor * self.surrogate_variance
    return lambda *hidden_parts: factor * self.likelihood_given(hidden_parts).noise_variance

  def in_space(self, hidden_space: str) -> 'Posterior':
    """The same posterior with hidden layers in data space, where they qualify.

    Args:
      hidden_space: `'data'`, `'auto'` or `'weights'`, as of `tfp_reprior.models.DataSpaceSplit`.

    Returns:
      A `Posterior` over a `DataSpaceSplit`, or over weights, if no layer qualifies; this one, if it
      is there already.
    """
    if hidden_space == self.split.hidden_space:
      return self
    # From the weights, wherever layers are now.
    network = self.split.network
    if isinstance(network, extended_split.ExtendedSplit):
      network = network.inner
    split = network
    if hidden_space != 'weights':
      split = data_space_split.DataSpaceSplit(network, self.x, hidden_space)
      if not split.names_in_data_space:
        split = network
    if split is network and self.split.network is self.split:
      return self
    other = copy.copy(self)  # data, likelihood and what follows from them
    other.split = self._extended(split)
    return other

  def _extended(self, split):
    """A split with the parts of the likelihood, and outputs of its scale."""
    likelihood = self.likelihood
    if not likelihood.event_shapes and likelihood.output_scale == 1.0:
      return split
    return extended_split.ExtendedSplit(
      split, likelihood.event_shapes, likelihood.output_scale_given
    )

  def features_fn(self, *hidden_parts: tf.Tensor) -> tf.Tensor:
    """The readout features of the training inputs: psi `[*chains, n, d]`."""
    return self.split.embed(hidden_parts, self.x)

  def check_inputs(self, x: ArrayLike) -> tf.Tensor:
    """Inputs `[n, ...]` for the model as a tensor; anything else is refused."""
    expected = self.split.model.inputs[0]
    if tf.as_dtype(expected.dtype).is_floating:
      x = checks.finite_floats('x', x, expected.dtype)
    else:
      x = tf.convert_to_tensor(x)
    if x.shape.rank != len(expected.shape) or not x.shape[1:].is_compatible_with(
      expected.shape[1:]
    ):
      raise errors.InputError(
        f'`x` must have shape [n, {", ".join(map(str, expected.shape[1:]))}] for the model '
        f'{self.split.model.name!r}. Received: x of shape {tuple(x.shape)}'
      )
    if x.shape[0] == 0:
      raise errors.InputError(
        f'`x` must hold at least one input. Received: x of shape {tuple(x.shape)}'
      )
    return x

  def check_targets(self, y: ArrayLike, x: tf.Tensor) -> tf.Tensor:
    """Targets for the inputs `x` as a tensor, `[n, ...]`; anything else is refused."""
    y = self.likelihood.check_targets(y, self.split.num_outputs, self.split.dtype)
    if y.shape[0] != x.shape[0]:
      raise errors.InputError(
        '`x` and `y` must have the same length. Received: '
        f'x of length {x.shape[0]}, y of length {y.shape[0]}'
      )
    return y

  def __repr__(self):
    names = self.split.names_in_data_space
    space = f', in data space: {", ".join(names)}' if names else ''
    return (
      f'Posterior(model={self.split.model.name!r}, n={self.x.shape[0]}, '
      f'num_parameters={self.split.network.num_parameters}, likelihood={self.likelihood!r}{space})'
    )


def _centered_log_normal(part, chain_ndims):
  """`-1/2 sum(part**2 - 1)` for each chain; value and gradient take one pass over memory each."""

  @tf.custom_gradient
  def value(part):
    def gradient(upstream):
      return -parts_lib.expand_chains(upstream, part) * part

    sums = _centered_squares(part, tf.zeros([1] * chain_ndims))
    return -0.5 * parts_lib.sum_events(sums, chain_ndims), gradient

  return value(part)


@compilation.fuse
def _centered_squares(part, chains):
  return parts_lib.sum_slabs(tf.square(part) - 1.0, chains.shape.rank)
