"""Samplers by name: a posterior, its coordinates and a kernel for them."""

import functools
import math
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tfp_reprior import errors
from tfp_reprior.densities import (
  collapsed_posterior,
  composed_posterior,
  layerwise_posterior,
  parameter_coordinates,
  split_chains,
)
from tfp_reprior.densities import posterior as posterior_lib
from tfp_reprior.internal import checks, distribution
from tfp_reprior.mcmc import (
  conditional_moves,
  crank_nicolson,
  rotation_langevin,
  shared_density,
  underdamped_langevin,
)
from tfp_reprior.sampling import anchors
from tfp_reprior.sampling import coordinates as coordinates_lib
from tfp_reprior.sampling import sampler as sampler_lib

NAMES = (
  'auto',
  'rotation',
  'uncalibrated_rotation',
  'crank_nicolson',
  'langevin',
  'uncalibrated_langevin',
  'standard',
  'uncalibrated_standard',
)

# Without accept / reject, and with it.
_ROTATION = (rotation_langevin.UncalibratedRotationLangevin, rotation_langevin.RotationLangevin)
_LEAPFROG = (
  underdamped_langevin.UncalibratedUnderdampedLangevin,
  underdamped_langevin.UnderdampedLangevin,
)
_KERNELS = {'rotation': _ROTATION, 'langevin': _LEAPFROG}


def _in_graph(fn):
  """The function, in a graph: strategies are slow outside of graphs."""
  graph_fn = tf.function(fn, autograph=False)
  return lambda *arguments: (fn if tf.inside_function() else graph_fn)(*arguments)


def _tempered(density, inverse_temperature, hidden_parts):
  """The log-likelihood of the readout given hidden parts, to a power."""
  fn = density.readout_log_likelihood_fn(hidden_parts)
  return functools.partial(fn, inverse_temperature=inverse_temperature)


def _map_of(posterior, density, reprior, is_split):
  """The function from coordinates to weights that goes with a density; None for the standard one.

  Besides the parts it may be given the features of the training inputs.
  """
  if density is None:
    return lambda parts, psi=None: list(parts)
  is_in_data_space = posterior.x.shape[0] < posterior.split.num_features
  if is_split and is_in_data_space:
    # The map by sums over split data is another one than that of a single device.
    return lambda parts, psi=None: reprior.forward(parts)
  return density.to_theta


