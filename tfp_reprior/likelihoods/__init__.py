"""Likelihoods: the density of targets given the outputs of the network.

The repriorisation needs Gaussian noise. For other likelihoods a Gaussian stands in, the surrogate,
in the map alone: the log-density is exact, and only how close the posterior gets to N(0, I)
depends on the surrogate. By default it is what the log-likelihood looks like near zero outputs,
to second order.
"""

from tfp_reprior.likelihoods.by_name import CLASSES, KINDS, NAMES, from_dict
from tfp_reprior.likelihoods.classes import Bernoulli, Categorical
from tfp_reprior.likelihoods.from_distribution import FromDistribution
from tfp_reprior.likelihoods.gaussian import Gaussian
from tfp_reprior.likelihoods.likelihood import Likelihood
from tfp_reprior.likelihoods.noise import Heteroscedastic, StudentT

__all__ = [
  'CLASSES',
  'KINDS',
  'NAMES',
  'Bernoulli',
  'Categorical',
  'FromDistribution',
  'Gaussian',
  'Heteroscedastic',
  'Likelihood',
  'StudentT',
  'from_dict',
]
__dir__ = __all__.copy
