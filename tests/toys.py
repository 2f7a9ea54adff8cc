"""Small models and posteriors that several tests share."""

import keras
import numpy as np

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


def functional(input_shape, *layers):
  """A functional model of one layer (or model) after the other."""
  inputs = outputs = keras.Input(input_shape)
  for layer in layers:
    outputs = layer(outputs)
  return keras.Model(inputs, outputs)
