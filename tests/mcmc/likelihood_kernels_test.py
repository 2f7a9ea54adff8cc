"""Kernels for a prior N(0, I) and a likelihood: rotation, Crank-Nicolson, elliptical slice.

Stationarity as in `stationarity_test`: exact draws in, steps, exact draws out, false-alarm rate
1e-6 and negative controls.
"""

import numpy as np
import pytest
import scipy.integrate
import scipy.stats
import statistics_lib as stats
import tensorflow as tf
import tensorflow_probability as tfp
import toys

import tfp_reprior as tfr
from tfp_reprior.internal import random
from tfp_reprior.mcmc import integrators
from tfp_reprior.mcmc import kernel as kernel_lib

NUM_CHAINS = 100_000
NUM_STEPS = 20
LIKELIHOODS = {
  'flat': lambda x: 0.0 * x,
  'quartic': lambda x: -(x**4),
  'skewed': lambda x: 2.0 * x - tf.exp(2.0 * x),
}


def _cdf_and_draws(name):
  """The distribution function of N(0, 1) times the likelihood, by quadrature, and exact draws."""
  grid = np.linspace(-8, 8, 40_001)
  log_density = LIKELIHOODS[name](tf.constant(grid)).numpy() - grid**2 / 2
  density = np.exp(log_density - log_density.max())
  cumulated = scipy.integrate.cumulative_simpson(density, x=grid, initial=0)
  cumulated /= cumulated[-1]
  u = np.random.default_rng(5).uniform(size=NUM_CHAINS)
  keep = np.concatenate([[True], np.diff(cumulated) > 0])
  draws = np.interp(u, cumulated[keep], grid[keep])
  return (lambda x: np.interp(x, grid, cumulated)), tf.constant(draws)


def _stacked(names):
  """Log-likelihood of `[likelihoods, chains]`: all of them in one graph."""
  return lambda x: tf.stack([LIKELIHOODS[name](x[i]) for i, name in enumerate(names)])


def _kernels(fn):
  return {
    'rotation': tfr.mcmc.RotationLangevin(fn, 0.9, 0.3),
    'rotation, no damping': tfr.mcmc.RotationLangevin(fn, 0.9, 0.0),
    'rotation, two steps': tfr.mcmc.RotationLangevin(fn, 0.7, 0.5, num_integrator_steps=2),
    'rotation, three stages': tfr.mcmc.RotationLangevin(fn, 1.5, 0.3, num_stages=3),
    'crank-nicolson langevin': tfr.mcmc.RotationLangevin(fn, 0.9, 1.0),
    'crank-nicolson': tfr.mcmc.PreconditionedCrankNicolson(fn, 1.0),
    'elliptical slice': tfp.experimental.mcmc.EllipticalSliceSampler(
      normal_sampler_fn=lambda seed: tf.random.stateless_normal(
        [1, NUM_CHAINS], seed=tfp.random.sanitize_seed(seed), dtype=tf.float64
      ),
      log_likelihood_fn=fn,
    ),
  }


def _run(kernel, state, num_steps=NUM_STEPS):
  results = kernel.bootstrap_results(state)

  @tf.function(autograph=False)
  def run(state, results):
    def step(i, state, results):
      return i + 1, *kernel.one_step(state, results, seed=tf.stack([i, 7]))

    return tf.while_loop(lambda i, *_: i < num_steps, step, (tf.constant(0), state, results))

  _, state, results = run(state, results)
  return state.numpy(), results


@pytest.mark.parametrize('name', _kernels(lambda x: x))
def test_exact_draws_stay_exact(name):
  # That of TFP is tested there, and here how a likelihood is given to it.
  names = ['skewed'] if name == 'elliptical slice' else [*LIKELIHOODS]
  cdfs, starts = zip(*map(_cdf_and_draws, names), strict=True)
  ends, results = _run(_kernels(_stacked(names))[name], tf.stack(starts))
  for i, likelihood in enumerate(names):
    assert stats.cdf_p_value(starts[i], cdfs[i]) > stats.FALSE_ALARM
    assert np.mean(ends[i] != starts[i]) > 0.8, 'the chains must move'
    assert stats.cdf_p_value(ends[i], cdfs[i]) > stats.FALSE_ALARM, likelihood
    if likelihood == 'flat' and name != 'elliptical slice':
      assert np.all(results.is_accepted[i]), 'the prior is sampled without error'
    elif name != 'elliptical slice':
      assert 0.2 < np.mean(results.is_accepted[i]) < 0.99, 'both branches must be tried'
    if hasattr(results, 'momentum'):
      assert stats.cdf_p_value(results.momentum[i], scipy.stats.norm.cdf) > stats.FALSE_ALARM


