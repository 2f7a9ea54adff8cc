"""Activations by name."""

import re

import keras
import numpy as np
import numpy_layers
import pytest

from tfp_reprior.layers import activations


@pytest.mark.parametrize('name', numpy_layers.ACTIVATIONS)
def test_activations_are_those_of_numpy(name):
  x = np.linspace(-4, 4, 101)
  expected = numpy_layers.ACTIVATIONS[name](x)
  atol = numpy_layers.TOLERANCES[name]
  np.testing.assert_allclose(activations.get(name)(x), expected, rtol=0, atol=atol)


def test_erf_can_be_written_and_read():
  config = keras.activations.serialize(activations.get('erf'))
  assert activations.get(config) is activations.erf
  assert keras.activations.get(config) is activations.erf


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
