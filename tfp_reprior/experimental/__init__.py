"""What the paper tried and does not recommend: the linearised (NTK) map."""

from tfp_reprior.experimental.linearized_reprior import LinearizedReprior
from tfp_reprior.experimental.tangent_kernel import empirical_ntk
from tfp_reprior.experimental.taylor_log_det import TaylorSeries

__all__ = ['LinearizedReprior', 'TaylorSeries', 'empirical_ntk']
__dir__ = __all__.copy
