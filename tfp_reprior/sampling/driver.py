"""The driver: tunes, burns in and samples, in pieces that survive."""

import contextlib
import dataclasses
import json
import math
import pathlib
import sys
import time
import warnings

import numpy as np
import tensorflow as tf

from tfp_reprior.internal import checks, files, random
from tfp_reprior.internal import workers as workers_lib
from tfp_reprior.mcmc import regularizers, runner, samplers
from tfp_reprior.mcmc import tuning as tuning_lib
from tfp_reprior.sampling import checkpoints, identity, interrupts, moments, observations
from tfp_reprior.sampling import draws as draws_lib
from tfp_reprior.sampling import position as position_lib
from tfp_reprior.sampling import progress as progress_lib
from tfp_reprior.sampling import result as result_lib

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
    strategy: A `tf.distribute.Strategy`, or None. If it has several processes, all of them do this,
      and the chief alone writes and shows progress.
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
    self._strategy = strategy
    self._workers = workers_lib.Workers(strategy)
    self._progress = progress and self._workers.is_chief
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
    with self._workers.watched(), self._held_folder():
      return self._run(resume)

  @contextlib.contextmanager
  def _held_folder(self):
    """A context in which no other process can sample to the folder."""
    if self._folder is None or not self._workers.is_chief:
      yield
      return
    # Three checkpoints of state, momentum, gradient, mean and variance, and the kept draws.
    num_kept = self._settings.num_results // self._keep_every
    checkpoints.check_room(self._folder, (3 * 5 + num_kept) * self._num_state_bytes())
    with contextlib.ExitStack() as stack:
      try:
        stack.enter_context(files.held(self._folder))
      except BlockingIOError as e:
        raise ValueError(
          '`run_dir` is in use: another process samples to it. Choose another folder, or wait. '
          f'Received: run_dir={str(self._folder)!r}'
        ) from e
      yield

  def _run(self, resume):
    if self._folder is not None or self._workers.count > 1:
      described = self._describe()
    if self._folder is not None:
      self._open_folder(described, resume)
    tuning = self._tune()
    chosen = self._kernel_settings(tuning)
    kernel = self._sampler.kernel_fn(**chosen)
    num_integrator_steps = chosen['num_integrator_steps']
    thinning = max(1, round(self._settings.thinning / num_integrator_steps))
    self._steps_per_draw = thinning * num_integrator_steps
    observer = observations.Observer(
      self._sampler, self._x_test, self._settings.num_projections, self._seeds['projections']
    )
    observe_fns = {'burn-in': observer.burnin, 'sampling': observer.draw}
    runners = {
      phase: runner.Runner(kernel, observe_fn, thinning, self._seeds[phase], self._sampler.run_loop)
      for phase, observe_fn in observe_fns.items()
    }
    start = self._sampler.start_fn(self._settings.num_chains, self._seeds['start'])
    position = position_lib.Position(
      runners['burn-in'].start(start, observer.empty(self._settings.num_chains))
    )
    draws = draws_lib.Draws(
      None if self._folder is None else self._folder / 'draws', self._workers.is_chief
    )
    saved = None if self._store is None else self._store.load_newest()
    if saved is not None:
      position.restore(saved)
    draws.drop_from(position.num_done['sampling'])
    if tuning is not None:
      position.seconds.setdefault('tuning', self._tuning_seconds)
    totals = {'burn-in': self._num_burnin_draws, 'sampling': self._settings.num_results}
    with interrupts.Interrupts() as interrupt:
      try:
        for phase, total in totals.items():
          self._run_phase(phase, runners[phase], total, position, draws, interrupt)
      except tf.errors.OpError:  # of a worker that has gone, or of memory
        self._save(position)
        raise
    if not position.num_done['sampling']:
      raise KeyboardInterrupt('Sampling was interrupted before the first draw.')
    result = self._result(position, draws, tuning, chosen)
    if self._folder is not None and self._workers.is_chief:
      self._without_loss(lambda: result.save(self._folder))
    self._workers.wait()  # for the files
    return result

  def _run_phase(self, phase, phase_runner, total, position, draws, interrupt):
    position.seconds.setdefault(phase, 0.0)
    if position.num_done[phase] >= total:
      return
    piece, is_stopped = self._agree(1, phase, position, interrupt)
    if is_stopped:
      return
    bar = progress_lib.Progress(
      phase,
      total * self._steps_per_draw,
      position.num_done[phase] * self._steps_per_draw,
      self._progress,
      self._folder / 'tensorboard' if self._folder and self._workers.is_chief else None,
    )
    phase_runner.prepare(position.carry)  # which is not sampling, and takes seconds
    saved_at = time.monotonic()
    while position.num_done[phase] < total and not is_stopped:
      done = position.num_done[phase]
      to_kept = self._keep_every - done % self._keep_every if phase == 'sampling' else math.inf
      now = int(min(piece, total - done, to_kept))
      begin = time.monotonic()
      position.carry, trace = phase_runner.advance(position.carry, done, now)
      elapsed = time.monotonic() - begin
      position.num_done[phase] = done + now
      position.traces[phase].append(trace)
      position.seconds[phase] += elapsed
      piece = phase_runner.next_length(piece, now, elapsed)
      if now == to_kept:
        theta = [p.numpy() for p in self._sampler.theta_fn(position.carry.state)]
        self._without_loss(lambda theta=theta, number=done + now - 1: draws.add(number, theta))
      bar.update(now * self._steps_per_draw, position.traces[phase])
      if time.monotonic() - saved_at > self._checkpoint_seconds:
        self._save(position)
        saved_at = time.monotonic()
      piece, is_stopped = self._agree(piece, phase, position, interrupt)
    bar.close()
    self._save(position)

  def _agree(self, piece, phase, position, interrupt):
    """The number of draws to make next, and whether to stop: the same for all workers."""
    names = ('acceptance', 'energy', 'log_prob')  # of the kernel: the rest follows from its state
    self._workers.check_same(
      'draws, from a `run_dir` that they share, on machines that are alike',
      np.array(list(position.num_done.values())),
      *(trace[name][-1] for trace in position.traces[phase][-1:] for name in names),
    )
    decisions = self._workers.gather([piece, interrupt.is_set])
    return int(decisions[0, 0]), bool(np.any(decisions[:, 1]))

  def _save(self, position):
    if self._store is not None and self._workers.is_chief:
      number = sum(position.num_done.values())
      self._without_loss(lambda: self._store.save(number, position.to_arrays()))

  def _without_loss(self, write_fn):
    """Writes; if that fails, what was computed goes on."""
    try:
      write_fn()
    except OSError as e:
      warnings.warn(f'Could not write to {self._folder} ({e}); going on without.', stacklevel=2)

  def _describe(self):
    described = identity.describe(
      self._posterior, self._settings, self._sampler, self._x_test, self._keep_every
    )
    self._workers.check_same('data, model and settings', json.dumps(described).encode())
    return described

  def _open_folder(self, described, resume):
    if self._workers.is_chief:
      self._claim_folder(described, resume)
    self._workers.wait()
    try:
      decided = identity.read(self._folder)
    except FileNotFoundError as e:
      raise ValueError(
        '`run_dir` must be a folder that all workers share. Received: '
        f'run_dir={str(self._folder)!r}, without the files of the chief'
      ) from e
    self._keep_every, self._num_burnin_draws = decided['keep_every'], decided['num_burnin_draws']
    self._store = checkpoints.CheckpointStore(self._folder / 'checkpoints', self._workers.is_chief)

  def _claim_folder(self, described, resume):
    """Makes the folder that of this run, or refuses it."""
    is_old = identity.settle(self._folder, described)
    if is_old and not resume:
      raise ValueError(
        '`run_dir` holds a run already: choose another folder, or `resume=True` to go on with it. '
        f'Received: run_dir={str(self._folder)!r}, resume=False'
      )

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
