"""What a run is asked for."""

import dataclasses
import math
import numbers
from collections.abc import Sequence

from tfp_reprior import errors
from tfp_reprior.bijectors import layer_maps
from tfp_reprior.diagnostics import projections
from tfp_reprior.internal import checks
from tfp_reprior.mcmc import integrators
from tfp_reprior.models import data_space_layers
from tfp_reprior.sampling import samplers, starts

_FEWEST_WARMUP_STEPS = 100
_OPTIMIZATION_STEPS = 150  # more of them fit noise, which chains take long to forget


@dataclasses.dataclass(frozen=True)
class Settings:
  """What `sample_posterior` is asked for; see there.

  #### Examples

  ```python
  import tfp_reprior as tfr

  settings = tfr.sampling.Settings(num_results=500, thinning=20)
  settings.warmup_budget  # ==> 2700 gradients of each chain
  ```
  """

  num_chains: int = 4
  num_results: int = 1000
  num_warmup_steps: int | None = None
  num_burnin_steps: int | None = None
  thinning: int = 10
  sampler: str = 'auto'
  regularizer: float | str | None = None
  hidden_space: str | None = None
  layer_regularizer: float | str | Sequence[float] | None = None
  moves_readout: bool | None = None
  num_stages: int | None = None
  step_size: float | None = None
  damping: float | None = None
  num_integrator_steps: int | None = None
  num_projections: int = 100
  num_kept_draws: int | None = None
  over_dispersion: float = 1.0
  start: str = 'auto'
  seed: int = 0

  def __post_init__(self):
    checks.one_of('sampler', self.sampler, samplers.NAMES)
    checks.one_of('start', self.start, starts.NAMES)
    if self.hidden_space is not None:
      checks.one_of('hidden_space', self.hidden_space, data_space_layers.HIDDEN_SPACES)
    if self.moves_readout is not None:
      self._set('moves_readout', checks.boolean('moves_readout', self.moves_readout))
    if self.num_stages is not None:
      known = tuple(integrators.rotations)
      self._set('num_stages', int(checks.one_of('num_stages', self.num_stages, known)))
    for name in ('num_chains', 'num_results', 'thinning'):
      self._set(name, checks.positive_integer(name, getattr(self, name)))
    most = projections.MOST
    count = checks.positive_integer('num_projections', self.num_projections, most)
    self._set('num_projections', count)
    for name in ('num_burnin_steps', 'num_kept_draws'):
      if getattr(self, name) is not None:
        self._set(name, checks.natural_number(name, getattr(self, name)))
    if self.num_integrator_steps is not None:
      value = checks.positive_integer('num_integrator_steps', self.num_integrator_steps)
      self._set('num_integrator_steps', value)
    for name in ('step_size', 'over_dispersion'):
      if getattr(self, name) is not None:
        self._set(name, float(checks.positive(name, checks.scalar(name, getattr(self, name)))))
    if self.damping is not None:
      self._set(
        'damping', float(checks.unit_interval('damping', checks.scalar('damping', self.damping)))
      )
    self._check_warmup()
    if self.sampler.endswith('standard') and self.regularizer not in (None, math.inf):
      raise errors.InputError(
        f'The sampler {self.sampler!r} has no map to regularize: leave `regularizer` out, or give '
        f'infinity. Received: regularizer={self.regularizer!r}'
      )
    self._check_layer_regularizer()
    if self.regularizer == 'tuned':
      self._check_tuned('regularizer')
    elif not (self.regularizer in (None, math.inf) or isinstance(self.regularizer, str)):
      self._set(
        'regularizer',
        float(checks.positive('regularizer', checks.scalar('regularizer', self.regularizer))),
      )
    self._set('seed', checks.seed('seed', self.seed))

  def _check_layer_regularizer(self):
    value = self.layer_regularizer
    if value is None or value == math.inf:
      return
    if self.sampler.endswith('standard') or self.regularizer in ('tuned', math.inf):
      raise errors.InputError(
        'A map on every layer goes with one on the readout: leave `layer_regularizer` out. '
        f'Received: layer_regularizer={value}, sampler={self.sampler!r}, '
        f'regularizer={self.regularizer!r}'
      )
    if isinstance(value, str) and value == 'tuned':
      self._check_tuned('layer_regularizer')
      return
    is_one = isinstance(value, numbers.Real)
    values = layer_maps.check_regularizers('layer_regularizer', [value] if is_one else value)
    self._set('layer_regularizer', values[0] if is_one else values)

  def _check_tuned(self, name):
    if self.step_size is not None:
      raise errors.InputError(
        f"`{name}='tuned'` finds a step size for each of several regularizers: leave "
        f'`step_size` out. Received: step_size={self.step_size}'
      )

  def _check_warmup(self):
    if self.num_warmup_steps is None:
      return
    if self.step_size is not None:
      raise errors.InputError(
        '`num_warmup_steps` is for finding a `step_size`: give one of the two. Received: '
        f'num_warmup_steps={self.num_warmup_steps}, step_size={self.step_size}'
      )
    if checks.positive_integer('num_warmup_steps', self.num_warmup_steps) < _FEWEST_WARMUP_STEPS:
      raise errors.InputError(
        f'`num_warmup_steps` must be {_FEWEST_WARMUP_STEPS} or more. Received: '
        f'num_warmup_steps={self.num_warmup_steps}'
      )
    self._set('num_warmup_steps', int(self.num_warmup_steps))

  @property
  def known_layer_regularizer(self) -> float | Sequence[float] | None:
    """That of a map on every layer; None if there is none, or warm-up may choose it."""
    is_known = self.layer_regularizer not in (None, 'tuned', math.inf)
    return self.layer_regularizer if is_known else None  # type: ignore[return-value]

  @property
  def warmup_budget(self) -> int:
    """Gradients of each chain for warm-up; none if the step size is given."""
    if self.step_size is not None:
      return 0
    return self.num_warmup_steps or 700 + self.num_results * self.thinning // 5

  @property
  def burnin_budget(self) -> int:
    """Gradients of each chain between warm-up and the first draw."""
    if self.num_burnin_steps is not None:
      return self.num_burnin_steps
    return 0 if self.step_size is None else self.num_results * self.thinning // 5

  @property
  def budgets(self) -> dict[str, int]:
    """Gradients of each chain before the first draw, by phase.

    An optimization takes at most a third of those of warm-up.
    """
    num_first = 0
    if self.start == 'optimized':
      num_first = min(self.warmup_budget // 3 or _OPTIMIZATION_STEPS, _OPTIMIZATION_STEPS)
    return {
      'optimization': num_first,
      'warm-up': max(0, self.warmup_budget - num_first),
      'burn-in': self.burnin_budget,
    }

  def _set(self, name, value):
    """Takes over a plain Python number, which JSON can hold."""
    object.__setattr__(self, name, value)
