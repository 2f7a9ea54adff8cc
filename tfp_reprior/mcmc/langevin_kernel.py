"""The frame of our Langevin kernels: refresh the momentum, integrate, accept or reject."""

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from tfp_reprior import compilation
from tfp_reprior.internal import parts as parts_lib
from tfp_reprior.internal import random
from tfp_reprior.internal.types import Seed, State, StepSize
from tfp_reprior.mcmc import integrators
from tfp_reprior.mcmc import kernel as kernel_lib


class LangevinResults(NamedTuple):
  """What a Langevin kernel carries from step to step, and what it reports.

  Attributes:
    momentum: Carried. Like the state, the momentum after the step.
    target_log_prob: Carried. Log-density of the state, `[*chains]`.
    grads_target_log_prob: Carried. List of the gradients, like the state parts.
    step_size: Carried, so that step size adaptation can set it. Like the argument.
    damping: Carried. Damping of the next step: 1 at the start, where no momentum was drawn yet,
      so that the first step draws it; then the argument.
    log_accept_ratio: Reported. Minus the energy error of the proposal, `[*chains]`.
    is_accepted: Reported. Whether the proposal became the state, `[*chains]`.

  #### Examples

  ```python
  import tensorflow as tf
  import tfp_reprior as tfr

  kernel = tfr.mcmc.UnderdampedLangevin(lambda x: -0.5 * x**2, step_size=0.5, damping=0.2)
  results = kernel.bootstrap_results(tf.zeros([4]))
  state, results = kernel.one_step(tf.zeros([4]), results, seed=(1, 2))
  results.momentum, results.grads_target_log_prob  # where the next step goes on from
  ```
  """

  momentum: Any
  target_log_prob: tf.Tensor
  grads_target_log_prob: list
  step_size: Any
  damping: Any
  log_accept_ratio: tf.Tensor
  is_accepted: tf.Tensor


