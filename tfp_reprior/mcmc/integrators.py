"""Integrators of Hamiltonian dynamics over lists of state parts.

One step alternates kicks and moves, and reads the same from both ends:

```none
kick   momentum <- momentum + kick * step_size * grad log_prob(state)
move   (state, momentum) <- exact flow of what log_prob leaves out, for move * step_size
...
kick   momentum <- momentum + kick * step_size * grad log_prob(state)
```

With one stage kicks are halves, and the move is whole. A step with three stages takes three
gradients, and may be more than three times as long at the same energy error. For that its fractions
were chosen, by Blanes, Casas and Sanz-Serna (2014), "Numerical integrators for the hybrid Monte
Carlo method".

The energy error is summed from the kicks: a kick by `delta` does the work `sum(delta * (momentum +
delta/2))`, with the momentum before it, and moves change log_prob only. All terms are small. The
difference of two energies, each of the order of the number of parameters, would be lost in
float32.

The updates are written as single passes over the state, to be fused.
"""

from typing import NamedTuple

import tensorflow as tf
import tensorflow_probability as tfp

from tfp_reprior import compilation, errors
from tfp_reprior.internal import parts as parts_lib
from tfp_reprior.internal import random

# The kick and the move of each stage, in parts of the step size; then the first kick once more.
ONE_STAGE = ((0.5, 1.0),)
_KICK, _MOVE = 0.11888010966548, 0.29619504261126
THREE_STAGES = ((_KICK, _MOVE), (0.5 - _KICK, 1.0 - 2.0 * _MOVE), (0.5 - _KICK, _MOVE))


class Trajectory(NamedTuple):
  """Where an integrator ended, and what is needed to go back.

  Attributes:
    state_parts: The new state, a list of tensors `[*chains, *event]`.
    momentum_parts: The new momentum, likewise.
    log_prob: log_prob there, `[*chains]`.
    grads: Its gradients, like the state.
    log_accept_ratio: Minus the energy error, `[*chains]`.
    kicked_parts: The momentum after the first kick, like the state.
  """

  state_parts: list
  momentum_parts: list
  log_prob: tf.Tensor
  grads: list
  log_accept_ratio: tf.Tensor
  kicked_parts: list


def forces(grads, pulled_parts):
  """What kicks the momentum: the gradients, and the pull `-state` of a prior N(0, I).

  Args:
    grads: List of the gradients of log_prob.
    pulled_parts: The state, if log_prob leaves out a prior that moves do not know of; else empty.

  Returns:
    A list like `grads`.
  """
  if not pulled_parts:
    return grads
  return [g - x for g, x in zip(grads, pulled_parts, strict=True)]


def drift(state, momentum, step_size):
  """The move of leapfrog, for `H = -log_prob(state) + |momentum|^2 / 2`."""
  return state + step_size * momentum, momentum


def rotate(state, momentum, step_size):
  """The exact flow of `(|state|^2 + |momentum|^2) / 2`, what is left of H without log_prob.

  It solves the Gaussian part exactly, and log_prob is the rest: a likelihood.
  """
  c, s = tf.cos(step_size), tf.sin(step_size)
  return c * state + s * momentum, c * momentum - s * state


