"""Refuses to be imported beside a Keras that does not compute with TensorFlow."""

import os

from tfp_reprior import errors

_MESSAGE = (
  'tfp_reprior needs Keras with the backend tensorflow: set KERAS_BACKEND=tensorflow in the '
  'environment, or in ~/.keras/keras.json, before Keras is imported. Received: the backend {!r}'
)

# Asked for, then in use: one that is not installed would fail in the import of Keras.
if os.environ.get('KERAS_BACKEND', 'tensorflow') != 'tensorflow':
  raise errors.InputError(_MESSAGE.format(os.environ['KERAS_BACKEND']))

try:
  import keras  # noqa: E402
except ImportError as e:  # of a backend of ~/.keras/keras.json that is not installed
  raise errors.InputError(_MESSAGE.format(f'that cannot be imported ({e})')) from e

if keras.backend.backend() != 'tensorflow':
  raise errors.InputError(_MESSAGE.format(keras.backend.backend()))