class LangevinKernel(kernel_lib.Kernel):
  """Partial refreshment, an integrator, and accept / reject with a flip of the momentum.

  ```none
  momentum <- sqrt(1 - damping) * momentum + sqrt(damping) * N(0, I)
  proposal <- integrate(state, momentum)
  calibrated:  with probability min(1, exp(-energy error)) move to the proposal,
               else stay and turn the momentum around
  otherwise:   move to the proposal
  ```

  Accept / reject is part of the kernel. `tfp.mcmc.MetropolisHastings` must not be wrapped around
  a kernel with persistent momentum: on rejection it restores the momentum from before the
  refreshment and does not turn it around, and the chain then has another stationary distribution.

  Args:
    log_prob_fn: Callable, takes the state parts, returns `[*chains]`; its gradient drives the
      momentum.
    integrator: An `integrators.Integrator`.
    parameters: Dict of the arguments of the subclass, with `step_size`, `damping`,
      `num_integrator_steps` and `name`.
  """

  def __init__(
    self,
    log_prob_fn: Callable[..., tf.Tensor],
    integrator: integrators.Integrator,
    parameters: dict[str, Any],
  ) -> None:
    names = ('step_size', 'damping', 'num_integrator_steps')
    kernel_lib.check_settings(log_prob_fn, *(parameters[name] for name in names))
    super().__init__(parameters)
    self._log_prob_fn = log_prob_fn
    self._integrator = integrator

  @property
  def damping(self) -> StepSize:
    return self._parameters['damping']

  @property
  def num_integrator_steps(self) -> int | tf.Tensor:
    return self._parameters['num_integrator_steps']

  def bootstrap_results(self, init_state: State) -> LangevinResults:
    """Results from which the first step starts. No momentum is drawn yet: there is no seed."""
    with tf.name_scope(f'{self.name}.bootstrap_results'):
      parts = [tf.convert_to_tensor(p) for p in parts_lib.to_list(init_state)]
      log_prob, grads = self._integrator.value_and_gradients(self._log_prob_fn, parts)
      momentum = [tf.zeros_like(p) for p in parts[: len(grads)]]
      dtype = parts[0].dtype
      return LangevinResults(
        momentum=parts_lib.like(init_state, momentum),
        target_log_prob=log_prob,
        grads_target_log_prob=grads,
        step_size=kernel_lib.convert(self.step_size, dtype),
        damping=tf.nest.map_structure(tf.ones_like, kernel_lib.convert(self.damping, dtype)),
        log_accept_ratio=tf.zeros_like(log_prob),
        is_accepted=tf.ones_like(log_prob, tf.bool),
      )

  def moved(self, state: State, results: LangevinResults) -> LangevinResults:
    """Results to go on with from another state, with the same momentum: a gradient there."""
    parts = [tf.convert_to_tensor(p) for p in parts_lib.to_list(state)]
    log_prob, grads = self._integrator.value_and_gradients(self._log_prob_fn, parts)
    return results._replace(target_log_prob=log_prob, grads_target_log_prob=grads)

  def one_step(
    self, current_state: State, previous_kernel_results: LangevinResults, seed: Seed = None
  ) -> tuple[State, LangevinResults]:
    """Takes one step; see `tfp.mcmc.TransitionKernel.one_step`."""
    with tf.name_scope(f'{self.name}.one_step'):
      results = previous_kernel_results
      noise_seed, accept_seed, fresh_seed = random.split_seed(seed, n=3)
      parts = [tf.convert_to_tensor(p) for p in parts_lib.to_list(current_state)]
      num_moving = len(results.grads_target_log_prob)
      moving, others = parts[:num_moving], parts[num_moving:]
      step_sizes = kernel_lib.per_part(results.step_size, moving)
      end = self._integrator(
        self._log_prob_fn,
        moving,
        parts_lib.to_list(results.momentum),
        results.target_log_prob,
        results.grads_target_log_prob,
        step_sizes,
        kernel_lib.per_part(results.damping, moving),
        self.num_integrator_steps,
        noise_seed,
        others,
      )
      new = (end.state_parts, end.momentum_parts, end.log_prob, end.grads)
      if self.is_calibrated:
        is_accepted = kernel_lib.accept(end.log_accept_ratio, accept_seed)
        old = (
          moving,
          results.target_log_prob,
          results.grads_target_log_prob,
          moving if self._integrator.adds_prior else [],
        )
        kicks = self._integrator.end_kicks(step_sizes)
        new = choose(is_accepted, new, old, end.kicked_parts, kicks)
      else:
        is_accepted = tf.ones_like(end.log_accept_ratio, tf.bool)
      moving, momentum, log_prob, grads = new
      if others:  # exactly N(0, I), and independent of the rest
        others = random.normal_parts([tf.shape(p) for p in others], others[0].dtype, fresh_seed)
      return parts_lib.like(current_state, [*moving, *others]), LangevinResults(
        momentum=parts_lib.like(current_state, momentum),
        target_log_prob=log_prob,
        grads_target_log_prob=grads,
        step_size=results.step_size,
        damping=kernel_lib.convert(self.damping, moving[0].dtype),
        log_accept_ratio=end.log_accept_ratio,
        is_accepted=is_accepted,
      )


def choose(is_accepted, new, old, kicked_parts, kicks):
  """Chooses, chain by chain, between the new point and the old one with its momentum turned.

  Args:
    is_accepted: `[*chains]`.
    new: Tuple of state parts, momentum parts, log_prob and grads.
    old: Tuple of state parts, log_prob, grads, and pulled parts as of `integrators.forces`.
    kicked_parts: The old momentum after the first kick, which is taken back here.
    kicks: List of tensors, how long that kick was.

  Returns:
    A tuple like `new`.
  """
  if is_accepted.shape.rank == 0:  # one chain: nothing to mix, and mostly nothing to compute

    def turned():
      state_parts, log_prob, grads, pulled_parts = old
      forces = integrators.forces(grads, pulled_parts)
      return state_parts, turn(kicked_parts, forces, kicks), log_prob, grads

    return tf.cond(is_accepted, lambda: new, turned)
  return _mix(is_accepted, new, old, kicked_parts, kicks)


def turn(kicked_parts, forces, kicks):
  """Takes a kick back, and turns the momentum around."""
  return [kick * f - m for m, f, kick in zip(kicked_parts, forces, kicks, strict=True)]


@compilation.fuse
def _mix(is_accepted, new, old, kicked_parts, kicks):
  old_state, old_log_prob, old_grads, pulled_parts = old
  forces = integrators.forces(old_grads, pulled_parts)
  state, momentum, log_prob, grads = new
  return (
    parts_lib.select(is_accepted, state, old_state),
    parts_lib.select(is_accepted, momentum, turn(kicked_parts, forces, kicks)),
    tf.where(is_accepted, log_prob, old_log_prob),
    parts_lib.select(is_accepted, grads, old_grads),
  )
