"""What the theory of wide networks says: kernels, divergences, gradients, step sizes."""

from tfp_reprior.theory.divergence import KLEstimate, kl_limit, kl_to_prior
from tfp_reprior.theory.gradient_distance import gradient_distance
from tfp_reprior.theory.kernels import (
  KernelEstimate,
  empirical_kernel,
  monte_carlo_kernel,
  nngp_kernel,
  nngp_posterior,
)
from tfp_reprior.theory.linear_model import stable_step_size

__all__ = [
  'KLEstimate',
  'KernelEstimate',
  'empirical_kernel',
  'gradient_distance',
  'kl_limit',
  'kl_to_prior',
  'monte_carlo_kernel',
  'nngp_kernel',
  'nngp_posterior',
  'stable_step_size',
]
__dir__ = __all__.copy
