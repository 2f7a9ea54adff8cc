"""Errors of float32 in density, gradient and acceptance, against float64 throughout.

For each number of readout features d, and each choice of space and dtype of the linear algebra:
the error of the collapsed log-likelihood, the relative error of its gradient, and the error of the
acceptance probability of one leapfrog step, for the same weights and proposals. Medians and maxima
over several draws of the weights from the prior, each with data simulated from it, of a fully
connected network with 3072 inputs and three hidden layers.
"""

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp
from absl import app, flags

import tfp_reprior as tfr
from tfp_reprior.internal import timing

_WIDTHS = flags.DEFINE_list('widths', ['64', '256', '1024'], 'Widths; d is one more.')
_NUM_DATA = flags.DEFINE_integer('num_data', 256, 'Number of data.', 1)
_NUM_DRAWS = flags.DEFINE_integer('num_draws', 5, 'Draws of the weights.', 1)
_STEP_SIZE = flags.DEFINE_float('step_size', 0.05, 'Of the leapfrog step.', 1e-9)

CHOICES = [(space, dtype) for space in ('feature', 'data') for dtype in (tf.float32, tf.float64)]


def simulate(split, seed):
  """Weights from the prior and data from the weights: so the weights are a posterior draw."""
  rng = np.random.default_rng(seed)
  x = rng.normal(size=(_NUM_DATA.value, 3072)).astype(np.float32)
  theta = split.sample_prior(seed=seed)
  noise = 0.1 * rng.normal(size=(_NUM_DATA.value, 10))
  return theta, x, (split.apply(theta, x) + noise).numpy()


def evaluate(width, dtype, draws, space, linalg_dtype):
  """Log-likelihood, its gradients and acceptance for each of the draws, as NumPy float64."""
  return [_evaluate(width, dtype, *draw, space, linalg_dtype) for draw in draws]


def _evaluate(width, dtype, phi, x, y, space, linalg_dtype):
  posterior = tfr.Posterior(tfr.models.fcn((3072,), 10, width, dtype=dtype), x, y)
  collapsed = tfr.CollapsedPosterior(posterior, linalg_dtype=linalg_dtype, space=space)
  num_hidden = posterior.split.num_hidden

  @tf.function(autograph=False)
  def run(*phi):
    value, grads = tfp.math.value_and_gradient(collapsed.log_likelihood_fn, phi[:num_hidden])
    kernel = tfr.mcmc.UnderdampedLangevin(collapsed.target_log_prob_fn, _STEP_SIZE.value, 0.0)
    results = kernel.bootstrap_results(list(phi))
    # The momentum is given, rounded to float32, so that proposals agree between dtypes.
    momentum = [
      tf.cast(tf.random.stateless_normal(p.shape, [3, i]), dtype) for i, p in enumerate(phi)
    ]
    results = results._replace(momentum=momentum, damping=tf.zeros_like(results.damping))
    _, results = kernel.one_step(list(phi), results, seed=[1, 2])
    return value, list(grads), tf.exp(tf.minimum(results.log_accept_ratio, 0.0))

  value, grads, acceptance = run(*[tf.cast(p, dtype) for p in phi])
  flat = np.concatenate([np.ravel(g).astype(np.float64) for g in grads])
  return float(value), flat, float(acceptance)


def rows():
  """Yields the figures, row by row."""
  for width in map(int, _WIDTHS.value):
    split = tfr.models.ReadoutSplit(tfr.models.fcn((3072,), 10, width))
    draws = [simulate(split, seed) for seed in range(_NUM_DRAWS.value)]
    exact = evaluate(width, 'float64', draws, 'auto', None)
    for space, linalg_dtype in CHOICES:
      rough = evaluate(width, 'float32', draws, space, linalg_dtype)
      errors = np.array(
        [
          (
            abs(v - v0),
            np.linalg.norm(g - g0) / np.linalg.norm(g0),
            abs(p - p0),
          )
          for (v, g, p), (v0, g0, p0) in zip(rough, exact, strict=True)
        ]
      )
      yield {
        'd': width + 1,
        'space': space,
        'linalg_dtype': linalg_dtype.name,
        'log-density, median': float(np.median(errors[:, 0])),
        'gradient, median': float(np.median(errors[:, 1])),
        'acceptance, median': float(np.median(errors[:, 2])),
        'acceptance, maximum': float(np.max(errors[:, 2])),
        'mean acceptance': float(np.mean([p for _, _, p in exact])),
      }


def main(argv):
  if len(argv) > 1:
    raise app.UsageError(f'Unknown arguments: {argv[1:]}')
  timing.report(rows())


if __name__ == '__main__':
  app.run(main)
