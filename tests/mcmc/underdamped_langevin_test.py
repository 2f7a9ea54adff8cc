"""UnderdampedLangevin: relation to MALA and HMC, and the contract of `tfp.mcmc` kernels."""

import numpy as np
import pytest
import scipy.stats
import tensorflow as tf
import tensorflow_probability as tfp

import tfp_reprior as tfr
from tfp_reprior.mcmc import integrators

KERNELS = [tfr.mcmc.UnderdampedLangevin, tfr.mcmc.UncalibratedUnderdampedLangevin]


def _log_prob(x, y):
  """A skewed density of two parts, `[..., 3]` and `[..., 2, 2]`, that interact."""
  skew = tf.reduce_sum(2 * x - tf.exp(x), axis=-1)
  quartic = -tf.reduce_sum(y**4, axis=[-2, -1]) / 4
  return skew + quartic - 0.1 * tf.reduce_sum(x, axis=-1) * y[..., 0, 0]


def _state(chains=(), dtype=np.float64, seed=0):
  rng = np.random.default_rng(seed)
  shapes = [(*chains, 3), (*chains, 2, 2)]
  return [tf.constant(rng.normal(size=s), dtype) for s in shapes]


def _leapfrog(state, momentum, step_size, num_steps):
  """Leapfrog without refreshment: zero damping."""
  log_prob, grads = integrators.leapfrog.value_and_gradients(_log_prob, state)
  settings = [[tf.constant(v, tf.float64)] * 2 for v in (step_size, 0.0)]
  return integrators.leapfrog(
    _log_prob, state, momentum, log_prob, grads, *settings, num_steps, seed=1
  )


@pytest.mark.parametrize('num_steps', [1, 7])
def test_leapfrog_is_reversible(num_steps):
  state, momentum = _state((4,)), _state((4,), seed=1)
  end = _leapfrog(state, momentum, 0.1, num_steps)
  back = _leapfrog(end.state_parts, [-m for m in end.momentum_parts], 0.1, num_steps)
  for x0, x1 in zip(state, back.state_parts, strict=True):
    np.testing.assert_allclose(x0, x1, atol=1e-10)
  for m0, m1 in zip(momentum, back.momentum_parts, strict=True):
    np.testing.assert_allclose(m0, -m1, atol=1e-10)
  np.testing.assert_allclose(end.log_accept_ratio, -back.log_accept_ratio, atol=1e-10)
  assert np.all(np.abs(end.log_accept_ratio) > 1e-6)


def test_leapfrog_preserves_volume():
  shapes = [(3,), (2, 2), (3,), (2, 2)]
  vector = tf.constant(np.random.default_rng(0).normal(size=14))
  with tf.GradientTape() as tape:
    tape.watch(vector)
    pieces = tf.split(vector, [3, 4, 3, 4])
    parts = [tf.reshape(p, s) for p, s in zip(pieces, shapes, strict=True)]
    end = _leapfrog(parts[:2], parts[2:], 0.2, 2)
    outputs = tf.concat(
      [tf.reshape(p, [-1]) for p in [*end.state_parts, *end.momentum_parts]], axis=0
    )
  np.testing.assert_allclose(np.linalg.slogdet(tape.jacobian(outputs, vector)), [1, 0], atol=1e-10)


@pytest.mark.parametrize('num_steps', [1, 5])
def test_integrator_equals_hamiltonian_monte_carlo_of_tfp(num_steps):
  state = _state((6,))
  hmc = tfp.mcmc.HamiltonianMonteCarlo(_log_prob, step_size=0.3, num_leapfrog_steps=num_steps)
  _, results = hmc.one_step(state, hmc.bootstrap_results(state), seed=[1, 2])
  proposed = results.proposed_results
  end = _leapfrog(state, proposed.initial_momentum, 0.3, num_steps)
  for actual, expected in zip(end.state_parts, results.proposed_state, strict=True):
    np.testing.assert_allclose(actual, expected, atol=1e-10)
  for actual, expected in zip(end.momentum_parts, proposed.final_momentum, strict=True):
    np.testing.assert_allclose(actual, expected, atol=1e-10)
  np.testing.assert_allclose(end.log_accept_ratio, results.log_accept_ratio, atol=1e-10)


