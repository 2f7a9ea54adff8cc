"""Small models and posteriors that several tests share."""

import keras
import numpy as np
import tensorflow as tf

import tfp_reprior as tfr


def tiny_posterior(n=5, inputs=3, width=4, outputs=2, depth=1, bias=True, noise_scale=0.3, seed=0):
  """A posterior of a float64 network that is small enough for dense Jacobians."""
  rng = np.random.default_rng(seed)
  model = tfr.models.fcn(
    (inputs,),
    outputs,
    width,
    depth,
    readout_bias_std=0.1 if bias else 0.0,
    dtype='float64',
  )
  x, y = rng.normal(size=(n, inputs)), rng.normal(size=(n, outputs))
  return tfr.Posterior(model, x, y, noise_scale)


def flat(parts, chain_ndims=0):
  """Parts as one vector, `[*chains, p]`."""
  return tf.concat([tf.reshape(p, [*p.shape[:chain_ndims], -1]) for p in parts], axis=-1)


def unflat(vector, shapes):
  """The inverse of `flat`."""
  sizes = [int(np.prod(s)) for s in shapes]
  pieces = tf.split(vector, sizes, axis=-1)
  return [tf.reshape(v, [*vector.shape[:-1], *s]) for v, s in zip(pieces, shapes, strict=True)]


def jacobian(function, vector):
  """The dense Jacobian `[p, p]` of a function of chains `[c, p]`, by one gradient.

  Row i is the gradient of output i in chain i of p equal ones, which other tests show to be
  independent. Much faster than `tf.GradientTape.jacobian`.
  """
  rows = tf.tile(vector[tf.newaxis], [len(vector), 1])
  with tf.GradientTape() as tape:
    tape.watch(rows)
    trace = tf.linalg.trace(function(rows))
  return tape.gradient(trace, rows).numpy()


def functional(input_shape, *layers):
  """A functional model of one layer (or model) after the other."""
  inputs = outputs = keras.Input(input_shape)
  for layer in layers:
    outputs = layer(outputs)
  return keras.Model(inputs, outputs)
