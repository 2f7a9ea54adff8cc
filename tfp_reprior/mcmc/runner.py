"""Runs chains in compiled pieces, and keeps a trace instead of states."""

import numpy as np
import tensorflow as tf

from tfp_reprior import compilation
from tfp_reprior.internal import random

_STEPS_PER_CALL = 50


def run_chains(kernel, state, trace_fn, num_draws, thinning, seed, on_progress=None):
  """Runs chains and traces one state in `thinning`.

  Unlike `tfp.mcmc.sample_chain`, memory does not grow with what the kernel carries, the loop is
  in Python around pieces of fixed length, so that progress can be shown, and draws are the same
  compiled or not.

  Args:
    kernel: A `tfp.mcmc.TransitionKernel`.
    state: List of tensors `[*chains, *event]`.
    trace_fn: Function of a state and the results of the kernel; returns a dict of tensors.
    num_draws: Positive integer, the number of states that are traced.
    thinning: Positive integer, steps for each of them.
    seed: A seed of TFP.
    on_progress: Function that is called with a number of steps, after these were taken.

  Returns:
    Dict of arrays `[num_draws, ...]`: what `trace_fn` returns, and, if the kernel reports
    `log_accept_ratio`, `'acceptance'`, the mean of `min(1, exp(log_accept_ratio))` over the steps
    since the last draw, `[num_draws, *chains]`.
  """
  [seed] = random.split_seed(seed, n=1)
  results = kernel.bootstrap_results(state)
  reports_acceptance = hasattr(results, 'log_accept_ratio')

  def traced(state, results, acceptance):
    trace = dict(trace_fn(state, results))
    if reports_acceptance:
      trace['acceptance'] = acceptance
    return trace

  def draw(first, i, state, results):
    zeros = tf.zeros_like(results.log_accept_ratio) if reports_acceptance else 0.0

    def step(j, state, results, acceptance):
      number = (first + i) * thinning + j
      step_seed = tf.random.fold_in(seed, number, alg='philox')
      state, results = kernel.one_step(state, results, seed=step_seed)
      if reports_acceptance:
        acceptance += tf.exp(tf.minimum(results.log_accept_ratio, 0.0)) / thinning
      return j + 1, state, results, acceptance

    _, state, results, acceptance = tf.while_loop(
      lambda j, *_: j < thinning, step, (tf.constant(0), state, results, zeros)
    )
    return state, results, traced(state, results, acceptance)

  @compilation.function
  def run(state, results, first, num_draws_now):
    state, results, trace = draw(first, 0, state, results)
    arrays = {
      name: tf.TensorArray(v.dtype, draws_per_call, element_shape=v.shape).write(0, v)
      for name, v in trace.items()
    }

    def add(i, state, results, arrays):
      state, results, trace = draw(first, i, state, results)
      return i + 1, state, results, {name: arrays[name].write(i, v) for name, v in trace.items()}

    _, state, results, arrays = tf.while_loop(
      lambda i, *_: i < num_draws_now, add, (tf.constant(1), state, results, arrays)
    )
    return state, results, {name: a.stack() for name, a in arrays.items()}

  draws_per_call = min(num_draws, max(1, _STEPS_PER_CALL // thinning))
  traces = []
  for first in range(0, num_draws, draws_per_call):
    now = min(draws_per_call, num_draws - first)
    state, results, trace = run(state, results, tf.constant(first), tf.constant(now))
    traces.append({name: v.numpy()[:now] for name, v in trace.items()})
    if on_progress is not None:
      on_progress(now * thinning)
  return {name: np.concatenate([t[name] for t in traces]) for name in traces[0]}
