"""The maps that a run may choose from, and how it chooses."""

import dataclasses
import math

import numpy as np

from tfp_reprior.models import dense_layers

_REGULARIZERS = ('noise', 'n*noise', math.inf)
LAYER_REGULARIZER = 10.0  # of a map on every layer, where a run may choose that
# Gradients of warm-up from which on `sampler='auto'` tries such a map: in a shorter run another
# graph takes longer to make than it can gain.
_FEWEST_GRADIENTS = 1500


def is_open(settings):
  """Whether `Settings` leave the map of the readout to the run."""
  return settings.regularizer == 'tuned'


def candidates(settings):
  """List of `Settings` to warm up with, one for each map; of these alone, if nothing is open."""
  if not is_open(settings):
    return [settings]
  return [dataclasses.replace(settings, regularizer=r) for r in _REGULARIZERS]


def fastest(warmups):
  """The number of the `Warmup` that found the most effective samples a gradient."""
  # NaN, if the budget was too small to measure, counts as nothing.
  return int(np.argmax([np.nan_to_num(w.ess_per_gradient) for w in warmups]))


def tries_layers(settings, sampler):
  """Whether warm-up tries a map on every layer: if it is asked to, or where it may pay.

  It may pay for layers whose inputs move, if data pin down what they compute: where there are more
  than half as many of these as weights a unit.

  Args:
    settings: The `Settings`.
    sampler: The `Sampler` without such a map.
  """
  posterior, shapes = sampler.posterior, sampler.posterior.split.event_shapes
  if settings.layer_regularizer is not None:
    return settings.layer_regularizer == 'tuned'
  return (
    settings.sampler == 'auto'
    and settings.warmup_budget >= _FEWEST_GRADIENTS
    and posterior.likelihood.is_conjugate
    and sampler.regularizer == 'noise'
    and sampler.strategy is None
    and posterior.split.chunk_size is None
    and any(
      layer.constant_psi is None and shapes[layer.indices[0]][0] < 2 * posterior.x.shape[0]
      for layer in dense_layers.DenseLayers(posterior.split, posterior.x).layers
    )
  )
