"""Keras layers in NTK parametrisation."""

from tfp_reprior.layers.ntk_conv2d import NTKConv2D
from tfp_reprior.layers.ntk_dense import NTKDense
from tfp_reprior.layers.ntk_layer import NTKLayer

__all__ = ['NTKConv2D', 'NTKDense', 'NTKLayer']
