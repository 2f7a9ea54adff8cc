"""Data sets, prepared as in Hron et al. (2022). Nothing is ever downloaded."""

from tfp_reprior.data.loading import BUILT_IN, Dataset, load, load_new
from tfp_reprior.data.preparation import Preparation, centered_one_hot, standardize

__all__ = [
  'BUILT_IN',
  'Dataset',
  'Preparation',
  'centered_one_hot',
  'load',
  'load_new',
  'standardize',
]
__dir__ = __all__.copy
