"""How far the gradient of the posterior is from that of a standard normal."""

import tensorflow as tf
import tensorflow_probability as tfp

from tfp_reprior.densities import collapsed_posterior, composed_posterior
from tfp_reprior.densities import posterior as posterior_lib
from tfp_reprior.internal import parts as parts_lib
from tfp_reprior.internal.types import Parts


def gradient_distance(
  density: collapsed_posterior.CollapsedPosterior
  | composed_posterior.ComposedPosterior
  | posterior_lib.Posterior,
  phi_parts: Parts,
) -> tf.Tensor:
  """`|grad log p(phi | D) - grad log N(phi; 0, I)|`, the Euclidean norm, for each chain.

  It is the norm of the gradient of `density.log_likelihood_fn`, and what a sampler that knows the
  normal has to learn from a gradient. As the network gets wider it tends to zero, like
  width^(-1/2), while the gradient of the normal itself, `-phi`, has a norm near the root of the
  number of weights. Averaged over the posterior, half its square bounds the divergence of the
  posterior from the normal (the logarithmic Sobolev inequality):

  ```none
  KL(posterior || N(0, I)) <= 1/2 E[gradient_distance**2]
  ```

  Args:
    density: A `CollapsedPosterior` or a `ComposedPosterior`. A `Posterior` is the density in theta:
      there the distance is that of the standard parametrisation.
    phi_parts: List of tensors `[*chains, *event_shape]`.

  Returns:
    Tensor `[*chains]`.

  #### Examples

  ```python
  import numpy as np
  import tfp_reprior as tfr

  x = np.linspace(-1, 1, 5, dtype=np.float32)[:, np.newaxis]
  posterior = tfr.Posterior(tfr.models.fcn((1,), 1, width=64), x, np.sin(3 * x))
  phi = posterior.sample_prior(4, seed=1)
  tfr.theory.gradient_distance(tfr.CollapsedPosterior(posterior), phi)  # [4], small
  tfr.theory.gradient_distance(posterior, phi)  # [4], large
  ```
  """
  log_likelihood, gradients = tfp.math.value_and_gradient(density.log_likelihood_fn, phi_parts)
  chain_ndims = log_likelihood.shape.rank
  # Parts of the readout that were integrated out have no gradient.
  squares = [parts_lib.sum_events(tf.square(g), chain_ndims) for g in gradients if g is not None]
  return tf.sqrt(tf.add_n(squares))
