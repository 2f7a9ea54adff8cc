"""The driver: tunes, burns in and samples, in pieces that survive."""

import dataclasses
import math
import pathlib
import sys
import time
import warnings

from tfp_reprior import likelihoods
from tfp_reprior import posterior as posterior_lib
from tfp_reprior.internal import checks, distribution, random
from tfp_reprior.mcmc import regularizers, runner, samplers
from tfp_reprior.mcmc import tuning as tuning_lib
from tfp_reprior.sampling import checkpoints, identity, interrupts, moments, observations
from tfp_reprior.sampling import draws as draws_lib
from tfp_reprior.sampling import position as position_lib
from tfp_reprior.sampling import progress as progress_lib
from tfp_reprior.sampling import result as result_lib
from tfp_reprior.sampling import settings as settings_lib

_SECONDS_PER_PIECE = 2.0
_MOST_KEPT = 100  # draws of each chain, unless asked for more
_KEPT_BYTES = {'memory': 2**28, 'disk': 2**30}
_DAMPING = 0.1  # where a step size is given without one


class Driver:
  """One run.

  Args:
    posterior: A `tfp_reprior.Posterior`.
    settings: `Settings`.
    x_test: Inputs `[m, ...]`, or None.
    y_test: Their targets `[m, ...]`, or None.
    run_dir: Folder for checkpoints and results, or None.
    checkpoint_seconds: Positive float, the time between checkpoints.
    progress: Whether to show progress bars.
    strategy: A `tf.distribute.Strategy` of this process, or None.
  """

  def __init__(
    self,
    posterior,
    settings,
    x_test,
    y_test,
    run_dir,
    checkpoint_seconds=60.0,
    progress=True,
    strategy=None,
  ):
    self._posterior = posterior
    self._settings = settings
    self._x_test = None if x_test is None else posterior.check_inputs(x_test)
    self._y_test = None
    if y_test is not None:
      if x_test is None:
        raise ValueError('`y_test` needs `x_test` beside it. Received: x_test=None')
      self._y_test = posterior.check_targets(y_test, self._x_test).numpy()
    self._folder = None if run_dir is None else pathlib.Path(run_dir)
    self._checkpoint_seconds = checks.positive('checkpoint_seconds', checkpoint_seconds)
    self._progress = progress
    self._strategy = strategy
    is_tuned = settings.regularizer == 'tuned'  # then `_tune` makes the sampler again
    self._sampler = self._make_sampler('noise' if is_tuned else settings.regularizer)
    self._seeds = dict(
      zip(
        ('tuning', 'start', 'burn-in', 'sampling', 'projections'),
        random.split_seed(settings.seed, n=5),
        strict=True,
      )
    )
    self._keep_every = self._choose_keep_every()
    self._num_burnin_draws = settings.num_burnin_draws
    self._store = None

  def run(self, resume=True):
    """Runs, or goes on, to the end. Returns a `Result`."""
    if self._folder is not None:
      self._open_folder(resume)
    tuning = self._tune()
    chosen = self._kernel_settings(tuning)
    kernel = self._sampler.kernel_fn(**chosen)
    num_integrator_steps = chosen['num_integrator_steps']
    thinning = max(1, round(self._settings.thinning / num_integrator_steps))
    self._steps_per_draw = thinning * num_integrator_steps
    observer = observations.Observer(
      self._sampler, self._x_test, self._settings.num_projections, self._seeds['projections']
    )
    runners = {
      'burn-in': runner.Runner(kernel, observer.burnin, thinning, self._seeds['burn-in']),
      'sampling': runner.Runner(kernel, observer.draw, thinning, self._seeds['sampling']),
    }
    start = self._sampler.start_fn(self._settings.num_chains, self._seeds['start'])
    position = position_lib.Position(
      runners['burn-in'].start(start, observer.empty(self._settings.num_chains))
    )
    draws = draws_lib.Draws(None if self._folder is None else self._folder / 'draws')
    saved = None if self._store is None else self._store.load_newest()
    if saved is not None:
      position.restore(saved)
    draws.drop_from(position.num_done['sampling'])
    if tuning is not None:
      position.seconds.setdefault('tuning', self._tuning_seconds)
    totals = {'burn-in': self._num_burnin_draws, 'sampling': self._settings.num_results}
    with interrupts.Interrupts() as interrupt:
      for phase, total in totals.items():
        self._run_phase(phase, runners[phase], total, position, draws, interrupt)
    if not position.num_done['sampling']:
      raise KeyboardInterrupt('Sampling was interrupted before the first draw.')
    result = self._result(position, draws, tuning, chosen)
    if self._folder is not None:
      self._without_loss(lambda: result.save(self._folder))
    return result

  def _run_phase(self, phase, phase_runner, total, position, draws, interrupt):
    position.seconds.setdefault(phase, 0.0)
    if position.num_done[phase] >= total or interrupt.is_set:
      return
    bar = progress_lib.Progress(
      phase,
      total * self._steps_per_draw,
      position.num_done[phase] * self._steps_per_draw,
      self._progress,
      None if self._folder is None else self._folder / 'tensorboard',
    )
    phase_runner.prepare(position.carry)  # which is not sampling, and takes seconds
    piece, saved_at = 1, time.monotonic()
    while position.num_done[phase] < total and not interrupt.is_set:
      done = position.num_done[phase]
      to_kept = self._keep_every - done % self._keep_every if phase == 'sampling' else math.inf
      now = int(min(piece, total - done, to_kept))
      begin = time.monotonic()
      position.carry, trace = phase_runner.advance(position.carry, done, now)
      elapsed = time.monotonic() - begin
      position.num_done[phase] = done + now
      position.traces[phase].append(trace)
      position.seconds[phase] += elapsed
      # The first piece may include compilation, so lengths grow step by step.
      piece = min(
        2 * piece, phase_runner.draws_per_call, 1 + int(now * _SECONDS_PER_PIECE / elapsed)
      )
      if now == to_kept:
        theta = [p.numpy() for p in self._sampler.theta_fn(position.carry.state)]
        self._without_loss(lambda theta=theta, number=done + now - 1: draws.add(number, theta))
      bar.update(now * self._steps_per_draw, position.traces[phase])
      if time.monotonic() - saved_at > self._checkpoint_seconds:
        self._save(position)
        saved_at = time.monotonic()
    bar.close()
    self._save(position)

  def _save(self, position):
    if self._store is not None:
      number = sum(position.num_done.values())
      self._without_loss(lambda: self._store.save(number, position.to_arrays()))

  def _without_loss(self, write_fn):
    """Writes; if that fails, what was computed goes on."""
    try:
      write_fn()
    except OSError as e:
      warnings.warn(f'Could not write to {self._folder} ({e}); going on without.', stacklevel=2)

  def _open_folder(self, resume):
    state_bytes = self._num_state_bytes()
    # Three checkpoints of state, momentum, gradient, mean and variance, and the kept draws.
    num_kept = self._settings.num_results // self._keep_every
    checkpoints.check_room(self._folder, (3 * 5 + num_kept) * state_bytes)
    described = identity.describe(
      self._posterior, self._settings, self._sampler, self._x_test, self._keep_every
    )
    is_old = identity.settle(self._folder, described)
    if is_old and not resume:
      raise ValueError(
        '`run_dir` holds a run already: choose another folder, or `resume=True` to go on with it. '
        f'Received: run_dir={str(self._folder)!r}, resume=False'
      )
    decided = identity.read(self._folder)
    self._keep_every, self._num_burnin_draws = decided['keep_every'], decided['num_burnin_draws']
    self._store = checkpoints.CheckpointStore(self._folder / 'checkpoints')

  def _num_state_bytes(self):
    split = self._posterior.split
    return split.num_parameters * split.dtype.size * self._settings.num_chains

  def _choose_keep_every(self):
    """One draw in how many is kept, spread evenly over the run."""
    num_kept = self._settings.num_kept_draws
    if num_kept is None:
      limit = _KEPT_BYTES['memory' if self._folder is None else 'disk']
      num_kept = min(_MOST_KEPT, max(1, limit // self._num_state_bytes()))
    if num_kept == 0:
      return sys.maxsize  # never reached, with more results neither
    return -(-self._settings.num_results // num_kept)

  def _tune(self):
    self._tuning_seconds = 0.0
    if self._settings.step_size is not None:
      return None
    begin = time.monotonic()
    how = dict(
      num_steps=self._settings.num_tuning_steps,
      num_integrator_steps=self._settings.num_integrator_steps,
      max_seconds=self._settings.max_tuning_seconds,
      seed=self._seeds['tuning'],
      progress=self._progress,
      path=None if self._folder is None else self._folder / 'tuning.json',
    )
    if self._settings.regularizer == 'tuned':
      best, tunings = regularizers.tune_regularizer(
        self._posterior,
        self._settings.sampler,
        over_dispersion=self._settings.over_dispersion,
        strategy=self._strategy,
        **how,
      )
      self._sampler, tuning = self._make_sampler(best), tunings[best]
    else:
      tuning = tuning_lib.tune(self._posterior, self._sampler, **how)
    self._tuning_seconds = time.monotonic() - begin
    return tuning

  def _make_sampler(self, regularizer):
    return samplers.make_sampler(
      self._posterior,
      self._settings.sampler,
      self._settings.over_dispersion,
      regularizer,
      self._strategy,
    )

  def _kernel_settings(self, tuning):
    """The arguments of the kernel: those of the tuning, or those asked for, by name."""
    names = ('step_size', 'damping', 'num_integrator_steps')
    source = self._settings if tuning is None else tuning
    chosen = {name: getattr(source, name) for name in names}
    if not self._sampler.has_damping:
      chosen.update(damping=None, num_integrator_steps=1)
    elif tuning is None:
      chosen['damping'] = _DAMPING if chosen['damping'] is None else chosen['damping']
      chosen['num_integrator_steps'] = chosen['num_integrator_steps'] or 1
    return chosen

  def _result(self, position, draws, tuning, chosen):
    settings = {
      **dataclasses.asdict(self._settings),
      **chosen,
      'sampler': self._sampler.name,
      'regularizer': self._sampler.regularizer,
      'thinning': self._steps_per_draw,
      'num_burnin_steps': self._num_burnin_draws * self._steps_per_draw,
      **identity.facts(self._posterior),
    }
    summary = position.carry.summary
    return result_lib.Result(
      self._posterior,
      settings,
      position.trace('sampling'),
      position.trace('burn-in'),
      position.seconds,
      tuning,
      position.num_done['sampling'] >= self._settings.num_results,
      draws,
      moments.finish(summary.theta),
      observations.f_mean_and_variance(summary),
      None if self._x_test is None else self._x_test.numpy(),
      self._y_test,
    )


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

  Tunes the step size, burns in, and samples, with a progress bar for each phase. Statistics are
  updated draw by draw, so that memory does not grow with the number of steps; weights are kept of
  some draws only.

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
      devices than it began with, then to the same numbers up to rounding.
    chunk_size: Positive integer, the number of inputs that go through the network at once, for
      bounded memory; by default all.
    **settings: Of these:

      | name | default | |
      | --- | --- | --- |
      | `num_chains` | 4 | chains, side by side |
      | `num_results` | 1000 | draws of each chain |
      | `thinning` | 10 | steps for each draw, one gradient each (1) |
      | `num_burnin_steps` | a fifth of all | steps before the first draw |
      | `sampler` | `'auto'` | a name of `tfp_reprior.mcmc.make_sampler` |
      | `regularizer` | `'noise'` | as of `tfp_reprior.mcmc.make_sampler`, or `'tuned'` |
      | `step_size`, `damping` | tuned | damping is 0.1 if only a step size is given |
      | `num_integrator_steps` | tuned | steps for each accept / reject; 1 if a step size is given |
      | `num_tuning_steps`, `max_tuning_seconds` | 200, none | as of `tfp_reprior.mcmc.tune` |
      | `num_projections` | 100 | random projections of weights and test outputs |
      | `num_kept_draws` | at most 100 | draws of each chain to keep, spread evenly (2) |
      | `over_dispersion` | 1.0 | spread of the starts, relative to N(0, I) |
      | `seed` | 0 | integer, of everything random |

      (1) Rounded to whole transitions, of `num_integrator_steps` each, at least one.

      (2) By default as many as fit 256 MiB of memory, or 1 GiB of `run_dir`.

  Returns:
    A `Result`.

  #### Examples

  ```python
  import numpy as np
  import tfp_reprior as tfr

  x = np.linspace(-1, 1, 20, dtype=np.float32)[:, np.newaxis]
  model = tfr.models.fcn((1,), num_outputs=1, width=32)
  result = tfr.sample_posterior(
    model, x, np.sin(3 * x), num_results=20, num_chains=2, num_tuning_steps=20, progress=False
  )
  prediction = result.predict(x)  # .mean, .stddev, .quantile(0.9), .sample(5)
  ```
  """
  if strategy is not None:
    distribution.check_one_process(strategy)
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
  driver = Driver(
    posterior,
    settings_lib.Settings(**settings),
    x_test,
    y_test,
    run_dir,
    checkpoint_seconds,
    progress,
    strategy,
  )
  with distribution.scope(strategy):
    return driver.run(resume)
