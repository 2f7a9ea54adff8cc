"""Custom gradients of runs are forgotten, and no others."""

import gc
import weakref

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import ops

import tfp_reprior as tfr
from tfp_reprior.internal import gradients


@tf.custom_gradient
def _square(x):
  return x * x, lambda upstream: 3 * upstream * x  # not 2, to know it by


def _trace_ours():
  x = np.linspace(-1, 1, 4, dtype=np.float32)[:, np.newaxis]
  posterior = tfr.Posterior(tfr.models.fcn((1,), 1, width=3, depth=1), x, x, 0.1)
  parts = posterior.sample_prior((), seed=0)
  function = tf.function(lambda *parts: tf.gradients(posterior.log_prior_fn(*parts), parts))
  return weakref.ref(function.get_concrete_function(*parts).graph)


def test_graphs_are_freed_and_gradients_of_others_are_kept():
  before = set(ops.gradient_registry._registry)
  kept = _trace_ours()
  gc.collect()
  assert kept() is not None and set(ops.gradient_registry._registry) - before  # what is cured here
  before = set(ops.gradient_registry._registry)
  function = tf.function(_square)
  with gradients.forgotten():
    graph = _trace_ours()
    function.get_concrete_function(tf.constant(1.0))
  gc.collect()
  assert graph() is None
  assert len(set(ops.gradient_registry._registry) - before) == 1
  with tf.GradientTape() as tape:
    x = tf.constant(2.0)
    tape.watch(x)
    y = function(x)
  assert float(tape.gradient(y, x)) == 6.0
