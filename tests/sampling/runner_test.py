"""The runner: the same draws in pieces of any length, and those of a plain loop."""

import math

import numpy as np
import pytest
import tensorflow as tf

import tfp_reprior as tfr
from tfp_reprior.internal import random
from tfp_reprior.sampling import runner

pytestmark = pytest.mark.optimized  # whose rewriting may round draws before a loop differently

THINNING = 3
SEED = 7


def _log_prob(x, z):
  return -tf.reduce_sum(tf.cosh(x), axis=-1) - 0.5 * z**2 * (1 + tf.reduce_sum(x**2, axis=-1))


def _start():
  return [tf.constant([[0.1, -0.5], [0.3, 1.0]], tf.float64), tf.constant([0.2, -1.0], tf.float64)]


def _observe(state, results, summary, seed):
  del seed  # nothing random is observed
  count, total = summary
  trace = {'x': state[0], 'log_prob': results.target_log_prob}
  return trace, (count + 1, total + state[0])


@pytest.fixture(scope='module')
def kernel():
  return tfr.mcmc.UnderdampedLangevin(_log_prob, step_size=0.7, damping=0.3)


@pytest.fixture(scope='module')
def started(kernel):
  """A runner, and the carry that it starts from."""
  summary = (tf.constant(0), tf.zeros([2, 2], tf.float64))
  started = runner.Runner(kernel, _observe, THINNING, SEED)
  return started, started.start(_start(), summary)


def _advance(started, lengths):
  made, carry = started
  traces, done = [], 0
  for length in lengths:
    carry, trace = made.advance(carry, done, length)
    traces.append(trace)
    done += length
  return carry, {name: np.concatenate([t[name] for t in traces]) for name in traces[0]}


@pytest.fixture(scope='module')
def loop(kernel):
  """Twelve draws by a plain loop over `one_step`: states, log-densities, acceptances by step."""
  seed, _ = random.split_seed(SEED, n=2)  # the other one is for observations
  state = _start()
  results = kernel.bootstrap_results(state)
  step = tf.function(kernel.one_step, autograph=False)
  states, log_probs, acceptance = [], [], []
  for i in range(12 * THINNING):
    state, results = step(state, results, seed=tf.random.fold_in(seed, i, alg='philox'))
    states.append(state[0].numpy())
    log_probs.append(results.target_log_prob.numpy())
    acceptance.append([min(1.0, math.exp(ratio)) for ratio in results.log_accept_ratio.numpy()])
  return np.array(states), np.array(log_probs), np.array(acceptance)


def test_draws_are_those_of_a_plain_loop(started, loop):
  carry, trace = _advance(started, [12])
  states, log_probs, _ = loop
  np.testing.assert_allclose(trace['x'], states[THINNING - 1 :: THINNING], rtol=1e-12)
  np.testing.assert_allclose(trace['log_prob'], log_probs[THINNING - 1 :: THINNING], rtol=1e-12)
  np.testing.assert_array_equal(carry.state[0], trace['x'][-1])


def test_acceptance_is_the_mean_over_the_steps_of_a_draw(started, loop):
  _, trace = _advance(started, [12])
  expected = loop[2].reshape(12, THINNING, 2).mean(axis=1)
  np.testing.assert_allclose(trace['acceptance'], expected, rtol=1e-12)
  assert np.any(expected < 1), 'all accepted would show nothing'


@pytest.mark.parametrize('lengths', [[1] * 12, [5, 7], [1, 2, 4, 5], [11, 1]])
def test_draws_are_the_same_bit_for_bit_in_pieces_of_any_length(started, lengths):
  whole_carry, whole = _advance(started, [12])
  carry, trace = _advance(started, lengths)
  for name in whole:
    np.testing.assert_array_equal(trace[name], whole[name])
  for a, b in zip(tf.nest.flatten(carry), tf.nest.flatten(whole_carry), strict=True):
    np.testing.assert_array_equal(a, b)


