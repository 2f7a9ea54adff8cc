"""Log-densities of lists of tensors: the posterior, in its own coordinates and repriorised."""

from tfp_reprior.densities.collapsed_posterior import CollapsedPosterior
from tfp_reprior.densities.composed_posterior import ComposedPosterior
from tfp_reprior.densities.layerwise_posterior import LayerwisePosterior
from tfp_reprior.densities.posterior import Posterior
from tfp_reprior.densities.split_chains import SplitChains
from tfp_reprior.densities.split_data import SplitData

__all__ = [
  'CollapsedPosterior',
  'ComposedPosterior',
  'LayerwisePosterior',
  'Posterior',
  'SplitChains',
  'SplitData',
]
__dir__ = __all__.copy
