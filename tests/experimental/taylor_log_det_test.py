"""The Taylor series of the log-determinant: its value, error, gradient and memory."""

import functools

import numpy as np
import pytest
import tensorflow as tf
import toys

import tfp_reprior as tfr
from tfp_reprior.experimental import steps, tangent_kernel, taylor_log_det

NUM_PROBES = 20_000
REGULARIZER = 5.0  # eigenvalues of H are less than one, so that the series converges


@functools.cache
def _posterior(activation='gelu'):
  rng = np.random.default_rng(0)
  model = tfr.models.fcn((2,), 2, 3, 1, activation, dtype='float64')
  return tfr.Posterior(model, rng.normal(size=(4, 2)), rng.normal(size=(4, 2)), noise_scale=0.3)


@functools.cache
def _hessians(activation='gelu'):
  """`potential`, phi, a and dense H `[p, p]` of two chains, by `tf.GradientTape.jacobian`."""
  posterior = _posterior(activation)
  split = posterior.split
  step_fn = steps.LevenbergMarquardt(
    split,
    posterior.x,
    posterior.y,
    tf.constant(REGULARIZER, tf.float64),
    tangent_kernel.TangentKernel(split),
  )
  phi = posterior.sample_prior(2, seed=1)
  a = step_fn(phi).coefficients
  dense = []
  for c in range(2):
    parts = [p[c] for p in phi]
    with tf.GradientTape(persistent=True) as outer:
      outer.watch(parts)
      with tf.GradientTape() as inner:
        inner.watch(parts)
        value = tf.reduce_sum(a[c] * tf.reshape(split.apply(parts, posterior.x), [-1]))
      grads = inner.gradient(value, parts)
      flat = tf.concat([tf.reshape(g, [-1]) for g in grads], axis=0)
    rows = outer.jacobian(
      flat, parts, unconnected_gradients=tf.UnconnectedGradients.ZERO, experimental_use_pfor=False
    )
    dense.append(np.concatenate([np.reshape(r, [len(flat), -1]) for r in rows], axis=1))
  return step_fn.potential, phi, a, dense


def _estimate(series, activation='gelu'):
  potential, phi, a, _ = _hessians(activation)

  @tf.function(autograph=False)
  def run(a, *phi):
    return taylor_log_det.taylor_log_det(potential, list(phi), a, [2, 1, 2, 1], series)

  return run(a, *phi).numpy()


def _series_matrix(h, orders):
  return sum((-1) ** (m + 1) / m * np.linalg.matrix_power(h, m) for m in orders)


@functools.cache
def _many_probes():
  return _estimate(taylor_log_det.TaylorSeries(12, NUM_PROBES, batch_size=2000))


@pytest.mark.parametrize('chain', [0, 1])
def test_estimate_is_the_log_determinant_within_its_standard_error(chain):
  h = _hessians()[3][chain]
  b = _series_matrix(h, range(1, 13))
  exact = np.linalg.slogdet(np.eye(len(h)) + h)[1]
  assert abs(np.trace(b) - exact) < 1e-4, 'the rest of the series must not matter'
  error = _standard_error(b, NUM_PROBES)
  assert abs(_many_probes()[chain] - exact) < 5 * error + 1e-4
  # A control: with the signs of -log(1 - z) it would be seen.
  wrong = -np.linalg.slogdet(np.eye(len(h)) - h)[1]
  assert abs(wrong - exact) > 10 * error + 1e-4


def _standard_error(b, num_probes):
  """Of the mean of `z . B z` over random signs z, whose variance is exactly this.

  At five standard errors the false-alarm rate is 6e-7.
  """
  return np.sqrt(2 * (np.sum(b**2) - np.sum(np.diag(b) ** 2)) / num_probes)


@pytest.mark.slow
def test_orders_are_those_of_the_series():
  # With the same probes, orders differ by the term between them, which has a known distribution.
  h = _hessians()[3]
  values = [_estimate(taylor_log_det.TaylorSeries(order, 1000, 500)) for order in (1, 2, 3)]
  for m in (2, 3):
    for chain in range(2):
      term = (-1) ** (m + 1) / m * np.linalg.matrix_power(h[chain], m)
      error = _standard_error(term, 1000)
      difference = values[m - 1][chain] - values[m - 2][chain]
      assert abs(difference - np.trace(term)) < 5 * error


def test_first_order_is_zero_for_relu_and_left_out():
  assert taylor_log_det.is_piecewise_linear(_posterior('relu').split)
  assert not taylor_log_det.is_piecewise_linear(_posterior().split)
  for h in _hessians('relu')[3]:
    np.testing.assert_array_equal(np.diag(h), 0.0)
  assert np.all(_estimate(taylor_log_det.TaylorSeries(1, 8, 8, True), 'relu') == 0.0)
  assert np.all(_estimate(taylor_log_det.TaylorSeries(1, 8, 8, False), 'relu') != 0.0)


