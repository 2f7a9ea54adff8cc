"""Transition kernels for `tfp.mcmc`, and their tuning."""

from tfp_reprior.mcmc.crank_nicolson import CrankNicolsonResults, PreconditionedCrankNicolson
from tfp_reprior.mcmc.langevin_kernel import LangevinResults
from tfp_reprior.mcmc.pilots import Trial
from tfp_reprior.mcmc.regularizers import tune_regularizer
from tfp_reprior.mcmc.rotation_langevin import RotationLangevin, UncalibratedRotationLangevin
from tfp_reprior.mcmc.samplers import Sampler, make_sampler
from tfp_reprior.mcmc.split_chains import SplitChains
from tfp_reprior.mcmc.split_data import SplitData
from tfp_reprior.mcmc.tuning import Tuning, tune
from tfp_reprior.mcmc.underdamped_langevin import (
  UncalibratedUnderdampedLangevin,
  UnderdampedLangevin,
)

__all__ = [
  'CrankNicolsonResults',
  'LangevinResults',
  'PreconditionedCrankNicolson',
  'RotationLangevin',
  'Sampler',
  'SplitChains',
  'SplitData',
  'Trial',
  'Tuning',
  'UncalibratedRotationLangevin',
  'UncalibratedUnderdampedLangevin',
  'UnderdampedLangevin',
  'make_sampler',
  'tune',
  'tune_regularizer',
]