_ACCEPT = kernel_lib.accept
_NORMAL = random.bits_to_normal


def _half_rotation(state, momentum, step_size):
  # Forgets to turn the momentum: not the flow of the Gaussian part.
  moved, _ = integrators.rotate(state, momentum, step_size)
  return moved, momentum


@pytest.mark.parametrize(
  'control', ['always accept', 'wrong sign', 'noise too small', 'half a rotation', 'no kick energy']
)
@pytest.mark.parametrize('name', ['rotation', 'crank-nicolson'])
def test_mistakes_are_found(control, name, monkeypatch, compilation_policy):
  compilation_policy('never')  # a compiled update would not see what is patched
  if control == 'always accept':
    monkeypatch.setattr(kernel_lib, 'accept', lambda r, seed: tf.ones_like(r, tf.bool))
  elif control == 'wrong sign':
    monkeypatch.setattr(kernel_lib, 'accept', lambda r, seed: _ACCEPT(-r, seed))
  elif control == 'noise too small':
    monkeypatch.setattr(random, 'bits_to_normal', lambda b, dtype: 0.8 * _NORMAL(b, dtype))
  elif name == 'crank-nicolson':
    pytest.skip('it has no momentum')
  elif control == 'half a rotation':
    wrong = integrators.Integrator(_half_rotation, keeps_momentum=False)
    monkeypatch.setitem(integrators.rotations, 1, wrong)
  else:
    monkeypatch.setattr(integrators, '_add', lambda works, total: total)
  cdf, start = _cdf_and_draws('quartic')
  end, _ = _run(_kernels(LIKELIHOODS['quartic'])[name], start)
  assert stats.cdf_p_value(end, cdf) < stats.FALSE_ALARM


def test_a_step_that_reads_otherwise_from_its_end_is_found(monkeypatch):
  # Of the right volume and energy, as long as one of three stages, but not its own inverse.
  stages = ((0.1, 0.2), (0.6, 0.2), (0.2, 0.6))
  wrong = integrators.Integrator(integrators.rotate, False, 'solved', stages)
  monkeypatch.setitem(integrators.rotations, 3, wrong)
  cdf, start = _cdf_and_draws('skewed')
  end, _ = _run(_kernels(LIKELIHOODS['skewed'])['rotation, three stages'], start)
  assert stats.cdf_p_value(end, cdf) < stats.FALSE_ALARM


def _log_likelihood(x, y):
  skew = tf.reduce_sum(x - tf.exp(x), axis=-1)
  return skew - tf.reduce_sum(y**4, axis=[-2, -1]) + 0.1 * x[..., 0] * y[..., 1, 0]


def _state(chains=(), seed=0):
  rng = np.random.default_rng(seed)
  return [tf.constant(rng.normal(size=s)) for s in [(*chains, 3), (*chains, 2, 2)]]


def _rotate(state, momentum, step_size, num_steps, num_stages=1, fn=_log_likelihood):
  integrator = integrators.rotations[num_stages]
  log_prob, grads = integrator.value_and_gradients(fn, state)
  settings = [[tf.constant(v, tf.float64)] * len(state) for v in (step_size, 0.0)]
  return integrator(fn, state, momentum, log_prob, grads, *settings, num_steps, seed=1)


@pytest.mark.parametrize('num_steps, num_stages', [(1, 1), (6, 1), (1, 3), (2, 3)])
def test_rotation_is_reversible_and_its_energy_error_that_of_the_hamiltonian(num_steps, num_stages):
  state, momentum = _state((4,)), _state((4,), seed=1)
  end = _rotate(state, momentum, 0.3, num_steps, num_stages)
  back = _rotate(end.state_parts, [-m for m in end.momentum_parts], 0.3, num_steps, num_stages)
  for x0, x1 in zip(state, back.state_parts, strict=True):
    np.testing.assert_allclose(x0, x1, atol=1e-10)

  def energy(state, momentum):
    squares = sum(np.sum(p**2, axis=tuple(range(1, p.ndim))) for p in map(np.asarray, state))
    squares += sum(np.sum(p**2, axis=tuple(range(1, p.ndim))) for p in map(np.asarray, momentum))
    return squares / 2 - _log_likelihood(*state)

  expected = energy(state, momentum) - energy(end.state_parts, end.momentum_parts)
  np.testing.assert_allclose(end.log_accept_ratio, expected, atol=1e-10)
  assert np.all(np.abs(expected) > 1e-5)


