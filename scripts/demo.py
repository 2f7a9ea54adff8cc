"""What repriorisation gains: the same sampler on the same posterior, with and without it.

Samples the posterior of a fully connected network on scikit-learn's digits with underdamped
Langevin dynamics, in the standard parametrisation and repriorised. Both start from the same
weights, have their step size set by the same adaptation, and are corrected by accept / reject:
both sample the same, exact posterior, if they run long enough.
"""

import time

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp
from absl import app, flags

import tfp_reprior as tfr

_WIDTH = flags.DEFINE_integer('width', 256, 'Width of the three hidden layers.', lower_bound=1)
_NUM_TRAIN = flags.DEFINE_integer('num_train', 64, 'Number of training images.', lower_bound=1)
_NUM_TEST = flags.DEFINE_integer('num_test', 500, 'Number of test images.', lower_bound=1)
_NUM_CHAINS = flags.DEFINE_integer('num_chains', 2, 'Number of chains.', lower_bound=1)
_NUM_STEPS = flags.DEFINE_integer('num_steps', 4000, 'Steps of a chain, all told.', lower_bound=40)
_THINNING = flags.DEFINE_integer('thinning', 10, 'Keeps one draw in this many.', lower_bound=1)
_DAMPING = flags.DEFINE_float('damping', 0.1, 'Damping of the dynamics.', 0.0, 1.0)
_ACCEPTANCE = flags.DEFINE_float(
  'acceptance', 0.9, 'Mean acceptance that the step size is adapted to.', 0.01, 0.99
)
_SEED = flags.DEFINE_integer('seed', 1, 'Seed of everything random.')


def sample(posterior, bijector, start, x_test):
  """Runs one sampler. Returns the trace of the kept draws, and the seconds that it took.

  The first quarter of the steps adapts the step size; it is left out of the trace.
  """
  thinning = _THINNING.value
  num_draws = _NUM_STEPS.value // thinning
  num_warmup = num_draws // 4
  langevin = tfr.mcmc.UnderdampedLangevin(posterior.target_log_prob_fn, 0.01, _DAMPING.value)
  kernel = tfp.mcmc.DualAveragingStepSizeAdaptation(
    langevin, num_warmup * thinning, _ACCEPTANCE.value
  )
  if bijector is not None:
    kernel = tfp.mcmc.TransformedTransitionKernel(kernel, bijector)
  outputs_shape = (len(x_test), posterior.split.num_outputs)
  project_theta = tfr.diagnostics.RandomProjections(posterior.split.event_shapes, seed=1)
  project_outputs = tfr.diagnostics.RandomProjections([outputs_shape], seed=2)

  def trace_fn(theta, results):
    adaptation = results if bijector is None else results.inner_results
    results = adaptation.inner_results
    outputs = posterior.split.apply(theta, x_test)
    return {
      'acceptance': tf.exp(tf.minimum(results.log_accept_ratio, 0.0)),
      'step_size': results.step_size,
      'theta': project_theta(theta),
      'f(x_test)': project_outputs(outputs),
      'outputs': outputs,
    }

  @tf.function(autograph=False)
  def run(*theta):
    return tfp.mcmc.sample_chain(
      num_draws,
      list(theta),
      kernel=kernel,
      num_steps_between_results=thinning - 1,
      trace_fn=trace_fn,
      seed=_SEED.value,
    ).trace

  run = run.get_concrete_function(*start)  # traced here, so that only sampling is timed
  begin = time.perf_counter()
  trace = {name: values.numpy()[num_warmup:] for name, values in run(*start).items()}
  return trace, (time.perf_counter() - begin) * (1 - num_warmup / num_draws)


def summarize(trace, seconds, y_test):
  """The column of one sampler: a dict of figures by the name of the row."""
  num_draws, num_chains, _ = trace['theta'].shape
  num_steps = num_draws * _THINNING.value * num_chains
  ess = {
    name: np.sum(tfr.diagnostics.effective_sample_size(trace[name]), axis=0)  # over chains
    for name in ('theta', 'f(x_test)')
  }
  prediction = trace['outputs'].mean(axis=(0, 1))
  return {
    'mean acceptance': trace['acceptance'].mean(),
    'step size': trace['step_size'][-1],
    **{f'ESS per 1,000 steps, {name}': 1000 * e.mean() / num_steps for name, e in ess.items()},
    **{f'ESS per second, {name}': e.mean() / seconds for name, e in ess.items()},
    'milliseconds per step': 1000 * seconds / num_steps,
    'test RMSE': np.sqrt(np.mean((prediction - y_test) ** 2)),
    'test error, %': 100 * np.mean(prediction.argmax(-1) != y_test.argmax(-1)),
  }


def main(argv):
  if len(argv) > 1:
    raise app.UsageError(f'Unknown arguments: {argv[1:]}')
  tfr.compilation.keep_freed_memory()
  data = tfr.data.load('digits', _NUM_TRAIN.value, _NUM_TEST.value, seed=_SEED.value)
  model = tfr.models.fcn(data.x_train.shape[1:], 10, _WIDTH.value)
  posterior = tfr.Posterior(model, data.x_train, data.y_train, noise_scale=0.1)
  reprior = posterior.reprior()
  start = reprior.forward(posterior.sample_prior(_NUM_CHAINS.value, seed=_SEED.value))
  print(f'{posterior}\n{_NUM_CHAINS.value} chains of {_NUM_STEPS.value} steps each way')
  columns = {}
  for name, bijector in [('standard', None), ('repriorised', reprior)]:
    print(f'Sampling: {name} ...', flush=True)
    columns[name] = summarize(*sample(posterior, bijector, start, data.x_test), data.y_test)
  print(f'\n{"":36}{"standard":>12}{"repriorised":>13}{"ratio":>9}')
  for row, standard in columns['standard'].items():
    repriorised = columns['repriorised'][row]
    print(f'{row:36}{standard:12.4g}{repriorised:13.4g}{repriorised / standard:9.3g}')
  print('\nESS: effective sample size, mean over 100 random projections of the weights (theta) and')
  print('of the outputs for the test inputs. All steps of all chains count, adaptation left out.')


if __name__ == '__main__':
  app.run(main)
