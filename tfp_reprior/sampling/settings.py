"""What a run is asked for."""

import dataclasses
import math

from tfp_reprior.internal import checks


@dataclasses.dataclass(frozen=True)
class Settings:
  """What `sample_posterior` is asked for; see there."""

  num_chains: int = 4
  num_results: int = 1000
  num_burnin_steps: int | None = None
  thinning: int = 10
  sampler: str = 'auto'
  regularizer: float | str | None = None
  step_size: float | None = None
  damping: float | None = None
  num_integrator_steps: int | None = None
  num_tuning_steps: int = 200
  max_tuning_seconds: float | None = None
  num_projections: int = 100
  num_kept_draws: int | None = None
  over_dispersion: float = 1.0
  seed: int = 0

  def __post_init__(self):
    for name in ('num_chains', 'num_results', 'thinning', 'num_tuning_steps', 'num_projections'):
      self._set(name, checks.positive_integer(name, getattr(self, name)))
    for name in ('num_burnin_steps', 'num_kept_draws'):
      if getattr(self, name) not in (None, 0):
        self._set(name, checks.positive_integer(name, getattr(self, name)))
    if self.num_integrator_steps is not None:
      value = checks.positive_integer('num_integrator_steps', self.num_integrator_steps)
      self._set('num_integrator_steps', value)
    for name in ('step_size', 'max_tuning_seconds', 'over_dispersion'):
      if getattr(self, name) is not None:
        self._set(name, float(checks.positive(name, getattr(self, name))))
    if self.damping is not None:
      self._set('damping', float(checks.unit_interval('damping', self.damping)))
      if self.step_size is None:
        raise ValueError(
          f'`damping` needs a `step_size` beside it. Received: damping={self.damping}, '
          'step_size=None'
        )
    if self.regularizer is None:
      self._set('regularizer', 'noise')  # one name for what is the same run
    elif self.regularizer == 'tuned':
      self._check_tuned_regularizer()
    elif not isinstance(self.regularizer, str) and self.regularizer != math.inf:
      self._set('regularizer', float(checks.positive('regularizer', self.regularizer)))
    if not isinstance(self.seed, int):
      raise TypeError(f'`seed` must be an integer. Received: seed={self.seed!r}')

  def _check_tuned_regularizer(self):
    if self.step_size is not None:
      raise ValueError(
        "`regularizer='tuned'` finds a step size for each of several regularizers: leave "
        f'`step_size` out. Received: step_size={self.step_size}'
      )
    if self.sampler.endswith('standard'):
      raise ValueError(
        f"`regularizer='tuned'` is for samplers with a map. Received: sampler={self.sampler!r}"
      )

  def _set(self, name, value):
    """Takes over a plain Python number, which JSON can hold."""
    object.__setattr__(self, name, value)

  @property
  def num_burnin_draws(self):
    """Burn-in in draws of `thinning` steps; by default a fifth of `num_results`."""
    steps = self.num_burnin_steps
    return self.num_results // 5 if steps is None else -(-steps // self.thinning)
