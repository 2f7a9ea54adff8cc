"""The change of variables, the densities in its coordinates, and the linear algebra under them."""

from tfp_reprior.bijectors.collapsed_posterior import CollapsedPosterior
from tfp_reprior.bijectors.composed_posterior import ComposedPosterior
from tfp_reprior.bijectors.readout_reprior import ReadoutReprior

__all__ = ['CollapsedPosterior', 'ComposedPosterior', 'ReadoutReprior']