def test_full_damping_with_one_step_has_the_acceptance_law_of_mala():
  state, eps = _state((20,)), 0.4
  kernel = tfr.mcmc.UncalibratedUnderdampedLangevin(_log_prob, eps, damping=1.0)
  results = kernel.bootstrap_results(state)
  state, results = kernel.one_step(state, results, seed=[0, 1])  # from now on with momentum
  proposal, new = kernel.one_step(state, results, seed=[1, 2])

  def log_q(to, origin, grads):  # the Langevin proposal N(x + eps^2/2 grad, eps^2)
    return sum(
      scipy.stats.norm(x + eps**2 / 2 * g, eps).logpdf(z).reshape(20, -1).sum(1)
      for z, x, g in zip(to, origin, grads, strict=True)
    )

  expected = new.target_log_prob - results.target_log_prob
  expected += log_q(state, proposal, new.grads_target_log_prob)
  expected -= log_q(proposal, state, results.grads_target_log_prob)
  np.testing.assert_allclose(new.log_accept_ratio, expected, atol=1e-10)


def test_momentum_is_refreshed_by_its_damping():
  # m' = sqrt(1 - damping) m + sqrt(damping) xi; on a flat target the momentum shows it.
  num_chains, damping = 100_000, 0.3
  kernel = tfr.mcmc.UnderdampedLangevin(lambda x: 0.0 * x, 1.0, damping)
  state = tf.zeros([num_chains], tf.float64)
  state, first = kernel.one_step(state, kernel.bootstrap_results(state), seed=[1, 2])
  _, second = kernel.one_step(state, first, seed=[3, 4])
  correlation = np.corrcoef(first.momentum, second.momentum)[0, 1]
  assert abs(correlation - np.sqrt(1 - damping)) < 5 / np.sqrt(num_chains)  # 5 sigma: 6e-7
  assert abs(np.var(second.momentum) - 1) < 5 * np.sqrt(2 / num_chains)


def test_first_step_draws_the_whole_momentum_and_later_ones_the_damping():
  kernel = tfr.mcmc.UnderdampedLangevin(_log_prob, 0.1, damping=0.0)
  state = _state()
  results = kernel.bootstrap_results(state)
  assert results.damping == 1.0 and np.all(results.momentum[0] == 0)
  state, first = kernel.one_step(state, results, seed=[1, 2])
  assert first.damping == 0.0 and np.all(first.momentum[0] != 0)
  others = [kernel.one_step(state, first, seed=[s, s])[0] for s in (3, 4)]
  np.testing.assert_array_equal(others[0][0], others[1][0])  # no noise is left


@pytest.mark.parametrize('kernel_class', KERNELS)
@pytest.mark.parametrize('chains', [(), (4,), (2, 3)])
@pytest.mark.parametrize('dtype', [np.float32, np.float64])
def test_results_keep_their_structure(kernel_class, chains, dtype):
  state = _state(chains, dtype)
  kernel = kernel_class(_log_prob, step_size=0.2, damping=0.1, num_integrator_steps=2)
  results = kernel.bootstrap_results(state)
  new_state, new_results = kernel.one_step(state, results, seed=[1, 2])
  for old, new in [(state, new_state), (results, new_results)]:
    tf.nest.assert_same_structure(old, new)
    for a, b in zip(tf.nest.flatten(old), tf.nest.flatten(new), strict=True):
      assert a.dtype == b.dtype and a.shape == b.shape
  assert new_results.is_accepted.shape == chains
  np.testing.assert_allclose(new_results.target_log_prob, _log_prob(*new_state), rtol=1e-5)


def test_chains_accept_by_themselves():
  state = _state((200,))
  kernel = tfr.mcmc.UnderdampedLangevin(_log_prob, step_size=0.9, damping=1.0)
  new_state, results = kernel.one_step(state, kernel.bootstrap_results(state), seed=[1, 2])
  moved = np.any(new_state[0] != state[0], axis=-1)
  assert 20 < moved.sum() < 180
  np.testing.assert_array_equal(moved, results.is_accepted)
  np.testing.assert_array_equal(moved, np.any(new_state[1] != state[1], axis=(-2, -1)))


def test_a_proposal_of_unknown_density_is_rejected():
  kernel = tfr.mcmc.UnderdampedLangevin(lambda x: tf.where(x > 0, -x, np.nan), 5.0, 1.0)
  state = tf.ones([100], tf.float64)
  new_state, results = kernel.one_step(state, kernel.bootstrap_results(state), seed=[1, 2])
  assert np.any(np.isnan(results.log_accept_ratio))
  assert np.all(np.isfinite(new_state)) and np.all(np.isfinite(results.target_log_prob))


