"""Transition kernels for `tfp.mcmc`."""

from tfp_reprior.mcmc.conditional_moves import ConditionalMoves
from tfp_reprior.mcmc.crank_nicolson import CrankNicolsonResults, PreconditionedCrankNicolson
from tfp_reprior.mcmc.jittered import Jittered, JitteredResults, KernelSettings
from tfp_reprior.mcmc.langevin_kernel import LangevinResults
from tfp_reprior.mcmc.rotation_langevin import RotationLangevin, UncalibratedRotationLangevin
from tfp_reprior.mcmc.underdamped_langevin import (
  UncalibratedUnderdampedLangevin,
  UnderdampedLangevin,
)

__all__ = [
  'ConditionalMoves',
  'CrankNicolsonResults',
  'Jittered',
  'JitteredResults',
  'KernelSettings',
  'LangevinResults',
  'PreconditionedCrankNicolson',
  'RotationLangevin',
  'UncalibratedRotationLangevin',
  'UncalibratedUnderdampedLangevin',
  'UnderdampedLangevin',
]
__dir__ = __all__.copy
