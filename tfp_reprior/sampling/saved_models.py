"""Keras models in files: saved whole or not at all, and loaded without code of their own."""

import os
import warnings

import keras

from tfp_reprior import errors
from tfp_reprior.internal import files

_NEEDED = '`load_result` will need it as `model`'


def warn_of_layers(model):
  """Says before a run which layers keep `load_result` from loading the model by itself."""
  for layer in _all_layers(model):
    reason = _why_not_loaded(layer)
    if reason is not None:
      warnings.warn(
        f'The layer {layer.name!r} cannot be loaded again ({reason}): {_NEEDED}.', stacklevel=2
      )


def _all_layers(model):
  for layer in model.layers:
    yield from _all_layers(layer) if isinstance(layer, keras.Model) else [layer]


def _why_not_loaded(layer):
  """Why Keras cannot load a layer in another process, or `None`."""
  kind = type(layer)
  if isinstance(layer, keras.layers.Lambda):
    return 'a Lambda is code, which is not loaded from files'
  is_known = kind.__module__.partition('.')[0] == 'keras'
  if (
    not is_known
    and keras.saving.get_registered_object(keras.saving.get_registered_name(kind)) is None
  ):
    return (
      f'its class {kind.__name__} is not registered by keras.saving.register_keras_serializable'
    )
  try:
    # Without weights: they may be large, and strategies would make them on all workers at once.
    with keras.StatelessScope(initialize_variables=False):
      keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(layer))
  except Exception as e:  # Keras raises anything
    return ' '.join(str(e).split())[:200]
  return None


def save(model, path):
  """Saves a model, or warns that Keras cannot.

  Args:
    model: A `keras.Model`.
    path: The file, which ends in .keras.
  """
  temporary = files.temporary_path(path, '.keras')  # Keras insists on how the name ends
  try:
    model.save(temporary)
    with open(temporary, 'rb') as file:
      os.fsync(file.fileno())
    os.replace(temporary, path)  # whole or not at all
    files.sync_folder(path.parent)
  except (NotImplementedError, TypeError, ValueError) as e:
    warnings.warn(f'Keras cannot save the model ({e}): {_NEEDED}.', stacklevel=4)
  finally:
    temporary.unlink(missing_ok=True)


def load(path, seal):
  """Loads the model of a result, never with code of its own.

  Args:
    path: The file.
    seal: Its digest, as of `files.file_digest`.
  """
  again = 'give the model to `load_result` as `model`'
  if not path.exists():
    raise errors.InputError(f'{path} is missing: {again}')
  if files.file_digest(path) != seal:
    raise errors.InputError(f'{path} is damaged, or not the model of this result: {again}')
  try:
    return keras.models.load_model(path, safe_mode=True)
  except Exception as e:  # Keras raises anything
    raise errors.InputError(f'Keras cannot load {path} ({e}): {again}') from e
