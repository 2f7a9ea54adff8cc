"""The version of the package, read by `setup.py` without importing it."""

__version__ = '0.1.0'
