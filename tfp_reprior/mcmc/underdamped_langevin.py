"""Underdamped Langevin dynamics by leapfrog."""

from collections.abc import Callable

import tensorflow as tf

from tfp_reprior.internal.types import StepSize
from tfp_reprior.mcmc import integrators, langevin_kernel


class UncalibratedUnderdampedLangevin(langevin_kernel.LangevinKernel):
  """Underdamped Langevin dynamics that accepts every proposal, as in Hron et al. (2022).

  The stationary distribution has an error that vanishes with the step size. `log_accept_ratio`
  of the results is what `UnderdampedLangevin` would decide by; the paper keeps the mean of
  `min(1, exp(log_accept_ratio))` above 0.98.

  Arguments and results are those of `UnderdampedLangevin`. Do not wrap
  `tfp.mcmc.MetropolisHastings` around it: use `UnderdampedLangevin`.

  #### Examples

  ```python
  import tensorflow as tf
  import tfp_reprior as tfr

  kernel = tfr.mcmc.UncalibratedUnderdampedLangevin(lambda x: -(x**4), step_size=0.05, damping=0.1)
  state, results = kernel.one_step(tf.zeros([4]), kernel.bootstrap_results(tf.zeros([4])), seed=1)
  tf.exp(tf.minimum(results.log_accept_ratio, 0.0))  # ==> close to 1, or steps are too long
  ```
  """

  is_calibrated = False

  def __init__(
    self,
    target_log_prob_fn: Callable[..., tf.Tensor],
    step_size: StepSize,
    damping: StepSize,
    num_integrator_steps: int | tf.Tensor = 1,
    leaves_prior_out: bool = False,
    name: str = 'underdamped_langevin',
  ) -> None:
    super().__init__(
      target_log_prob_fn,
      integrators.leapfrog_with_prior if leaves_prior_out else integrators.leapfrog,
      dict(
        target_log_prob_fn=target_log_prob_fn,
        step_size=step_size,
        damping=damping,
        num_integrator_steps=num_integrator_steps,
        leaves_prior_out=leaves_prior_out,
        name=name,
      ),
    )

  @property
  def target_log_prob_fn(self) -> Callable[..., tf.Tensor]:
    return self._parameters['target_log_prob_fn']


class UnderdampedLangevin(UncalibratedUnderdampedLangevin):
  """Underdamped Langevin dynamics with accept / reject.

  ```none
  momentum <- sqrt(1 - damping) * momentum + sqrt(damping) * N(0, I)
  proposal <- num_integrator_steps of leapfrog from (state, momentum)
  accept with probability min(1, exp(H(state, momentum) - H(proposal))), else turn the momentum
  ```

  with `H = -target_log_prob + |momentum|^2 / 2`. `damping=1` with one leapfrog step is the
  Metropolis-adjusted Langevin algorithm, with more steps Hamiltonian Monte Carlo. A small damping
  keeps the direction over many steps, at one gradient a step.

  Energy differences are summed element by element and stay meaningful in float32 at millions of
  parameters, if the target's own value does (that of `tfp_reprior.Posterior` does).

  Args:
    target_log_prob_fn: Callable, takes the state parts, returns the log-density `[*chains]`.
    step_size: Positive float, or a tensor or a list with one for each part, that broadcasts with
      the state parts.
    damping: Float in [0, 1], the part of the momentum's variance that each step replaces; a
      tensor or list as for `step_size`.
    num_integrator_steps: Positive integer, gradients a step.
    leaves_prior_out: Whether `target_log_prob_fn` is a log-density with respect to N(0, I), as the
      `log_likelihood_fn` of a posterior, and the kernel has to add the prior. It does so in
      updates that it makes anyway, which saves passes over the state. Not for
      `tfp.mcmc.TransformedTransitionKernel`, whose bijector changes the prior, too.
    name: Name of the operations.

  #### Examples

  ```python
  import tensorflow as tf
  import tensorflow_probability as tfp
  import tfp_reprior as tfr

  kernel = tfr.mcmc.UnderdampedLangevin(lambda x: -0.5 * x**2, step_size=0.5, damping=0.2)
  draws = tfp.mcmc.sample_chain(
    50, current_state=tf.zeros([4]), kernel=kernel, trace_fn=None, seed=1
  )  # [50, 4]
  ```

  #### References

  A. Horowitz. A generalized guided Monte Carlo algorithm. Physics Letters B, 1991.
  """

  is_calibrated = True