def test_draws_are_the_same_bit_for_bit_if_they_are_stopped_between(started):
  whole_carry, whole = _advance(started, [12])
  made, carry = started
  traces, steps = [], 0
  for length in (1, 1, 2, 5, 1, 2, 7, 2, 15):  # of 36, and draws have three
    carry, trace = made.advance_steps(carry, *divmod(steps, THINNING), length)
    assert len(trace['x']) == (steps + length) // THINNING - steps // THINNING
    traces.append(trace)
    steps += length
  for name in whole:
    np.testing.assert_array_equal(np.concatenate([t[name] for t in traces]), whole[name])
  for a, b in zip(tf.nest.flatten(carry), tf.nest.flatten(whole_carry), strict=True):
    np.testing.assert_array_equal(a, b)


def test_the_summary_counts_every_draw_once(started):
  carry, trace = _advance(started, [1, 3, 8])
  count, total = carry.summary
  assert count == 12
  np.testing.assert_allclose(total, trace['x'].sum(axis=0), rtol=1e-12)


def test_other_seeds_give_other_draws(kernel, started):
  _, trace = _advance(started, [2])
  summary = (tf.constant(0), tf.zeros([2, 2], tf.float64))
  other = runner.Runner(kernel, _observe, THINNING, seed=SEED + 1)
  _, other_trace = _advance((other, other.start(_start(), summary)), [2])
  assert np.all(trace['x'] != other_trace['x'])


def test_a_trace_holds_no_more_than_its_draws(started):
  made, carry = started
  _, trace = made.advance(carry, 0, 2)
  assert made.draws_per_call > 2
  for values in trace.values():
    owner = values if values.base is None else values.base
    assert np.asarray(owner).nbytes == values.nbytes


@pytest.mark.parametrize('thinning, expected', [(1, 50), (7, 7), (50, 1), (1000, 1)])
def test_a_call_has_a_bounded_number_of_steps(kernel, thinning, expected):
  assert runner.Runner(kernel, _observe, thinning, seed=0).draws_per_call == expected


def test_proposals_of_unknown_energy_count_as_rejected():
  # Undefined below zero: chains that step there stay where they are.
  kernel = tfr.mcmc.PreconditionedCrankNicolson(lambda x: tf.math.log(x), step_size=1.5)
  start = tf.constant([0.5, 1.0, 0.1, 2.0])
  trace, _ = runner.run_chains(kernel, start, lambda x, _: {'x': x}, 20, thinning=1, seed=1)
  stayed = np.diff(trace['x'], axis=0, prepend=start.numpy()[np.newaxis]) == 0
  assert np.all(trace['x'] > 0)
  assert np.all(np.isfinite(trace['acceptance']))
  assert np.any(trace['acceptance'] == 0)
  assert np.all(stayed[trace['acceptance'] == 0])


def test_run_chains_goes_from_beginning_to_end(kernel, loop):
  steps, lengths = [], []

  def on_progress(num_steps, length):
    steps.append(num_steps)
    lengths.append(length)
    return length

  trace, state = runner.run_chains(
    kernel, _start(), lambda state, _: {'x': state[0]}, 40, THINNING, SEED, on_progress
  )
  np.testing.assert_allclose(trace['x'][:12], loop[0][THINNING - 1 :: THINNING], rtol=1e-12)
  assert trace['x'].shape == (40, 2, 2)
  assert sum(steps) == 40 * THINNING and steps[0] == THINNING
  assert [n / THINNING for n in steps[1:-1]] == lengths[:-2], 'what it asks for'
  np.testing.assert_array_equal(state[0], trace['x'][-1])


def test_run_chains_stops_when_told(kernel):
  trace, _ = runner.run_chains(
    kernel, _start(), lambda state, _: {'x': state[0]}, 40, THINNING, SEED, lambda *_: 0
  )
  assert len(trace['x']) == 1


@pytest.mark.parametrize(
  ('length', 'num_draws', 'seconds', 'expected'),
  [
    (1, 1, 0.01, 2),  # grows
    (4, 4, 0.5, 8),
    (4, 4, 100.0, 1),  # a slow model
    (8, 2, 0.5, 5),
    (16, 16, 0.1, 50 // THINNING),  # as much as fits the trace
  ],
)
def test_the_next_piece_takes_a_second_at_most(kernel, length, num_draws, seconds, expected):
  made = runner.Runner(kernel, _observe, THINNING, seed=0)
  assert made.next_length(length, num_draws, seconds) == expected