def make_sampler(
  posterior: posterior_lib.Posterior,
  sampler: str = 'auto',
  over_dispersion: float = 1.0,
  regularizer: float | str | None = None,
  strategy: tf.distribute.Strategy | None = None,
  hidden_space: str | None = None,
  layer_regularizer: float | Sequence[float] | None = None,
  moves_readout: bool | None = None,
  num_stages: int | None = None,
) -> sampler_lib.Sampler:
  """Makes a sampler for a posterior.

  All start from the same weights: the image of draws from N(0, I) under the repriorisation, which
  for wide networks are close to draws from the posterior. If the likelihood has unknown parameters,
  all move in standardized coordinates of them (`tfp_reprior.densities.parameter_coordinates`).

  Args:
    posterior: A `tfp_reprior.Posterior`.
    sampler: A name of this table. `uncalibrated_...` are those without accept / reject;
      `'uncalibrated_langevin'` is that of Hron et al. (2022).

      | name | coordinates | kernel |
      | --- | --- | --- |
      | `'auto'`, `'rotation'` | phi | `RotationLangevin` |
      | `'crank_nicolson'` | phi | `PreconditionedCrankNicolson` |
      | `'langevin'` | phi | `UnderdampedLangevin` |
      | `'standard'` | theta | `UnderdampedLangevin` |

    over_dispersion: Positive float, scale of the draws of phi that chains start from; above 1 for
      starts that spread wider than the posterior, as R-hat wants them.
    regularizer: As of `tfp_reprior.Posterior.reprior`, by default `'noise'` for real targets. For
      classes it is `'sites'` if the scale of the outputs is known, for `'auto'` and `'rotation'`
      with up to 1,000 data on one device, and else infinity. For others it is `'n*noise'`. With
      `'noise'`, and Gaussian noise of one scale, the readout is integrated out. Infinity is the
      limit in which the map is the identity: the coordinates are theta, as always for `'standard'`.
    strategy: A `tf.distribute.Strategy` to split the work over: the data, if the readout is
      integrated out and hidden layers are in weights, and the chains otherwise; on a TPU the data
      only.
    hidden_space: Where fully connected hidden layers move: `'weights'`; `'data'`, what they do to
      the training inputs, for all with more weights a unit than there are of these; `'auto'`, the
      latter for those with at least twice as many. By default where the posterior has them, if that
      is not in weights; else `'auto'` for the sampler `'auto'` on one device and outside of graphs,
      and `'weights'` for others. See `tfp_reprior.models.DataSpaceSplit`.
    layer_regularizer: For a map on every layer, as the `regularizer` of
      `tfp_reprior.LayerwiseReprior`; by default only the readout has one. The anchor of each chain
      is its start; in runs, warm-up moves it to where the chain is.
    moves_readout: Whether the readout is moved alone, too, before each transition of all parts
      (`tfp_reprior.mcmc.ConditionalMoves`). By default where that pays: with `RotationLangevin` on
      one device, for classes and other likelihoods without unknown parameters.
    num_stages: 1 or 3, the gradients of an integrator step, as of `tfp_reprior.mcmc.
      RotationLangevin`, for samplers that have it. By default 3 with `layer_regularizer`.

  Returns:
    A `Sampler`.

  #### Examples

  ```python
  import numpy as np
  import tensorflow_probability as tfp
  import tfp_reprior as tfr

  x = np.linspace(-1, 1, 5, dtype=np.float32)[:, np.newaxis]
  posterior = tfr.Posterior(tfr.models.fcn((1,), 1, width=16), x, np.sin(3 * x))
  sampler = tfr.make_sampler(posterior, 'rotation')
  kernel = sampler.kernel_fn(step_size=0.2, damping=0.3)
  phi = tfp.mcmc.sample_chain(5, sampler.start_fn(4, seed=1), kernel=kernel, trace_fn=None, seed=2)
  theta = sampler.theta_fn([part[-1] for part in phi])  # the weights of the last draw
  ```
  """
  name = checks.one_of('sampler', sampler, NAMES)
  checks.positive('over_dispersion', over_dispersion)
  hidden_space = coordinates_lib.hidden_space(posterior, name, strategy, hidden_space)
  posterior = posterior.in_space(hidden_space)
  is_in_weights = not posterior.split.names_in_data_space
  name = 'rotation' if name == 'auto' else name
  prefix = 'uncalibrated_'
  is_calibrated, kind = not name.startswith(prefix), name.removeprefix(prefix)
  if regularizer is None:
    regularizer = coordinates_lib.regularizer(posterior, name, layer_regularizer, strategy)
  if kind == 'standard':
    kind, regularizer = 'langevin', math.inf
  is_standard = regularizer == math.inf
  reprior = posterior.reprior('noise' if is_standard else regularizer)
  is_collapsed = not is_standard and posterior.likelihood.is_conjugate and regularizer == 'noise'
  takes_loops = strategy is not None and distribution.takes_loops(strategy)
  is_on_tpu = takes_loops and distribution.needs_equal_shards(strategy)
  if is_on_tpu and not (is_collapsed and is_in_weights):
    raise errors.InputError(
      'On TPUs only data can be split, and only if the readout is integrated out: Gaussian noise '
      "of one scale, in the coordinates of regularizer='noise' and hidden_space='weights'. "
      f'Received: likelihood={posterior.likelihood!r}, sampler={name!r}, '
      f'regularizer={regularizer!r}, hidden_space={hidden_space!r}'
    )
  collapsed = None
  # Rows of data can be split only where each goes through the network by itself.
  data_strategy = strategy if is_in_weights else None
  if posterior.likelihood.is_conjugate:
    collapsed = collapsed_posterior.CollapsedPosterior(posterior, strategy=data_strategy)
  layerwise = None
  if layer_regularizer is not None:
    coordinates_lib.check_layerwise(name, regularizer, strategy, layer_regularizer)
    layerwise = layerwise_posterior.LayerwisePosterior(
      posterior, posterior.sample_prior(seed=0), layer_regularizer, regularizer
    )
    density: Any = layerwise
  elif is_standard:
    density = posterior
  elif is_collapsed:
    density = collapsed
  else:
    density = composed_posterior.ComposedPosterior(posterior, regularizer)
  is_split = is_collapsed and data_strategy is not None
  readout_density = density if layerwise is None else layerwise.readout_density
  to_theta = _map_of(posterior, None if is_standard else readout_density, reprior, is_split)
  if strategy is not None and not is_split:
    density = split_chains.SplitChains(density, strategy)
  to_parts = to_state = list
  units: list[Any] = [1.0] * len(posterior.split.event_shapes)
  if posterior.likelihood.event_shapes:
    coordinates = parameter_coordinates.ParameterCoordinates(posterior)
    density = coordinates.standardized(density)
    to_parts, to_state = coordinates.forward, coordinates.inverse
    end = posterior.split.num_hidden
    units[end - len(coordinates.stddev) : end] = coordinates.stddev
  anchor = None if layerwise is None else anchors.Anchor(layerwise, to_parts, to_state)
  num_moving_parts = len(posterior.split.event_shapes)
  moves_readout = coordinates_lib.moves_readout(
    kind, is_collapsed, posterior.likelihood, strategy, moves_readout
  )
  num_stages = coordinates_lib.num_stages(name, layer_regularizer, num_stages)
  if kind == 'rotation' and is_collapsed:
    num_moving_parts = posterior.split.num_hidden  # the likelihood does not depend on the others
  # Strategies need gradients in the graph around them, and the variables of anchors may change.
  is_shared = strategy is None and layerwise is None
  shared = shared_density.SharedDensity(density.log_likelihood_fn) if is_shared else None

  def kernel_fn(
    step_size,
    damping=None,
    num_integrator_steps=1,
    inverse_temperature=1.0,
    is_calibrated=is_calibrated,
  ):
    if shared is None:
      log_likelihood_fn: Any = functools.partial(
        density.log_likelihood_fn, inverse_temperature=inverse_temperature
      )
    else:
      log_likelihood_fn = shared.at(inverse_temperature)
    if kind == 'crank_nicolson':
      return crank_nicolson.PreconditionedCrankNicolson(log_likelihood_fn, step_size)
    kernel_class = _KERNELS[kind][is_calibrated]
    kwargs = {'leaves_prior_out': True} if kind == 'langevin' else {'num_stages': num_stages}
    kernel = kernel_class(log_likelihood_fn, step_size, damping, num_integrator_steps, **kwargs)
    if not moves_readout:
      return kernel
    readout_fn = functools.partial(_tempered, density, inverse_temperature)
    return conditional_moves.ConditionalMoves(kernel, readout_fn, posterior.split.num_hidden)

  def start_fn(num_chains, seed):
    phi = [over_dispersion * p for p in posterior.sample_prior(num_chains, seed)]
    if anchor is not None:
      return anchor.start(phi)
    return to_state(reprior.forward(to_parts(phi))) if is_standard else phi

  def state_fn(parts, seed):
    end = posterior.split.num_hidden
    parts, phi = list(parts), posterior.sample_prior(parts[0].shape[:1], seed)
    first = end - len(posterior.likelihood.event_shapes)
    parts[first:end] = to_parts([tf.zeros_like(p) for p in phi])[first:end]
    if is_collapsed:
      parts = parts[:end] + phi[end:]
    elif not is_standard:
      parts = reprior.inverse(parts)
    state = to_state(parts)
    return state if anchor is None else anchor.start(state)

  def to_hidden(state):
    """Parts with the hidden ones of theta; what is known of readout features, and the change."""
    parts = to_parts(state)
    if layerwise is None:
      return parts, None, 0.0
    hidden, psi, change = layerwise.to_hidden(parts)
    return [*hidden, *parts[posterior.split.num_hidden :]], psi, change

  def unmap_fn(state):
    if layerwise is None:
      return state, 0.0
    parts, _, change = to_hidden(state)
    return to_state(parts), change

  def parts_fn(state):
    return to_theta(*to_hidden(state)[:2])

  def theta_fn(state, seed=0):
    return posterior.split.to_weights(parts_fn(state), seed)

  def draw_fn(state):
    parts, psi, _ = to_hidden(state)
    hidden, readout = parts[: posterior.split.num_hidden], parts[posterior.split.num_hidden :]
    if collapsed is None:
      return to_theta(parts, psi), None
    if is_collapsed and not is_split:
      conditional = collapsed.given(hidden, psi)
      return hidden + conditional.forward(readout), conditional
    if psi is None and strategy is None:
      psi = posterior.features_fn(*hidden)
    return to_theta(parts, psi), collapsed.given(hidden, psi)

  if strategy is not None:
    parts_fn, theta_fn = _in_graph(parts_fn), _in_graph(theta_fn)

  def run_on_replicas(fn, *arguments):
    return collapsed.run_on_replicas(lambda _, *arguments: fn(*arguments), *arguments)

  return sampler_lib.Sampler(
    name=name,
    posterior=posterior,
    kernel_fn=kernel_fn,
    log_likelihood_fn=density.log_likelihood_fn,
    start_fn=start_fn,
    state_fn=state_fn,
    parts_fn=parts_fn,
    theta_fn=theta_fn,
    draw_fn=draw_fn,
    unmap_fn=unmap_fn,
    regularizer=regularizer if isinstance(regularizer, str) else float(regularizer),
    num_moving_parts=num_moving_parts,
    units=units[:num_moving_parts],
    hidden_space=hidden_space,
    layer_regularizer=None if layerwise is None else list(layerwise.layer_regularizers.values()),
    anchor=anchor,
    has_damping=kind != 'crank_nicolson',
    is_calibrated=is_calibrated,
    max_step_size=math.inf if kind == 'langevin' else math.pi / 2,
    moves_readout=moves_readout,
    num_stages=num_stages,
    strategy=strategy,
    run_loop=run_on_replicas if takes_loops and is_split else sampler_lib.run_here,
  )
