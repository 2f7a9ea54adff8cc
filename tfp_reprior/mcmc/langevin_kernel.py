"""The frame of our Langevin kernels: refresh the momentum, integrate, accept or reject."""

import abc
from typing import Any, NamedTuple

import tensorflow as tf
import tensorflow_probability as tfp

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


class LangevinKernel(tfp.mcmc.TransitionKernel):
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
    if not callable(log_prob_fn):
      raise TypeError(f'The log-density must be callable. Received: {type(log_prob_fn).__name__}')
    for step_size in parts_lib.to_list(parameters['step_size']):
      checks.positive('step_size', step_size)
    for damping in parts_lib.to_list(parameters['damping']):
      checks.unit_interval('damping', damping)
    self._log_prob_fn = log_prob_fn
    self._parameters = parameters

  @abc.abstractmethod
  def _integrate(self, start, step_sizes):
    """Returns the `PhasePoint` reached and the log acceptance ratio `[*chains]`."""

  @property
  def parameters(self):
    """The arguments of the constructor, by name."""
    return self._parameters

  @property
  def step_size(self):
    return self._parameters['step_size']

  @property
  def damping(self):
    return self._parameters['damping']

  @property
  def name(self):
    return self._parameters['name']

  def bootstrap_results(self, init_state):
    """Results from which the first step starts. No momentum is drawn yet: there is no seed."""
    with tf.name_scope(f'{self.name}.bootstrap_results'):
      state_parts = [tf.convert_to_tensor(p) for p in parts_lib.to_list(init_state)]
      log_prob, grads = integrators.value_and_gradients(self._log_prob_fn, state_parts)
      dtype = state_parts[0].dtype
      return LangevinResults(
        momentum=parts_lib.like(init_state, [tf.zeros_like(p) for p in state_parts]),
        target_log_prob=log_prob,
        grads_target_log_prob=grads,
        step_size=_convert(self.step_size, dtype),
        damping=tf.nest.map_structure(tf.ones_like, _convert(self.damping, dtype)),
        log_accept_ratio=tf.zeros_like(log_prob),
        is_accepted=tf.ones_like(log_prob, tf.bool),
      )

  def one_step(self, current_state, previous_kernel_results, seed=None):
    """Takes one step; see `tfp.mcmc.TransitionKernel.one_step`."""
    with tf.name_scope(f'{self.name}.one_step'):
      results = previous_kernel_results
      noise_seed, accept_seed = random.split_seed(seed, n=2)
      state_parts = [tf.convert_to_tensor(p) for p in parts_lib.to_list(current_state)]
      start = integrators.PhasePoint(
        state_parts,
        refresh(parts_lib.to_list(results.momentum), results.damping, noise_seed),
        results.target_log_prob,
        results.grads_target_log_prob,
      )
      end, log_accept_ratio = self._integrate(start, per_part(results.step_size, state_parts))
      if self.is_calibrated:
        is_accepted = accept(log_accept_ratio, accept_seed)
        flipped = start._replace(momentum_parts=[-m for m in start.momentum_parts])
        end = choose(is_accepted, end, flipped)
      else:
        is_accepted = tf.ones_like(log_accept_ratio, tf.bool)
      return parts_lib.like(current_state, end.state_parts), LangevinResults(
        momentum=parts_lib.like(current_state, end.momentum_parts),
        target_log_prob=end.log_prob,
        grads_target_log_prob=end.grads,
        step_size=results.step_size,
        damping=_convert(self.damping, state_parts[0].dtype),
        log_accept_ratio=log_accept_ratio,
        is_accepted=is_accepted,
      )


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


def refresh(momentum_parts, damping, seed):
  """`sqrt(1 - damping) * momentum + sqrt(damping) * N(0, I)`."""
  noise_parts = random.normal_parts(
    [tf.shape(m) for m in momentum_parts], momentum_parts[0].dtype, seed
  )
  return [
    tf.sqrt(1.0 - d) * m + tf.sqrt(d) * xi
    for m, xi, d in zip(momentum_parts, noise_parts, per_part(damping, momentum_parts), strict=True)
  ]


def accept(log_accept_ratio, seed):
  """Whether each chain accepts, `[*chains]`. A proposal of unknown energy (NaN) is rejected."""
  dtype = log_accept_ratio.dtype
  u = random.bits_to_uniform(random.random_bits(tf.shape(log_accept_ratio), dtype, seed), dtype)
  return tf.math.log(u) < log_accept_ratio  # false for NaN


def choose(is_accepted, accepted, rejected):
  """Chooses, chain by chain, between two phase points."""
  return integrators.PhasePoint(
    parts_lib.select(is_accepted, accepted.state_parts, rejected.state_parts),
    parts_lib.select(is_accepted, accepted.momentum_parts, rejected.momentum_parts),
    tf.where(is_accepted, accepted.log_prob, rejected.log_prob),
    parts_lib.select(is_accepted, accepted.grads, rejected.grads),
  )


def _convert(setting, dtype):
  return tf.nest.map_structure(lambda v: tf.convert_to_tensor(v, dtype), setting)
