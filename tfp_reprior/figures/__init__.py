"""Figures of the paper, and of what it proves, each by one call."""

from tfp_reprior.figures.making import FIGURES, SCALES, make_figure

__all__ = ['FIGURES', 'SCALES', 'make_figure']
__dir__ = __all__.copy
