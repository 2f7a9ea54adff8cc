"""Likelihoods by their names, as files hold them."""

from collections.abc import Mapping
from typing import Any

from tfp_reprior.internal import checks
from tfp_reprior.likelihoods.classes import Bernoulli, Categorical
from tfp_reprior.likelihoods.gaussian import Gaussian
from tfp_reprior.likelihoods.likelihood import Likelihood

CLASSES = (Categorical, Bernoulli)
KINDS = (Gaussian, *CLASSES)


def from_dict(values: Mapping[str, Any]) -> Likelihood:
  """The likelihood that `Likelihood.to_dict` was called of.

  #### Examples

  ```python
  import tfp_reprior as tfr

  values = tfr.likelihoods.Gaussian(0.25).to_dict()  # {'name': 'Gaussian', 'noise_scale': 0.25}
  tfr.likelihoods.from_dict(values)  # ==> Gaussian(noise_scale=0.25)
  ```
  """
  settings = {'output_scale': 1.0, **values}  # files of known scales may leave it out
  name = checks.one_of('name', settings.pop('name'), [kind.__name__ for kind in KINDS])
  return {kind.__name__: kind for kind in KINDS}[name](**settings)