@pytest.mark.parametrize('num_chains', [None, 3])
def test_single_tensor_states(num_chains):
  shape = [5] if num_chains is None else [num_chains, 5]
  kernel = tfr.mcmc.UnderdampedLangevin(lambda x: -tf.reduce_sum(x**2, -1), 0.3, 0.1)
  draws, is_accepted = tfp.mcmc.sample_chain(
    4,
    tf.zeros(shape),
    kernel=kernel,
    trace_fn=lambda _, results: results.is_accepted,
    seed=1,
  )
  assert draws.shape == [4, *shape] and np.all(draws[-1] != 0)
  assert is_accepted.shape == [4, *shape[:-1]]


@pytest.mark.parametrize('num_steps', [1, 3, tf.constant(3)])
def test_a_transition_traces_the_density_once(num_steps):
  traced = []

  def log_prob(x):
    traced.append(x)
    return -0.5 * tf.reduce_sum(x**2, axis=-1)

  kernel = tfr.mcmc.UnderdampedLangevin(log_prob, 0.1, 0.1, num_steps)
  state = tf.zeros([2, 3])
  results = kernel.bootstrap_results(state)
  traced.clear()
  tf.function(kernel.one_step, autograph=False).get_concrete_function(state, results, [1, 2])
  assert len(traced) == 1


@pytest.mark.parametrize('chains', [(), (40,)])
@pytest.mark.parametrize('num_steps', [1, 3])
def test_a_prior_that_is_left_out_is_added(chains, num_steps):
  def log_prior(*parts):
    return -0.5 * sum(tf.reduce_sum(tf.reshape(p, [*chains, -1]) ** 2, axis=-1) for p in parts)

  def log_likelihood(x, y, z):  # which does not depend on the last part
    del z
    return _log_prob(x, y)

  def target(*parts):
    return log_prior(*parts) + log_likelihood(*parts)

  start = [*_state(chains), _state(chains, seed=2)[0]]
  ends = []
  for log_prob_fn in (target, log_likelihood):
    kernel = tfr.mcmc.UnderdampedLangevin(
      log_prob_fn, 0.9, 0.4, num_steps, leaves_prior_out=log_prob_fn is log_likelihood
    )
    state, results, is_accepted = start, kernel.bootstrap_results(start), []
    for i in range(8):
      state, results = kernel.one_step(state, results, seed=[6, i])
      is_accepted.append(results.is_accepted.numpy())
    ends.append([*state, *results.momentum, results.log_accept_ratio, np.array(is_accepted)])
  assert 0 < np.mean(is_accepted) < 1, 'both ways are taken'
  for left_out, whole in zip(*ends, strict=True):
    np.testing.assert_allclose(left_out, whole, atol=1e-10)
  np.testing.assert_allclose(results.target_log_prob, log_likelihood(*state), atol=1e-10)


def test_a_likelihood_without_gradient_is_refused_though_a_prior_is_added():
  kernel = tfr.mcmc.UnderdampedLangevin(
    lambda x: tf.stop_gradient(x), 0.1, 0.1, leaves_prior_out=True
  )
  with pytest.raises(ValueError, match='must depend on every state part'):
    kernel.bootstrap_results(tf.zeros([]))


@pytest.mark.parametrize(('adds_prior', 'policy'), [(False, 'never'), (True, 'auto')])
def test_energy_error_in_float32_at_five_million_parameters(adds_prior, policy, compilation_policy):
  # The same proposals in float32 and float64: a harmonic force.
  compilation_policy(policy)
  size, eps = 5_000_000, 0.05
  rng = np.random.default_rng(0)
  x, m = rng.normal(size=size).astype(np.float32), rng.normal(size=size).astype(np.float32)

  integrator = integrators.leapfrog_with_prior if adds_prior else integrators.leapfrog
  share = 0.0 if adds_prior else 1.0  # of the force, that is in log_prob

  def log_prob(x):
    return -0.5 * share * tf.reduce_sum(x**2 - 1.0)

  ratios, naive = {}, {}
  for dtype in (np.float32, np.float64):
    state, momentum = tf.constant(x, dtype), tf.constant(m, dtype)
    settings = [[tf.constant(v, dtype)] for v in (eps, 0.0)]
    grads = [-share * state]
    end = integrator(log_prob, [state], [momentum], log_prob(state), grads, *settings, 1, seed=1)
    ratios[dtype] = end.log_accept_ratio.numpy()
    energies = [
      tf.reduce_sum(x**2) / 2 + tf.reduce_sum(m**2) / 2
      for x, m in [(state, momentum), (end.state_parts[0], end.momentum_parts[0])]
    ]
    naive[dtype] = (energies[0] - energies[1]).numpy()
  np.testing.assert_allclose(naive[np.float64], ratios[np.float64], atol=1e-6)
  assert abs(ratios[np.float64]) > 1e-2
  np.testing.assert_allclose(ratios[np.float32], ratios[np.float64], atol=2e-3)
  # The difference of two energies is off by far more: the test has the power to see it.
  assert abs(naive[np.float32] - naive[np.float64]) > 0.02


