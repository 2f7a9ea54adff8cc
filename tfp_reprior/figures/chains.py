"""Chains on a data set, and what is measured of them."""

import warnings

import numpy as np

from tfp_reprior import data as data_lib
from tfp_reprior import diagnostics, likelihoods, sampling
from tfp_reprior.diagnostics import convergence
from tfp_reprior.figures import estimate

NAMES = {'theta': 'weights', 'f': 'outputs'}
_NUM_LENGTHS = 12
# Settings of the smallest runs: without burn-in, which would be traced as well.
SMOKE_RUN = {'num_results': 12, 'num_burnin_steps': 0, 'thinning': 1, 'step_size': 0.02}


def compute(piece, context):
  """Samples a posterior, and measures effective sample sizes and R-hat.

  Args:
    piece: Dict with the data (`data`, `num_train`, `num_test`), the network (`model`, and `network`
      with its width and depth), the `likelihood`, `'gaussian'` or `'categorical'`, the `seed`, and
      `run`, a dict of settings of `sample_posterior`.
    context: A `recipes.Context`.

  Returns:
    Dict: the settings found, the verdict and its level, the mean acceptance, the time of a step of
    all chains, and, for random projections of what the sampler moves (`theta`: weights, or in data
    space the u) and of outputs for test inputs (`f`), effective samples per step of a chain, which
    is one gradient, by each chain alone, as in the paper. With several chains, also `curves` of
    growing beginnings of the chains.
  """
  data = data_lib.load(
    piece['data'], piece['num_train'], piece['num_test'], piece['seed'], context.data_dir
  )
  make_model = estimate.MODELS[piece['model']]
  # The posteriors of the paper, and with its samplers its map.
  is_categorical = piece['likelihood'] == 'categorical'
  likelihood = (
    likelihoods.Categorical(output_scale=1.0) if is_categorical else likelihoods.Gaussian(0.1)
  )
  run = dict(piece['run'])
  if run['sampler'].endswith('langevin') and run.get('regularizer') is None:
    run['regularizer'] = 'noise'
  with warnings.catch_warnings():
    # Chains that hardly mix are what is shown; the rows say so.
    warnings.simplefilter('ignore', diagnostics.SamplingWarning)
    result = sampling.sample_posterior(
      make_model(data.x_train.shape[1:], data.y_train.shape[1], **piece['network']),
      data.x_train,
      data.labels_train if is_categorical else data.y_train,
      likelihood=likelihood,
      x_test=data.x_test,
      run_dir=context.run_dir,
      progress=context.progress,
      num_kept_draws=0,
      seed=piece['seed'],
      **run,
    )
  if not result.is_complete:
    raise KeyboardInterrupt('Interrupted; the same command goes on from here.')
  figures = {
    'step_size': result.settings['step_size'],
    'damping': result.settings['damping'],
    'level': result.verdict.level,
    'verdict': str(result.verdict),
    'acceptance': float(np.mean(result.trace['acceptance'])),
    'seconds_per_step': result.seconds['sampling'] / result.num_steps,
    'ess_per_step': {name: _ess_per_step(result, name) for name in NAMES},
  }
  if result.num_chains > 1:
    figures['curves'] = {name: _curves(result, name) for name in NAMES}
  return figures


def work(piece):
  """What a piece consists of: the steps of its run, those of warm-up among them."""
  run = piece['run']
  return estimate.Work(
    run['num_results'] * run['thinning'] + run.get('num_warmup_steps', 0),
    piece['num_train'],
    piece['model'],
    piece['network'],
    estimate.INPUT_SHAPES[piece['data']],
    run['num_chains'],
  )


def _ess_per_step(result, name, num_draws=None):
  """Of one chain, by its first draws: over projections, of the mean over chains."""
  draws = result.trace[name][:num_draws]
  ess = np.mean(diagnostics.effective_sample_size(draws), axis=0)  # [r]
  return _spread(ess / (len(draws) * result.settings['thinning']))


def _curves(result, name):
  lengths, r_hat = convergence.r_hat_curve(result.trace[name], _NUM_LENGTHS)
  return {
    'steps': [int(length) * result.settings['thinning'] for length in lengths],
    'ess_per_step': [_ess_per_step(result, name, length) for length in lengths],
    'r_hat_squared_minus_1': [_spread(values) for values in r_hat],
  }


def _spread(values):
  """Mean, least and greatest."""
  return {which: float(getattr(np, which)(values)) for which in ('mean', 'min', 'max')}
