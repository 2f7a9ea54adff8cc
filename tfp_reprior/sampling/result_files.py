"""Results from the files that they were saved to."""

import io
import pathlib
import tempfile
import zipfile

import keras
import numpy as np

from tfp_reprior import errors, likelihoods
from tfp_reprior.data import preparation as preparation_lib
from tfp_reprior.densities import posterior as posterior_lib
from tfp_reprior.internal import checks, files
from tfp_reprior.internal.types import Path
from tfp_reprior.models import readout_split
from tfp_reprior.sampling import draws as draws_lib
from tfp_reprior.sampling import identity, moments, saved_models
from tfp_reprior.sampling import result as result_lib
from tfp_reprior.sampling import warmup as warmup_lib
from tfp_reprior.version import __version__

# What result.json holds, as far as it is read: types by name, and names of settings.
_KINDS = {
  'settings': dict,
  'seconds': dict,
  'is_complete': bool,
  'likelihood': dict,
  'preparation': str,
  'prior_stds': dict,
  'warmup': (dict, type(None)),
  'draws': list,
  'first_outputs': list,
}
_SETTINGS = {
  *('num_chains', 'num_results', 'thinning', 'sampler', 'model', 'hidden_space', 'versions'),
  *('step_size', 'damping', 'num_integrator_steps', 'acceptance_bounds'),
}


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
  folder = checks.path('path', path)
  try:
    return _load(folder, model, likelihood)
  except errors.InputError:
    raise
  except (KeyError, TypeError, AttributeError, ValueError) as e:  # what something else wrote
    raise errors.InputError(f'{folder / "result.json"} is no result of this package ({e})') from e


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
  is_given = model is not None
  if not is_given:
    model = saved_models.load(folder / 'model.keras', description['model'])
  split = readout_split.ReadoutSplit(model, **description['prior_stds'])
  if likelihood is None:
    likelihood = likelihoods.from_dict(description['likelihood'])
  elif not isinstance(likelihood, likelihoods.Likelihood):
    raise errors.InputError(
      f'`likelihood` must be one of `tfp_reprior.likelihoods`. Received: likelihood={likelihood!r}'
    )
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
  posterior = posterior.in_space(description['settings']['hidden_space'])
  if is_given:
    _check_model(posterior, description['first_outputs'])
  return result_lib.Result(
    posterior,
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
    _preparation(folder, description['preparation']),
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
  for name, kind in _KINDS.items():
    if not isinstance(description.get(name), kind):
      raise errors.InputError(
        f'{path} is no result of this package: {name} is {description.get(name)!r}'
      )
  lacking = _SETTINGS - set(description['settings'])
  if lacking or 'sampling' not in description['seconds']:
    raise errors.InputError(f'{path} is no result of this package: it lacks settings or seconds')
  return description, run


def _preparation(folder, text):
  try:
    return preparation_lib.Preparation.from_json(text)
  except errors.InputError as e:
    raise errors.InputError(f'{folder / "result.json"} is no result of this package: {e}') from e


def _check_model(posterior, expected):
  """Refuses a model that computes something else than that of the run."""
  found = identity.first_outputs(posterior)
  is_same = len(found) == len(expected) and np.allclose(
    [float(v) for v in found], [float(v) for v in expected], rtol=0.01, atol=1e-3
  )
  if not is_same:
    raise errors.InputError(
      '`model` must be that of the run: with the same draw of its weights it gives other outputs '
      f'for the first inputs, {found} and not {expected}'
    )


def to_bytes(result):
  """What `Result.save` writes, as one archive: for pickles of what holds a result."""
  with tempfile.TemporaryDirectory() as folder, io.BytesIO() as buffer:
    result.save(folder)
    root = pathlib.Path(folder)
    with zipfile.ZipFile(buffer, 'w') as archive:
      for path in sorted(p for p in root.rglob('*') if p.is_file()):
        archive.write(path, path.relative_to(root))
    return buffer.getvalue()


def from_bytes(content):
  """The result that `to_bytes` was called of, with its draws in memory."""
  with tempfile.TemporaryDirectory() as folder:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
      archive.extractall(folder)
    result = load_result(folder)
    kept = draws_lib.Draws()
    for i, number in enumerate(result.draws.numbers):
      kept.add(number, result.draws[i])
    result.draws = kept
  return result