@pytest.mark.parametrize('num_steps', [1, 2])
def test_steps_of_three_stages_are_those_of_the_literature(num_steps):
  # Kicks and rotations one by one, with the fractions of Blanes, Casas and Sanz-Serna.
  kick, move = 0.11888010966548, 0.29619504261126
  step = [kick, move, 0.5 - kick, 1 - 2 * move, 0.5 - kick, move, kick]
  x, m = (np.random.default_rng(i).normal(size=5) for i in range(2))
  end = _rotate([tf.constant(x)], [tf.constant(m)], 0.7, num_steps, 3, lambda x: -(x**4))
  for i, fraction in enumerate(num_steps * step):
    angle = 0.7 * fraction
    if i % len(step) % 2:
      x, m = np.cos(angle) * x + np.sin(angle) * m, np.cos(angle) * m - np.sin(angle) * x
    else:
      m = m - angle * 4 * x**3
  np.testing.assert_allclose(end.state_parts[0], x, atol=1e-11)
  np.testing.assert_allclose(end.momentum_parts[0], m, atol=1e-11)


@pytest.mark.parametrize('num_stages', [1, 3])
def test_the_error_of_a_trajectory_falls_with_the_square_of_the_step(num_stages):
  # With the likelihood N(x; 0, 1 / 8) the exact flow turns by three times the time.
  x, m = tf.constant([0.3, -1.0], tf.float64), tf.constant([1.1, 0.4], tf.float64)
  exact = np.cos(3 * 1.2) * x + np.sin(3 * 1.2) / 3 * m
  errors = []
  for num_steps in (8, 16):
    end = _rotate([x], [m], 1.2 / num_steps, num_steps, num_stages, lambda x: -4.0 * x**2)
    errors.append(np.linalg.norm(end.state_parts[0] - exact))
  assert errors[0] > 1e-6
  assert errors[0] / errors[1] == pytest.approx(4.0, rel=0.1)


def test_where_a_stiff_direction_limits_steps_three_stages_are_longer_for_their_gradients():
  # Exact draws of N(0, 1/100): mean energy errors after 12 gradients.
  x, m = (np.random.default_rng(i).normal(size=4000) for i in range(2))
  errors = []
  for num_stages, step_size in ((1, 0.11), (3, 0.33), (3, 0.45)):
    end = _rotate(
      [tf.constant(x / 10)],
      [tf.constant(m)],
      step_size,
      12 // num_stages,
      num_stages,
      lambda x: -99.0 / 2 * x**2,
    )
    errors.append(-np.mean(end.log_accept_ratio))
  assert errors[0] > 0.01
  assert errors[1] < 0.1 * errors[0] and errors[2] < errors[0]


@pytest.mark.parametrize('num_stages', [1, 3])
def test_rotation_preserves_volume(num_stages):
  vector = tf.constant(np.random.default_rng(0).normal(size=14))
  with tf.GradientTape() as tape:
    tape.watch(vector)
    pieces = tf.split(vector, [3, 4, 3, 4])
    parts = [tf.reshape(p, s) for p, s in zip(pieces, [(3,), (2, 2)] * 2, strict=True)]
    end = _rotate(parts[:2], parts[2:], 0.4, 2, num_stages)
    outputs = tf.concat(
      [tf.reshape(p, [-1]) for p in [*end.state_parts, *end.momentum_parts]], axis=0
    )
  np.testing.assert_allclose(np.linalg.slogdet(tape.jacobian(outputs, vector)), [1, 0], atol=1e-10)


