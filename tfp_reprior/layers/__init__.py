"""Keras layers in NTK parametrisation."""

from tfp_reprior.layers.ntk_conv2d import NTKConv2D
from tfp_reprior.layers.ntk_dense import NTKDense
from tfp_reprior.layers.ntk_layer import NTKLayer
from tfp_reprior.layers.ntk_position import NTKPosition
from tfp_reprior.layers.ntk_self_attention import NTKSelfAttention
from tfp_reprior.layers.scaled_sum import ScaledSum

__all__ = ['NTKConv2D', 'NTKDense', 'NTKLayer', 'NTKPosition', 'NTKSelfAttention', 'ScaledSum']
__dir__ = __all__.copy
