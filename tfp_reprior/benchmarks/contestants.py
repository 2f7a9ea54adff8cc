"""What the command line's benchmark times: gradients of densities, and a step of a sampler."""

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

import tfp_reprior as tfr
from tfp_reprior.internal import checks

NUM_INPUTS, NUM_OUTPUTS = 3072, 10  # those of CIFAR-10
REFERENCE = 'standard: value and gradient'


def make_posterior(width, num_data, likelihood='gaussian'):
  """The `Posterior` of a fully connected network with three hidden layers, given random data.

  Args:
    width: Of the hidden layers.
    num_data: Number of data.
    likelihood: `'gaussian'`, `'categorical'` or `'bernoulli'`.
  """
  checks.one_of('likelihood', likelihood, ('gaussian', 'categorical', 'bernoulli'))
  checks.fits_memory(f'num_data={num_data}', 12 * num_data * NUM_INPUTS)
  rng = np.random.default_rng(0)
  x = rng.normal(size=(num_data, NUM_INPUTS)).astype(np.float32)
  shape = (num_data, NUM_OUTPUTS)
  likelihood, y = {
    'gaussian': (tfr.likelihoods.Gaussian(0.1), rng.normal(size=shape)),
    'categorical': (tfr.likelihoods.Categorical(), rng.integers(NUM_OUTPUTS, size=num_data)),
    'bernoulli': (tfr.likelihoods.Bernoulli(), rng.integers(2, size=shape)),
  }[likelihood]
  model = tfr.models.fcn((NUM_INPUTS,), NUM_OUTPUTS, width)
  return tfr.Posterior(model, x, y, likelihood=likelihood)


def gradients_and_step(posterior, num_chains):
  """What to time, for `tfp_reprior.benchmarks.timing.alternate`.

  Args:
    posterior: A `Posterior`.
    num_chains: Positive integer.

  Returns:
    Dict of functions without arguments: value and gradient of the standard density, which is
    `REFERENCE`, and of the repriorised one, and a step of the default sampler; of all chains.
  """
  num_bytes = 8 * num_chains * posterior.split.num_parameters
  checks.fits_memory(f'num_chains={num_chains}', num_bytes)
  phi = posterior.sample_prior(num_chains, seed=1)
  targets = {'standard': posterior}
  if posterior.likelihood.is_conjugate:
    targets['collapsed'] = tfr.CollapsedPosterior(posterior)
  else:
    targets['composed'] = tfr.ComposedPosterior(posterior)
  functions = {
    f'{name}: value and gradient': tfr.compilation.function(
      lambda *parts, fn=target.target_log_prob_fn: tfp.math.value_and_gradient(fn, parts)
    )
    for name, target in targets.items()
  }
  sampler = tfr.make_sampler(posterior)
  kernel = sampler.kernel_fn(0.1, 0.1)
  state = sampler.start_fn(num_chains, seed=1)  # not phi, if layers are in data space
  results = kernel.bootstrap_results(state)
  step = tfr.compilation.function(lambda *state: kernel.one_step(*state, seed=tf.constant([1, 2])))
  return {
    **{name: (lambda fn=fn: fn(*phi)) for name, fn in functions.items()},
    f'{sampler.name}: step': lambda: step(state, results),
  }
