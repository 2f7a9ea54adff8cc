"""Times value and gradient of the density: standard, composed, collapsed, and others.

All contestants run in turn in one process on the same network (3072 inputs, as CIFAR-10, 10
outputs, three hidden layers) and the same data, which are random: time does not depend on them, but
for maps on every layer, which follow as many directions as the data have (--data_dir).
Prints a table and, with --json, writes the figures to a file.
"""

from unittest import mock

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp
from absl import app, flags

import tfp_reprior as tfr
from tfp_reprior.benchmarks import results, timing
from tfp_reprior.internal import linalg

_WIDTHS = flags.DEFINE_list('widths', ['64', '256', '512', '1024'], 'Widths of the network.')
_NUMS_DATA = flags.DEFINE_list('nums_data', ['64', '256', '1024'], 'Numbers of data.')
_NUMS_CHAINS = flags.DEFINE_list('nums_chains', ['1', '4'], 'Numbers of chains; 1 has no axis.')
_NUM_ROUNDS = flags.DEFINE_integer('num_rounds', 15, 'Rounds of which the median is taken.', 1)
_CONTESTANTS = flags.DEFINE_list(
  'contestants',
  ['standard', 'autodiff', 'composed', 'collapsed', 'data space'],
  'Which to time; data space is the collapsed density with hidden layers there, if they qualify, '
  'plain gradient the same with the gradient of its factors by TensorFlow, every layer the same '
  'with a map on each.',
)
_DATA_DIR = flags.DEFINE_string('data_dir', None, 'Of TFDS, for cifar10 in place of random data.')
_JSON = flags.DEFINE_string('json', None, 'File to write the figures to.')


_RATIOS = (
  ('collapsed', 'standard'),
  ('autodiff', 'collapsed'),
  ('data space', 'collapsed'),
  ('data space', 'plain gradient'),
  ('every layer', 'collapsed'),
  ('every layer', 'data space'),
)


def contestants(posterior, num_chains):
  """The ways to a value and a gradient, as functions without arguments."""
  phi = posterior.sample_prior(() if num_chains == 1 else num_chains, seed=1)
  reprior = posterior.reprior()

  def autodiff_fn(*parts):  # as `tfp.mcmc.TransformedTransitionKernel` computes it
    value = posterior.target_log_prob_fn(*reprior.forward(list(parts)))
    return value + reprior.forward_log_det_jacobian(list(parts))

  def plain_gradient_fn(*parts):  # back-propagation through the factors of layers
    with mock.patch.object(linalg, 'root_matmul', plain_root_matmul):
      return data_space.target_log_prob_fn(*parts)

  in_data_space = posterior.in_space('auto')
  u = in_data_space.sample_prior(() if num_chains == 1 else num_chains, seed=1)
  data_space = tfr.CollapsedPosterior(in_data_space)
  targets = {
    'standard': (posterior.target_log_prob_fn, phi),
    'autodiff': (autodiff_fn, phi),
    'composed': (tfr.ComposedPosterior(posterior).target_log_prob_fn, phi),
    'collapsed': (tfr.CollapsedPosterior(posterior).target_log_prob_fn, phi),
    'data space': (data_space.target_log_prob_fn, u),
    'plain gradient': (plain_gradient_fn, u),
  }
  if 'every layer' in _CONTESTANTS.value:
    density = tfr.LayerwisePosterior(in_data_space, u)
    targets['every layer'] = (density.target_log_prob_fn, u)

  def evaluation(target, parts):
    function = tfr.compilation.function(lambda *p: tfp.math.value_and_gradient(target, p))
    return lambda: function(*parts)

  return {name: evaluation(*targets[name]) for name in _CONTESTANTS.value}


def plain_root_matmul(a, u):
  return tf.matmul(tf.linalg.cholesky(tf.matmul(a, a, transpose_b=True)), u)


def gflop(posterior, num_chains):
  """Of the network alone: forward, gradient of weights, and of all inputs but the first."""
  n = posterior.x.shape[0]
  products = [s for s in posterior.split.event_shapes if len(s) == 2]
  total = sum(6 * n * a * b for a, b in products) - 2 * n * products[0][0] * products[0][1]
  return 1e-9 * total * num_chains


def load(num_data):
  """Inputs and targets."""
  if _DATA_DIR.value is not None:
    data = tfr.data.load('cifar10', num_data, 1, 1, _DATA_DIR.value)
    return data.x_train, data.y_train
  rng = np.random.default_rng(0)
  return [rng.normal(size=(num_data, size)).astype(np.float32) for size in (3072, 10)]


def rows():
  """Yields the figures, row by row."""
  for width in map(int, _WIDTHS.value):
    for num_data in map(int, _NUMS_DATA.value):
      x, y = load(num_data)
      posterior = tfr.Posterior(tfr.models.fcn(x.shape[1:], 10, width), x, y, noise_scale=0.1)
      for num_chains in map(int, _NUMS_CHAINS.value):
        seconds = timing.alternate(contestants(posterior, num_chains), _NUM_ROUNDS.value)
        work = gflop(posterior, num_chains)
        yield {
          'width': width,
          'n': num_data,
          'chains': num_chains,
          **{f'{name} ms': 1000 * s for name, s in seconds.items()},
          **{
            f'{a} / {b}': seconds[a] / seconds[b]
            for a, b in _RATIOS
            if a in seconds and b in seconds
          },
          **{
            f'{name} GFLOP/s': work / seconds[name]
            for name in ('standard', 'collapsed')
            if name in seconds
          },
        }


def main(argv):
  if len(argv) > 1:
    raise app.UsageError(f'Unknown arguments: {argv[1:]}')
  tfr.compilation.keep_freed_memory()
  timing.report(rows(), _JSON.value, timing.machine_facts() | results.provenance())


if __name__ == '__main__':
  app.run(main)
