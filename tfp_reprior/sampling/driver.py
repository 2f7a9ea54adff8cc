"""The driver: warms up and samples, in pieces that survive."""

import contextlib
import dataclasses
import json

import numpy as np

from tfp_reprior import errors
from tfp_reprior.data import preparation as preparation_lib
from tfp_reprior.internal import checks, random
from tfp_reprior.internal import workers as workers_lib
from tfp_reprior.mcmc import jittered
from tfp_reprior.sampling import (
  anchors,
  checkpoints,
  coordinates,
  identity,
  map_choices,
  moments,
  observations,
  phases,
  room,
  runner,
  samplers,
  saved_models,
  starts,
)
from tfp_reprior.sampling import draws as draws_lib
from tfp_reprior.sampling import planner as planner_lib
from tfp_reprior.sampling import position as position_lib
from tfp_reprior.sampling import result as result_lib
from tfp_reprior.sampling import warmup as warmup_lib

_NUM_ANCHORS = 3  # of a chain, in burn-in
_SHORT_THINNING = 4  # of warm-up, where transitions are single steps


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
    preparation: The `tfp_reprior.data.Preparation` that the data have been through.
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
    preparation=preparation_lib.Preparation(),  # noqa: B008
  ):
    self._preparation = preparation
    self._posterior = posterior
    if settings.regularizer is None:  # one name for what is the same run
      default = coordinates.regularizer(
        posterior, settings.sampler, settings.layer_regularizer, strategy
      )
      settings = dataclasses.replace(settings, regularizer=default)
    self._settings = settings = dataclasses.replace(settings, start=starts.choose(settings.start))
    with checks.like_training('x_test'):
      self._x_test = None if x_test is None else posterior.check_inputs(x_test)
    self._y_test = None
    if y_test is not None:
      if x_test is None:
        raise errors.InputError('`y_test` needs `x_test` beside it. Received: x_test=None')
      with checks.like_training('y_test'):
        self._y_test = posterior.check_targets(y_test, self._x_test).numpy()
    self._folder = None if run_dir is None else checks.path('run_dir', run_dir)
    self._checkpoint_seconds = checks.positive('checkpoint_seconds', checkpoint_seconds)
    self._strategy = strategy
    self._workers = workers_lib.Workers(strategy)
    self._progress = checks.boolean('progress', progress)
    some = map_choices.candidates(settings)[0]  # of several, if `_choose_map` makes it again
    self._sampler = self._make_sampler(some.regularizer, settings.known_layer_regularizer)
    self._tries_layers = map_choices.tries_layers(settings, self._sampler)
    warmup_lib.check_momentum(self._sampler, settings)
    split = self._sampler.posterior.split
    room.check_memory(split, settings)
    self._run_id = None  # which a folder has
    names = ('warm-up', 'start', 'sampling', 'projections')
    self._seeds = dict(zip(names, random.split_seed(settings.seed, n=len(names)), strict=True))
    self._keep_every = room.choose_keep_every(split, settings, run_dir is not None)
    self._budgets = settings.budgets
    self._phases = phases.Phases(
      self._workers, self._folder, self._checkpoint_seconds, self._progress
    )

  def run(self, resume=True):
    """Runs, or goes on, to the end. Returns a `Result`."""
    with self._workers.watched(), self._held_folder():
      return self._sample(*self._warm_up(resume))

  def warm_up(self, resume=True):
    """Warms up, or goes on with it, and no more. Returns a `Warmup`."""
    if self._settings.step_size is not None:
      raise errors.InputError(
        '`warm_up` finds a `step_size`: leave it out. Received: step_size='
        f'{self._settings.step_size}'
      )
    with self._workers.watched(), self._held_folder():
      position, warmup, _ = self._warm_up(resume)
      anchor = anchors.to_arrays(self._sampler.anchor)
      return warmup._replace(state=[p.numpy() for p in position.state], anchor=anchor)

  def _held_folder(self):
    """A context in which no other process can sample to the folder."""
    if self._folder is None or not self._workers.is_chief:
      return contextlib.nullcontext()
    num_bytes = room.disk_bytes(self._sampler.posterior.split, self._settings, self._keep_every)
    return checkpoints.held(self._folder, num_bytes)

  def _warm_up(self, resume):
    """Warms up, unless that is done already.

    Returns:
      position: The `Position` after it.
      warmup: The `Warmup`, or None if a step size was given.
      chosen: Dict of the settings of the kernel.
    """
    self._open_folder(resume)
    if map_choices.is_open(self._settings):
      position, warmup, chosen = self._choose_map(resume)
      self._phases.restore(position, self._check_draws)
      return position, warmup, chosen
    settings, sampler = self._settings, self._sampler
    is_mapped = not self._tries_layers
    arriving = sampler
    # A map on every layer is put on where chains have arrived: it slows them on their way.
    if self._tries_layers:
      sampler = self._make_sampler(settings.regularizer, map_choices.LAYER_REGULARIZER)
    elif sampler.anchor is not None and settings.step_size is None:
      is_mapped, arriving = False, self._make_sampler(settings.regularizer, None)
    start = starts.states(settings.start, arriving, settings.num_chains, self._seeds['start'])
    position = position_lib.Position(
      start, self._posterior.split.dtype, sampler.anchor, self._phases.store
    )
    self._phases.restore(position, self._check_draws)
    starts.climb(position, self._phases, arriving, self._budgets, self._seeds['start'])
    thinning = 1 if sampler.is_calibrated and sampler.has_damping else _SHORT_THINNING
    seeds = self._seeds['warm-up'], self._seeds['projections']
    phase_runner = arriving_runner = warmup_lib.make_runner(
      arriving, self._x_test, thinning, *seeds
    )
    num_done = int(np.sum(position.trace('warm-up').get('steps', 0)))
    num_steps = self._budgets['warm-up'] + self._budgets['burn-in']
    bar = self._phases.progress_bar('warm-up', num_steps, num_done)
    end = 0  # of the last block

    def run_block(stage, block_settings, num_transitions):
      nonlocal end, is_mapped, phase_runner
      begin, end = end, end + -(-num_transitions // thinning)
      move = None
      if stage == planner_lib.PLACING and not is_mapped:
        is_mapped, move = True, sampler.anchor.start
        phase_runner = warmup_lib.make_runner(sampler, self._x_test, thinning, *seeds)
      elif stage == planner_lib.REMOVING and is_mapped:
        is_mapped, phase_runner = False, arriving_runner
        move = lambda state: sampler.unmap_fn(state)[0]  # noqa: E731
      elif is_mapped and sampler.anchor is not None:
        # Anchors follow the chains at first. The step size that a run has must be right where
        # chains have left them: so it adapts with anchors that stay.
        is_free = stage in (planner_lib.PLACING, 'burn-in')
        move = sampler.anchor.renew if is_free else None
      tensors = jittered.as_tensors(block_settings, position.dtype)
      if position.num_done['warm-up'] < end:
        is_new = position.num_done['warm-up'] == begin and not position.num_steps

        def start(state):
          state = move(state) if move is not None and is_new else state
          return phase_runner.start(state, (), tensors)

        position.begin('warm-up', start, is_new)
        bar.describe(f'{stage}, step size {float(block_settings.step_size):.2g}')
      current = sampler if is_mapped else arriving
      steps = thinning * current.num_gradients(block_settings.num_integrator_steps)
      self._phases.run('warm-up', phase_runner, end, position, interrupt, bar, steps)
      if position.num_done['warm-up'] < end:
        raise KeyboardInterrupt('Sampling was interrupted before the first draw.')
      trace = {name: v[begin:end] for name, v in position.trace('warm-up').items()}
      return trace, float(trace['step_size'][-1])

    with self._phases.interruptible(position) as interrupt, contextlib.closing(bar):
      warmup = None
      if settings.step_size is not None:
        chosen = warmup_lib.given_settings(settings)
      else:
        planner = planner_lib.Planner(
          sampler,
          self._budgets['warm-up'],
          run_block,
          settings.damping,
          settings.num_integrator_steps,
          thinning,
          arriving,
          self._tries_layers,
        )
        warmup = starts.with_ascent(planner.run(), position.trace('optimization'))
        names = ('step_size', 'damping', 'num_integrator_steps')
        chosen = {name: getattr(warmup, name) for name in names}
      if not sampler.has_damping:
        chosen.update(damping=None, num_integrator_steps=1)
      self._sampler = sampler = sampler if is_mapped else arriving
      if self._budgets['burn-in']:
        num_blocks = 1 if sampler.anchor is None else _NUM_ANCHORS
        num_gradients = sampler.num_gradients(chosen['num_integrator_steps'])
        num_transitions = -(-self._budgets['burn-in'] // num_gradients)
        for _ in range(num_blocks):
          run_block('burn-in', warmup_lib.as_settings(chosen), -(-num_transitions // num_blocks))
      if position.phase == 'warm-up' and position.carry is not None:  # not what was saved before
        self._phases.save(position)
    return position, warmup, chosen

  def _make_sampler(self, regularizer, layer_regularizer):
    settings = self._settings
    return samplers.make_sampler(
      self._posterior,
      settings.sampler,
      settings.over_dispersion,
      regularizer,
      self._strategy,
      settings.hidden_space,
      layer_regularizer,
      settings.moves_readout,
      settings.num_stages,
    )

  def _choose_map(self, resume):
    """Warms up with each of several maps, and goes on with the fastest."""
    drivers, warmed = [], []
    for i, settings in enumerate(map_choices.candidates(self._settings)):
      folder = None if self._folder is None else self._folder / f'regularizer-{i}'
      if folder is not None and self._workers.is_chief:
        folder.mkdir(exist_ok=True)
      driver = Driver(
        self._posterior,
        settings,
        self._x_test,
        self._y_test,
        folder,
        self._checkpoint_seconds,
        self._progress,
        self._strategy,
        self._preparation,
      )
      warmed.append(driver._warm_up(resume))
      drivers.append(driver)
    best = map_choices.fastest([warmup for _, warmup, _ in warmed])
    self._sampler = drivers[best]._sampler
    return warmed[best]

  def _sample(self, position, warmup, chosen):
    """Samples, from where warm-up ended. Returns a `Result`."""
    settings = self._settings
    observer = observations.Observer(
      self._sampler, self._x_test, settings.num_projections, self._seeds['projections']
    )
    num_gradients = self._sampler.num_gradients(chosen['num_integrator_steps'])
    thinning = max(1, round(settings.thinning / num_gradients))
    steps_per_draw = thinning * num_gradients
    phase_runner = runner.Runner(
      warmup_lib.sampling_kernel(self._sampler, chosen),
      observer.draw,
      thinning,
      self._seeds['sampling'],
      self._sampler.run_loop,
    )
    # With new momenta: the results of warm-up have another structure.
    position.begin(
      'sampling',
      lambda state: phase_runner.start(state, observer.empty(settings.num_chains)),
      is_new=position.phase != 'sampling',
    )
    draws = self._open_draws()
    draws.drop_from(position.num_done['sampling'])
    num_done = position.num_done['sampling'] * steps_per_draw
    bar = self._phases.progress_bar('sampling', settings.num_results * steps_per_draw, num_done)

    def keep(number, state):
      parts = [p.numpy() for p in self._sampler.parts_fn(state)]
      self._phases.without_loss(lambda: draws.add(number, parts))

    with self._phases.interruptible(position) as interrupt, contextlib.closing(bar):
      self._phases.run(
        'sampling',
        phase_runner,
        settings.num_results,
        position,
        interrupt,
        bar,
        steps_per_draw,
        self._keep_every,
        keep,
      )
      if position.num_done['sampling'] >= settings.num_results:
        self._phases.save(position)
    if not position.num_done['sampling']:
      raise KeyboardInterrupt('Sampling was interrupted before the first draw.')
    result = self._result(position, draws, warmup, chosen, steps_per_draw)
    if self._folder is not None and self._workers.is_chief:
      try:
        result.save(self._folder)
      except OSError as e:
        raise errors.RunError(
          f'The result could not be saved ({e.strerror or e}). Checkpoints have what was sampled: '
          'make room, and run the same again. In Python, it is the attribute `result` of this '
          f'error. Received: run_dir={str(self._folder)!r}',
          result,
        ) from e
    self._workers.wait()  # for the files
    return result

  def _open_draws(self):
    folder = None if self._folder is None else self._folder / 'draws'
    return draws_lib.Draws(folder, self._workers.is_chief, self._run_id)

  def _check_draws(self, num_done):
    """Refuses to go on without the draws before; they are made again from an earlier position."""
    kept = range(self._keep_every - 1, num_done['sampling'], self._keep_every)
    self._open_draws().check(kept)

  def _open_folder(self, resume):
    if self._folder is None and self._workers.count == 1:
      return
    settings, with_map = self._settings, self._sampler.layer_regularizer
    if self._tries_layers:  # then a run may end with one
      with_map = map_choices.LAYER_REGULARIZER
    described = identity.describe(
      self._posterior,
      settings,
      self._sampler,
      coordinates.num_stages(self._sampler.name, with_map, settings.num_stages),
      self._x_test,
      self._preparation,
      keep_every=self._keep_every,
      budgets=settings.budgets,
      tries_layers=self._tries_layers,
    )
    self._workers.check_same('data, model and settings', json.dumps(described).encode())
    if self._folder is None:
      return
    if self._workers.is_chief and identity.claim(self._folder, described, resume):
      saved_models.warn_of_layers(self._posterior.split.network.model)
    self._workers.wait()
    if not identity.is_there(self._folder):
      raise errors.InputError(
        '`run_dir` must be a folder that all workers share. Received: '
        f'run_dir={str(self._folder)!r}, without the files of the chief'
      )
    decided, self._run_id = identity.read(self._folder)
    self._keep_every, self._budgets = decided['keep_every'], decided['budgets']
    self._tries_layers = decided['tries_layers']
    self._phases.store = checkpoints.CheckpointStore(
      self._folder / 'checkpoints', self._workers.is_chief, self._run_id
    )

  def _result(self, position, draws, warmup, chosen, steps_per_draw):
    settings = {
      **identity.settled(self._settings, self._sampler, chosen),
      'thinning': steps_per_draw,
      'num_warmup_steps': 0 if warmup is None else warmup.num_gradients,
      'num_burnin_steps': self._budgets['burn-in'],
      **identity.facts(self._posterior),
      **self._preparation.names(),
    }
    summary, trace = position.carry.summary, position.trace('sampling')
    if 'noise_scale' in trace:
      trace['noise_scale'] = self._preparation.restore_scale(trace['noise_scale'])
    return result_lib.Result(
      self._sampler.posterior,
      settings,
      trace,
      position.trace('warm-up'),
      position.seconds,
      warmup,
      position.num_done['sampling'] >= self._settings.num_results,
      draws,
      moments.finish(summary.theta),
      observations.f_mean_and_variance(summary),
      None if self._x_test is None else self._x_test.numpy(),
      self._y_test,
      anchors.to_arrays(self._sampler.anchor),
      self._preparation,
    )
