"""What it costs to split the data over two devices: exchanges, bytes and time.

Two logical CPU devices share the cores of this machine, so that splitting can save no time here:
what it takes more than one device is the overhead of exchanges, of one more pass through the
network, and of what is computed on both. Counts the exchanges of a gradient in its graph, and the
bytes of each. The network has 3072 inputs, as CIFAR-10, 10 outputs and three hidden layers; data
are random. Prints a table and, with --json, writes the figures to a file.
"""

import math

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp
from absl import app, flags

import tfp_reprior as tfr
from tfp_reprior.benchmarks import results, timing

_WIDTHS = flags.DEFINE_list('widths', ['64', '256', '512'], 'Widths of the network.')
_NUMS_DATA = flags.DEFINE_list('nums_data', ['256', '1024', '4096'], 'Numbers of data.')
_NUM_ROUNDS = flags.DEFINE_integer('num_rounds', 15, 'Rounds of which the median is taken.', 1)
_JSON = flags.DEFINE_string('json', None, 'File to write the figures to.')


def make_evaluation(density, hidden):
  """The graph of a value and its gradient, for one chain."""

  def evaluate(*hidden):
    return tfp.math.value_and_gradient(density.log_likelihood_fn, hidden)

  return tf.function(evaluate, autograph=False).get_concrete_function(*hidden)


def exchanges(evaluation):
  """Bytes of each exchange of a graph, in order: a list for each device."""
  found = {}
  for op in evaluation.graph.get_operations():
    if op.type.startswith('CollectiveReduce'):
      [tensor] = op.outputs
      found.setdefault(op.device, []).append(tensor.shape.num_elements() * tensor.dtype.size)
  return found


def measure(width, num_data, strategy, num_rounds):
  """A row of the table."""
  rng = np.random.default_rng(0)
  x = rng.normal(size=(num_data, 3072)).astype(np.float32)
  y = rng.normal(size=(num_data, 10)).astype(np.float32)
  posterior = tfr.Posterior(tfr.models.fcn((3072,), 10, width), x, y, noise_scale=0.1)
  hidden = posterior.sample_prior(seed=1)[: posterior.split.num_hidden]
  densities = {
    'one device': tfr.CollapsedPosterior(posterior, space='feature'),
    'two devices': tfr.CollapsedPosterior(posterior, strategy=strategy),
  }
  evaluations = {name: make_evaluation(d, hidden) for name, d in densities.items()}
  by_device = exchanges(evaluations['two devices'])
  [num_exchanges] = {len(sizes) for sizes in by_device.values()}
  sums, gradients = next(iter(by_device.values()))
  contestants = {name: lambda e=e: e(*hidden) for name, e in evaluations.items()}
  seconds = timing.alternate(contestants, num_rounds)
  d, k = posterior.split.num_features, posterior.split.num_outputs
  return {
    'width': width,
    'n': num_data,
    'exchanges': num_exchanges,
    'first MB': 1e-6 * sums,
    'd^2 + d k MB': 4e-6 * (d * d + d * k),
    'second MB': 1e-6 * gradients,
    'hidden weights MB': 4e-6 * sum(math.prod(h.shape) for h in hidden),
    **{f'{name} ms': 1000 * s for name, s in seconds.items()},
    'two / one': seconds['two devices'] / seconds['one device'],
  }


def rows():
  """Yields the figures, row by row."""
  strategy = tf.distribute.MirroredStrategy(['CPU:0', 'CPU:1'])
  for width in map(int, _WIDTHS.value):
    for num_data in map(int, _NUMS_DATA.value):
      yield measure(width, num_data, strategy, _NUM_ROUNDS.value)


def main(argv):
  if len(argv) > 1:
    raise app.UsageError(f'Unknown arguments: {argv[1:]}')
  tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices('CPU')[0], [tf.config.LogicalDeviceConfiguration()] * 2
  )
  tfr.compilation.keep_freed_memory()
  timing.report(rows(), _JSON.value, timing.machine_facts() | results.provenance())


if __name__ == '__main__':
  app.run(main)
