"""Runs chains in compiled pieces, and keeps a trace instead of states."""

import time
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tfp_reprior import compilation
from tfp_reprior.internal import distribution, random

_STEPS_PER_CALL = 50
_SECONDS_PER_CALL = 1.0  # so that Ctrl-C is answered soon


class Carry(NamedTuple):
  """What goes on from draw to draw: tensors, or structures of tensors.

  Attributes:
    state: The state of the chains, a list of tensors `[*chains, *event]`.
    results: The results of the kernel.
    summary: What `observe_fn` makes of all draws.
    acceptance: The sum of acceptances, over `thinning`, since the last draw, `[*chains]`.
  """

  state: Any
  results: Any
  summary: Any = ()
  acceptance: Any = ()


def innermost(results):
  """The results of the kernel that others are wrapped around."""
  while hasattr(results, 'inner_results'):
    results = results.inner_results
  return results


class Runner:
  """Runs chains, tracing one state in `thinning`.

  Unlike `tfp.mcmc.sample_chain`, memory does not grow with what the kernel carries, the loop is
  in Python around pieces of bounded length, so that progress can be shown and saved, and draws are
  the same compiled or not, and in pieces of whatever length.

  Args:
    kernel: A `tfp.mcmc.TransitionKernel`.
    observe_fn: Function of a state, the results of the kernel, a summary and a seed; returns a dict
      of tensors to trace, and the summary with the state counted in.
    thinning: Positive integer, steps for each draw.
    seed: A seed of TFP.
    run_loop: As of `tfp_reprior.sampling.Sampler`; by default loops run here.
  """

  def __init__(self, kernel, observe_fn, thinning, seed, run_loop=None):
    self._kernel = kernel
    self._observe_fn = observe_fn
    self._thinning = thinning
    self._run_loop = run_loop or (lambda fn, *arguments: fn(*arguments))
    self._step_seed_fn, self._observe_seed_fn = map(random.fold_fn, random.split_seed(seed, n=2))
    self._run = self._bootstrap = None

  @property
  def thinning(self):
    """Steps for each draw."""
    return self._thinning

  @property
  def draws_per_call(self):
    """The most draws that one call of `advance` should make."""
    return max(1, _STEPS_PER_CALL // self._thinning)

  def next_length(self, length, num_made, seconds, most=None):
    """How many draws, or steps, to make in the next call: as many as take a second.

    Args:
      length: What this function returned for the last call; 1 at first.
      num_made: How many the last call made.
      seconds: How long it took; maybe with compilation, so lengths grow step by step.
      most: The most to make; by default `draws_per_call`.
    """
    fitting = 1 + int(num_made * _SECONDS_PER_CALL / max(seconds, 1e-9))
    return min(2 * length, self.draws_per_call if most is None else most, fitting)

  def start(self, state, summary=(), settings=None):
    """The `Carry` to begin with; for a `Jittered` kernel with its settings, if given."""
    if settings is None:
      bootstrap, arguments = self._kernel.bootstrap_results, (state,)
    else:
      bootstrap, arguments = self._kernel.bootstrap_with, (state, settings)
    if settings is not None or distribution.is_in_parts():
      # Once for many starts; and strategies are slow outside of functions.
      if self._bootstrap is None:
        self._bootstrap = tf.function(bootstrap, autograph=False)
      bootstrap = self._bootstrap
    results = bootstrap(*arguments)
    return Carry(state, results, summary, _no_acceptance(innermost(results)))

  def prepare(self, carry):
    """Traces what `advance` runs, once, so that it can be timed without."""
    if self._run is None:
      # A concrete function: TensorFlow complains of many functions that have one name.
      number = tf.constant(0)
      run = compilation.function(lambda *args: self._run_loop(self._run_steps, *args))
      self._run = run.get_concrete_function(carry, number, number, number)

  def advance(self, carry, first, num_draws):
    """Makes draws number `first` to `first + num_draws - 1`: see `advance_steps`."""
    return self.advance_steps(carry, first, 0, num_draws * self._thinning)

  def advance_steps(self, carry, first, num_taken, num_steps):
    """Takes steps, and makes the draws that they complete; the same ones in pieces of any length.

    Args:
      carry: A `Carry`.
      first: Integer, how many draws were made before.
      num_taken: Integer, steps that were taken since the last of them, fewer than `thinning`.
      num_steps: Positive integer. With `num_taken` at most `draws_per_call` draws.

    Returns:
      carry: The `Carry` to go on with.
      trace: Dict of arrays `[s, ...]`: what `observe_fn` traces, and, if the kernel reports
        `log_accept_ratio`, `'acceptance'`, the mean of `min(1, exp(log_accept_ratio))` over the
        steps since the last draw, `[s, *chains]`, where NaN counts as rejected.
    """
    self.prepare(carry)
    carry, trace = self._run(carry, *map(tf.constant, (first, num_taken, num_steps)))
    num_draws = (num_taken + num_steps) // self._thinning
    return carry, {name: v[:num_draws].numpy() for name, v in trace.items()}

  def _run_steps(self, carry, first, num_taken, num_steps):
    observe = tf.function(self._observe, autograph=False).get_concrete_function(carry, first)
    _, trace = observe.structured_outputs
    empty = {name: tf.zeros(v.shape, v.dtype) for name, v in trace.items()}
    arrays = {
      name: tf.TensorArray(v.dtype, self.draws_per_call + 1, element_shape=v.shape)
      for name, v in trace.items()
    }

    # All draws are made in the loop: TensorFlow may round one before it differently.
    def add(i, begin, left, carry, arrays):
      end = tf.minimum(begin + left, self._thinning)
      carry = self._steps(carry, first + i, begin, end)
      # At most once. Not `tf.cond`: in its branches TensorFlow loses inputs of loops over devices.
      is_made = tf.cast(end == self._thinning, tf.int32)
      _, carry, trace = tf.while_loop(
        lambda k, *_: k < is_made,
        lambda k, carry, _: (k + 1, *observe(carry, first + i)),
        (tf.constant(0), carry, empty),
      )
      arrays = {name: arrays[name].write(i, v) for name, v in trace.items()}
      return i + 1, tf.constant(0), left - (end - begin), carry, arrays

    *_, carry, arrays = tf.while_loop(
      lambda i, begin, left, *_: left > 0,
      add,
      (tf.constant(0), num_taken, num_steps, carry, arrays),
    )
    return carry, {name: a.stack() for name, a in arrays.items()}

  def _steps(self, carry, number, begin, end):
    """Steps `begin` to `end` of a draw."""
    has_acceptance = hasattr(innermost(carry.results), 'log_accept_ratio')

    def step(j, state, results, acceptance):
      seed = self._step_seed_fn(number * self._thinning + j)
      state, results = self._kernel.one_step(state, results, seed=seed)
      if has_acceptance:
        ratio = tf.exp(tf.minimum(innermost(results).log_accept_ratio, 0.0))
        ratio = tf.where(tf.math.is_nan(ratio), tf.zeros_like(ratio), ratio)
        acceptance += ratio / self._thinning
      return j + 1, state, results, acceptance

    _, state, results, acceptance = tf.while_loop(
      lambda j, *_: j < end, step, (begin, carry.state, carry.results, carry.acceptance)
    )
    return Carry(state, results, carry.summary, acceptance)

  def _observe(self, carry, number):
    """The trace of a draw that is made, and the carry to go on with."""
    seed = self._observe_seed_fn(number)
    trace, summary = self._observe_fn(carry.state, carry.results, carry.summary, seed)
    inner = innermost(carry.results)
    if hasattr(inner, 'log_accept_ratio'):
      trace = {**trace, 'acceptance': carry.acceptance}
    return carry._replace(summary=summary, acceptance=_no_acceptance(inner)), trace


def _no_acceptance(inner_results):
  if hasattr(inner_results, 'log_accept_ratio'):
    return tf.zeros_like(inner_results.log_accept_ratio)
  return tf.zeros([])


def run_chains(kernel, state, trace_fn, num_draws, thinning, seed, on_progress=None, run_loop=None):
  """Runs chains from beginning to end, and traces one state in `thinning`.

  Args:
    kernel: A `tfp.mcmc.TransitionKernel`.
    state: List of tensors `[*chains, *event]`.
    trace_fn: Function of a state and the results of the kernel; returns a dict of tensors.
    num_draws: Positive integer, the number of states that are traced.
    thinning: Positive integer, steps for each of them.
    seed: A seed of TFP.
    on_progress: Function that is called with a number of steps, after these were taken, and with
      the number of draws that would take a second. Returns how many to make before the next
      call, at most that many, the same for all workers; 0 ends the run.
    run_loop: As of `Runner`.

  Returns:
    trace: Dict of arrays `[num_draws, ...]`, or fewer, as those of `Runner.advance`.
    state: The last state, like `state`.
  """

  def observe(state, results, summary, seed):
    del seed
    return trace_fn(state, results), summary

  runner = Runner(kernel, observe, thinning, seed, run_loop)
  carry = runner.start(state)
  traces, first = [], 0
  length = runner.draws_per_call if on_progress is None else 1
  while first < num_draws and length > 0:
    num_now = min(length, num_draws - first)
    begin = time.monotonic()
    carry, trace = runner.advance(carry, first, num_now)
    traces.append(trace)
    first += num_now
    if on_progress is not None:
      length = runner.next_length(length, num_now, time.monotonic() - begin)
      length = on_progress(thinning * num_now, length)
  return {name: np.concatenate([t[name] for t in traces]) for name in traces[0]}, carry.state
