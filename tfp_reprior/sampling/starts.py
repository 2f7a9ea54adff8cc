"""Where chains start: at draws, where these climb to, or at the weights of a trained model."""

import contextlib
import math
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

from tfp_reprior import errors
from tfp_reprior.internal import parts as parts_lib
from tfp_reprior.internal import random
from tfp_reprior.sampling import runner, warmup

_PHASE = 'optimization'
STAGE = 'optimizing'  # in the table of warm-up
NAMES = ('auto', 'prior', 'optimized', 'model')
# By how much of an independent draw the weights of a model are varied: a turn by 0.1.
_TURN = 0.1
_STEP_SIZE = 0.03  # of the first steps of Adam, in standard deviations of the prior
_DECAYS = 0.9, 0.99
_SMALLEST = 1e-30  # squared gradient


def choose(name):
  """The start that a name of `NAMES` means: one of the other three."""
  return 'prior' if name == 'auto' else name  # docs/warmup.md has the figures


def states(name, sampler, num_chains, seed):
  """States of a sampler to start from, before any optimization."""
  if name != 'model':
    return sampler.start_fn(num_chains, seed)
  split = sampler.posterior.split
  weights = split.network.current_parts()
  if not all(np.all(np.isfinite(p)) for p in weights):
    raise errors.InputError(
      "`start='model'` needs a model with finite weights. Received: start='model' with "
      f'model={split.network.model.name!r}'
    )

  def turned(part, noise):  # which keeps the law N(0, 1), if the weights have it
    return math.cos(_TURN) * part + math.sin(_TURN) * noise

  noise = split.network.sample_prior(num_chains, seed)
  parts = [turned(p, e) for p, e in zip(weights, noise, strict=True)]
  return sampler.state_fn(split.from_weights(parts), random.split_seed(seed, n=2)[1])


class AscentResults(NamedTuple):
  """What `Ascent` carries from step to step.

  Attributes:
    log_likelihood: Log-density with respect to N(0, I), `[c]`.
    gradients: Its gradients, for the parts that move.
    means: Running means of these.
    squares: Running means of their squares, one number for each part, `[c]`.
    number: How many steps were taken.
  """

  log_likelihood: tf.Tensor
  gradients: Any
  means: Any
  squares: Any
  number: tf.Tensor


class Ascent(tfp.mcmc.TransitionKernel):
  """Adam on the log-likelihood of a sampler, each chain by itself, as a kernel that `Runner` runs.

  It climbs among states that are typical of the prior, not to a mode of the density, which is far
  from typical: every part of weights keeps its norm, and one second moment for a whole part leaves
  what the data do not see where it was drawn.

  Args:
    sampler: A `tfp_reprior.sampling.Sampler`.
    num_steps: Positive integer, all steps; step sizes fall to zero by half a cosine.
  """

  def __init__(self, sampler, num_steps):
    self._sampler, self._num_steps = sampler, num_steps
    self._ndims = sampler.posterior.split.event_ndims

  @property
  def parameters(self):
    return {'sampler': self._sampler, 'num_steps': self._num_steps}

  @property
  def is_calibrated(self):
    return False

  def bootstrap_results(self, init_state):
    """What the first step needs, for a state of the sampler."""
    moving = list(init_state[: self._sampler.num_moving_parts])
    value, gradients = self._value_and_gradients(moving)
    zeros = [tf.zeros_like(p) for p in moving]
    return AscentResults(
      value, gradients, zeros, [tf.zeros_like(value) for _ in moving], tf.constant(0)
    )

  def one_step(self, current_state, previous_kernel_results, seed=None):
    """A step uphill; nothing is random."""
    del seed
    found = previous_kernel_results
    state = list(current_state)
    first, second = _DECAYS
    number = tf.cast(found.number, found.log_likelihood.dtype)
    size = 0.5 * _STEP_SIZE * (1 + tf.cos(math.pi * number / self._num_steps))
    means, squares, moved = [], [], []
    for i, (part, gradient) in enumerate(zip(state, found.gradients, strict=False)):
      chain_ndims = part.shape.rank - self._ndims[i]
      axes = list(range(chain_ndims, part.shape.rank))
      means.append(first * found.means[i] + (1 - first) * gradient)
      squares.append(
        second * found.squares[i] + (1 - second) * tf.reduce_mean(gradient**2, axis=axes)
      )
      mean = means[i] / (1 - first ** (number + 1))
      square = tf.maximum(squares[i] / (1 - second ** (number + 1)), _SMALLEST)
      unit = self._sampler.units[i]
      rate = parts_lib.expand_chains(size / unit / tf.sqrt(square), part)
      new = part + rate * mean
      if unit == 1.0 and axes:
        squared = [tf.reduce_sum(p**2, axis=axes, keepdims=True) for p in (part, new)]
        new = new * tf.sqrt(squared[0] / squared[1])
      moved.append(new)
    value, gradients = self._value_and_gradients(moved)
    results = AscentResults(value, gradients, means, squares, found.number + 1)
    return moved + state[len(moved) :], results

  def _value_and_gradients(self, parts):
    value, gradients = tfp.math.value_and_gradient(self._sampler.log_likelihood_fn, parts)
    # Where the density leaves the range of numbers, a part stays for a step.
    return value, [tf.where(tf.math.is_finite(g), g, tf.zeros_like(g)) for g in gradients]


def climb(position, phases, sampler, budgets, seed):
  """Runs the phase that optimizes starts, or goes on with it.

  Args:
    position: The `Position` of the run, which is changed.
    phases: The `Phases`.
    sampler: A `tfp_reprior.sampling.Sampler`.
    budgets: Dict of the gradients of each chain by phase; 0 for no such phase.
    seed: A seed of TFP.
  """
  num_steps, num_done = budgets[_PHASE], position.num_done[_PHASE]
  if num_done >= num_steps:
    return

  def observe(state, results, summary, seed):
    del state, seed
    return {'log_likelihood': results.log_likelihood}, summary

  phase_runner = runner.Runner(Ascent(sampler, num_steps), observe, 1, seed, sampler.run_loop)
  position.begin(_PHASE, phase_runner.start, is_new=not num_done)
  bar = phases.progress_bar(_PHASE, num_steps, num_done)
  with phases.interruptible(position) as interrupt, contextlib.closing(bar):
    phases.run(_PHASE, phase_runner, num_steps, position, interrupt, bar, 1)
  if position.num_done[_PHASE] < num_steps:
    raise KeyboardInterrupt('Sampling was interrupted before the first draw.')


def with_ascent(found, trace):
  """A `Warmup` with a line for the optimization before it, if there is a trace of one."""
  if not trace:
    return found
  values = trace['log_likelihood']
  block = warmup.Block(
    STAGE,
    _STEP_SIZE,
    math.nan,
    1,
    1.0,
    len(values),
    [math.nan] * values.shape[1],
    float(np.mean(values[-1])),
  )
  return found._replace(
    num_gradients=found.num_gradients + len(values), blocks=[block, *found.blocks]
  )
