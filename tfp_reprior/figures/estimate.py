"""How long pieces of a figure will take, by a gradient of the smallest and of the largest."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tensorflow_probability as tfp

from tfp_reprior import compilation, models
from tfp_reprior.densities import posterior as posterior_lib

MODELS: dict[str, Callable] = {
  'fcn': models.fcn,
  'cnn': models.cnn,
  'wide_resnet': models.wide_resnet,
}
INPUT_SHAPES = {'digits': (8, 8), 'cifar10': (32, 32, 3)}
_NUM_OUTPUTS = 10
# What a piece takes beside its gradients, most of it to trace graphs: roughly what we saw.
_SECONDS_A_PIECE = 12.0
_NUM_TIMED = 3


class Work(NamedTuple):
  """What a piece consists of, as a number of gradients.

  Attributes:
    num_gradients: How many; a pass without gradient is a third of one.
    num_data: Of each of them.
    model: One of `MODELS`.
    network: Dict of its settings, with its `width`.
    input_shape: Of an input.
    num_chains: That have a gradient each, side by side.
  """

  num_gradients: float
  num_data: int
  model: str
  network: dict[str, Any]
  input_shape: tuple[int, ...]
  num_chains: int = 1

  @property
  def size(self) -> float:
    """The multiplications of a gradient, up to a factor that is the same for all sizes."""
    width, depth = self.network['width'], self.network.get('depth', 3)
    inputs = np.prod(self.input_shape) if self.model == 'fcn' else 0
    return float(self.num_chains * self.num_data * width * (inputs + (depth - 1) * width))


def seconds_of(works, is_smoke: bool = False) -> list[float]:
  """How long pieces take, about.

  The time of a gradient is taken as a straight line in its size, through that of the smallest and
  that of the largest of the same model, which are measured.

  Args:
    works: List of `Work`, or of None for pieces without gradients.
    is_smoke: Whether networks are so small that nothing need be measured.

  Returns:
    List of seconds.
  """
  seconds = [_SECONDS_A_PIECE if work is not None and not is_smoke else 2.0 for work in works]
  kinds = {(w.model, w.input_shape) for w in works if w is not None and not is_smoke}
  for kind in kinds:
    chosen = {i: w for i, w in enumerate(works) if w and (w.model, w.input_shape) == kind}
    by_size = sorted(chosen.values(), key=lambda work: work.size)
    ends = by_size[0], by_size[-1]
    sizes, times = [w.size for w in ends], [seconds_of_gradient(w) for w in ends]
    for i, work in chosen.items():
      at_size = times[1]
      if sizes[1] > sizes[0]:
        share = (work.size - sizes[0]) / (sizes[1] - sizes[0])
        at_size = times[0] + share * max(times[1] - times[0], 0.0)
      seconds[i] += work.num_gradients * at_size
  return seconds


def seconds_of_gradient(work: Work) -> float:
  """Measures value and gradient of the log-density of the weights, on random data."""
  rng = np.random.default_rng(0)
  x = rng.normal(size=(work.num_data, *work.input_shape)).astype(np.float32)
  y = rng.normal(size=(work.num_data, _NUM_OUTPUTS)).astype(np.float32)
  model = MODELS[work.model](work.input_shape, _NUM_OUTPUTS, **work.network)
  posterior = posterior_lib.Posterior(model, x, y, noise_scale=0.1)
  theta = posterior.sample_prior(work.num_chains, seed=1)
  function = compilation.function(
    lambda *parts: tfp.math.value_and_gradient(posterior.target_log_prob_fn, parts)
  )
  times = []
  for _ in range(_NUM_TIMED + 1):  # the first traces
    begin = time.perf_counter()
    function(*theta)
    times.append(time.perf_counter() - begin)
  return float(np.median(times[1:]))


class Clock:
  """Time that is left, by estimates that are corrected by what finished pieces took."""

  def __init__(self, estimates):
    self._estimates = list(estimates)
    self._num_done = 0
    self._taken = 0.0

  def finish(self, seconds: float) -> None:
    """Tells it that the next piece has taken so long."""
    self._num_done += 1
    self._taken += seconds

  @property
  def seconds_left(self) -> float:
    """Of all pieces that are not finished."""
    expected = sum(self._estimates[: self._num_done])
    speed = self._taken / expected if expected else 1.0
    return speed * sum(self._estimates[self._num_done :])


def as_text(seconds: float) -> str:
  """Such as `'about 3 minutes'`."""
  for unit, size in (('hours', 3600.0), ('minutes', 60.0)):
    if seconds >= 2 * size:
      return f'about {seconds / size:.0f} {unit}'
  return f'about {max(seconds, 1.0):.0f} seconds'
