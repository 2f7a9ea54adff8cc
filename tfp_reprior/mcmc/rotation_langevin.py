"""Langevin dynamics that solves the Gaussian prior exactly."""

import tensorflow as tf
import tensorflow_probability as tfp

from tfp_reprior.internal import checks, random
from tfp_reprior.internal import parts as parts_lib
from tfp_reprior.mcmc import integrators, langevin_kernel


class _Rotation(langevin_kernel.LangevinKernel):
  """The kernel of the parts that the likelihood depends on."""

  def __init__(self, log_prob_fn, parameters, is_calibrated):
    super().__init__(log_prob_fn, parameters)
    self._is_calibrated = is_calibrated

  @property
  def is_calibrated(self):
    return self._is_calibrated

  @property
  def _integrator(self):
    return integrators.rotation

  @property
  def _num_steps(self):
    return self._parameters['num_steps']


class _RotationLangevin(langevin_kernel.Kernel):
  """What the two kernels share: everything but accept / reject."""

  def __init__(self, log_likelihood_fn, step_size, damping, num_steps=1, name=None):
    langevin_kernel.check_settings(log_likelihood_fn, step_size, damping)
    if isinstance(num_steps, (int, float)):
      checks.positive_integer('num_steps', num_steps)
    super().__init__(
      dict(
        log_likelihood_fn=log_likelihood_fn,
        step_size=step_size,
        damping=damping,
        num_steps=num_steps,
        name=name or 'rotation_langevin',
      )
    )

  @property
  def log_likelihood_fn(self):
    return self._parameters['log_likelihood_fn']

  @property
  def damping(self):
    return self._parameters['damping']

  @property
  def num_steps(self):
    return self._parameters['num_steps']

  def bootstrap_results(self, init_state):
    """Results from which the first step starts. No momentum is drawn yet: there is no seed."""
    parts = [tf.convert_to_tensor(p) for p in parts_lib.to_list(init_state)]
    _, grads = tfp.math.value_and_gradient(self.log_likelihood_fn, parts)
    is_touched = [g is not None for g in grads]
    num_touched = sum(is_touched)
    if num_touched == 0 or not all(is_touched[:num_touched]):
      raise ValueError(
        'The log-likelihood must depend, by differentiable operations, on the first state parts, '
        'and the parts that it does not depend on must come last. Received: a function with '
        f'gradients for parts {[i for i, touched in enumerate(is_touched) if touched]} of '
        f'{len(parts)}'
      )
    return self._kernel(parts[num_touched:]).bootstrap_results(
      parts_lib.like(init_state, parts[:num_touched])
    )

  def one_step(self, current_state, previous_kernel_results, seed=None):
    """Takes one step; see `tfp.mcmc.TransitionKernel.one_step`."""
    parts = [tf.convert_to_tensor(p) for p in parts_lib.to_list(current_state)]
    num_touched = len(previous_kernel_results.grads_target_log_prob)
    touched, untouched = parts[:num_touched], parts[num_touched:]
    step_seed, fresh_seed = random.split_seed(seed, n=2)
    touched, results = self._kernel(untouched).one_step(
      parts_lib.like(current_state, touched), previous_kernel_results, seed=step_seed
    )
    if untouched:
      shapes = [tf.shape(p) for p in untouched]
      untouched = random.normal_parts(shapes, untouched[0].dtype, fresh_seed)
    return parts_lib.like(current_state, [*parts_lib.to_list(touched), *untouched]), results

  def _kernel(self, untouched):
    return _Rotation(
      lambda *touched: self.log_likelihood_fn(*touched, *untouched),
      self._parameters,
      self.is_calibrated,
    )


class RotationLangevin(_RotationLangevin):
  """Langevin dynamics for a prior N(0, I) and a likelihood, with accept / reject.

  ```none
  momentum <- sqrt(1 - damping) * momentum + sqrt(damping) * N(0, I)
  num_steps times:
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

  Special cases: `damping=1, num_steps=1` is preconditioned Crank-Nicolson Langevin (its kick of
  `step_size/2` in place of `tan(step_size/2)`), without gradient it is
  `PreconditionedCrankNicolson`.

  Parts that the likelihood does not depend on are independent of the rest and exactly N(0, I):
  each step draws them anew. They must come last, as the readout does in phi.

  Args:
    log_likelihood_fn: Callable, takes the state parts, returns the log-density with respect to
      N(0, I), `[*chains]`; for example that of a `tfp_reprior.CollapsedPosterior`.
    step_size: Positive float, an angle; or a tensor, or a list with one for each part that the
      likelihood depends on, that broadcasts with the state parts.
    damping: Float in [0, 1]; a tensor or list as for `step_size`.
    num_steps: Positive integer, gradients a step.
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

  L. Pezzetti, S. Favaro and S. Peluchetti. Function-space MCMC for Bayesian wide neural networks.
  2024.
  """

  @property
  def is_calibrated(self):
    return True


class UncalibratedRotationLangevin(_RotationLangevin):
  """`RotationLangevin` that accepts every proposal.

  The stationary distribution has an error that vanishes with the step size, and with the
  likelihood: without one the dynamics is exact. Arguments and results are those of
  `RotationLangevin`.
  """

  @property
  def is_calibrated(self):
    return False
