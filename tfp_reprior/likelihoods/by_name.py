"""Likelihoods by their names, as files hold them."""

from collections.abc import Mapping
from typing import Any

from tfp_reprior import errors
from tfp_reprior.internal import checks
from tfp_reprior.likelihoods.classes import Bernoulli, Categorical
from tfp_reprior.likelihoods.from_distribution import FromDistribution
from tfp_reprior.likelihoods.gaussian import Gaussian
from tfp_reprior.likelihoods.likelihood import Likelihood
from tfp_reprior.likelihoods.noise import Heteroscedastic, StudentT

CLASSES = (Categorical, Bernoulli)
KINDS = (Gaussian, *CLASSES, StudentT, Heteroscedastic)
NAMES = {
  'gaussian': Gaussian,
  'student_t': StudentT,
  'heteroscedastic': Heteroscedastic,
  'categorical': Categorical,
  'bernoulli': Bernoulli,
}


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
  if settings['name'] == FromDistribution.__name__:
    raise errors.InputError(
      'The function of a likelihood `FromDistribution` is not in files: give it, as '
      '`load_result(path, likelihood=...)`. Received: likelihood=None'
    )
  name = checks.one_of('name', settings.pop('name'), [kind.__name__ for kind in KINDS])
  return {kind.__name__: kind for kind in KINDS}[name](**settings)
