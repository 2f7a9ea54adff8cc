"""Transition kernels for `tfp.mcmc`."""

from tfp_reprior.mcmc.langevin_kernel import LangevinResults
from tfp_reprior.mcmc.underdamped_langevin import (
  UncalibratedUnderdampedLangevin,
  UnderdampedLangevin,
)

__all__ = ['LangevinResults', 'UncalibratedUnderdampedLangevin', 'UnderdampedLangevin']
