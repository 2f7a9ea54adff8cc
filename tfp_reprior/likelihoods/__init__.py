"""Likelihoods: the density of targets given the outputs of the network.

The repriorisation needs Gaussian noise. For other likelihoods a Gaussian stands in, the surrogate,
in the map alone: the log-density is exact, and only how close the posterior gets to N(0, I)
depends on the surrogate. By default it is what the log-likelihood looks like near zero outputs,
to second order.
"""

from tfp_reprior.likelihoods.by_name import CLASSES, KINDS, from_dict
from tfp_reprior.likelihoods.classes import Bernoulli, Categorical
from tfp_reprior.likelihoods.gaussian import Gaussian
from tfp_reprior.likelihoods.likelihood import Likelihood

__all__ = ['CLASSES', 'KINDS', 'Bernoulli', 'Categorical', 'Gaussian', 'Likelihood', 'from_dict']
__dir__ = __all__.copy
