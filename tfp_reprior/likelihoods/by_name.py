"""Likelihoods by their names, as files hold them."""

from tfp_reprior.internal import checks
from tfp_reprior.likelihoods.classes import Bernoulli, Categorical
from tfp_reprior.likelihoods.gaussian import Gaussian

KINDS = (Gaussian, Categorical, Bernoulli)


def from_dict(values):
  """The likelihood that `Likelihood.to_dict` was called of."""
  settings = dict(values)
  name = checks.one_of('name', settings.pop('name'), [kind.__name__ for kind in KINDS])
  return {kind.__name__: kind for kind in KINDS}[name](**settings)
