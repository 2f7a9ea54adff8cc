"""Preconditioned Crank-Nicolson: the random walk that leaves N(0, I) invariant."""

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from tfp_reprior import compilation, errors
from tfp_reprior.internal import checks, random
from tfp_reprior.internal import parts as parts_lib
from tfp_reprior.internal.types import Seed, State, StepSize
from tfp_reprior.mcmc import kernel as kernel_lib


class CrankNicolsonResults(NamedTuple):
  """What the kernel carries from step to step, and what it reports.

  Attributes:
    target_log_prob: Carried. Log-likelihood of the state, `[*chains]`.
    step_size: Carried, so that step size adaptation can set it.
    log_accept_ratio: Reported. Change of the log-likelihood by the proposal, `[*chains]`.
    is_accepted: Reported. Whether the proposal became the state, `[*chains]`.

  #### Examples

  ```python
  import tensorflow as tf
  import tfp_reprior as tfr

  kernel = tfr.mcmc.PreconditionedCrankNicolson(lambda x: -tf.exp(x), step_size=0.8)
  results = kernel.bootstrap_results(tf.zeros([4]))
  state, results = kernel.one_step(tf.zeros([4]), results, seed=(1, 2))
  results.is_accepted, results.log_accept_ratio  # [4] each
  ```
  """

  target_log_prob: tf.Tensor
  step_size: Any
  log_accept_ratio: tf.Tensor
  is_accepted: tf.Tensor


class PreconditionedCrankNicolson(kernel_lib.Kernel):
  """Metropolis-Hastings with proposals that rotate the state towards a new draw of the prior.

  ```none
  proposal <- cos(step_size) * state + sin(step_size) * N(0, I)
  accept with probability min(1, exp(log_likelihood(proposal) - log_likelihood(state)))
  ```

  for the density `N(state; 0, I) * exp(log_likelihood(state))`. It needs no gradient. The usual
  `beta` is `sin(step_size)`.

  Args:
    log_likelihood_fn: Callable, takes the state parts, returns the log-density with respect to
      N(0, I), `[*chains]`.
    step_size: Positive float, an angle of pi / 2 at most (a draw of the prior); or a tensor or
      list that broadcasts with the state parts.
    name: Name of the operations.

  #### Examples

  ```python
  import tensorflow as tf
  import tensorflow_probability as tfp
  import tfp_reprior as tfr

  kernel = tfr.mcmc.PreconditionedCrankNicolson(lambda x: -tf.exp(x), step_size=0.8)
  draws = tfp.mcmc.sample_chain(
    50, current_state=tf.zeros([4]), kernel=kernel, trace_fn=None, seed=(1, 2)
  )  # [50, 4]
  ```

  #### References

  S. Cotter, G. Roberts, A. Stuart and D. White. MCMC methods for functions: modifying old
  algorithms to make them faster. Statistical Science, 2013.
  """

  is_calibrated = True

  def __init__(
    self,
    log_likelihood_fn: Callable[..., tf.Tensor],
    step_size: StepSize,
    name: str = 'preconditioned_crank_nicolson',
  ) -> None:
    kernel_lib.check_settings(log_likelihood_fn, step_size)
    for value in map(checks.static_value, parts_lib.to_list(step_size)):
      if value is not None and (value > 1.5708).any():
        raise errors.InputError(
          f'`step_size` is an angle of pi / 2 at most. Received: step_size={step_size}'
        )
    super().__init__(dict(log_likelihood_fn=log_likelihood_fn, step_size=step_size, name=name))

  @property
  def log_likelihood_fn(self) -> Callable[..., tf.Tensor]:
    return self._parameters['log_likelihood_fn']

  def bootstrap_results(self, init_state: State) -> CrankNicolsonResults:
    """Results from which the first step starts."""
    with tf.name_scope(f'{self.name}.bootstrap_results'):
      parts = [tf.convert_to_tensor(p) for p in parts_lib.to_list(init_state)]
      log_likelihood = self.log_likelihood_fn(*parts)
      return CrankNicolsonResults(
        target_log_prob=log_likelihood,
        step_size=kernel_lib.convert(self.step_size, parts[0].dtype),
        log_accept_ratio=tf.zeros_like(log_likelihood),
        is_accepted=tf.ones_like(log_likelihood, tf.bool),
      )

  def one_step(
    self, current_state: State, previous_kernel_results: CrankNicolsonResults, seed: Seed = None
  ) -> tuple[State, CrankNicolsonResults]:
    """Takes one step; see `tfp.mcmc.TransitionKernel.one_step`."""
    with tf.name_scope(f'{self.name}.one_step'):
      results = previous_kernel_results
      parts = [tf.convert_to_tensor(p) for p in parts_lib.to_list(current_state)]
      noise_seed, accept_seed = random.split_seed(seed, n=2)
      sources = random.sources_like(parts, noise_seed)
      proposal = _propose(parts, sources, kernel_lib.per_part(results.step_size, parts))
      log_likelihood = self.log_likelihood_fn(*proposal)
      log_accept_ratio = log_likelihood - results.target_log_prob
      is_accepted = kernel_lib.accept(log_accept_ratio, accept_seed)
      new_parts = parts_lib.select(is_accepted, proposal, parts)
      return parts_lib.like(current_state, new_parts), results._replace(
        target_log_prob=tf.where(is_accepted, log_likelihood, results.target_log_prob),
        log_accept_ratio=log_accept_ratio,
        is_accepted=is_accepted,
      )


@compilation.fuse
def _propose(parts, sources, step_sizes):
  return [
    tf.cos(eps) * x + tf.sin(eps) * random.noise_like(x, source)
    for x, source, eps in zip(parts, sources, step_sizes, strict=True)
  ]
