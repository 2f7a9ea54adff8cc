"""Chunks of rows: the same numbers as the whole, and bounded activations."""

import numpy as np
import pytest
import tensorflow as tf
import toys

import tfp_reprior as tfr
from tfp_reprior.internal import chunks


def _features(values, x):
  [w] = values
  return tf.sin(tf.matmul(x, w))  # [*chains, m, d]


@pytest.mark.parametrize('size', [1, 2, 3, 5, 6, 7, 100, None])
@pytest.mark.parametrize('chains', [(), (2,), (2, 3)])
@pytest.mark.parametrize('how', ['eager', 'traced'])
def test_values_and_gradients_are_those_of_the_whole(size, chains, how):
  rng = np.random.default_rng(0)
  x, w = tf.constant(rng.normal(size=[6, 3])), tf.constant(rng.normal(size=[*chains, 3, 4]))
  upstream = rng.normal(size=[*chains, 6, 4])

  def evaluate(w):
    with tf.GradientTape() as tape:
      tape.watch(w)
      outputs = chunks.apply(_features, [w], x, size)
    return outputs, tape.gradient(outputs, w, output_gradients=upstream)

  outputs, gradient = (tf.function(evaluate) if how == 'traced' else evaluate)(w)
  assert outputs.shape == (*chains, 6, 4)
  hidden = np.einsum('nj,...jd->...nd', x, w)
  np.testing.assert_allclose(outputs, np.sin(hidden), rtol=1e-12)
  expected = np.einsum('nj,...nd->...jd', x, upstream * np.cos(hidden))
  np.testing.assert_allclose(gradient, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize('size', [5, None])
def test_no_activation_is_there_for_all_data(size):
  n, width = 50, 70

  def features(values, x):
    return tf.matmul(tf.sin(tf.matmul(x, values[0])), values[1])

  @tf.function
  def evaluate(*values):
    with tf.GradientTape() as tape:
      tape.watch(values)
      outputs = chunks.apply(features, list(values), tf.ones([n, 3]), size)
    return tape.gradient(outputs, values)

  specs = tf.TensorSpec([3, width]), tf.TensorSpec([width, 2])
  graph_def = evaluate.get_concrete_function(*specs).graph.as_graph_def(add_shapes=True)
  nodes = [*graph_def.node, *(n for f in graph_def.library.function for n in f.node_def)]
  shapes = {
    tuple(d.size for d in shape.dim)
    for node in nodes
    for shape in node.attr['_output_shapes'].list.shape
  }
  assert ((n, width) in shapes) == (size is None)  # a control: it is seen where it is
  assert ((5, width) in shapes) == (size == 5)


def test_a_network_sees_no_more_rows_than_a_chunk():
  posterior = toys.tiny_posterior(n=7)
  split = posterior.split.in_chunks(3)
  seen = []
  inner = split.embedding  # looked into: how many rows go through is not to be seen from outside
  split.embedding = lambda values, x: seen.append(x.shape[0]) or inner(values, x)
  parts = posterior.sample_prior(seed=1)
  np.testing.assert_allclose(
    split.apply(parts, posterior.x), posterior.split.apply(parts, posterior.x), rtol=1e-12
  )
  assert set(seen) == {3, 1}


@pytest.mark.parametrize('dtype', [np.float64, np.float32, np.int32])
def test_inputs_may_be_arrays(dtype):
  posterior = toys.tiny_posterior(n=7)
  x = (4 * np.asarray(posterior.x)).astype(dtype)
  parts = posterior.sample_prior(seed=1)
  expected = posterior.split.apply(parts, x)
  np.testing.assert_allclose(posterior.split.in_chunks(3).apply(parts, x), expected, rtol=1e-12)


def test_the_split_given_is_not_changed():
  posterior = toys.tiny_posterior()
  tfr.Posterior(posterior.split, posterior.x, posterior.y, chunk_size=2, noise_scale=0.1)
  assert posterior.split.chunk_size is None


@pytest.mark.parametrize('chunk_size', [0, -1, 2.5])
def test_chunk_size_must_be_a_positive_integer(chunk_size):
  with pytest.raises(ValueError, match='`chunk_size` must be a positive integer'):
    toys.tiny_posterior().split.in_chunks(chunk_size)
