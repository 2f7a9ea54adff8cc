"""A whole run in one call."""

import dataclasses
import warnings

from tfp_reprior import compilation, diagnostics, likelihoods
from tfp_reprior.densities import posterior as posterior_lib
from tfp_reprior.internal import distribution
from tfp_reprior.internal import workers as workers_lib
from tfp_reprior.sampling import driver as driver_lib
from tfp_reprior.sampling import settings as settings_lib


def sample_posterior(
  model,
  x,
  y,
  noise_scale=0.1,
  likelihood=None,
  *,
  x_test=None,
  y_test=None,
  run_dir=None,
  resume=True,
  checkpoint_seconds=60.0,
  progress=True,
  strategy=None,
  chunk_size=None,
  **settings,
):
  """Samples the posterior of a network's weights, from data and a Keras model to predictions.

  Warms up, which finds step size, length and damping on the chains themselves, and samples, with a
  progress bar for each phase. Then judges the draws: `Result.verdict` says whether to trust them,
  and a `tfp_reprior.diagnostics.SamplingWarning` if not. Statistics are updated draw by draw, so
  that memory does not grow with the number of steps; weights are kept of some draws only.

  With a `run_dir` the run survives: it is saved every minute, and the same call goes on where the
  last one stopped, to the same numbers, bit for bit, as if it had not been stopped. A call with
  more `num_results` goes on with a finished run. Ctrl-C ends the run after a piece of about two
  seconds, with a result of what there is; a second Ctrl-C ends it at once.

  Args:
    model: A `keras.Model` that ends in a linear readout, a `tfp_reprior.models.ReadoutSplit`, or a
      `tfp_reprior.Posterior`, with `x` and `y` None.
    x: Inputs `[n, ...]`.
    y: Targets: `[n, k]` with Gaussian noise, labels `[n]` for `Categorical`, zeros and ones
      `[n, k]` for `Bernoulli`.
    noise_scale: Positive float, the standard deviation of Gaussian noise, or one for each output;
      or its prior, such as `tfp.distributions.LogNormal(-2.0, 1.0)`, to sample it as well.
    likelihood: A `Gaussian`, `Categorical` or `Bernoulli` of `tfp_reprior.likelihoods`, instead of
      `noise_scale`.
    x_test: Inputs `[m, ...]` whose outputs are followed while sampling.
    y_test: Their targets, for test figures.
    run_dir: Folder for checkpoints, kept draws, TensorBoard events and the result.
    resume: Whether to go on with what `run_dir` holds; otherwise it must not hold a run.
    checkpoint_seconds: Positive float, the time between checkpoints.
    progress: Whether to show progress bars.
    strategy: A `tf.distribute.MirroredStrategy`, to split the work over devices: the data, if the
      sampler integrates the readout out, and the chains otherwise. A run may go on with other
      devices than it began with, then to the same numbers up to rounding. With a
      `MultiWorkerMirroredStrategy` all workers make the same call, with a `run_dir` that they
      share; the chief alone writes to it, and shows progress. With a `TPUStrategy` the loop of
      steps is on the cores, and only data are split.
    chunk_size: Positive integer, the number of inputs that go through the network at once, for
      bounded memory; by default all.
    **settings: Of these:

      | name | default | |
      | --- | --- | --- |
      | `num_chains` | 4 | chains, side by side |
      | `num_results` | 1000 | draws of each chain |
      | `thinning` | 10 | steps for each draw, one gradient each (1) |
      | `num_warmup_steps` | 700, and a fifth of all | steps of a chain for warm-up |
      | `num_burnin_steps` | 0 (3) | steps before the first draw, with everything settled (1) |
      | `sampler` | `'auto'` | a name of `tfp_reprior.make_sampler` |
      | `regularizer` | `'noise'` | as of `tfp_reprior.make_sampler`, or `'tuned'` |
      | `step_size` | found | if given, there is no warm-up |
      | `damping` | found | part of the momentum's variance that a transition replaces (4) |
      | `num_integrator_steps` | found | mean steps of a transition; 1 if a step size is given |
      | `num_projections` | 100 | random projections of weights and test outputs |
      | `num_kept_draws` | at most 100 | draws of each chain to keep, spread evenly (2) |
      | `over_dispersion` | 1.0 | spread of the starts, relative to N(0, I) |
      | `seed` | 0 | integer, of everything random |

      (1) Rounded to whole transitions, of `num_integrator_steps` each, at least one.

      (2) By default as many as fit 256 MiB of memory, or 1 GiB of `run_dir`.

      (3) A fifth of all if a step size is given.

      (4) By default `1 - exp(-2 * step_size * num_integrator_steps)`.

  Returns:
    A `Result`.

  #### Examples

  ```python
  import numpy as np
  import tfp_reprior as tfr

  x = np.linspace(-1, 1, 20, dtype=np.float32)[:, np.newaxis]
  model = tfr.models.fcn((1,), num_outputs=1, width=32)
  result = tfr.sample_posterior(
    model, x, np.sin(3 * x), num_results=200, num_chains=2, num_warmup_steps=300, progress=False
  )
  print(result.verdict)
  prediction = result.predict(x)  # .mean, .stddev, .quantile(0.9), .sample(5)
  ```
  """
  driver = _make_driver(
    model,
    x,
    y,
    noise_scale,
    likelihood,
    x_test,
    y_test,
    run_dir,
    checkpoint_seconds,
    progress,
    strategy,
    chunk_size,
    settings,
  )
  with distribution.scope(strategy), compilation.full_precision():
    result = driver.run(resume)
  if result.verdict.level != 'good' and workers_lib.Workers(strategy).is_chief:
    warnings.warn(str(result.verdict), diagnostics.SamplingWarning, stacklevel=2)
  return result


