"""The graph of a Keras model: where its readout is, and which layers own its weights."""

import keras
import tensorflow as tf

from tfp_reprior import errors
from tfp_reprior.layers import ntk_dense


def split(model):
  """Splits a model at its readout.

  Args:
    model: A `keras.Model`.

  Returns:
    model: The same as a model whose graph is known, with the same variables.
    embedding: The model up to the input of its readout.
    readout: A linear layer.
  """
  model = _with_graph(model)
  if len(model.inputs) != 1 or len(model.outputs) != 1:
    raise errors.InputError(
      f'The model must have one input and one output. Received: {model.name!r} with '
      f'{len(model.inputs)} inputs and {len(model.outputs)} outputs'
    )
  # `_keras_history` is private to Keras, but it is the only record of which call of the layer
  # produced the output: `layer.input` is the input of its first call, whatever became of that.
  readout, node_index, _ = model.outputs[0]._keras_history
  inputs = readout._inbound_nodes[node_index].input_tensors
  if isinstance(readout, keras.Model):  # a nested model at the end: split that one
    _, inner_embedding, readout = split(readout)
    return model, keras.Model(model.inputs[0], inner_embedding(inputs[0])), readout
  if not isinstance(readout, (ntk_dense.NTKDense, keras.layers.Dense)):
    raise errors.InputError(
      'The model must end in a linear `NTKDense` or `keras.layers.Dense`; what follows it, such '
      'as a softmax, belongs to the likelihood. Received: a model that ends in '
      f'{readout.name!r} of type {type(readout).__name__}'
    )
  if readout.activation is not keras.activations.linear:
    raise errors.InputError(
      'The readout must be linear; its activation belongs to the likelihood. Received: '
      f'{readout.name!r} with activation {keras.activations.serialize(readout.activation)!r}'
    )
  if len(model.outputs[0].shape) != 2:
    raise errors.InputError(
      'The output of the model must have shape [n, k]. Received: an output of shape '
      f'{model.outputs[0].shape}'
    )
  return model, keras.Model(model.inputs[0], inputs[0]), readout


def _with_graph(model):
  """The model, or for a subclass the functional model of the layers that it calls."""
  if not isinstance(model, keras.Model):
    raise errors.InputError(f'`model` must be a `keras.Model`. Received: {type(model).__name__}')
  if getattr(model, 'outputs', None):
    return model
  received = f'Received: {model.name!r} of type {type(model).__name__}'
  input_shape = (model.get_build_config() or {}).get('input_shape')
  if input_shape is None or isinstance(model, keras.Sequential):
    raise errors.InputError(
      'The model cannot be split at its readout, because its shapes are not known: it must begin '
      f'with a `keras.Input`, or be called once on data. {received}'
    )
  if not isinstance(input_shape, (list, tuple)) or not all(map(_is_size, input_shape)):
    raise errors.InputError(f'The model must have one input. {received} with inputs {input_shape}')
  inputs = keras.Input(tuple(input_shape[1:]), dtype=model.compute_dtype, name='inputs')
  try:
    outputs = model.call(inputs)  # not `model(inputs)`, which would hide the layers in it
  except (TypeError, ValueError, AttributeError, NotImplementedError) as e:
    raise errors.InputError(
      'The model cannot be split at its readout: its `call` must take one argument, and use Keras '
      f'layers and `keras.ops` only, not functions of TensorFlow. {received}: {e}'
    ) from e
  functional = keras.Model(inputs, outputs, name=model.name)
  known = {id(v) for v in functional.variables}
  others = [v.path for v in model.variables if id(v) not in known]
  if others:
    raise errors.InputError(
      'All weights of the model must belong to layers that it calls. Received: '
      f'{model.name!r} of type {type(model).__name__} with {others} besides'
    )
  return functional


def _is_size(size):
  return size is None or isinstance(size, int)


def layers(layer):
  """A layer or model and all layers in it, innermost first."""
  # Private to Keras; the public `Model.layers` is there for models only.
  for inner in layer._flatten_layers(include_self=False, recursive=False):
    yield from layers(inner)
  yield layer


def owners(model):
  """Dict from the `id` of each trainable variable to the innermost layer that has it."""
  result = {}
  for layer in layers(model):
    for variable in layer.trainable_variables:
      result.setdefault(id(variable), layer)
  return result


def check_state(model, embedding, readout):
  """Refuses a model whose weights are not just the hidden ones, then those of the readout."""
  for layer in layers(model):
    if layer.non_trainable_variables:
      raise errors.InputError(
        'A posterior over weights needs every variable to be a trainable weight (no batch '
        f'normalization, dropout or frozen layers). Received: layer {layer.name!r} of type '
        f'{type(layer).__name__} with non-trainable variables '
        f'{[v.name for v in layer.non_trainable_variables]}'
      )
  hidden_ids = {id(v) for v in embedding.trainable_variables}
  if any(id(v) in hidden_ids for v in readout.trainable_variables):
    raise errors.InputError(
      'The weights of the readout must be used once. Received: readout '
      f'{readout.name!r}, which is shared with the layers before it'
    )
  expected = [*embedding.trainable_variables, *readout.trainable_variables]
  if [id(v) for v in model.trainable_variables] != [id(v) for v in expected]:
    raise errors.InputError(
      'The trainable variables of the model must be those of the layers before the readout, '
      'then those of the readout. Received: '
      f'{[v.path for v in model.trainable_variables]}'
    )
  # Inputs and models have a dtype of their own that nothing is computed in.
  aside = (keras.layers.InputLayer, keras.Model)
  inner = [layer for layer in layers(model) if not isinstance(layer, aside)]
  dtypes = {v.dtype for v in expected} | {layer.compute_dtype for layer in inner}
  dtypes |= {i.dtype for i in model.inputs if tf.as_dtype(i.dtype).is_floating}
  dtypes = sorted(dtypes)
  if dtypes not in (['float32'], ['float64']):
    raise errors.InputError(
      'The model must be float32 or float64 throughout (set the dtype policy of its layers). '
      f'Received: {", ".join(dtypes)}'
    )
