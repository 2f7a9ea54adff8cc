"""A result as ArviZ takes it: groups of arrays `[c, s, ...]` with names and coordinates.

Groups, dimensions and coordinates are made once; what differs between ArviZ 0.x, which has
`InferenceData`, and 1.x, which has `xarray.DataTree`, is the last call alone.
"""

import json

import numpy as np

from tfp_reprior import errors
from tfp_reprior.version import __version__

# ArviZ computes something for each of them: seconds for thousands, hours for millions.
_MOST_WEIGHTS = 10_000
_PROJECTIONS = ('theta', 'hidden', 'f')
_STATISTICS = {'acceptance_rate': 'acceptance', 'energy': 'energy', 'lp': 'log_prob'}


def export(result, weights=None):
  """The `arviz.InferenceData` or `xarray.DataTree` of a `Result`; see `Result.to_arviz`."""
  try:
    import arviz
  except ImportError as e:
    raise errors.MissingPackageError('`to_arviz` needs ArviZ: pip install tfp-reprior[plot]') from e
  numbers = result.draws.numbers
  if not numbers:
    raise errors.InputError(
      'There are no kept draws for ArviZ: the run was stopped before the first of them, or '
      'num_kept_draws was 0'
    )
  groups, dims, coords = _groups(result, numbers, weights)
  attributes = _attributes(result)
  if int(arviz.__version__.partition('.')[0]) < 1:
    by_group = {f'{name}_attrs': attributes for name in groups}
    return arviz.from_dict(**groups, dims=dims, coords=coords, attrs=attributes, **by_group)
  everywhere = dict.fromkeys(('/', *groups), attributes)
  return arviz.from_dict(groups, dims=dims, coords=coords, attrs=everywhere)


def _groups(result, numbers, weights):
  """Dict of groups, each a dict of arrays; names of dimensions by array; coordinates by name."""
  preparation, split = result.preparation, result.posterior.split.network
  coords = {'draw': np.asarray(numbers), 'chain': np.arange(result.num_chains)}
  dims = {}
  posterior = {}
  if weights is None:
    weights = split.num_parameters <= _MOST_WEIGHTS
  if weights:
    posterior = _weights(result)
    for name, values in posterior.items():
      dims[name], found = _weight_dims(name, values.shape[2:], split, preparation)
      coords |= found
  for name in _PROJECTIONS:
    if name in result.trace:
      posterior[name] = _by_chain(result.trace[name], numbers)
      dims[name] = ['projection']
      coords['projection'] = np.arange(result.trace[name].shape[-1])
  for name, values in result.parameter_draws().items():
    posterior[name] = _by_chain(values, numbers)
  statistics = {name: _by_chain(result.trace[key], numbers) for name, key in _STATISTICS.items()}
  statistics['step_size'] = np.full_like(statistics['lp'], result.settings['step_size'])
  y = result.training_data[1]
  fitted = result.fitted()
  log_prob = fitted.log_prob_each(y)  # [s * c, n, ...]
  log_prob = np.sum(log_prob, axis=tuple(range(2, log_prob.ndim)))  # of a datum, all its outputs
  coords['datum'] = np.arange(len(y))
  dims['y'] = ['datum', *_output_dims(y.shape[1:], preparation, coords)]

  def by_chain(values):
    return np.swapaxes(values.reshape([len(numbers), result.num_chains, *values.shape[1:]]), 0, 1)

  groups = {
    'posterior': posterior,
    'sample_stats': statistics,
    'log_likelihood': {'y': by_chain(log_prob)},
    'posterior_predictive': {'y': by_chain(fitted.sample_each(result.settings['seed']))},
    'observed_data': {'y': y},
  }
  return groups, dims, coords


def _by_chain(trace, numbers):
  """`[c, s, ...]` of a trace `[s, c, ...]`, at the kept draws."""
  return np.swapaxes(np.asarray(trace)[numbers], 0, 1)


def _names(split):
  """Names of the weights by layer, `'hidden_1_kernel'`, in the order of the Keras variables."""
  return [v.path.replace('/', '_') for v in split.model.trainable_variables]


def _weights(result):
  """Arrays `[c, s, *event_shape]` by name, without the parts of the likelihood."""
  split, num_further = result.posterior.split.network, len(result.posterior.likelihood.event_shapes)
  end = split.num_hidden
  columns = zip(*(result.weights(i) for i in range(len(result.draws))), strict=True)
  parts = [np.stack(pieces, axis=1) for pieces in columns]
  return dict(zip(_names(split), parts[: end - num_further] + parts[end:], strict=True))


def _weight_dims(name, shape, split, preparation):
  """Names of the dimensions of a weight, and coordinates of those that have names themselves."""
  dims = [f'{name}_{i}' for i in range(len(shape))]
  if len(shape) == 2:
    dims = [f'{name}_in', f'{name}_out']
  coords = {dim: np.arange(size) for dim, size in zip(dims, shape, strict=True)}
  names, inputs = _names(split), preparation.input_names
  if name == names[0] and len(shape) == 2 and inputs and len(inputs) == shape[0]:
    dims[0] = 'feature'
    coords['feature'] = list(inputs)
  if name in names[len(names) - 1 - split.has_bias :]:
    dims[-1:] = _output_dims(shape[-1:], preparation, coords)
  return dims, {dim: coords[dim] for dim in dims}


def _output_dims(shape, preparation, coords):
  """The dimension of outputs, or none, with its coordinates added to `coords`."""
  if not shape:
    return []
  [size], names = shape, preparation.class_names
  if names and len(names) == size:
    coords['output'] = list(names)
  elif preparation.target_name and size == 1:
    coords['output'] = [preparation.target_name]
  else:
    coords['output'] = np.arange(size)
  return ['output']


def _attributes(result):
  """What the run was, as text and numbers, which netCDF can hold."""
  settings = result.settings
  return {
    'inference_library': 'tfp_reprior',
    'inference_library_version': settings.get('versions', {}).get('tfp_reprior', __version__),
    'sampler': settings['sampler'],
    'seed': settings['seed'],
    'settings': json.dumps(settings, default=str),
    'sampling_time': float(result.seconds['sampling']),
    'verdict': result.verdict.level,
    'verdict_text': str(result.verdict),
  }