def warm_up(
  model,
  x,
  y,
  noise_scale=0.1,
  likelihood=None,
  *,
  x_test=None,
  y_test=None,
  run_dir=None,
  resume=True,
  checkpoint_seconds=60.0,
  progress=True,
  strategy=None,
  chunk_size=None,
  **settings,
):
  """The warm-up of `sample_posterior`, and no more: what it finds, and where the chains end.

  All arguments are those of `sample_posterior`; called with the same ones and the same `run_dir`,
  it goes on from here.

  Returns:
    A `Warmup`: `step_size`, `damping`, `num_integrator_steps`, `state`, and a `table()` of all that
    was tried.

  #### Examples

  ```python
  import numpy as np
  import tfp_reprior as tfr

  x = np.linspace(-1, 1, 10, dtype=np.float32)[:, np.newaxis]
  model = tfr.models.fcn((1,), 1, width=32)
  found = tfr.warm_up(model, x, np.sin(3 * x), num_warmup_steps=200, progress=False)
  print(found.table())
  ```
  """
  driver = _make_driver(
    model,
    x,
    y,
    noise_scale,
    likelihood,
    x_test,
    y_test,
    run_dir,
    checkpoint_seconds,
    progress,
    strategy,
    chunk_size,
    settings,
  )
  with distribution.scope(strategy), compilation.full_precision():
    return driver.warm_up(resume)


def _make_driver(
  model,
  x,
  y,
  noise_scale,
  likelihood,
  x_test,
  y_test,
  run_dir,
  checkpoint_seconds,
  progress,
  strategy,
  chunk_size,
  settings,
):
  if strategy is not None:
    distribution.check_strategy(strategy)
  unknown = set(settings) - {f.name for f in dataclasses.fields(settings_lib.Settings)}
  if unknown:
    raise TypeError(f'sample_posterior got unknown settings: {sorted(unknown)}')
  posterior = model
  if not isinstance(model, posterior_lib.Posterior):
    posterior = posterior_lib.Posterior(model, x, y, noise_scale, likelihood, chunk_size)
  elif chunk_size is not None:
    raise ValueError(
      '`chunk_size` is for a model; a `Posterior` has its own. Received: '
      f'chunk_size={chunk_size} with {posterior!r}'
    )
  if not isinstance(posterior.likelihood, likelihoods.KINDS):
    raise ValueError(
      'sample_posterior cannot predict with a likelihood that is not of `tfp_reprior.likelihoods`; '
      'use the kernels of `tfp_reprior.mcmc`. Received: '
      f'likelihood={posterior.likelihood!r}'
    )
  return driver_lib.Driver(
    posterior,
    settings_lib.Settings(**settings),
    x_test,
    y_test,
    run_dir,
    checkpoint_seconds,
    progress,
    strategy,
  )
