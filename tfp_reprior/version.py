"""The version of the package, read by `setup.py` without importing it."""

__version__ = '0.2.0'
