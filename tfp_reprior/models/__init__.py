"""Keras models in NTK parametrisation, and the split of any model at its linear readout."""

from tfp_reprior.models.attention import attention
from tfp_reprior.models.cnn import cnn
from tfp_reprior.models.fcn import fcn
from tfp_reprior.models.readout_split import ReadoutSplit
from tfp_reprior.models.wide_resnet import wide_resnet

__all__ = ['ReadoutSplit', 'attention', 'cnn', 'fcn', 'wide_resnet']
__dir__ = __all__.copy
