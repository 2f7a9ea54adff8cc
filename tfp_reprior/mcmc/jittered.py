"""Transitions whose number of steps varies, with settings that may change from run to run."""

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf
import tensorflow_probability as tfp

from tfp_reprior.internal import checks
from tfp_reprior.internal.types import Seed, State
from tfp_reprior.mcmc import kernel as kernel_lib

# The golden ratio, (sqrt(5) - 1) / 2, in units of 2**-32. Its multiples, modulo one, are spread as
# evenly as can be, however many there are; integers wrap around exactly, on every device.
_GOLDEN_RATIO = 0x9E3779B9


class KernelSettings(NamedTuple):
  """What a kernel of a sampler may be given, as scalar tensors.

  Attributes:
    step_size: Of the integrator.
    damping: The part of the momentum's variance that a transition replaces.
    num_integrator_steps: The mean number of integrator steps of a transition.
    inverse_temperature: The power of the likelihood: 1 for the posterior itself.
    num_adaptation_steps: For how many transitions the step size is adapted, in warm-up.

  #### Examples

  ```python
  import tfp_reprior as tfr

  settings = tfr.mcmc.KernelSettings(step_size=0.1, num_integrator_steps=10)
  shorter = settings._replace(step_size=0.05)
  ```
  """

  step_size: float | tf.Tensor
  damping: float | tf.Tensor = 1.0
  num_integrator_steps: int | tf.Tensor = 1
  inverse_temperature: float | tf.Tensor = 1.0
  num_adaptation_steps: int | tf.Tensor = 0


class JitteredResults(NamedTuple):
  """What `Jittered` carries from step to step.

  Attributes:
    inner_results: Those of the kernel.
    settings: The `KernelSettings` in use; to change them, replace this.
    number: How many transitions were made, by which their lengths are spread.

  #### Examples

  ```python
  import tensorflow as tf
  import tfp_reprior as tfr

  kernel = tfr.mcmc.Jittered(
    lambda s: tfr.mcmc.PreconditionedCrankNicolson(lambda x: -tf.exp(x), s.step_size),
    tfr.mcmc.KernelSettings(step_size=0.5),
  )
  results = kernel.bootstrap_results(tf.zeros([4]))
  settings = results.settings._replace(step_size=tf.constant(0.25))
  results = results._replace(settings=settings)  # the next transition takes shorter steps
  ```
  """

  inner_results: Any
  settings: KernelSettings
  number: tf.Tensor


class Jittered(tfp.mcmc.TransitionKernel):
  """A kernel whose transitions have between half and one and a half times as many steps.

  Trajectories of one length can come back close to where they began, again and again, in the
  directions whose period they fit. Here lengths are spread evenly over half of
  `num_integrator_steps` to one and a half, by multiples of the golden ratio. They depend on nothing
  but the number of the transition, and each transition leaves the target invariant: so does the
  chain. The mean is `num_integrator_steps`, so that gradients can be counted in advance.

  Args:
    kernel_fn: Function of `KernelSettings`, with the length of this transition as the number of
      steps; returns the kernel to take it with. All of these must have results of one structure.
    settings: `KernelSettings` to begin with; floats will do.
    name: Name of the operations.

  #### Examples

  ```python
  import tensorflow as tf
  import tensorflow_probability as tfp
  import tfp_reprior as tfr

  kernel = tfr.mcmc.Jittered(
    lambda s: tfr.mcmc.UnderdampedLangevin(
      lambda x: -0.5 * x**2, s.step_size, s.damping, s.num_integrator_steps
    ),
    tfr.mcmc.KernelSettings(step_size=0.2, num_integrator_steps=8),
  )
  draws = tfp.mcmc.sample_chain(
    100, current_state=tf.zeros([4]), kernel=kernel, trace_fn=None, seed=1
  )  # [100, 4]
  ```
  """

  def __init__(
    self,
    kernel_fn: Callable[[KernelSettings], tfp.mcmc.TransitionKernel],
    settings: KernelSettings,
    name: str | None = None,
  ) -> None:
    for field in ('step_size', 'inverse_temperature'):
      checks.positive(field, getattr(settings, field))
    self._parameters: dict[str, Any] = dict(
      kernel_fn=kernel_fn, settings=settings, name=name or 'jittered'
    )

  @property
  def parameters(self) -> dict[str, Any]:
    """The arguments of the constructor, by name."""
    return self._parameters

  @property
  def name(self) -> str:
    return self._parameters['name']

  @property
  def is_calibrated(self) -> bool:
    return self._parameters['kernel_fn'](self._parameters['settings']).is_calibrated

  def bootstrap_results(self, init_state: State) -> JitteredResults:
    """Results from which the first transition starts."""
    dtype = tf.nest.flatten(init_state)[0].dtype
    return self.bootstrap_with(init_state, as_tensors(self._parameters['settings'], dtype))

  def bootstrap_with(
    self, init_state: State, settings: KernelSettings, number: int | tf.Tensor = 0
  ) -> JitteredResults:
    """As `bootstrap_results`, with other settings, and after some transitions."""
    inner_results = self._parameters['kernel_fn'](settings).bootstrap_results(init_state)
    return JitteredResults(inner_results, settings, tf.convert_to_tensor(number))

  def one_step(
    self, current_state: State, previous_kernel_results: JitteredResults, seed: Seed = None
  ) -> tuple[State, JitteredResults]:
    """Makes one transition; see `tfp.mcmc.TransitionKernel.one_step`."""
    results = previous_kernel_results
    num_steps = jittered_length(results.settings.num_integrator_steps, results.number)
    kernel = self._parameters['kernel_fn'](
      results.settings._replace(num_integrator_steps=num_steps)
    )
    state, inner_results = kernel.one_step(current_state, results.inner_results, seed=seed)
    return state, results._replace(inner_results=inner_results, number=results.number + 1)

  def __repr__(self):
    settings = self._parameters['settings']._asdict().items()
    return f'Jittered({", ".join(f"{name}={kernel_lib.shown(v)}" for name, v in settings)})'


def as_tensors(settings, dtype):
  """`KernelSettings` of numbers, as tensors."""
  return KernelSettings(
    *(
      tf.convert_to_tensor(value, tf.int32 if name.startswith('num_') else dtype)
      for name, value in settings._asdict().items()
    )
  )


def jittered_length(num_steps, number):
  """The number of steps of a transition: from half to one and a half times `num_steps`.

  Args:
    num_steps: Integer tensor, the mean.
    number: Integer tensor, of the transition.
  """
  low = (num_steps + 1) // 2
  spread = 2 * (num_steps - low) + 1
  word = tf.cast(number, tf.uint32) * tf.constant(_GOLDEN_RATIO, tf.uint32)
  place = tf.bitwise.right_shift(word, 16)  # from 0 to 2**16 - 1
  offset = tf.bitwise.right_shift(place * tf.cast(spread, tf.uint32), 16)
  return low + tf.cast(offset, num_steps.dtype)
