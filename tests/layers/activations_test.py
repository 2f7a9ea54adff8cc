"""Activations by name."""

import re

import keras
import numpy as np
import numpy_layers
import pytest
import scipy.stats
import tensorflow as tf

from tfp_reprior.layers import activations


@pytest.mark.parametrize('name', numpy_layers.ACTIVATIONS)
def test_activations_are_those_of_numpy(name):
  x = np.linspace(-4, 4, 101)
  expected = numpy_layers.ACTIVATIONS[name](x)
  np.testing.assert_allclose(activations.get(name)(x), expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize('name', ['erf', 'gelu'])
def test_own_activations_can_be_written_and_read(name):
  own = getattr(activations, name)
  config = keras.activations.serialize(activations.get(name))
  assert activations.get(config) is own
  assert keras.activations.get(config) is own


def test_gelu_has_its_derivatives_backwards_and_forwards():
  x = tf.linspace(tf.constant(-4.0, tf.float64), 4.0, 101)
  density = scipy.stats.norm.pdf(x)
  first, second = scipy.stats.norm.cdf(x) + x * density, (2 - x**2) * density
  with tf.GradientTape() as outer, tf.GradientTape() as tape:
    outer.watch(x)
    tape.watch(x)
    y = activations.gelu(x)
    grad = tape.gradient(y, x)
  np.testing.assert_allclose(grad, first, rtol=0, atol=1e-14)
  np.testing.assert_allclose(outer.gradient(grad, x), second, rtol=0, atol=1e-14)
  with tf.autodiff.ForwardAccumulator(x, tf.ones_like(x)) as accumulator:
    y = activations.gelu(x)
  np.testing.assert_allclose(accumulator.jvp(y), first, rtol=0, atol=1e-14)


def test_the_gelu_of_keras_is_taken_for_our_own():
  assert activations.get(keras.activations.gelu) is activations.gelu


def test_functions_are_taken_as_they_are_and_nothing_is_the_identity():
  assert activations.get(np.sin) is np.sin
  assert activations.get(None) is keras.activations.linear


@pytest.mark.parametrize('activation', ['sine', '', 3])
def test_unknown_activations_are_refused(activation):
  message = (
    "`activation` must be 'erf', a name of Keras such as 'gelu', 'relu' or 'tanh', or a function. "
    f'Received: activation={activation!r}'
  )
  with pytest.raises(ValueError, match=re.escape(message)):
    activations.get(activation)