def test_full_damping_has_the_acceptance_law_of_a_gaussian_proposal():
  # The proposal is N(c x + s h grad, s^2) with c, s of the angle and h half of it: the ratio by
  # the densities of the proposals, independent of integrator and energy.
  eps = 0.5
  c, s, h = np.cos(eps), np.sin(eps), eps / 2
  state = _state((20,))
  kernel = tfr.mcmc.UncalibratedRotationLangevin(_log_likelihood, eps, 1.0)
  results = kernel.bootstrap_results(state)
  proposal, new = kernel.one_step(state, results, seed=[1, 2])

  def log_q(to, origin, grads):
    return sum(
      scipy.stats.norm(c * x + s * h * g, s).logpdf(z).reshape(20, -1).sum(1)
      for z, x, g in zip(to, origin, grads, strict=True)
    )

  def log_target(state, log_likelihood):
    return log_likelihood + sum(scipy.stats.norm.logpdf(x).reshape(20, -1).sum(1) for x in state)

  expected = log_target(proposal, new.target_log_prob) - log_target(state, results.target_log_prob)
  expected += log_q(state, proposal, new.grads_target_log_prob)
  expected -= log_q(proposal, state, results.grads_target_log_prob)
  np.testing.assert_allclose(new.log_accept_ratio, expected, atol=1e-10)


@pytest.mark.parametrize('chains', [(), (5,)])
def test_parts_that_the_likelihood_does_not_touch_are_drawn_anew(chains):
  posterior = toys.tiny_posterior()
  collapsed = tfr.CollapsedPosterior(posterior)
  kernel = tfr.mcmc.RotationLangevin(collapsed.log_likelihood_fn, 0.3, 0.2)
  phi = posterior.sample_prior(chains, seed=1)
  results = kernel.bootstrap_results(phi)
  assert len(results.momentum) == len(results.grads_target_log_prob) == 2
  new_phi, new_results = kernel.one_step(phi, results, seed=[1, 2])
  tf.nest.assert_same_structure(results, new_results)
  assert [p.shape for p in new_phi] == [p.shape for p in phi]
  assert np.all(new_phi[2] != phi[2]) and np.all(new_phi[3] != phi[3])
  # Without the readout parts, the same draws of the hidden ones.
  hidden, _ = kernel.one_step(phi[:2], kernel.bootstrap_results(phi[:2]), seed=[1, 2])
  for a, b in zip(hidden, new_phi[:2], strict=True):
    np.testing.assert_array_equal(a, b)


def test_parts_that_the_likelihood_does_not_touch_are_standard_normal_after_a_step():
  # Wherever they were. False-alarm rate 1e-6.
  kernel = tfr.mcmc.RotationLangevin(lambda x, y: -(x**4), 0.3, 0.2)
  state = [
    tf.constant(np.random.default_rng(1).normal(size=NUM_CHAINS)),
    tf.constant(np.full(NUM_CHAINS, 3.0)),
  ]
  (_, y), results = kernel.one_step(state, kernel.bootstrap_results(state), seed=[1, 2])
  assert 0 < np.mean(~results.is_accepted.numpy()), 'also where the rest is rejected'
  assert stats.cdf_p_value(y, scipy.stats.norm.cdf) > stats.FALSE_ALARM
  rejected = y.numpy()[~results.is_accepted.numpy()]
  assert stats.cdf_p_value(rejected, scipy.stats.norm.cdf) > stats.FALSE_ALARM
  assert stats.cdf_p_value(0.9 * y + 0.1 * state[1], scipy.stats.norm.cdf) < stats.FALSE_ALARM


@pytest.mark.parametrize('name', ['rotation', 'crank-nicolson'])
def test_contract_of_tfp(name):
  kernel = _kernels(_log_likelihood)[name]
  assert kernel.is_calibrated
  state = _state((4,))
  expected, _ = kernel.one_step(state, kernel.bootstrap_results(state), seed=[1, 2])
  for copy in (type(kernel)(**kernel.parameters), kernel.copy()):
    actual, _ = copy.one_step(state, copy.bootstrap_results(state), seed=[1, 2])
    for a, b in zip(actual, expected, strict=True):
      np.testing.assert_array_equal(a, b)
  adaptive = tfp.mcmc.DualAveragingStepSizeAdaptation(
    kernel.copy(step_size=0.3), num_adaptation_steps=300, target_accept_prob=0.8
  )
  _, log_accept_ratio = tf.function(
    lambda: tfp.mcmc.sample_chain(
      200,
      _state((16,)),
      kernel=adaptive,
      num_burnin_steps=300,
      trace_fn=lambda _, results: results.inner_results.log_accept_ratio,
      seed=(1, 2),
    ),
    autograph=False,
  )()
  assert abs(np.mean(np.exp(np.minimum(0, log_accept_ratio))) - 0.8) < 0.07


