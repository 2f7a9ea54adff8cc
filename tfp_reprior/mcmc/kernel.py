"""What all kernels of this package share: their arguments, settings of parts, acceptance."""

from typing import Any

import tensorflow as tf
import tensorflow_probability as tfp

from tfp_reprior import errors
from tfp_reprior.internal import checks, random
from tfp_reprior.internal import parts as parts_lib
from tfp_reprior.internal.types import StepSize

_MOST_SHOWN = 4  # settings of parts, in the text of a kernel


class Kernel(tfp.mcmc.TransitionKernel):
  """A kernel that keeps the arguments of its constructor.

  Args:
    parameters: Dict of the arguments of the subclass, with `step_size` and `name`.
  """

  def __init__(self, parameters: dict[str, Any]) -> None:
    self._parameters = parameters

  @property
  def parameters(self) -> dict[str, Any]:
    """The arguments of the constructor, by name."""
    return self._parameters

  @property
  def step_size(self) -> StepSize:
    return self._parameters['step_size']

  @property
  def name(self) -> str:
    return self._parameters['name']

  def __repr__(self):
    settings = ', '.join(
      f'{name}={shown(value)}'
      for name, value in self._parameters.items()
      if name != 'name' and not callable(value)
    )
    return f'{type(self).__name__}({settings})'


def shown(value):
  """A setting as text, in short; '?' for a number that is known only when a graph runs."""
  if isinstance(value, (list, tuple)):
    return f'[{", ".join(map(shown, value[:_MOST_SHOWN]))}{", ..." * (len(value) > _MOST_SHOWN)}]'
  if isinstance(value, (bool, str)):
    return repr(value)
  shape = tf.convert_to_tensor(value).shape
  if shape.rank != 0:
    return f'array of shape {shape}'
  known = checks.static_value(value)
  return '?' if known is None else f'{known:.4g}'


def check_settings(log_prob_fn, step_size, damping=1.0, num_integrator_steps=1):
  """Refuses arguments that no kernel can have."""
  if not callable(log_prob_fn):
    raise errors.InputError(
      f'The log-density must be callable. Received: {type(log_prob_fn).__name__}'
    )
  for value in parts_lib.to_list(step_size):
    checks.positive('step_size', value)
  for value in parts_lib.to_list(damping):
    checks.unit_interval('damping', value)
  if isinstance(num_integrator_steps, (int, float)):
    checks.positive_integer('num_integrator_steps', num_integrator_steps)


def per_part(value, parts):
  """A scalar setting, or a list with one for each part, as a list of tensors."""
  values = parts_lib.to_list(value)
  if len(values) not in (1, len(parts)):
    raise errors.InputError(
      f'A list of step sizes or dampings must have an entry for each of the {len(parts)} state '
      f'parts. Received: {len(values)} entries'
    )
  values = values * len(parts) if len(values) == 1 else values
  return [tf.cast(v, p.dtype) for v, p in zip(values, parts, strict=True)]


def convert(setting, dtype):
  """A setting, or a list of them, as tensors."""
  return tf.nest.map_structure(lambda v: tf.convert_to_tensor(v, dtype), setting)


def accept(log_accept_ratio, seed):
  """Whether each chain accepts, `[*chains]`. A proposal of unknown energy (NaN) is rejected."""
  dtype = log_accept_ratio.dtype
  u = random.bits_to_uniform(random.random_bits(tf.shape(log_accept_ratio), dtype, seed), dtype)
  return tf.math.log(u) < log_accept_ratio  # false for NaN
