"""Times the ways to the empirical neural tangent kernel, of a dense and of a convolutional network.

All ways run in turn in one process on the same network (three hidden layers on 16 x 16 images) and
the same data, which are random: time does not depend on them. With --gradient, value and gradient
of the sum of the kernel's entries, as samplers need them. Prints a table and, with --json, writes
the figures to a file.
"""

import numpy as np
import tensorflow_probability as tfp
from absl import app, flags

import tfp_reprior as tfr
from tfp_reprior.benchmarks import results, timing
from tfp_reprior.experimental import tangent_kernel

_WIDTHS = flags.DEFINE_list('widths', ['64', '256'], 'Widths; channels are an eighth of it.')
_NUMS_DATA = flags.DEFINE_list('nums_data', ['16', '64'], 'Numbers of data.')
_NUM_OUTPUTS = flags.DEFINE_integer('num_outputs', 10, 'Outputs of the network.', 1)
_NUM_ROUNDS = flags.DEFINE_integer('num_rounds', 5, 'Rounds of which the median is taken.', 1)
_GRADIENT = flags.DEFINE_bool('gradient', False, 'Whether to time the gradient, too.')
_JSON = flags.DEFINE_string('json', None, 'File to write the figures to.')

_SHAPE = (16, 16, 1)
METHODS = ('structured', 'products', 'jacobian')


def contestants(split, x):
  """The ways that apply to the network, as functions without arguments."""
  parts = split.sample_prior(seed=1)
  is_structured = tangent_kernel.TangentKernel(split).method == 'structured'

  def evaluation(method):
    def kernel(*parts):
      return tfr.experimental.empirical_ntk(split, list(parts), x, method)

    def evaluate(*parts):
      return tfp.math.value_and_gradient(kernel, parts) if _GRADIENT.value else kernel(*parts)

    function = tfr.compilation.function(evaluate).get_concrete_function(*parts)
    return lambda: function(*parts)

  return {m: evaluation(m) for m in METHODS if is_structured or m != 'structured'}


def rows():
  """Yields the figures, row by row."""
  for width in map(int, _WIDTHS.value):
    models = {
      'fcn': tfr.models.fcn(_SHAPE, _NUM_OUTPUTS.value, width),
      'cnn': tfr.models.cnn(_SHAPE, _NUM_OUTPUTS.value, max(1, width // 8)),
    }
    for num_data in map(int, _NUMS_DATA.value):
      x = np.random.default_rng(0).normal(size=(num_data, *_SHAPE)).astype(np.float32)
      for name, model in models.items():
        split = tfr.models.ReadoutSplit(model)
        seconds = timing.alternate(contestants(split, x), _NUM_ROUNDS.value)
        yield {
          'network': name,
          'width': width,
          'n': num_data,
          'outputs': _NUM_OUTPUTS.value,
          **{f'{m} ms': 1000 * seconds[m] if m in seconds else '-' for m in METHODS},
        }


def main(argv):
  if len(argv) > 1:
    raise app.UsageError(f'Unknown arguments: {argv[1:]}')
  tfr.compilation.keep_freed_memory()
  timing.report(rows(), _JSON.value, timing.machine_facts() | results.provenance())


if __name__ == '__main__':
  app.run(main)
