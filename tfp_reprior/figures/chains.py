"""Chains on a data set, and what is measured of them."""

import numpy as np

from tfp_reprior import data as data_lib
from tfp_reprior import diagnostics, models, sampling

NAMES = {'theta': 'weights', 'f': 'outputs'}
_MODELS = {'fcn': models.fcn, 'cnn': models.cnn, 'wide_resnet': models.wide_resnet}


def compute(piece, context):
  """Samples a posterior, and measures effective sample sizes and R-hat.

  Args:
    piece: Dict with the data (`data`, `num_train`, `num_test`), the network (`model`, `width`), the
      `seed`, and `run`, a dict of settings of `sample_posterior`.
    context: A `recipes.Context`.

  Returns:
    Dict: the settings found, the mean acceptance, the time of a step of all chains, and, for
    random projections of weights (`theta`) and of outputs for test inputs (`f`), effective samples
    per step of a chain.
  """
  data = data_lib.load(
    piece['data'], piece['num_train'], piece['num_test'], piece['seed'], context.data_dir
  )
  model = _MODELS[piece['model']](data.x_train.shape[1:], data.y_train.shape[1], piece['width'])
  result = sampling.sample_posterior(
    model,
    data.x_train,
    data.y_train,
    x_test=data.x_test,
    run_dir=context.run_dir,
    progress=context.progress,
    num_kept_draws=0,
    seed=piece['seed'],
    **piece['run'],
  )
  if not result.is_complete:
    raise KeyboardInterrupt('Interrupted; the same command goes on from here.')
  return {
    'step_size': result.settings['step_size'],
    'damping': result.settings['damping'],
    'acceptance': float(np.mean(result.trace['acceptance'])),
    'seconds_per_step': result.seconds['sampling'] / result.num_steps,
    'ess_per_step': {name: _ess_per_step(result, name) for name in NAMES},
  }


def _ess_per_step(result, name):
  """Of one chain: mean, least and greatest over projections of the mean over chains."""
  ess = np.mean(diagnostics.effective_sample_size(result.trace[name]), axis=0) / result.num_steps
  return {which: float(getattr(np, which)(ess)) for which in ('mean', 'min', 'max')}
