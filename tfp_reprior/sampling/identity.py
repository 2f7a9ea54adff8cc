"""What a run is: what it may go on with, and what it may not."""

import dataclasses
import datetime
import hashlib
import json
import pathlib
import reprlib
import warnings

import keras
import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

from tfp_reprior import errors, likelihoods
from tfp_reprior.internal import files
from tfp_reprior.sampling import warmup
from tfp_reprior.version import __version__

_FILE = 'settings.json'
# All that a run writes by way of temporary files, to a folder that may hold other things as well.
_WRITTEN = (
  _FILE,
  'result.json',
  'result.npz',
  'model.keras',
  'report.html',
  'draws/draw-*.npz',
  'checkpoints/checkpoint-*.npz',
)
# What a later call may change without changing the draws before.
_FREE = ('num_results', 'num_replicas')
# What the first call decides for all later ones.
_DECIDED = ('keep_every', 'budgets', 'tries_layers')


_SHORT = reprlib.Repr()
_SHORT.maxstring, _SHORT.maxlist = 100, 12


def facts(posterior):
  """What the posterior is, and the versions of the packages: a dict for JSON."""
  return {
    'model': posterior.split.model.name,
    'num_data': posterior.x.shape[0],
    'num_parameters': posterior.split.network.num_parameters,
    'likelihood': repr(posterior.likelihood),
    **posterior.likelihood.settings,
    'versions': {
      'tfp_reprior': __version__,
      'tensorflow': tf.__version__,
      'tensorflow_probability': tfp.__version__,
      'keras': keras.__version__,
    },
  }


def settled(settings, sampler, chosen):
  """`Settings` with what a run decided: a dict for JSON."""
  return {
    **dataclasses.asdict(settings),
    **chosen,
    'sampler': sampler.name,
    'regularizer': sampler.regularizer,
    'hidden_space': sampler.hidden_space,
    'layer_regularizer': sampler.layer_regularizer,
    'moves_readout': sampler.moves_readout,
    'num_stages': sampler.num_stages,
    'layers_in_data_space': ', '.join(sampler.posterior.split.names_in_data_space) or 'none',
    'acceptance_bounds': list(warmup.BOUNDS[sampler.kind]),
    'date': f'{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d}',
  }


def describe(posterior, settings, sampler, num_stages, x_test, preparation, **decided):
  """A dict for JSON that two calls share if they are the same run.

  Steps have `num_stages` in the end. What was `decided` is that of the first call.
  """
  described = {**dataclasses.asdict(settings), **facts(posterior), 'sampler': sampler.name}
  # By name only layers that Keras numbers itself would differ; what counts is what is computed.
  del described['model']
  return {
    **described,
    # Where layers came to be: what was asked for may lead to the same, or to something else.
    'hidden_space': [s.space for s in sampler.posterior.split.layer_spaces] or None,
    'moves_readout': sampler.moves_readout or None,
    'num_stages': num_stages if num_stages > 1 else None,
    'num_replicas': 1 if sampler.strategy is None else sampler.strategy.num_replicas_in_sync,
    **decided,
    'shapes of the weights': [list(s) for s in posterior.split.network.event_shapes],
    'outputs of the model for the first inputs': first_outputs(sampler.posterior),
    'x': _digest(posterior.x),
    'y': _digest(posterior.y),
    'x_test': None if x_test is None else _digest(x_test),
    'log-likelihood of a draw of the prior': _density_of_functions(posterior),
    'preparation': hashlib.sha256(preparation.to_json().encode()).hexdigest()[:16],
  }


def first_outputs(posterior):
  """What a model computes with a draw of the prior, as text: models with others are others."""
  split = posterior.split  # that of the sampler, of which a draw of the prior is never too large
  x = posterior.x[:2] if split.network is split else posterior.x
  outputs = split.apply(split.sample_prior((), seed=0), x).numpy()
  return [f'{v:.4g}' for v in outputs.ravel()[:8]]


def _density_of_functions(posterior):
  """What functions compute, which settings do not say; None for likelihoods that have none."""
  if type(posterior.likelihood) is not likelihoods.FromDistribution:
    return None
  return f'{float(posterior.log_likelihood_fn(*posterior.sample_prior((), seed=0))):.4g}'


def settle(folder, described):
  """Compares with the run that a folder holds, or makes the folder that of this run.

  Returns:
    Whether it held one.

  Raises:
    ValueError: If it holds another run, with the differences.
  """
  path = pathlib.Path(folder) / _FILE
  is_old = is_there(folder)
  if is_old:
    saved, _ = read(folder)
    different = [
      f'{name} was {_SHORT.repr(saved.get(name))} and is {_SHORT.repr(value)}'
      for name, value in described.items()
      if name not in _FREE + _DECIDED and saved.get(name) != value
    ]
    if different:
      raise errors.InputError(
        f'`run_dir` holds a run of something else: {"; ".join(different)}. Choose another folder, '
        f'or the same settings. Received: run_dir={str(folder)!r}'
      )
    before, now = saved.get('num_replicas', 1), described['num_replicas']
    if before != now:
      warnings.warn(
        f'The run of {folder} goes on with {now} device(s) after {before}: to the same numbers up '
        'to rounding, and no longer bit for bit.',
        stacklevel=2,
      )
    described = {**described, **{name: saved.get(name, False) for name in _DECIDED}}
  with files.writing_to('run_dir', folder):
    files.save_json(path, described, _run_id(described))
  return is_old


def is_there(folder):
  """Whether a folder holds a run."""
  return (pathlib.Path(folder) / _FILE).exists()


def read(folder):
  """What `settle` wrote, and the name of the run, which all its files bear."""
  return files.load_json(pathlib.Path(folder) / _FILE)


def _run_id(described):
  kept = {name: value for name, value in described.items() if name not in _FREE}
  return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()[:16]


def _digest(tensor):
  array = np.ascontiguousarray(tensor.numpy())
  return f'{array.shape} {array.dtype} {hashlib.sha256(array.tobytes()).hexdigest()[:16]}'


def claim(folder, described, resume):
  """Makes the folder that of this run, or refuses it. Returns whether the run is new."""
  files.remove_temporary(folder, _WRITTEN)
  if is_there(folder) and not resume:
    raise errors.InputError(
      '`run_dir` holds a run already: choose another folder, or `resume=True` to go on with it. '
      f'Received: run_dir={str(folder)!r}, resume=False'
    )
  return not settle(folder, described)