def test_fused_steps_equal_plain_ones(compilation_policy):
  # Large enough to be fused; several chains, so that accepted and rejected ones are mixed.
  def log_prob(x):
    return -0.5 * tf.reduce_sum(x**2 - 1.0, axis=-1)

  state = tf.constant(np.random.default_rng(0).normal(size=(6, 40_000)))
  states = []
  for policy in ('auto', 'never'):
    compilation_policy(policy)
    kernel = tfr.mcmc.UnderdampedLangevin(log_prob, 0.3, 0.3, num_integrator_steps=2)
    new_state, results = kernel.one_step(state, kernel.bootstrap_results(state), seed=[1, 2])
    new_state, results = kernel.one_step(new_state, results, seed=[3, 4])
    states.append([new_state, results.momentum, results.log_accept_ratio])
  assert 0 < np.mean(results.is_accepted) < 1
  for fused, plain in zip(*states, strict=True):
    np.testing.assert_allclose(fused, plain, atol=1e-8)


@pytest.mark.parametrize('kernel_class', KERNELS)
def test_parameters_rebuild_the_kernel(kernel_class):
  arguments = dict(step_size=0.1, damping=0.2, num_integrator_steps=3, name='mine')
  kernel = kernel_class(_log_prob, **arguments)
  assert {name: kernel.parameters[name] for name in arguments} == arguments
  state = _state((4,))
  expected, _ = kernel.one_step(state, kernel.bootstrap_results(state), seed=[1, 2])
  for copy in (kernel_class(**kernel.parameters), kernel.copy()):
    actual, _ = copy.one_step(state, copy.bootstrap_results(state), seed=[1, 2])
    for a, b in zip(actual, expected, strict=True):
      np.testing.assert_array_equal(a, b)
  assert kernel.copy(step_size=0.5).step_size == 0.5
  assert kernel.is_calibrated == (kernel_class is tfr.mcmc.UnderdampedLangevin)


@pytest.mark.parametrize(
  'adaptation', [tfp.mcmc.DualAveragingStepSizeAdaptation, tfp.mcmc.SimpleStepSizeAdaptation]
)
def test_step_size_adaptation_reaches_its_target(adaptation):
  kernel = adaptation(
    tfr.mcmc.UnderdampedLangevin(_log_prob, step_size=0.1, damping=0.5),
    num_adaptation_steps=400,
    target_accept_prob=0.8,
  )

  @tf.function
  def run():
    return tfp.mcmc.sample_chain(
      200,
      _state((16,)),
      kernel=kernel,
      num_burnin_steps=400,
      trace_fn=lambda _, r: r.inner_results.log_accept_ratio,
      seed=1,
    )

  _, log_accept_ratio = run()
  assert abs(np.mean(np.exp(np.minimum(0, log_accept_ratio))) - 0.8) < 0.05


@pytest.mark.parametrize('kernel_class', KERNELS)
@pytest.mark.parametrize('step_size, target, factor', [(0.1, 0.5, 1.01), (0.9, 0.98, 1 / 1.01)])
def test_step_size_adaptation_moves_towards_its_target(kernel_class, step_size, target, factor):
  kernel = tfp.mcmc.SimpleStepSizeAdaptation(
    kernel_class(_log_prob, step_size=step_size, damping=0.5),
    num_adaptation_steps=100,
    target_accept_prob=target,
    adaptation_rate=0.01,
  )
  state = _state((16,))
  results = kernel.bootstrap_results(state)
  for i in range(1, 4):
    state, results = kernel.one_step(state, results, seed=[1, i])
    acceptance = np.mean(np.exp(np.minimum(0, results.inner_results.log_accept_ratio)))
    assert (acceptance > target) == (factor > 1), 'the acceptance is on the side that is tested'
    np.testing.assert_allclose(results.new_step_size, step_size * factor**i, rtol=1e-8)
    used = results.inner_results.step_size
    np.testing.assert_allclose(used, step_size * factor ** (i - 1), rtol=1e-8)


