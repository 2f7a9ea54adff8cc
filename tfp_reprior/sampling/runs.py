"""A whole run in one call."""

import contextlib
import functools
import inspect
import warnings
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

import keras
import tensorflow as tf
from numpy.typing import ArrayLike

from tfp_reprior import compilation, data, diagnostics, errors, likelihoods
from tfp_reprior.densities import posterior as posterior_lib
from tfp_reprior.internal import checks, distribution, gradients
from tfp_reprior.internal import workers as workers_lib
from tfp_reprior.internal.types import NoiseScale, Path
from tfp_reprior.models import readout_split
from tfp_reprior.sampling import driver as driver_lib
from tfp_reprior.sampling import preparing
from tfp_reprior.sampling import result as result_lib
from tfp_reprior.sampling import settings as settings_lib
from tfp_reprior.sampling import warmup as warmup_lib

_Arguments = ParamSpec('_Arguments')
_Returned = TypeVar('_Returned')


def sample_posterior(
  model: keras.Model | readout_split.ReadoutSplit | posterior_lib.Posterior,
  x: ArrayLike | None = None,
  y: ArrayLike | None = None,
  noise_scale: NoiseScale | None = None,
  likelihood: likelihoods.Likelihood | None = None,
  *,
  x_test: ArrayLike | None = None,
  y_test: ArrayLike | None = None,
  num_chains: int = 4,
  num_results: int = 1000,
  num_warmup_steps: int | None = None,
  num_burnin_steps: int | None = None,
  thinning: int = 10,
  sampler: str = 'auto',
  regularizer: float | str | None = None,
  hidden_space: str | None = None,
  layer_regularizer: float | str | Sequence[float] | None = None,
  moves_readout: bool | None = None,
  num_stages: int | None = None,
  step_size: float | None = None,
  damping: float | None = None,
  num_integrator_steps: int | None = None,
  num_projections: int = 100,
  num_kept_draws: int | None = None,
  over_dispersion: float = 1.0,
  start: str = 'auto',
  seed: int = 0,
  run_dir: Path | None = None,
  resume: bool = True,
  checkpoint_seconds: float = 60.0,
  progress: bool = True,
  strategy: tf.distribute.Strategy | None = None,
  chunk_size: int | None = None,
  standardize: bool | data.Preparation = True,
  log_targets: bool | str = 'auto',
) -> result_lib.Result:
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
      `tfp_reprior.Posterior`, which has data, likelihood and chunks of its own.
    x: Inputs `[n, ...]`, an array, or a DataFrame, whose columns of text become zeros and ones.
    y: Targets. By default real numbers `[n, k]` have Gaussian noise; text `[n]` and integers of few
      values are classes, if the model has an output for each (`Categorical`), or one for two of
      them (`Bernoulli`). With a `likelihood`: as it says.
    noise_scale: Positive float, the standard deviation of Gaussian noise, or one for each output,
      in the units of `y`. By default it is unknown, with the prior
      `tfp.distributions.LogNormal(-1.0, 1.0)` for standardized targets, and is sampled as well; or
      give another prior.
    likelihood: An object of `tfp_reprior.likelihoods`, instead of `noise_scale`.
    x_test: Inputs `[m, ...]` whose outputs are followed while sampling.
    y_test: Their targets, for test figures.
    num_chains: Positive integer, chains that run side by side.
    num_results: Positive integer, draws of each chain.
    num_warmup_steps: Positive integer, steps of each chain for warm-up, one gradient each; by
      default 700, and a fifth of those of the run.
    num_burnin_steps: Integer, steps between warm-up and the first draw, with everything settled,
      rounded up to whole transitions; by default none, and a fifth of those of the run if a
      `step_size` is given.
    thinning: Positive integer, steps for each draw, rounded to whole transitions, at least one.
    sampler: A name of `tfp_reprior.make_sampler`.
    regularizer: As of `tfp_reprior.make_sampler`, by default `'noise'` for real targets, infinity,
      so no map, for classes with outputs of an unknown scale, `'sites'` for up to 1,000 data with a
      known one, and `'n*noise'` for others; or `'tuned'`, the fastest of several.
    hidden_space: `'auto'`, `'weights'` or `'data'`: where hidden layers move, as of
      `tfp_reprior.make_sampler`. In data space the traces, moments and kept draws of a run are of
      what layers do to the training inputs; `Result.weights` has the weights.
    layer_regularizer: Positive float, for a map on every fully connected layer, or one for each of
      `tfp_reprior.LayerwiseReprior.layer_names`; infinity for none. `'tuned'` puts one of 10 on,
      and takes it off again unless steps are twice as long. By default the sampler `'auto'` does so
      for Gaussian noise, if a layer after the first has fewer than twice as many weights a unit as
      there are data, and warm-up has 1,500 gradients. Warm-up puts it on once chains have arrived,
      with the anchor of each chain where the chain is; from then on it stays.
    moves_readout: Whether the readout is moved alone, too, as of `tfp_reprior.make_sampler`; by
      default for classes and others, if the likelihood has no unknown parameters.
    num_stages: 1 or 3, the gradients of an integrator step of the samplers `'auto'` and
      `'rotation'`. By default 3 from when a map on every layer is on, and 1 before and without.
    step_size: Positive float. By default warm-up finds it; if it is given, there is no warm-up.
    damping: Float in [0, 1], the part of the momentum's variance that a transition replaces. By
      default warm-up finds it; with a `step_size` it is
      `1 - exp(-2 * step_size * num_integrator_steps)`.
    num_integrator_steps: Positive integer, mean steps of a transition, of `num_stages` gradients
      each. By default warm-up finds it; with a `step_size` it is 1.
    num_projections: Positive integer, random projections of weights and of test outputs to follow.
    num_kept_draws: Integer, draws of each chain whose weights are kept, spread evenly; by default
      at most 100, and as many as fit 256 MiB of memory, or 1 GiB of `run_dir`.
    over_dispersion: Positive float, the spread of the starts, relative to N(0, I).
    start: Where chains start: `'prior'`, at draws of the prior of the coordinates, which for wide
      networks are close to draws of the posterior; `'optimized'`, where these draws climb to, each
      by itself, by Adam, in a phase that takes up to 150 of the gradients of warm-up; `'model'`, at
      the weights that `model` has, turned a little at random for each chain: then chains that agree
      do not show that there is no other region. `'auto'` takes draws: see docs/warmup.md.
    seed: Integer, of everything random.
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
    standardize: Whether inputs (each column; images as a whole) and real targets are standardized
      inside. Predictions and test figures are in the units of `y` in any case, and what is
      standardized already, or is centered one-hot, stays as it is. The weights are those of a
      network of standardized data. False: nothing is touched; nor is a `Posterior`. Or the
      `Preparation` that the data have been through, as of `tfp_reprior.data.load`: then
      `noise_scale` is for prepared targets, and predictions come in the units of the raw ones.
    log_targets: Whether the network is of logarithms of real targets, as one does with prices,
      whose noise grows with them; beyond the largest training target of their tangents, so that
      nothing is extrapolated exponentially. Predictions are of the targets themselves; unknown
      noise is that of logarithms, and so is a `noise_scale`. `'auto'`: if all targets are positive,
      a Gaussian process explains their logarithms far better, and nothing is said about the noise.

  Returns:
    A `Result`.

  #### Examples

  ```python
  import numpy as np
  import tfp_reprior as tfr

  x = np.linspace(-1, 1, 20, dtype=np.float32)[:, np.newaxis]
  model = tfr.models.fcn((1,), num_outputs=1, width=32, depth=1)
  result = tfr.sample_posterior(
    model, x, np.sin(3 * x), num_results=50, num_chains=2, num_warmup_steps=300, progress=False
  )
  print(result.verdict)
  prediction = result.predict(x)  # .mean, .stddev, .quantile(0.9), .sample(5)
  ```
  """
  arguments = dict(locals())
  with _running(strategy):
    result = _make_driver(**arguments).run(resume)
  if result.verdict.level != 'good' and workers_lib.Workers(strategy).is_chief:
    warnings.warn(str(result.verdict), diagnostics.SamplingWarning, stacklevel=2)
  return result


def _with_arguments_of(
  model_fn: Callable[_Arguments, Any],
) -> Callable[[Callable[..., _Returned]], Callable[_Arguments, _Returned]]:
  """Gives a function of a dict of arguments the signature of another function."""
  signature = inspect.signature(model_fn)

  def decorate(fn: Callable[..., _Returned]) -> Callable[_Arguments, _Returned]:
    @functools.wraps(fn)
    def call(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Returned:
      bound = signature.bind(*args, **kwargs)
      bound.apply_defaults()
      return fn(bound.arguments)

    returned = inspect.signature(fn).return_annotation
    shown = signature.replace(return_annotation=returned)
    call.__signature__ = shown  # type: ignore[attr-defined]
    return call

  return decorate


@_with_arguments_of(sample_posterior)
def warm_up(arguments: dict[str, Any]) -> warmup_lib.Warmup:
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
  model = tfr.models.fcn((1,), 1, width=32, depth=1)
  found = tfr.warm_up(model, x, np.sin(3 * x), num_warmup_steps=200, progress=False)
  print(found.table())
  ```
  """
  with _running(arguments['strategy']):
    return _make_driver(**arguments).warm_up(arguments['resume'])


