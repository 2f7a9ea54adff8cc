"""Results from the files that they were saved to."""

import pathlib

import keras

from tfp_reprior import errors, likelihoods
from tfp_reprior.data import preparation as preparation_lib
from tfp_reprior.densities import posterior as posterior_lib
from tfp_reprior.internal import files
from tfp_reprior.internal.types import Path
from tfp_reprior.models import readout_split
from tfp_reprior.sampling import draws as draws_lib
from tfp_reprior.sampling import moments, saved_models
from tfp_reprior.sampling import result as result_lib
from tfp_reprior.sampling import warmup as warmup_lib
from tfp_reprior.version import __version__


def load_result(
  path: Path,
  model: keras.Model | None = None,
  likelihood: likelihoods.Likelihood | None = None,
) -> result_lib.Result:
  """Loads what `Result.save` wrote, or a finished run from its `run_dir`.

  Args:
    path: The folder.
    model: The `keras.Model`, for models with layers that Keras cannot load by itself.
    likelihood: The `FromDistribution` of the run, whose function cannot be saved.

  Returns:
    A `Result`.

  #### Examples

  ```python
  import numpy as np
  import tfp_reprior as tfr

  x = np.linspace(-1, 1, 10, dtype=np.float32)[:, np.newaxis]
  model = tfr.models.fcn((1,), 1, width=16, depth=1)
  settings = dict(num_chains=2, num_results=20, num_burnin_steps=0, step_size=0.1)
  tfr.sample_posterior(model, x, np.sin(3 * x), **settings, run_dir='run', progress=False)
  result = tfr.load_result('run')  # tomorrow, or in another process
  ```
  """
  folder = pathlib.Path(path)
  try:
    return _load(folder, model, likelihood)
  except (KeyError, TypeError, AttributeError) as e:  # of files that something else wrote
    if isinstance(e, errors.InputError):
      raise
    raise errors.InputError(
      f'{folder / "result.json"} is not a result of this package ({e})'
    ) from e


def _load(folder, model, likelihood):
  if not (folder / 'result.npz').exists():
    raise errors.InputError(
      '`path` must be a folder that holds a finished run (a file result.npz). Received: '
      f'path={str(folder)!r}'
    )
  description, run = _load_description(folder)
  arrays = files.load_arrays(folder / 'result.npz', run)
  if files.digest(arrays, run) != description['arrays']:
    raise errors.InputError(f'{folder / "result.npz"} is of another result than result.json')
  draws = draws_lib.Draws(folder / 'draws', is_writer=False, run=run)
  draws.check_present(description['draws'])
  if model is None:
    model = saved_models.load(folder / 'model.keras', description['model'])
  split = readout_split.ReadoutSplit(model, **description['prior_stds'])
  if likelihood is None:
    likelihood = likelihoods.from_dict(description['likelihood'])
  elif likelihood.to_dict() != description['likelihood']:
    raise errors.InputError(
      f'`likelihood` must be that of the run, {description["likelihood"]}. Received: likelihood='
      f'{likelihood.to_dict()}'
    )

  def group(prefix):
    return {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}

  theta_moments = moments.MeanAndVariance(
    *([v for _, v in sorted(group(f'theta_{name}/').items())] for name in ('mean', 'variance'))
  )
  posterior = posterior_lib.Posterior(split, arrays['x'], arrays['y'], likelihood=likelihood)
  return result_lib.Result(
    posterior.in_space(description['settings']['hidden_space']),
    description['settings'],
    group('trace/'),
    group('warmup/'),
    description['seconds'],
    None if description['warmup'] is None else warmup_lib.Warmup.from_dict(description['warmup']),
    description['is_complete'],
    draws,
    theta_moments,
    (arrays['f_mean'], arrays['f_variance']) if 'f_mean' in arrays else None,
    arrays.get('x_test'),
    arrays.get('y_test'),
    [v for _, v in sorted(group('anchor/').items())] or None,
    preparation_lib.Preparation.from_json(description.get('preparation', '{}')),
  )


def _load_description(folder):
  path = folder / 'result.json'
  description, run = files.load_json(path)
  if description.get('format') != result_lib.FORMAT:
    versions = description.get('settings', {}).get('versions')
    raise errors.InputError(
      f'{path} was written by another version of this package, {versions}, in a form that '
      f'{__version__} does not know'
    )
  return description, run
