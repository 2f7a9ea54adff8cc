"""Which coordinates a sampler has if nothing is said, and which it cannot have."""

import math

import tensorflow as tf

from tfp_reprior import errors, likelihoods
from tfp_reprior.internal import checks
from tfp_reprior.mcmc import integrators
from tfp_reprior.models import data_space_layers

_MOST_SITES = 1000  # data


def hidden_space(posterior, name, strategy, asked):
  """The `hidden_space` that a sampler has by default, or that it is asked for."""
  is_known = checks.static_value(posterior.x) is not None
  is_whole = is_known and posterior.split.chunk_size is None
  is_possible = is_whole and not name.endswith('standard')
  if asked is None:
    current = posterior.split.hidden_space
    if not is_possible or current != 'weights':
      return current if is_possible else 'weights'
    # Layers have variables, which graphs cannot make.
    return 'auto' if name == 'auto' and strategy is None and not tf.inside_function() else 'weights'
  checks.one_of('hidden_space', asked, data_space_layers.HIDDEN_SPACES)
  if asked == 'data' and not is_possible:
    raise errors.InputError(
      'The standard parametrisation, and chunks of data, are for weights. Received: '
      f'hidden_space={asked!r}, sampler={name!r}, chunk_size={posterior.split.chunk_size}'
    )
  return asked if is_possible else 'weights'


def check_layerwise(name, readout_regularizer, strategy, layer_regularizer):
  """Refuses maps on every layer where they cannot be."""
  if readout_regularizer == math.inf or strategy is not None:
    raise errors.InputError(
      'A map on every layer goes with one on the readout, on one device: leave `layer_regularizer` '
      f'out. Received: layer_regularizer={layer_regularizer}, sampler={name!r}, '
      f'regularizer={readout_regularizer!r}, strategy={strategy!r}'
    )


def regularizer(posterior, name, layer_regularizer, strategy):
  """The `regularizer` of a sampler that was asked for none."""
  likelihood = posterior.likelihood
  if name.endswith('standard'):
    return math.inf
  if layer_regularizer not in (None, math.inf):  # a map on every layer, then on the readout too
    return likelihood.default_regularizer
  if name in ('auto', 'rotation') and strategy is None and _has_sites(posterior):
    return 'sites'
  return likelihood.sampler_regularizer


def _has_sites(posterior):
  """Whether the map to sites is the fastest: classes with outputs of a known scale.

  It was measured on 64 and 256 data, and a fit takes some hundred factors of their number.
  """
  likelihood, data = posterior.likelihood, (posterior.x, posterior.y)
  is_class = isinstance(likelihood, likelihoods.CLASSES) and not likelihood.priors
  # In graphs data may not be known, and a fit would be part of what is run.
  is_whole = posterior.split.chunk_size is None
  is_known = is_whole and all(checks.static_value(part) is not None for part in data)
  return is_class and is_known and posterior.x.shape[0] <= _MOST_SITES


def num_stages(name, layer_regularizer, asked):
  """How many gradients an integrator step of a sampler takes.

  With a map on every layer a few stiff directions limit steps, and three stages pay.
  """
  is_possible = name == 'auto' or name.endswith('rotation')
  if asked is None:
    return 3 if is_possible and layer_regularizer not in (None, math.inf) else 1
  checks.one_of('num_stages', asked, tuple(integrators.rotations))
  if asked != 1 and not is_possible:
    raise errors.InputError(
      'Steps of several stages are for the samplers `auto` and `rotation`. Received: '
      f'num_stages={asked}, sampler={name!r}'
    )
  return asked


def moves_readout(kind, is_collapsed, likelihood, strategy, asked):
  """Whether a sampler moves the readout alone, too."""
  is_possible = kind == 'rotation' and not is_collapsed and strategy is None
  if asked is None:
    # Unknown parameters are not moved with it, and chains are then as fast without.
    return is_possible and not likelihood.priors
  if checks.boolean('moves_readout', asked) and not is_possible:
    raise errors.InputError(
      'The readout is moved alone by the samplers `auto` and `rotation`, on one device, where it '
      f'is not integrated out. Received: moves_readout={asked}, a sampler of kind {kind!r}, '
      f'strategy={strategy!r}' + (', and a readout that is integrated out' if is_collapsed else '')
    )
  return asked
