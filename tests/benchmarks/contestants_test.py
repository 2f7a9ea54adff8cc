"""What the command line times is what it says."""

import numpy as np
import pytest

import tfp_reprior as tfr
from tfp_reprior.benchmarks import contestants


@pytest.mark.parametrize(
  'likelihood, other',
  [('gaussian', 'collapsed'), ('categorical', 'composed'), ('bernoulli', 'composed')],
)
def test_gradients_are_those_of_both_densities(likelihood, other):
  posterior = contestants.make_posterior(4, 3, likelihood)
  functions = contestants.gradients_and_step(posterior, num_chains=2)
  names = [contestants.REFERENCE, f'{other}: value and gradient', 'rotation: step']
  assert list(functions) == names
  parts = posterior.sample_prior(2, seed=1)
  repriorised = {'collapsed': tfr.CollapsedPosterior, 'composed': tfr.ComposedPosterior}[other]
  for name, target in zip(names, (posterior, repriorised(posterior)), strict=False):
    value, gradients = functions[name]()
    np.testing.assert_allclose(value, target.target_log_prob_fn(*parts), rtol=1e-4)
    assert [g.shape for g in gradients] == [p.shape for p in parts]


def test_a_step_is_one_of_all_chains():
  posterior = contestants.make_posterior(4, 3)
  state, results = contestants.gradients_and_step(posterior, num_chains=2)['rotation: step']()
  # The first layer has 3072 inputs and three data: it is sampled in data space.
  assert state[0].shape == [2, 3, 4]
  assert [p.shape for p in state] == [p.shape for p in tfr.make_sampler(posterior).start_fn(2, 1)]
  assert np.all(np.isfinite(results.log_accept_ratio)) and results.log_accept_ratio.shape == [2]
