"""What a sampler is: a posterior, its coordinates and a kernel for them."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tensorflow_probability as tfp

from tfp_reprior.densities import posterior as posterior_lib


def run_here(fn, *arguments):
  """Calls a function with its arguments, on this device."""
  return fn(*arguments)


@dataclasses.dataclass(frozen=True)
class Sampler:
  """How to sample a posterior.

  Attributes:
    name: One of `NAMES`, other than `'auto'`.
    posterior: The `tfp_reprior.Posterior`, with hidden layers where the sampler moves them.
    kernel_fn: Function of `step_size`, `damping` and `num_integrator_steps` of a transition (by
      default 1); returns a `tfp.mcmc.TransitionKernel` over the coordinates of the sampler, which
      reports log-densities with respect to N(0, I) on the moving parts. A kernel
      without momentum ignores the last two. For warm-up it also takes an `inverse_temperature`, the
      power of the likelihood, and whether the kernel `is_calibrated`.
    log_likelihood_fn: Function of moving parts; returns their log-density relative to N(0, I).
    start_fn: Function of a number of chains and a seed; returns states to start from.
    state_fn: Function of the parts of the posterior and a seed; returns a state of these weights,
      with a readout of its own if that is integrated out, and typical scales of the likelihood.
    parts_fn: Function of a state; returns the parts of the posterior, a list.
    theta_fn: Function of a state, and of a seed for what layers in data space leave open; returns
      the weights of the network, a list of parts.
    draw_fn: Function of a state; returns what `parts_fn` does, and the posterior of the readout
      given the hidden parts, a `ReadoutConditional`, or None if the likelihood leaves none. Both
      together take one pass of the training data.
    unmap_fn: Function of a state; returns it in coordinates that are the same for all chains,
      without maps of hidden layers, and the part of the log-density with respect to N(0, I) that is
      due to these, `[c]`.
    regularizer: That of its map: `'noise'`, `'n*noise'`, `'sites'` or a float; infinity if it has
      none.
    num_moving_parts: The first parts of the state, those that the kernel moves step by step; it
      draws the others anew.
    units: For each of them, how many standard deviations of the prior its unit is.
    hidden_space: `'auto'`, `'weights'` or `'data'`; `posterior.split.layer_spaces` has the layers.
    layer_regularizer: Those of the maps of hidden layers, a list; None without such maps.
    anchor: The anchor of these maps, which warm-up moves; None without.
    has_damping: Whether the kernel has momentum.
    is_calibrated: Whether the kernel accepts and rejects.
    max_step_size: The largest step size that means something: pi / 2 for angles, else infinity.
    moves_readout: Whether transitions begin with moves of the readout alone.
    num_stages: The gradients of an integrator step.
    strategy: A `tf.distribute.Strategy`, if the work is split over its devices.
    run_loop: Function of a function and its arguments, which calls it where a loop of steps has to
      be: on the cores of a TPU, and otherwise here.

  #### Examples

  ```python
  import numpy as np
  import tfp_reprior as tfr

  x = np.linspace(-1, 1, 5, dtype=np.float32)[:, np.newaxis]
  posterior = tfr.Posterior(tfr.models.fcn((1,), 1, width=16), x, np.sin(3 * x))
  sampler = tfr.make_sampler(posterior, 'langevin')
  phi = sampler.start_fn(4, seed=1)  # four chains, near the posterior
  theta = sampler.theta_fn(phi)  # their weights
  kernel = sampler.kernel_fn(step_size=0.1, damping=0.2)
  ```
  """

  name: str
  posterior: posterior_lib.Posterior
  kernel_fn: Callable[..., tfp.mcmc.TransitionKernel]
  log_likelihood_fn: Callable[..., tf.Tensor]
  start_fn: Callable[..., list[tf.Tensor]]
  state_fn: Callable[..., list[tf.Tensor]]
  parts_fn: Callable[..., list[tf.Tensor]]
  theta_fn: Callable[..., list[tf.Tensor]]
  draw_fn: Callable[..., tuple[list[tf.Tensor], Any]]
  unmap_fn: Callable[..., tuple[list[tf.Tensor], Any]]
  regularizer: float | str
  num_moving_parts: int
  units: list[Any]
  hidden_space: str = 'weights'
  layer_regularizer: list[float] | None = None
  anchor: Any = None
  has_damping: bool = True
  is_calibrated: bool = True
  max_step_size: float = math.inf
  moves_readout: bool = False
  num_stages: int = 1
  strategy: tf.distribute.Strategy | None = None
  run_loop: Callable[..., Any] = run_here

  @property
  def kind(self) -> str:
    """What its acceptance is judged by: `'corrected'`, `'random walk'` or `'uncalibrated'`."""
    if not self.is_calibrated:
      return 'uncalibrated'
    return 'corrected' if self.has_damping else 'random walk'

  def num_gradients(self, num_integrator_steps: int) -> int:
    """How many gradients of the network a transition of so many steps takes."""
    return self.num_stages * num_integrator_steps + self.moves_readout

  def __repr__(self):
    return f'Sampler({self.name!r}, regularizer={self.regularizer!r}, {self.posterior!r})'
