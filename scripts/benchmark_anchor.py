"""Acceptance against the distance from the anchor, of a map on every layer.

A run of warm-up finds a step size and a state. Then the anchor of each chain is turned away from
its state, by an angle between it and a draw of the prior: 0 is the state itself, pi / 2 a draw that
has nothing to do with it. From that same state, chains take transitions of one step. The last
column is what the readout map alone accepts with that step size.
"""

import math

import numpy as np
import tensorflow as tf
from absl import app, flags

import tfp_reprior as tfr
from tfp_reprior.benchmarks import results, timing
from tfp_reprior.sampling import runner

_WIDTHS = flags.DEFINE_list('widths', ['32'], 'Widths of the network.')
_NUMS_DATA = flags.DEFINE_list('nums_data', ['256'], 'Numbers of training data, digits.')
_ANGLES = flags.DEFINE_list('angles', ['0', '0.1', '0.2', '0.4', '0.8', '1.57'], 'In radians.')
_REGULARIZER = flags.DEFINE_float('regularizer', 3.0, 'Of hidden layers.', 0.0)
_NUM_CHAINS = flags.DEFINE_integer('num_chains', 4, 'Chains, side by side.', 1)
_NUM_WARMUP_STEPS = flags.DEFINE_integer('num_warmup_steps', 1000, 'Gradients of warm-up.', 100)
_NUM_TRANSITIONS = flags.DEFINE_integer('num_transitions', 40, 'Of each chain and angle.', 1)
_SEEDS = flags.DEFINE_list('seeds', ['1'], 'Seeds of everything random, the data among it.')
_JSON = flags.DEFINE_string('json', None, 'File to write the figures to, and to go on from.')


def measure(case):
  """Acceptance for each angle, and without maps of hidden layers."""
  seed = case['seed']
  data = tfr.data.load('digits', case['n'], 1, seed)
  model = tfr.models.fcn(data.x_train.shape[1:], data.y_train.shape[1], case['width'])
  posterior = tfr.Posterior(model, data.x_train, data.y_train, noise_scale=0.1)
  found = tfr.warm_up(
    posterior,
    layer_regularizer=_REGULARIZER.value,
    num_chains=_NUM_CHAINS.value,
    num_warmup_steps=_NUM_WARMUP_STEPS.value,
    seed=seed,
    progress=False,
  )
  sampler = tfr.make_sampler(posterior, layer_regularizer=_REGULARIZER.value)
  sampler.anchor.place(found.anchor)
  state, _ = sampler.unmap_fn([tf.constant(p) for p in found.state])  # without maps
  num_hidden = sampler.posterior.split.num_hidden
  others = sampler.posterior.sample_prior(_NUM_CHAINS.value, seed=seed + 1)
  run = acceptance_fn(sampler, found.step_size, seed)
  row = {'step size': found.step_size / sampler.num_stages}  # of a gradient
  for angle in map(float, _ANGLES.value):
    pairs = zip(state[:num_hidden], others[:num_hidden], strict=True)
    turned = [math.cos(angle) * p + math.sin(angle) * other for p, other in pairs]
    row[f'acceptance at {angle:g}'] = run(sampler.anchor.start(state, turned))
  plain = tfr.make_sampler(posterior, num_stages=sampler.num_stages)
  row['readout map'] = acceptance_fn(plain, found.step_size, seed)(state)
  return row


def acceptance_fn(sampler, step_size, seed):
  """A function of a state, which returns the mean acceptance of transitions from it."""
  kernel = sampler.kernel_fn(step_size, 1.0)

  def observe(state, results, summary, seed):
    del state, results, seed
    return {}, summary

  transitions = runner.Runner(kernel, observe, 1, seed)

  def run(state):
    carry, accepted, done = transitions.start(state), [], 0
    while done < _NUM_TRANSITIONS.value:
      num_now = min(transitions.draws_per_call, _NUM_TRANSITIONS.value - done)
      carry, trace = transitions.advance(carry, done, num_now)
      accepted.append(trace['acceptance'])
      done += num_now
    return float(np.mean(np.concatenate(accepted)))

  return run


def main(argv):
  if len(argv) > 1:
    raise app.UsageError(f'Unknown arguments: {argv[1:]}')
  settings = {'regularizer': _REGULARIZER.value, 'num_warmup_steps': _NUM_WARMUP_STEPS.value}
  cases = (
    {'width': int(width), 'n': int(n), 'seed': int(seed), 'settings': settings}
    for n in _NUMS_DATA.value
    for width in _WIDTHS.value
    for seed in _SEEDS.value
  )
  timing.report(results.measured(cases, measure, _JSON.value))


if __name__ == '__main__':
  app.run(main)