@contextlib.contextmanager
def _running(strategy):
  """A context to make a driver in, and to run it."""
  if strategy is not None:
    distribution.check_strategy(strategy)
  with distribution.scope(strategy), compilation.full_precision(), gradients.forgotten():
    yield


def _make_driver(
  model,
  x,
  y,
  noise_scale,
  likelihood,
  chunk_size,
  x_test,
  y_test,
  run_dir,
  resume,
  checkpoint_seconds,
  progress,
  strategy,
  standardize,
  log_targets,
  **settings,
):
  checks.boolean('resume', resume)
  given = dict(x=x, y=y, noise_scale=noise_scale, likelihood=likelihood, chunk_size=chunk_size)
  given['log_targets'] = True if log_targets is True else None
  given = {name: value for name, value in given.items() if value is not None}
  posterior, preparation = model, data.Preparation()
  if not isinstance(model, posterior_lib.Posterior):
    is_split = isinstance(model, readout_split.ReadoutSplit)
    split = model if is_split else readout_split.ReadoutSplit(model)
    x, y, x_test, y_test, likelihood, preparation = preparing.prepare(
      split, x, y, x_test, y_test, noise_scale, likelihood, standardize, log_targets
    )
    posterior = posterior_lib.Posterior(split, x, y, None, likelihood, chunk_size)
  elif given:
    raise errors.InputError(
      f'A `Posterior` has its own {", ".join(f"`{name}`" for name in given)}: leave that out. '
      f'Received: {", ".join(given)} beside {posterior!r}'
    )
  if run_dir is not None and type(posterior.likelihood) is likelihoods.FromDistribution:
    warnings.warn(
      'The function of the likelihood cannot be saved with the run: `load_result` will need it, as '
      f'`likelihood`. Received: likelihood={posterior.likelihood!r}',
      stacklevel=3,
    )
  if not isinstance(posterior.likelihood, (*likelihoods.KINDS, likelihoods.FromDistribution)):
    raise errors.InputError(
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
    preparation,
  )
