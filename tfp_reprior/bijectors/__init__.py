"""The change of variables, and the linear algebra under it."""

from tfp_reprior.bijectors.layerwise_reprior import LayerwiseReprior
from tfp_reprior.bijectors.readout_reprior import ReadoutReprior

__all__ = ['LayerwiseReprior', 'ReadoutReprior']
__dir__ = __all__.copy
