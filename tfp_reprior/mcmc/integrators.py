"""Integrators of Hamiltonian dynamics over lists of state parts."""

from typing import NamedTuple

import tensorflow as tf
import tensorflow_probability as tfp

from tfp_reprior.internal import parts as parts_lib


class PhasePoint(NamedTuple):
  """A point of phase space, with the density there.

  Attributes:
    state_parts: List of tensors `[*chains, *event]`.
    momentum_parts: List of tensors of the same shapes.
    log_prob: Value of the function that drives the momentum, `[*chains]`.
    grads: Its gradients, a list of tensors of the shapes of the parts.
  """

  state_parts: list
  momentum_parts: list
  log_prob: tf.Tensor
  grads: list


def value_and_gradients(log_prob_fn, state_parts):
  """Evaluates `log_prob_fn(*state_parts)` and its gradients, which must all exist."""
  log_prob, grads = tfp.math.value_and_gradient(log_prob_fn, state_parts)
  for i, grad in enumerate(grads):
    if grad is None:
      raise ValueError(
        'The log-density must depend on every state part by differentiable operations. Received: '
        f'a function without gradient for part {i} of shape {tuple(state_parts[i].shape)}'
      )
  return log_prob, grads


def leapfrog(log_prob_fn, start, step_sizes, num_steps):
  """Integrates `H = -log_prob_fn(state) + |momentum|^2 / 2`.

  ```none
  momentum <- momentum + step_size/2 * grad log_prob(state)
  state    <- state + step_size * momentum
  momentum <- momentum + step_size/2 * grad log_prob(state)
  ```

  Args:
    log_prob_fn: Callable, takes the state parts, returns `[*chains]`.
    start: A `PhasePoint`.
    step_sizes: List of tensors that broadcast with the state parts.
    num_steps: Number of steps, one evaluation of the gradient each.

  Returns:
    end: The `PhasePoint` reached.
    log_accept_ratio: `H(start) - H(end)`, `[*chains]`.
  """

  def kick(momentum_parts, grads, fraction):
    return [
      m + fraction * eps * g for m, g, eps in zip(momentum_parts, grads, step_sizes, strict=True)
    ]

  def drift_and_kick(step, point):
    state = [
      x + eps * m
      for x, m, eps in zip(point.state_parts, point.momentum_parts, step_sizes, strict=True)
    ]
    log_prob, grads = value_and_gradients(log_prob_fn, state)
    return step + 1, PhasePoint(state, kick(point.momentum_parts, grads, 1.0), log_prob, grads)

  point = start._replace(momentum_parts=kick(start.momentum_parts, start.grads, 0.5))
  if tf.get_static_value(num_steps) == 1:
    _, point = drift_and_kick(0, point)
  else:
    _, point = tf.while_loop(
      lambda step, _: step < num_steps, drift_and_kick, (tf.constant(0), point)
    )
  end = point._replace(momentum_parts=kick(point.momentum_parts, point.grads, -0.5))
  return end, end.log_prob - start.log_prob - kinetic_energy_change(start, end)


def kinetic_energy_change(start, end):
  """`(|end.momentum|^2 - |start.momentum|^2) / 2`, `[*chains]`.

  Summed as the product of difference and mean: the terms are small, while the difference of the
  two sums, each of the order of the number of parameters, would be lost in float32.
  """
  chain_ndims = start.log_prob.shape.rank
  return sum(
    parts_lib.sum_events((m1 - m0) * (0.5 * (m1 + m0)), chain_ndims)
    for m0, m1 in zip(start.momentum_parts, end.momentum_parts, strict=True)
  )
