"""The frame of our Langevin kernels: refresh the momentum, integrate, accept or reject."""

import abc
from typing import Any, NamedTuple

import tensorflow as tf
import tensorflow_probability as tfp

from tfp_reprior import compilation
from tfp_reprior.internal import checks, random
from tfp_reprior.internal import parts as parts_lib
from tfp_reprior.mcmc import integrators


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
  """

  momentum: Any
  target_log_prob: tf.Tensor
  grads_target_log_prob: list
  step_size: Any
  damping: Any
  log_accept_ratio: tf.Tensor
  is_accepted: tf.Tensor


class Kernel(tfp.mcmc.TransitionKernel):
  """A kernel that keeps the arguments of its constructor.

  Args:
    parameters: Dict of the arguments of the subclass, with `step_size` and `name`.
  """

  def __init__(self, parameters):
    self._parameters = parameters

  @property
  def parameters(self):
    """The arguments of the constructor, by name."""
    return self._parameters

  @property
  def step_size(self):
    return self._parameters['step_size']

  @property
  def name(self):
    return self._parameters['name']


class LangevinKernel(Kernel):
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
    parameters: Dict of the arguments of the subclass, with `step_size`, `damping` and `name`.
  """

  def __init__(self, log_prob_fn, parameters):
    check_settings(log_prob_fn, parameters['step_size'], parameters['damping'])
    super().__init__(parameters)
    self._log_prob_fn = log_prob_fn

  @property
  @abc.abstractmethod
  def _integrator(self):
    """The `Integrator`."""

  @property
  @abc.abstractmethod
  def _num_steps(self):
    """The number of its steps, one evaluation of the gradient each."""

  @property
  def damping(self):
    return self._parameters['damping']

  def bootstrap_results(self, init_state):
    """Results from which the first step starts. No momentum is drawn yet: there is no seed."""
    with tf.name_scope(f'{self.name}.bootstrap_results'):
      state_parts = [tf.convert_to_tensor(p) for p in parts_lib.to_list(init_state)]
      log_prob, grads = integrators.value_and_gradients(
        self._log_prob_fn, state_parts, self._integrator.adds_prior
      )
      dtype = state_parts[0].dtype
      return LangevinResults(
        momentum=parts_lib.like(init_state, [tf.zeros_like(p) for p in state_parts]),
        target_log_prob=log_prob,
        grads_target_log_prob=grads,
        step_size=convert(self.step_size, dtype),
        damping=tf.nest.map_structure(tf.ones_like, convert(self.damping, dtype)),
        log_accept_ratio=tf.zeros_like(log_prob),
        is_accepted=tf.ones_like(log_prob, tf.bool),
      )

  def one_step(self, current_state, previous_kernel_results, seed=None):
    """Takes one step; see `tfp.mcmc.TransitionKernel.one_step`."""
    with tf.name_scope(f'{self.name}.one_step'):
      results = previous_kernel_results
      noise_seed, accept_seed = random.split_seed(seed, n=2)
      state_parts = [tf.convert_to_tensor(p) for p in parts_lib.to_list(current_state)]
      step_sizes = per_part(results.step_size, state_parts)
      end = self._integrator(
        self._log_prob_fn,
        state_parts,
        parts_lib.to_list(results.momentum),
        results.target_log_prob,
        results.grads_target_log_prob,
        step_sizes,
        per_part(results.damping, state_parts),
        self._num_steps,
        noise_seed,
      )
      new = (end.state_parts, end.momentum_parts, end.log_prob, end.grads)
      if self.is_calibrated:
        is_accepted = accept(end.log_accept_ratio, accept_seed)
        old = (
          state_parts,
          results.target_log_prob,
          results.grads_target_log_prob,
          state_parts if self._integrator.adds_prior else [],
        )
        new = choose(is_accepted, new, old, end.kicked_parts, step_sizes)
      else:
        is_accepted = tf.ones_like(end.log_accept_ratio, tf.bool)
      state_parts, momentum_parts, log_prob, grads = new
      return parts_lib.like(current_state, state_parts), LangevinResults(
        momentum=parts_lib.like(current_state, momentum_parts),
        target_log_prob=log_prob,
        grads_target_log_prob=grads,
        step_size=results.step_size,
        damping=convert(self.damping, state_parts[0].dtype),
        log_accept_ratio=end.log_accept_ratio,
        is_accepted=is_accepted,
      )


def check_settings(log_prob_fn, step_size, damping):
  """Refuses arguments that no Langevin kernel can have."""
  if not callable(log_prob_fn):
    raise TypeError(f'The log-density must be callable. Received: {type(log_prob_fn).__name__}')
  for value in parts_lib.to_list(step_size):
    checks.positive('step_size', value)
  for value in parts_lib.to_list(damping):
    checks.unit_interval('damping', value)


def per_part(value, parts):
  """A scalar setting, or a list with one for each part, as a list of tensors."""
  values = parts_lib.to_list(value)
  if len(values) not in (1, len(parts)):
    raise ValueError(
      f'A list of step sizes or dampings must have an entry for each of the {len(parts)} state '
      f'parts. Received: {len(values)} entries'
    )
  values = values * len(parts) if len(values) == 1 else values
  return [tf.cast(v, p.dtype) for v, p in zip(values, parts, strict=True)]


def accept(log_accept_ratio, seed):
  """Whether each chain accepts, `[*chains]`. A proposal of unknown energy (NaN) is rejected."""
  dtype = log_accept_ratio.dtype
  u = random.bits_to_uniform(random.random_bits(tf.shape(log_accept_ratio), dtype, seed), dtype)
  return tf.math.log(u) < log_accept_ratio  # false for NaN


def choose(is_accepted, new, old, kicked_parts, step_sizes):
  """Chooses, chain by chain, between the new point and the old one with its momentum turned.

  Args:
    is_accepted: `[*chains]`.
    new: Tuple of state parts, momentum parts, log_prob and grads.
    old: Tuple of state parts, log_prob, grads, and pulled parts as of `integrators.forces`.
    kicked_parts: The old momentum after the first half kick, which is taken back here.
    step_sizes: List of tensors.

  Returns:
    A tuple like `new`.
  """
  if is_accepted.shape.rank == 0:  # one chain: nothing to mix, and mostly nothing to compute

    def turned():
      state_parts, log_prob, grads, pulled_parts = old
      forces = integrators.forces(grads, pulled_parts)
      return state_parts, turn(kicked_parts, forces, step_sizes), log_prob, grads

    return tf.cond(is_accepted, lambda: new, turned)
  return _mix(is_accepted, new, old, kicked_parts, step_sizes)


def turn(kicked_parts, forces, step_sizes):
  """Takes a half kick back, and turns the momentum around."""
  return [(0.5 * eps) * f - m for m, f, eps in zip(kicked_parts, forces, step_sizes, strict=True)]


@compilation.fuse
def _mix(is_accepted, new, old, kicked_parts, step_sizes):
  old_state, old_log_prob, old_grads, pulled_parts = old
  forces = integrators.forces(old_grads, pulled_parts)
  state, momentum, log_prob, grads = new
  return (
    parts_lib.select(is_accepted, state, old_state),
    parts_lib.select(is_accepted, momentum, turn(kicked_parts, forces, step_sizes)),
    tf.where(is_accepted, log_prob, old_log_prob),
    parts_lib.select(is_accepted, grads, old_grads),
  )


def convert(setting, dtype):
  """A setting, or a list of them, as tensors."""
  return tf.nest.map_structure(lambda v: tf.convert_to_tensor(v, dtype), setting)