@pytest.mark.parametrize('name', ['rotation', 'rotation, three stages', 'crank-nicolson'])
def test_compiled_steps_equal_eager_ones(name):
  kernel = _kernels(_log_likelihood)[name]
  state = _state((4,))
  results = kernel.bootstrap_results(state)
  expected, _ = kernel.one_step(state, results, seed=tf.constant([1, 2]))
  step = tf.function(kernel.one_step, jit_compile=True)
  actual, _ = step(state, results, seed=tf.constant([1, 2]))
  for a, b in zip(actual, expected, strict=True):
    np.testing.assert_allclose(a, b, atol=1e-10)


def test_a_step_of_three_stages_traces_the_likelihood_once():
  traced = []

  def log_likelihood(x):
    traced.append(x)
    return -tf.reduce_sum(x**4, axis=-1)

  kernel = tfr.mcmc.RotationLangevin(log_likelihood, 0.1, 0.1, num_stages=3)
  state = tf.zeros([2, 3])
  results = kernel.bootstrap_results(state)
  traced.clear()
  tf.function(kernel.one_step, autograph=False).get_concrete_function(state, results, [1, 2])
  assert len(traced) == 1


def test_acceptance_in_float32_at_five_million_parameters():
  # The same proposals in float32 and float64, a likelihood of a few directions: the energy error
  # must agree to better than the 0.2 percentage points of acceptance that we promise.
  size, eps = 5_000_000, 0.3
  rng = np.random.default_rng(0)
  x, m = (rng.normal(size=size).astype(np.float32) for _ in range(2))
  w = (rng.normal(size=size) / np.sqrt(size)).astype(np.float32)
  ratios = {}
  for dtype in (np.float32, np.float64):
    direction = tf.constant(w, dtype)

    def log_likelihood(x, direction=direction):
      return -2.0 * (tf.reduce_sum(direction * x) - 1.0) ** 2

    state, momentum = [tf.constant(x, dtype)], [tf.constant(m, dtype)]
    log_prob, grads = integrators.rotations[1].value_and_gradients(log_likelihood, state)
    settings = [[tf.constant(v, dtype)] for v in (eps, 0.0)]
    end = integrators.rotations[1](
      log_likelihood, state, momentum, log_prob, grads, *settings, 1, seed=1
    )
    ratios[dtype] = float(end.log_accept_ratio)
  assert abs(ratios[np.float64]) > 1e-3
  assert abs(ratios[np.float32] - ratios[np.float64]) < 1e-4


def test_the_parts_without_gradient_must_come_last():
  kernel = tfr.mcmc.RotationLangevin(lambda x, y: -tf.reduce_sum(y**4), 0.1, 0.1)
  with pytest.raises(ValueError, match='must come last. Received: .* for part 0 of 2'):
    kernel.bootstrap_results(_state())


@pytest.mark.parametrize(
  'kernel', [tfr.mcmc.RotationLangevin, tfr.mcmc.PreconditionedCrankNicolson]
)
@pytest.mark.parametrize('step_size', [-0.1, 0.0, np.nan])
def test_step_size_must_be_positive(kernel, step_size):
  more = {'damping': 0.1} if kernel is tfr.mcmc.RotationLangevin else {}
  with pytest.raises(ValueError, match='`step_size` must be positive. Received: step_size='):
    kernel(_log_likelihood, step_size, **more)


def test_an_angle_above_a_right_one_is_refused():
  with pytest.raises(ValueError, match='angle of pi / 2 at most. Received: step_size=2.0'):
    tfr.mcmc.PreconditionedCrankNicolson(_log_likelihood, 2.0)


def test_num_integrator_steps_must_be_a_positive_integer():
  with pytest.raises(ValueError, match='`num_integrator_steps` must be a positive integer'):
    tfr.mcmc.RotationLangevin(_log_likelihood, 0.1, 0.1, num_integrator_steps=0)


def test_there_are_one_stage_and_three():
  with pytest.raises(ValueError, match='`num_stages` must be one of 1, 3. Received: num_stages=2'):
    tfr.mcmc.RotationLangevin(_log_likelihood, 0.1, 0.1, num_stages=2)


def test_damping_must_lie_in_the_unit_interval():
  with pytest.raises(ValueError, match=r'`damping` must lie in \[0, 1\]'):
    tfr.mcmc.RotationLangevin(_log_likelihood, 0.1, 1.5)
