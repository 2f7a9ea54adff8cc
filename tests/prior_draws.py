"""What layers of a model compute for weights drawn from the prior."""

import keras
import tensorflow as tf

import tfp_reprior as tfr


def second_moments(model, layer_names, x, num_draws, seed, where=None):
  """Mean squares of what some layers compute.

  Args:
    model: A `keras.Model` that can be split.
    layer_names: List of names of layers.
    x: Inputs `[n, ...]`.
    num_draws: Positive integer `s`.
    seed: A seed of TFP.
    where: A function of an output of a layer that selects entries of it; by default all.

  Returns:
    `[s, len(layer_names)]`: independent draws of the mean square over all entries selected.
  """
  probe = keras.Model(model.inputs[0], [model.get_layer(name).output for name in layer_names])
  positions = {id(v): i for i, v in enumerate(model.trainable_variables)}
  parts = tfr.models.ReadoutSplit(model).sample_prior(num_draws, seed)

  def one_draw(parts):
    values = [parts[positions[id(v)]] for v in probe.trainable_variables]
    outputs, _ = probe.stateless_call(values, [], x)
    selected = outputs if where is None else [where(h) for h in outputs]
    return tf.stack([tf.reduce_mean(tf.square(h)) for h in selected])

  @tf.function(autograph=False)
  def all_draws(parts):
    return tf.map_fn(one_draw, parts, fn_output_signature=parts[0].dtype)

  return all_draws(parts).numpy()