class Integrator:
  """Kicks with one kind of move in between.

  Args:
    move: Function of a state part, its momentum and its step size; returns the first two moved.
    keeps_momentum: Whether moves do not change the momentum. Then the work of all kicks is the
      change of kinetic energy, and need not be summed after every kick.
    prior: What becomes of a prior N(0, I) that log_prob leaves out: `'none'`, there is none;
      `'added'`, kicks add it, which takes no further pass over the state, as its value and gradient
      in log_prob would; `'solved'`, moves are its exact flow.
    stages: Pairs of a kick and a move, in parts of the step size, such as `THREE_STAGES`.
  """

  def __init__(self, move, keeps_momentum, prior='none', stages=ONE_STAGE):
    self._prior = prior
    (self._end_kick, self._first_move), *others = stages
    # The last kick of a step and the first of the next are one.
    self._inner_stages = [(2.0 * self._end_kick, self._first_move), *others]
    adds_prior = self.adds_prior

    def start(sources, momentum, damping, grads, state, kicks, moves):
      """Refreshes the momentum, gives it the first kick, and moves."""
      refreshed = [
        tf.sqrt(1.0 - d) * m + tf.sqrt(d) * random.noise_like(m, source)
        for m, source, d in zip(momentum, sources, damping, strict=True)
      ]
      kicked = _kick(refreshed, self.forces(grads, state), kicks)
      state, momentum = _move(state, kicked, moves)
      return kicked, state, [] if keeps_momentum else momentum  # not the same numbers twice

    def proceed(state, momentum, grads, kicks, moves, log_prob):
      """Another kick, and a move. Returns also the work of the kick, in several sums."""
      kicked = _kick(momentum, self.forces(grads, state), kicks)
      works = []
      if not keeps_momentum:
        works = [
          parts_lib.sum_slabs((kick * g) * (m + (0.5 * kick) * g), log_prob.shape.rank)
          for m, g, kick in zip(momentum, grads, kicks, strict=True)
        ]
      return *_move(state, kicked, moves), works

    def finish(momentum, grads, state, kicked, start_grads, start_state, kicks, log_prob):
      """The last kick. Returns also the work left to count, in several sums.

      `kicked` is empty if it is `momentum`, which is then read once.
      """
      ends = self.forces(grads, state)
      begins = self.forces(start_grads, start_state)
      works = []  # a single sum for the first kick and the last: each sum is a pass over memory
      for i, (m0, m1, f0, f1, kick) in enumerate(
        zip(kicked or momentum, momentum, begins, ends, kicks, strict=True)
      ):
        if keeps_momentum:
          # All kicks at once: (end - begin) * (end + begin) / 2.
          difference = (m1 - m0) + kick * (f0 + f1)
          work = difference * ((m0 - kick * f0) + 0.5 * difference)
        else:
          work = kick * (f0 * (m0 - 0.5 * kick * f0) + f1 * (m1 + 0.5 * kick * f1))
        if adds_prior:  # what work is left after the change of |state|^2 / 2, element by element
          work += 0.5 * (state[i] - start_state[i]) * (state[i] + start_state[i])
        works.append(parts_lib.sum_slabs(work, log_prob.shape.rank))
      return _kick(momentum, ends, kicks), works

    def _move(state, momentum, moves):
      moved = [move(x, m, eps) for x, m, eps in zip(state, momentum, moves, strict=True)]
      return [x for x, _ in moved], [m for _, m in moved]

    self.start = compilation.fuse(start)
    self.proceed = compilation.fuse(proceed)
    self.finish = compilation.fuse(finish)

  @property
  def adds_prior(self):
    """Whether kicks add the prior."""
    return self._prior == 'added'

  @property
  def num_stages(self):
    """The gradients of a step."""
    return len(self._inner_stages)

  def end_kicks(self, step_sizes):
    """The first and the last kick of a step, a list like `step_sizes`."""
    return _times(self._end_kick, step_sizes)

  def value_and_gradients(self, log_prob_fn, state_parts):
    """Evaluates `log_prob_fn(*state_parts)` and its gradients; those of a `SharedDensity` if it is.

    Returns:
      log_prob: `[*chains]`.
      grads: List of the gradients of the parts that move. These are all, unless moves solve the
        prior: then parts at the end that log_prob does not depend on have nothing to be moved by.
    """
    if _is_shared(log_prob_fn):
      return log_prob_fn.differentiated(self._value_and_gradients, state_parts)
    return self._value_and_gradients(log_prob_fn, state_parts)

  def _value_and_gradients(self, log_prob_fn, state_parts):
    log_prob, grads = tfp.math.value_and_gradient(log_prob_fn, state_parts)
    grads = list(grads)
    if self._prior == 'solved':
      while grads and grads[-1] is None:
        grads.pop()
    elif self.adds_prior and any(grad is not None for grad in grads):
      pairs = zip(grads, state_parts, strict=True)
      grads = [tf.zeros_like(part) if grad is None else grad for grad, part in pairs]
    missing = [i for i, grad in enumerate(grads) if grad is None]
    if missing or not grads:
      raise errors.InputError(
        'The log-density must depend on every state part by differentiable operations; parts that '
        'a likelihood does not depend on must come last. Received: a function without gradient for '
        f'part {missing[0] if missing else 0} of {len(state_parts)}, of shape '
        f'{tuple(state_parts[missing[0] if missing else 0].shape)}'
      )
    return log_prob, grads

  def forces(self, grads, state):
    """What kicks the momentum in a state, by the gradients of log_prob there."""
    return forces(grads, state if self.adds_prior else [])

  def __call__(
    self,
    log_prob_fn,
    state_parts,
    momentum_parts,
    log_prob,
    grads,
    step_sizes,
    dampings,
    num_integrator_steps,
    seed,
    others=(),
  ):
    """Refreshes the momentum and integrates.

    Args:
      log_prob_fn: Callable, takes the state parts, and then `others`; returns `[*chains]`.
      state_parts: List of tensors `[*chains, *event]`.
      momentum_parts: Likewise, before refreshment.
      log_prob: `log_prob_fn(*state_parts)`.
      grads: Its gradients.
      step_sizes: List of tensors that broadcast with the state parts.
      dampings: List of tensors that broadcast with the state parts, in [0, 1].
      num_integrator_steps: Number of steps, of `num_stages` evaluations of the gradient each.
      seed: A seed of TFP.
      others: List of parts that the log-density takes and does not depend on.

    Returns:
      A `Trajectory`.
    """
    sources = random.sources_like(state_parts, seed)
    end_kicks = self.end_kicks(step_sizes)
    moves = _times(self._first_move, step_sizes)
    kicked, state, momentum = self.start(
      sources, momentum_parts, dampings, grads, state_parts, end_kicks, moves
    )
    momentum = momentum or kicked
    is_single = self.num_stages == 1 and tf.get_static_value(num_integrator_steps) == 1

    def evaluate(*state):
      return self.value_and_gradients(log_prob_fn, [*state, *others])

    is_traced = _is_shared(log_prob_fn)
    if not is_single and not is_traced and not tf.executing_eagerly():
      evaluate = tf.function(evaluate, autograph=False)  # traced once, for before and in the loop
    new_log_prob, new_grads = evaluate(*state)
    work = tf.zeros_like(log_prob)

    def step(i, state, momentum, _, new_grads, work):
      kicks, moves = self._inner_sizes(i, step_sizes)
      state, momentum, works = self.proceed(state, momentum, new_grads, kicks, moves, log_prob)
      new_log_prob, new_grads = evaluate(*state)
      return i + 1, state, momentum, new_log_prob, new_grads, _add(works, work)

    if not is_single:
      _, state, momentum, new_log_prob, new_grads, work = tf.while_loop(
        lambda i, *_: i < self.num_stages * num_integrator_steps,
        step,
        (tf.constant(1), state, momentum, new_log_prob, new_grads, work),
      )
    other = [] if momentum is kicked else kicked
    momentum, works = self.finish(
      momentum, new_grads, state, other, grads, state_parts, end_kicks, log_prob
    )
    log_accept_ratio = new_log_prob - log_prob - _add(works, work)
    return Trajectory(state, momentum, new_log_prob, new_grads, log_accept_ratio, kicked)

  def _inner_sizes(self, i, step_sizes):
    """Kick and move after the gradient of number `i` of a trajectory, lists like `step_sizes`."""
    if self.num_stages == 1:  # known when a graph is made
      [fractions] = self._inner_stages
    else:
      table = tf.constant(self._inner_stages, step_sizes[0].dtype)
      fractions = tf.unstack(tf.gather(table, i % self.num_stages))
    return [_times(fraction, step_sizes) for fraction in fractions]


def _is_shared(log_prob_fn):
  return hasattr(log_prob_fn, 'differentiated')


def _kick(momentum, forces, kicks):
  return [m + kick * f for m, f, kick in zip(momentum, forces, kicks, strict=True)]


def _times(fraction, step_sizes):
  return [fraction * eps for eps in step_sizes]


def _add(works, total):
  """Adds a list of `[*chains, ...]`, summed, to `total`, which is `[*chains]`."""
  return parts_lib.add_up([total, *(parts_lib.sum_events(w, total.shape.rank) for w in works)])


leapfrog = Integrator(drift, keeps_momentum=True)
leapfrog_with_prior = Integrator(drift, keeps_momentum=True, prior='added')
# By the number of stages.
rotations = {
  len(stages): Integrator(rotate, keeps_momentum=False, prior='solved', stages=stages)
  for stages in (ONE_STAGE, THREE_STAGES)
}
