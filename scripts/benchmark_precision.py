"""Errors of float32 in density, gradient and acceptance, against float64 throughout.

For each number of readout features d, and each choice of space and dtype of the linear algebra:
the error of the collapsed log-likelihood, the relative error of its gradient, and the error of the
acceptance probability of one step, leapfrog and rotation, for the same weights and proposals. The
step size is the largest power of two with a mean acceptance of 0.6. Medians and maxima over several
draws of the weights from the prior, each with data simulated from it, of a fully connected network
with 3072 inputs and three hidden layers; for acceptance over several momenta of each draw, too.
"""

import functools

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp
from absl import app, flags

import tfp_reprior as tfr
from tfp_reprior.benchmarks import results, timing
from tfp_reprior.internal import random

_WIDTHS = flags.DEFINE_list('widths', ['64', '256', '1024'], 'Widths; d is one more.')
_NUM_DATA = flags.DEFINE_integer('num_data', 256, 'Number of data.', 1)
_NUM_DRAWS = flags.DEFINE_integer('num_draws', 5, 'Draws of the weights.', 1)
_NUM_MOMENTA = flags.DEFINE_integer('num_momenta', 8, 'Proposals from each of them.', 1)
_JSON = flags.DEFINE_string('json', None, 'File to write the figures to.')

CHOICES = [(space, dtype) for space in ('feature', 'data') for dtype in (tf.float32, tf.float64)]
KERNELS = {
  'leapfrog': functools.partial(tfr.mcmc.UnderdampedLangevin, leaves_prior_out=True),
  'rotation': tfr.mcmc.RotationLangevin,
}


def simulate(split, seed):
  """Weights from the prior and data from the weights: so the weights are a posterior draw.

  Momenta come with them, in float32, so that proposals agree between dtypes.
  """
  rng = np.random.default_rng(seed)
  x = rng.normal(size=(_NUM_DATA.value, 3072)).astype(np.float32)
  theta = split.sample_prior(seed=seed)
  noise = 0.1 * rng.normal(size=(_NUM_DATA.value, 10))
  phi = theta[: split.num_hidden]
  shapes = [(_NUM_MOMENTA.value, *p.shape) for p in phi]
  momentum = random.normal_parts(shapes, tf.float32, seed + 1000)
  return phi, momentum, x, (split.apply(theta, x) + noise).numpy()


def evaluate(draw, width, dtype, space='auto', linalg_dtype=None):
  """Evaluates one draw in one choice of dtypes and space.

  Args:
    draw: As `simulate` returns it.
    width: Of the network.
    dtype: Of network and state.
    space: As of `CollapsedPosterior`.
    linalg_dtype: As of `CollapsedPosterior`.

  Returns:
    The log-likelihood, its gradient as a flat array, and a function of a key of `KERNELS` and a
    step size: acceptance probabilities, one for each momentum. All are float64.
  """
  *parts, x, y = draw
  phi, momentum = ([tf.cast(t, dtype) for t in tensors] for tensors in parts)
  posterior = tfr.Posterior(tfr.models.fcn((3072,), 10, width, dtype=dtype), x, y, noise_scale=0.1)
  collapsed = tfr.CollapsedPosterior(posterior, linalg_dtype=linalg_dtype, space=space)
  value, grads = tfp.math.value_and_gradient(collapsed.log_likelihood_fn, phi)
  state = [tf.zeros_like(m) + p for m, p in zip(momentum, phi, strict=True)]

  @tf.function(autograph=False)
  def log_accept_ratio(name, step_size):
    kernel = KERNELS[name](collapsed.log_likelihood_fn, step_size, 0.0)
    results = kernel.bootstrap_results(state)
    results = results._replace(momentum=momentum, damping=tf.zeros_like(results.damping))
    return kernel.one_step(state, results, seed=[1, 2])[1].log_accept_ratio

  def acceptance(name, step_size):
    ratio = log_accept_ratio(name, tf.constant(step_size, dtype)).numpy().astype(np.float64)
    return np.exp(np.minimum(ratio, 0.0))

  return float(value), np.concatenate([np.ravel(g).astype(np.float64) for g in grads]), acceptance


def longest_step(evaluations, name):
  """The largest power of two with a mean acceptance of 0.6; and all acceptances with it."""
  step_size = 1.0
  while True:
    acceptances = np.array([accept(name, step_size) for _, _, accept in evaluations])
    if np.mean(acceptances) >= 0.6:
      return step_size, acceptances
    step_size /= 2


def rows():
  """Yields the figures, row by row."""
  for width in map(int, _WIDTHS.value):
    split = tfr.models.ReadoutSplit(tfr.models.fcn((3072,), 10, width))
    draws = [simulate(split, seed) for seed in range(_NUM_DRAWS.value)]
    exact = [evaluate(draw, width, 'float64') for draw in draws]
    steps = {name: longest_step(exact, name) for name in KERNELS}
    for space, linalg_dtype in CHOICES:
      rough = [evaluate(draw, width, 'float32', space, linalg_dtype) for draw in draws]
      densities, gradients = [], []
      for (value, grad, _), (value0, grad0, _) in zip(rough, exact, strict=True):
        densities.append(abs(value - value0))
        gradients.append(np.linalg.norm(grad - grad0) / np.linalg.norm(grad0))
      row = {
        'd': width + 1,
        'space': space,
        'linalg_dtype': linalg_dtype.name,
        'log-density, median': float(np.median(densities)),
        'gradient, median': float(np.median(gradients)),
      }
      for name, (step_size, acceptances) in steps.items():
        errors = np.abs([accept(name, step_size) for _, _, accept in rough] - acceptances)
        row[f'{name}, step size'] = step_size
        row[f'{name}, acceptance'] = float(np.mean(acceptances))
        row[f'{name}, its error, median'] = float(np.median(errors))
        row[f'{name}, its error, maximum'] = float(np.max(errors))
      yield row


def main(argv):
  if len(argv) > 1:
    raise app.UsageError(f'Unknown arguments: {argv[1:]}')
  timing.report(rows(), _JSON.value, results.provenance())


if __name__ == '__main__':
  app.run(main)
