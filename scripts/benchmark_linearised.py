"""Errors of the linearised map on small networks: folds, inverses, approximate log-determinants.

For draws of phi from N(0, I), and random data: the share with a negative determinant, the share
that `inverse(forward(phi))` brings back, the median of the largest eigenvalue of H, and, over draws
with a positive determinant, by how much each approximation of the log-determinant is off. That is a
standard deviation: a constant does not matter to a chain. Approximations are none at all,
`n k log(lam) - log det(G)` alone, the paper's `log|det(I + H)|` added to it, with a dense H, and
the same by a Taylor series. Prints a table and, with --json, writes the figures to a file.
"""

import numpy as np
import tensorflow as tf
from absl import app, flags

import tfp_reprior as tfr
from tfp_reprior.benchmarks import results, timing
from tfp_reprior.experimental import steps, tangent_kernel

_WIDTHS = flags.DEFINE_list('widths', ['8', '32', '64'], 'Widths of the hidden layer.')
_REGULARIZERS = flags.DEFINE_list('regularizers', ['0.01', '0.1', '1', '10'], 'Values of lambda.')
_NUM_DATA = flags.DEFINE_integer('num_data', 5, 'Number of data.', 1)
_NUM_DRAWS = flags.DEFINE_integer('num_draws', 50, 'Draws of phi.', 2)
_ORDER = flags.DEFINE_integer('order', 4, 'Terms of the Taylor series.', 1)
_NUM_PROBES = flags.DEFINE_integer('num_probes', 8, 'Probes of the Taylor series.', 1)
_JSON = flags.DEFINE_string('json', None, 'File to write the figures to.')


def make_measure(posterior):
  """A function of lambda that returns all figures of each draw, `[num_draws]`."""
  split = posterior.split
  phi = split.sample_prior(_NUM_DRAWS.value, seed=1)
  kernel = tangent_kernel.TangentKernel(split)
  series = tfr.experimental.TaylorSeries(_ORDER.value, _NUM_PROBES.value)

  @tf.function(autograph=False)
  def measure(lam):
    linearized = tfr.experimental.LinearizedReprior(posterior, lam)
    taylor = tfr.experimental.LinearizedReprior(posterior, lam, log_det=series)
    step_fn = steps.LevenbergMarquardt(split, posterior.x, posterior.y, lam, kernel)
    step = step_fn(phi)
    h = steps.hessian(
      lambda parts: step_fn.potential(parts, step.coefficients), phi, split.event_ndims
    )
    sign, exact = tf.linalg.slogdet(step_fn.jacobian(phi))
    _, of_hessian = tf.linalg.slogdet(tf.eye(h.shape[-1], dtype=h.dtype) + h)
    back = linearized.inverse(step.end)
    error = tf.reduce_max(tf.abs(back[0] - phi[0]), axis=[-2, -1])  # of the first kernel
    return {
      'sign': sign,
      'exact': exact,
      'none': tf.zeros_like(exact),
      'G': step.gram_log_det,
      'G and H': step.gram_log_det + of_hessian,
      'Taylor': taylor.forward_log_det_jacobian(phi),
      'norm of H': tf.reduce_max(tf.abs(tf.linalg.eigvalsh(h)), axis=-1),
      'is back': tf.cast(error < 1e-5, exact.dtype),
    }

  return measure


def rows():
  """Yields the figures, row by row."""
  rng = np.random.default_rng(0)
  x = rng.normal(size=(_NUM_DATA.value, 2))
  y = rng.normal(size=(_NUM_DATA.value, 1))
  for width in map(int, _WIDTHS.value):
    model = tfr.models.fcn((2,), 1, width, depth=1, dtype='float64')
    measure = make_measure(tfr.Posterior(model, x, y, noise_scale=0.1))
    for regularizer in map(float, _REGULARIZERS.value):
      figures = {k: v.numpy() for k, v in measure(tf.constant(regularizer, tf.float64)).items()}
      kept = figures['sign'] > 0
      off = {name: figures['exact'] - figures[name] for name in ('none', 'G', 'G and H', 'Taylor')}
      yield {
        'width': width,
        'lambda': regularizer,
        'negative': float(np.mean(~kept)),
        'inverted': float(np.mean(figures['is back'])),
        'norm of H': float(np.median(figures['norm of H'])),
        **{f'{name}, off': float(np.std(off[name][kept])) for name in off},
      }


def main(argv):
  if len(argv) > 1:
    raise app.UsageError(f'Unknown arguments: {argv[1:]}')
  timing.report(rows(), _JSON.value, results.provenance())


if __name__ == '__main__':
  app.run(main)
