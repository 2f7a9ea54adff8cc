"""Samples from the exact posterior of wide Bayesian neural networks, fast."""

from tfp_reprior import (
  bijectors,
  compilation,
  data,
  diagnostics,
  layers,
  likelihoods,
  mcmc,
  models,
)
from tfp_reprior.bijectors import CollapsedPosterior, ComposedPosterior, ReadoutReprior
from tfp_reprior.posterior import Posterior
from tfp_reprior.version import __version__

__all__ = [
  'CollapsedPosterior',
  'ComposedPosterior',
  'Posterior',
  'ReadoutReprior',
  '__version__',
  'bijectors',
  'compilation',
  'data',
  'diagnostics',
  'layers',
  'likelihoods',
  'mcmc',
  'models',
]