@pytest.mark.parametrize(
  'settings',
  [
    dict(regularizer=REGULARIZER),
    pytest.param(dict(method='gradient_descent', step_size=0.05), marks=pytest.mark.slow),
  ],
)
def test_gradients_are_finite_differences(settings):
  posterior = _posterior()
  linearized = tfr.experimental.LinearizedReprior(
    posterior, log_det=taylor_log_det.TaylorSeries(4, num_probes=4, batch_size=2), **settings
  )
  fldj = tf.function(linearized.forward_log_det_jacobian, autograph=False)
  phi, direction = posterior.sample_prior(2, seed=1), posterior.sample_prior(2, seed=2)
  with tf.GradientTape() as tape:
    tape.watch(phi)
    value = fldj(phi)
  grads = tape.gradient(value, phi)
  upper, lower = (
    fldj([p + e * d for p, d in zip(phi, direction, strict=True)]) for e in (1e-5, -1e-5)
  )
  slope = sum(np.sum(g * d) for g, d in zip(grads, direction, strict=True))
  np.testing.assert_allclose(slope, np.sum(upper - lower) / 2e-5, rtol=1e-6)


def test_gradient_descent_has_the_whole_log_determinant():
  posterior, step_size = _posterior(), tf.constant(0.02, tf.float64)
  phi = posterior.sample_prior(2, seed=1)
  linearized = tfr.experimental.LinearizedReprior(
    posterior,
    method='gradient_descent',
    step_size=step_size,
    log_det=taylor_log_det.TaylorSeries(6, 1000, 500),
  )
  fldj = tf.function(linearized.forward_log_det_jacobian, autograph=False)(phi)
  step_fn = steps.GradientDescent(posterior.split, posterior.x, posterior.y, step_size)
  for chain, jacobian in enumerate(step_fn.jacobian(phi).numpy()):
    b = _series_matrix(jacobian - np.eye(len(jacobian)), range(1, 7))
    exact = np.linalg.slogdet(jacobian)[1]
    error = _standard_error(b, 1000)
    assert abs(exact) > 10 * error + 1e-3  # a control: zero would be seen
    assert abs(fldj[chain] - exact) < 5 * error + abs(np.trace(b) - exact)


def _largest_tensor(num_probes, batch_size):
  potential, phi, a, _ = _hessians()
  series = taylor_log_det.TaylorSeries(2, num_probes, batch_size, skips_first_order=False)

  @tf.function(autograph=False)
  def value_and_gradient(a, *phi):
    value = taylor_log_det.taylor_log_det(potential, list(phi), a, [2, 1, 2, 1], series)
    return value, tf.gradients(value, [a, *phi])

  definition = value_and_gradient.get_concrete_function(a, *phi).graph.as_graph_def(add_shapes=True)
  nodes = [*definition.node, *(n for f in definition.library.function for n in f.node_def)]
  assert any(n.op in ('While', 'StatelessWhile') for n in nodes)
  assert not any(n.op.startswith('TensorList') for n in nodes)  # what a loop would keep
  shapes = [shape for n in nodes for shape in n.attr['_output_shapes'].list.shape]
  return max(np.prod([d.size for d in shape.dim]) for shape in shapes)


def test_memory_does_not_grow_with_the_number_of_probes():
  assert _largest_tensor(4, 2) == _largest_tensor(400, 2)
  assert _largest_tensor(4, 4) > _largest_tensor(4, 2)  # a control: it would be seen


@pytest.mark.parametrize(
  ('arguments', 'message'),
  [
    (dict(order=0), '`order` must be a positive integer. Received: order=0'),
    (dict(num_probes=0), '`num_probes` must be a positive integer. Received: num_probes=0'),
    (dict(batch_size=3), '`batch_size` must divide `num_probes`.*batch_size=3, num_probes=8'),
  ],
)
def test_bad_series_are_refused(arguments, message):
  with pytest.raises(ValueError, match=message):
    tfr.experimental.LinearizedReprior(
      toys.tiny_posterior(), log_det=tfr.experimental.TaylorSeries(**arguments)
    )


def test_gradient_descent_has_a_first_order():
  with pytest.raises(ValueError, match='first order is not zero for gradient descent'):
    tfr.experimental.LinearizedReprior(
      toys.tiny_posterior(),
      method='gradient_descent',
      step_size=0.1,
      log_det=tfr.experimental.TaylorSeries(skips_first_order=True),
    )
