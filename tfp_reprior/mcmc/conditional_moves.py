"""Moves of the parts of a state that are cheap to move alone, between transitions of all parts."""

import math
from collections.abc import Callable, Sequence

import tensorflow as tf

from tfp_reprior.internal import parts as parts_lib
from tfp_reprior.internal import random
from tfp_reprior.internal.types import Seed, StepSize
from tfp_reprior.mcmc import kernel as kernel_lib
from tfp_reprior.mcmc import langevin_kernel, rotation_langevin

_QUARTER_TURN = math.pi / 2


class ConditionalMoves(kernel_lib.Kernel):
  """A kernel that moves the last parts of a state alone, before each transition of all of them.

  ```none
  others   <- RotationLangevin, about a quarter turn with new momenta, given the first parts
  gradient <- that of all parts at the new state
  state    <- a transition of `kernel`
  ```

  Given its features the readout of a network is a generalized linear model: its gradient takes two
  products of `[n, d]` and `[d, k]`, far less than one of the whole network. Where the readout
  cannot be integrated out, many such steps bring it close to an independent draw given the hidden
  layers, and leave to the transitions of all parts what only they can move.

  Each of the two leaves `N(state; 0, I) * exp(log_likelihood(state))` invariant: the first moves
  the others by their conditional density, and accepts or rejects; it does not touch the momentum of
  the second, which is N(0, I) and independent of the state. Steps are as long as those of `kernel`,
  which have to suit the others too. A transition takes one gradient more than those of `kernel`.

  Args:
    kernel: A `RotationLangevin`.
    conditional_fn: Callable, takes a list of the first parts; returns a function of the others,
      their log-likelihood up to a constant, `[*chains]`. The densities of this package have one:
      `readout_log_likelihood_fn`.
    num_held: Integer, the number of first parts.
    most_steps: Positive integer, at most so many steps of the others, about.
    name: Name of the operations.

  The results are those of `kernel`; acceptance is that of the transitions of all parts.

  #### Examples

  ```python
  import numpy as np
  import tensorflow_probability as tfp
  import tfp_reprior as tfr

  x = np.linspace(-1, 1, 20, dtype=np.float32)[:, np.newaxis]
  likelihood = tfr.likelihoods.Categorical(output_scale=2.0)
  model = tfr.models.fcn((1,), num_outputs=2, width=16)
  posterior = tfr.Posterior(model, x, (x[:, 0] > 0).astype(int), likelihood=likelihood)
  kernel = tfr.mcmc.ConditionalMoves(
    tfr.mcmc.RotationLangevin(posterior.log_likelihood_fn, step_size=0.2, damping=0.3),
    posterior.readout_log_likelihood_fn,
    num_held=posterior.split.num_hidden,
  )
  start = posterior.sample_prior(4, seed=1)
  theta = tfp.mcmc.sample_chain(5, start, kernel=kernel, trace_fn=None, seed=(1, 2))
  ```
  """

  def __init__(
    self,
    kernel: rotation_langevin.UncalibratedRotationLangevin,
    conditional_fn: Callable[[Sequence[tf.Tensor]], Callable[..., tf.Tensor]],
    num_held: int,
    most_steps: int = 16,
    name: str = 'conditional_moves',
  ) -> None:
    super().__init__(
      dict(
        kernel=kernel,
        conditional_fn=conditional_fn,
        num_held=num_held,
        most_steps=most_steps,
        name=name,
      )
    )

  @property
  def step_size(self) -> StepSize:
    return self._parameters['kernel'].step_size

  @property
  def is_calibrated(self) -> bool:
    return self._parameters['kernel'].is_calibrated

  def bootstrap_results(self, init_state: Sequence[tf.Tensor]) -> langevin_kernel.LangevinResults:
    """Results from which the first step starts: those of `kernel`."""
    return self._parameters['kernel'].bootstrap_results(init_state)

  def one_step(
    self,
    current_state: Sequence[tf.Tensor],
    previous_kernel_results: langevin_kernel.LangevinResults,
    seed: Seed = None,
  ) -> tuple[Sequence[tf.Tensor], langevin_kernel.LangevinResults]:
    """Moves the others, then all; see `tfp.mcmc.TransitionKernel.one_step`."""
    kernel = self._parameters['kernel']
    others_seed, seed = random.split_seed(seed, n=2)
    parts = [tf.convert_to_tensor(p) for p in current_state]
    parts = self._move_others(parts, previous_kernel_results.step_size, others_seed)
    state = parts_lib.like(current_state, parts)
    return kernel.one_step(state, kernel.moved(state, previous_kernel_results), seed=seed)

  def _move_others(self, parts, step_size, seed):
    num_held, most = self._parameters['num_held'], self._parameters['most_steps']
    held, others = parts[:num_held], parts[num_held:]
    length_seed, seed = random.split_seed(seed, n=2)
    step_sizes = kernel_lib.per_part(step_size, parts)[num_held:]
    dtype = others[0].dtype
    longest = tf.reduce_max([tf.reduce_max(eps) for eps in step_sizes])
    # From half to one and a half times as many, as trajectories of one length can come back.
    spread = 0.5 + random.bits_to_uniform(random.random_bits([], dtype, length_seed), dtype)
    num_steps = spread * tf.minimum(_QUARTER_TURN / longest, float(most))
    mover = rotation_langevin.RotationLangevin(
      self._parameters['conditional_fn'](held),
      step_sizes,
      1.0,
      tf.maximum(tf.cast(tf.round(num_steps), tf.int32), 1),
      self._parameters['kernel'].num_stages,
    )
    others, _ = mover.one_step(others, mover.bootstrap_results(others), seed=seed)
    # Others depend on the held parts now: a derivative by these must not follow that path.
    return [tf.stop_gradient(p) for p in [*held, *others]]

  def __repr__(self):
    kernel, most = self._parameters['kernel'], self._parameters['most_steps']
    return f'ConditionalMoves({kernel!r}, most_steps={most})'
