"""Langevin dynamics that solves the Gaussian prior exactly."""

from collections.abc import Callable

import tensorflow as tf

from tfp_reprior.internal import checks
from tfp_reprior.internal.types import StepSize
from tfp_reprior.mcmc import integrators, langevin_kernel


class UncalibratedRotationLangevin(langevin_kernel.LangevinKernel):
  """`RotationLangevin` that accepts every proposal.

  The stationary distribution has an error that vanishes with the step size, and with the
  likelihood: without one the dynamics is exact. Arguments and results are those of
  `RotationLangevin`.

  #### Examples

  ```python
  import tensorflow as tf
  import tfp_reprior as tfr

  kernel = tfr.mcmc.UncalibratedRotationLangevin(lambda x: -tf.exp(x), step_size=0.2, damping=0.5)
  state, results = tf.zeros([4]), kernel.bootstrap_results(tf.zeros([4]))
  state, results = kernel.one_step(state, results, seed=(1, 2))
  results.log_accept_ratio  # [4]: close to zero, if steps are short enough
  ```
  """

  is_calibrated = False

  def __init__(
    self,
    log_likelihood_fn: Callable[..., tf.Tensor],
    step_size: StepSize,
    damping: StepSize,
    num_integrator_steps: int | tf.Tensor = 1,
    num_stages: int = 1,
    name: str = 'rotation_langevin',
  ) -> None:
    checks.one_of('num_stages', num_stages, tuple(integrators.rotations))
    super().__init__(
      log_likelihood_fn,
      integrators.rotations[num_stages],
      dict(
        log_likelihood_fn=log_likelihood_fn,
        step_size=step_size,
        damping=damping,
        num_integrator_steps=num_integrator_steps,
        num_stages=num_stages,
        name=name,
      ),
    )

  @property
  def log_likelihood_fn(self) -> Callable[..., tf.Tensor]:
    return self._parameters['log_likelihood_fn']

  @property
  def num_stages(self) -> int:
    return self._parameters['num_stages']


class RotationLangevin(UncalibratedRotationLangevin):
  """Langevin dynamics for a prior N(0, I) and a likelihood, with accept / reject.

  ```none
  momentum <- sqrt(1 - damping) * momentum + sqrt(damping) * N(0, I)
  num_integrator_steps times:
    kick     momentum <- momentum + step_size/2 * grad log_likelihood(state)
    rotate   (state, momentum) <- (cos(step_size) state + sin(step_size) momentum,
                                   cos(step_size) momentum - sin(step_size) state)
    kick     momentum <- momentum + step_size/2 * grad log_likelihood(state)
  accept with probability min(1, exp(-energy error)), else turn the momentum around
  ```

  The density is `N(state; 0, I) * exp(log_likelihood(state))`. The rotation is the exact flow of
  the Gaussian part, so that the energy error comes from the likelihood alone, whatever the number
  of parameters; for a wide repriorised network the likelihood is nearly flat, and steps can be
  long. The error is summed from the likelihood and the kicks, without the huge quadratic terms,
  and stays meaningful in float32.

  With `num_stages=3` a step takes three gradients: four kicks with three rotations in between, by
  the fractions that Blanes, Casas and Sanz-Serna (2014) found for Hamiltonian Monte Carlo. Where a
  few stiff directions limit steps, one is more than three times as long at the same acceptance.

  Special cases: `damping=1` with one step of one stage is preconditioned Crank-Nicolson Langevin
  (its kick of `step_size/2` in place of `tan(step_size/2)`), without gradient it is
  `PreconditionedCrankNicolson`.

  Parts that the likelihood does not depend on are independent of the rest and exactly N(0, I):
  each step draws them anew. They must come last, as the readout does in phi.

  Args:
    log_likelihood_fn: Callable, takes the state parts, returns the log-density with respect to
      N(0, I), `[*chains]`; for example that of a `tfp_reprior.CollapsedPosterior`.
    step_size: Positive float, an angle; or a tensor, or a list with one for each part that the
      likelihood depends on, that broadcasts with the state parts.
    damping: Float in [0, 1]; a tensor or list as for `step_size`.
    num_integrator_steps: Positive integer, integrator steps of a transition.
    num_stages: 1 or 3, gradients of an integrator step.
    name: Name of the operations.

  The results are `LangevinResults`, with the log-likelihood as `target_log_prob`, and momentum
  and gradients of the parts that the likelihood depends on.

  #### Examples

  ```python
  import numpy as np
  import tensorflow_probability as tfp
  import tfp_reprior as tfr

  x = np.linspace(-1, 1, 20, dtype=np.float32)[:, np.newaxis]
  posterior = tfr.Posterior(tfr.models.fcn((1,), 1, width=64), x, np.sin(3 * x))
  kernel = tfr.mcmc.RotationLangevin(
    tfr.CollapsedPosterior(posterior).log_likelihood_fn, step_size=0.2, damping=0.2
  )
  phi = tfp.mcmc.sample_chain(
    10, posterior.sample_prior(4, seed=1), kernel=kernel, trace_fn=None, seed=(1, 2)
  )
  theta = posterior.reprior().forward(phi)  # the weights of all draws
  ```

  #### References

  S. Blanes, F. Casas and J. M. Sanz-Serna. Numerical integrators for the hybrid Monte Carlo method.
  2014.

  L. Pezzetti, S. Favaro and S. Peluchetti. Function-space MCMC for Bayesian wide neural networks.
  2024.
  """

  is_calibrated = True
