"""Samples from the exact posterior of wide Bayesian neural networks, fast."""

import importlib
import os
import sys
import warnings

from tfp_reprior.version import __version__

# Rooms, and the names at the top with the room that each comes from. All are imported when they are
# first used: TensorFlow takes seconds to import, which `tfp-reprior --help` should not wait for.
_ROOMS = (
  'bijectors',
  'compilation',
  'data',
  'densities',
  'diagnostics',
  'errors',
  'experimental',
  'figures',
  'layers',
  'likelihoods',
  'mcmc',
  'models',
  'report',
  'sampling',
  'sklearn',
  'theory',
)
_NAMES = {
  'CollapsedPosterior': 'densities',
  'ComposedPosterior': 'densities',
  'LayerwisePosterior': 'densities',
  'LayerwiseReprior': 'bijectors',
  'Posterior': 'densities',
  'ReadoutReprior': 'bijectors',
  'load_result': 'sampling',
  'make_sampler': 'sampling',
  'sample_posterior': 'sampling',
  'warm_up': 'sampling',
}

__all__ = ['__version__', *_NAMES, *_ROOMS]


def __getattr__(name):
  if name in _ROOMS:
    return importlib.import_module(f'tfp_reprior.{name}')
  if name in _NAMES:
    value = getattr(importlib.import_module(f'tfp_reprior.{_NAMES[name]}'), name)
    globals()[name] = value  # found without this function from now on
    return value
  raise AttributeError(f'module {__name__!r} has no attribute {name!r}')


def __dir__():
  return sorted(__all__)


if os.environ.get('KERAS_BACKEND', 'tensorflow') != 'tensorflow':
  # No error: the command line would show its traceback. What is used next raises one.
  warnings.warn(
    'tfp_reprior needs Keras with the backend tensorflow: set KERAS_BACKEND=tensorflow in the '
    f'environment. Received: KERAS_BACKEND={os.environ["KERAS_BACKEND"]}',
    stacklevel=2,
  )
if 'keras' in sys.modules:
  # Keras loads a saved model only if the layers in it were imported before, and may be about to.
  importlib.import_module('tfp_reprior.layers')