def test_step_sizes_for_each_part():
  state = _state()
  kernel = tfr.mcmc.UncalibratedUnderdampedLangevin(_log_prob, [0.1, 1e-12], damping=[0.5, 1.0])
  new_state, results = kernel.one_step(state, kernel.bootstrap_results(state), seed=[1, 2])
  assert np.all(np.abs(new_state[0] - state[0]) > 1e-6)
  np.testing.assert_allclose(new_state[1], state[1], atol=1e-10)
  assert len(results.step_size) == 2 and len(results.damping) == 2


def test_thinning_and_reducers_of_tfp():
  # Without damping nothing is random after the first step but rejections, and steps so small are
  # accepted: all ways give the same states.
  kernel = tfr.mcmc.UnderdampedLangevin(_log_prob, 0.02, damping=0.0)
  start = _state((3,))
  start, results = kernel.one_step(start, kernel.bootstrap_results(start), seed=[1, 2])

  def sample(num_results, kernel):
    return tfp.mcmc.sample_chain(num_results, start, results, kernel, trace_fn=None, seed=1)

  every = sample(15, kernel)
  thinned = sample(5, tfp.experimental.mcmc.ThinningKernel(kernel, num_steps_to_skip=2))
  variance, _, _ = tfp.experimental.mcmc.sample_fold(
    15, start, results, kernel, tfp.experimental.mcmc.VarianceReducer(), seed=1
  )
  for part, thinned_part, part_variance in zip(every, thinned, variance, strict=True):
    np.testing.assert_allclose(thinned_part, part[2::3], atol=1e-12)
    np.testing.assert_allclose(part_variance, np.var(part, axis=0), atol=1e-12)
    assert np.all(part_variance > 1e-6)


@pytest.mark.parametrize('jit_compile', [False, True])
def test_compiled_steps_equal_eager_ones(jit_compile):
  state = _state((4,))
  kernel = tfr.mcmc.UnderdampedLangevin(_log_prob, 0.3, 0.2, num_integrator_steps=2)
  results = kernel.bootstrap_results(state)
  step = tf.function(kernel.one_step, jit_compile=jit_compile)
  expected, _ = kernel.one_step(state, results, seed=tf.constant([1, 2]))
  actual, _ = step(state, results, seed=tf.constant([1, 2]))
  for a, b in zip(actual, expected, strict=True):
    np.testing.assert_allclose(a, b, atol=1e-10)


@pytest.mark.parametrize('step_size', [-0.1, 0.0, np.nan, [0.1, -0.2]])
def test_step_size_must_be_positive(step_size):
  with pytest.raises(ValueError, match='`step_size` must be positive. Received: step_size='):
    tfr.mcmc.UnderdampedLangevin(_log_prob, step_size, 0.1)


@pytest.mark.parametrize('damping', [-0.1, 1.1, np.nan])
def test_damping_must_lie_in_the_unit_interval(damping):
  with pytest.raises(ValueError, match=rf'`damping` must lie in \[0, 1\]. .*{damping}'):
    tfr.mcmc.UnderdampedLangevin(_log_prob, 0.1, damping)


@pytest.mark.parametrize('num_integrator_steps', [0, -1, 1.5])
def test_num_integrator_steps_must_be_a_positive_integer(num_integrator_steps):
  with pytest.raises(ValueError, match='`num_integrator_steps` must be a positive integer'):
    tfr.mcmc.UnderdampedLangevin(_log_prob, 0.1, 0.1, num_integrator_steps)


def test_target_must_be_callable():
  with pytest.raises(TypeError, match='log-density must be callable. Received: float'):
    tfr.mcmc.UnderdampedLangevin(1.0, 0.1, 0.1)


def test_target_must_be_differentiable_in_every_part():
  kernel = tfr.mcmc.UnderdampedLangevin(lambda x, y: -tf.reduce_sum(x**2), 0.1, 0.1)
  with pytest.raises(ValueError, match='without gradient for part 1'):
    kernel.bootstrap_results(_state())


def test_lists_of_settings_must_fit_the_parts():
  kernel = tfr.mcmc.UnderdampedLangevin(_log_prob, [0.1, 0.1, 0.1], 0.1)
  state = _state()
  with pytest.raises(ValueError, match='2 state parts. Received: 3 entries'):
    kernel.one_step(state, kernel.bootstrap_results(state), seed=[1, 2])
