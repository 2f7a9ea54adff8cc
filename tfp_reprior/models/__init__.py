"""Keras models in NTK parametrisation, and the split of any model at its linear readout."""

from tfp_reprior.models.fcn import fcn
from tfp_reprior.models.readout_split import ReadoutSplit

__all__ = ['ReadoutSplit', 'fcn']
