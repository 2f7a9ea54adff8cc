"""A report of one run or several: one page of HTML that needs nothing else."""

from tfp_reprior.report.page import write_report

__all__ = ['write_report']
__dir__ = __all__.copy
