"""The change of variables, and the linear algebra under it."""

from tfp_reprior.bijectors.readout_reprior import ReadoutReprior

__all__ = ['ReadoutReprior']
__dir__ = __all__.copy
