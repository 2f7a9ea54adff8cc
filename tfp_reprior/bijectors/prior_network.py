"""A function of parts, and a prior of them in TFP, as features times readout."""

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

from tfp_reprior import errors
from tfp_reprior.internal import checks
from tfp_reprior.internal import parts as parts_lib

tfd = tfp.distributions


class PriorNetwork:
  """What `tfp_reprior.ReadoutReprior.from_network` reads off a network and its prior.

  Args:
    network_fn: As of `from_network`.
    x: As of `from_network`.
    prior: As of `from_network`.

  Attributes:
    event_ndims: List of the ranks of the parts.
    part_scales: List of their prior standard deviations, tensors.
  """

  def __init__(self, network_fn, x, prior):
    if not callable(network_fn):
      raise errors.InputError(
        f'`network_fn` must be callable. Received: {type(network_fn).__name__}'
      )
    self._network_fn = network_fn
    self._x = x
    self._prior = _distributions(prior)
    self._shapes = [tuple(d.batch_shape) + tuple(d.event_shape) for d in self._prior]
    self.event_ndims = [len(shape) for shape in self._shapes]
    self._has_bias = self.event_ndims[-1:] == [1]
    if self.event_ndims[-1 - self._has_bias :][:1] != [2]:
      raise errors.InputError(
        '`prior` must end in that of the readout: a kernel [width, k], or a kernel and a bias [k]. '
        f'Received: parts of shapes {self._shapes}'
      )
    self._num_hidden = len(self._shapes) - 1 - self._has_bias
    self._dtype = self._prior[-1].dtype
    self.part_scales = [
      checks.positive(f'prior[{i}].stddev()', d.stddev()) for i, d in enumerate(self._prior)
    ]
    for i in range(self._num_hidden, len(self._shapes)):
      mean = checks.static_value(self._prior[i].mean())
      if mean is not None and np.any(mean != 0):
        raise errors.InputError(
          '`prior` must have mean zero in the readout. Received: a mean of up to '
          f'{np.max(np.abs(mean)):g} in part {i}'
        )
    width, self._num_outputs = self._shapes[self._num_hidden]
    self._num_features = width + self._has_bias

  def features(self, *hidden_parts):
    """The features psi `[*chains, n, d]`, in units of the readout's prior."""
    chains = tf.shape(self._x)[:0]
    if hidden_parts:
      part, ndims = hidden_parts[0], self.event_ndims[0]
      chains = tf.shape(part)[: part.shape.rank - ndims]
    # With theta_out = I, the outputs are psi itself.
    readout = tf.eye(self._num_features, batch_shape=chains, dtype=self._dtype)
    outputs = self._network_fn(
      self._x, *hidden_parts, *parts_lib.unstack_readout(readout, self._has_bias)
    )
    return outputs * self._feature_scales()

  def _feature_scales(self):
    """The prior deviations of the readout, one for each feature: `[d]`."""
    scales = []
    for i in range(self._num_hidden, len(self._shapes)):
      full = tf.broadcast_to(self.part_scales[i], self._shapes[i])
      known = checks.static_value(full)
      if known is not None and np.any(known != known[..., :1]):
        raise errors.InputError(
          '`prior` must have the same deviations for all outputs of the readout. Received: '
          f'deviations from {np.min(known):g} to {np.max(known):g} in part {i}'
        )
      scales.append(full[..., :1] if self.event_ndims[i] == 1 else full[..., 0])
    return tf.concat(scales, axis=0)

  def check_targets(self, y):
    """Targets `[n, k]` of the dtype of the parts."""
    y = checks.finite_floats('y', y, self._dtype)
    if y.shape.rank != 2 or y.shape[1] != self._num_outputs:
      raise errors.InputError(
        f'`y` must have shape [n, {self._num_outputs}]. Received: y of shape {tuple(y.shape)}'
      )
    return y

  def check_linear(self):
    """Refuses a network that is not features times readout, by one draw of the prior."""
    parts = [d.sample(seed=(7, i)) for i, d in enumerate(self._prior)]
    outputs = self._network_fn(self._x, *parts)
    hidden, readout = parts[: self._num_hidden], parts[self._num_hidden :]
    try:
      psi = self.features(*hidden) / self._feature_scales()
      expected = tf.matmul(psi, parts_lib.stack_readout(readout))
      difference = tf.reduce_max(tf.abs(outputs - expected))
    except errors.InputError:
      raise
    except (ValueError, tf.errors.InvalidArgumentError) as error:
      raise errors.InputError(
        '`network_fn` must take a readout with any number of outputs. Received: with '
        f'{self._num_features} in place of {self._num_outputs} it raised: {error}'
      ) from error
    scale = tf.reduce_max(tf.abs(outputs))
    if not difference <= np.sqrt(np.finfo(self._dtype.as_numpy_dtype).eps) * scale:
      raise errors.InputError(
        '`network_fn` must be linear in its last parts, the readout, without anything added. '
        f'Received: outputs up to {scale:.3g}, which differ by {difference:.3g} from '
        'features times readout'
      )


def _distributions(prior):
  """A list of the independent distributions of a prior."""
  members = getattr(prior, 'model', prior)
  if not isinstance(members, (list, tuple)) or not members:
    raise errors.InputError(
      '`prior` must be a `tfd.JointDistributionSequential` or a list of distributions. Received: '
      f'{type(prior).__name__}'
    )
  for i, member in enumerate(members):
    if not isinstance(member, tfd.Distribution):
      raise errors.InputError(
        '`prior` must hold independent distributions. Received: a '
        f'{type(member).__name__} for part {i}'
      )
  return list(members)
