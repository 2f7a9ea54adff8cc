"""Runs with a map on every layer: anchors follow the chains in warm-up, and then stay."""

import itertools
import json

import numpy as np
import pytest
import sampling_runs
import tensorflow as tf
import tensorflow_probability as tfp
import toys

import tfp_reprior as tfr
from tfp_reprior.sampling import driver, planner, position, progress, settings


@pytest.mark.parametrize('name', ['auto', 'langevin', 'crank_nicolson'])
@pytest.mark.parametrize('kind', ['known', 'unknown', 'composed'])
def test_chains_start_from_the_weights_of_the_readout_map(name, kind):
  noise_scale = tfp.distributions.LogNormal(-1.0, 0.5) if kind == 'unknown' else 0.3
  posterior = toys.tiny_posterior(n=7, noise_scale=noise_scale)
  settings = dict(sampler=name, regularizer=0.5 if kind == 'composed' else None)
  plain = tfr.make_sampler(posterior, **settings)
  sampler = tfr.make_sampler(posterior, layer_regularizer=2.0, **settings)
  start, expected = sampler.start_fn(3, seed=1), plain.start_fn(3, seed=1)
  for part, other in zip(sampler.theta_fn(start), plain.theta_fn(expected), strict=True):
    np.testing.assert_allclose(part, other, atol=1e-10)
  kernel = sampler.kernel_fn(0.1, 0.2)
  state, results = kernel.one_step(start, kernel.bootstrap_results(start), seed=[1, 2])
  parts, _ = sampler.draw_fn(state)
  for part, other in zip(parts, sampler.parts_fn(state), strict=True):
    np.testing.assert_allclose(part, other, atol=1e-12)
  # What is traced of it does not depend on anchors: the likelihood of the plain sampler.
  mapped, change = sampler.unmap_fn(start)
  for part, other in zip(mapped, expected, strict=True):
    np.testing.assert_allclose(part, other, atol=1e-10)
  likelihoods = [
    s.kernel_fn(0.1, 0.2).bootstrap_results(state).target_log_prob
    for s, state in ((sampler, start), (plain, expected))
  ]
  np.testing.assert_allclose(likelihoods[0] - change, likelihoods[1], rtol=1e-9)
  assert results.log_accept_ratio.shape == [3]


def test_an_anchor_that_is_renewed_leaves_the_weights():
  sampler = tfr.make_sampler(toys.tiny_posterior(n=7), layer_regularizer=2.0)
  start = sampler.start_fn(2, seed=1)
  state = [p + 0.5 for p in start]
  theta, before = sampler.theta_fn(state), [p.numpy() for p in sampler.anchor.parts]
  renewed = sampler.anchor.renew(state)
  assert not np.allclose(renewed[0], state[0])
  for part, other in zip(sampler.theta_fn(renewed), theta, strict=True):
    np.testing.assert_allclose(part, other, atol=1e-10)
  for part, other, old in zip(sampler.anchor.parts, theta, before, strict=False):
    np.testing.assert_allclose(part, other, atol=1e-12)
    assert not np.allclose(part, old)


def _sample(**changes):
  settings = {**sampling_runs.SETTINGS, 'step_size': None, 'num_burnin_steps': 0, 'num_results': 4}
  return tfr.sample_posterior(
    sampling_runs.make_model(),
    sampling_runs.X,
    sampling_runs.Y,
    **{**settings, 'num_warmup_steps': 200, 'layer_regularizer': 3.0, **changes},
  )


def test_a_position_holds_the_anchor_that_its_state_depends_on():
  sampler = tfr.make_sampler(toys.tiny_posterior(n=7), layer_regularizer=2.0)
  start = sampler.start_fn(2, seed=1)
  theta = sampler.theta_fn(start)
  saved = position.Position(start, tf.float64, sampler.anchor).to_arrays()
  sampler.start_fn(2, seed=5)
  assert not np.allclose(sampler.theta_fn(start)[0], theta[0])
  position.Position(start, tf.float64, sampler.anchor).restore(saved, lambda _: None)
  for part, other in zip(sampler.theta_fn(start), theta, strict=True):
    np.testing.assert_array_equal(part, other)


def _stopped_and_resumed(num_updates, folder, monkeypatch, **changes):
  """A run that was stopped in warm-up and went on, the newest checkpoint then, and its stages."""
  update, calls = progress.Progress.update, itertools.count(1)

  def stop_once(self, *arguments):
    update(self, *arguments)
    if next(calls) == num_updates:
      raise RuntimeError('stopped')

  monkeypatch.setattr(progress.Progress, 'update', stop_once)
  with pytest.raises(RuntimeError, match='stopped'):
    _sample(run_dir=folder, checkpoint_seconds=1e-9, **changes)
  [*_, newest] = sorted((folder / 'checkpoints').glob('*.npz'))
  saved = np.load(newest)
  num_done = json.loads(str(saved['counts']))['num_done']['warm-up']
  result = _sample(run_dir=folder, checkpoint_seconds=1e-9, **changes)
  stages = [b.stage for b in result.warmup.blocks for _ in range(b.num_transitions)]
  return result, saved, stages[:num_done]


@pytest.mark.slow
@pytest.mark.filterwarnings('ignore::tfp_reprior.diagnostics.SamplingWarning')
@pytest.mark.parametrize('num_updates, is_placed', [(6, False), (11, True)])
def test_a_run_that_was_stopped_in_warm_up_goes_on_bit_for_bit(
  num_updates, is_placed, tmp_path, monkeypatch
):
  expected = _sample()
  result, saved, stages = _stopped_and_resumed(num_updates, tmp_path, monkeypatch)
  assert not np.allclose(saved['anchor/0000'], expected.anchor[0]), 'anchors move in warm-up'
  assert ('placing' in stages) == is_placed
  sampling_runs.assert_same(result, expected)
  for part, other in zip(result.anchor, expected.anchor, strict=True):
    np.testing.assert_array_equal(part, other)
  loaded = tfr.load_result(tmp_path)
  np.testing.assert_array_equal(loaded.anchor[0], result.anchor[0])
  assert loaded.settings['layer_regularizer'] == [3.0] and loaded.settings['num_stages'] == 3
  # The anchor of a result is that of all its draws: the last state is that of the kept draw.
  reprior = tfr.LayerwiseReprior(loaded.posterior, [tf.constant(p) for p in loaded.anchor], 3.0)
  theta = [tf.constant(p) for p in loaded.draws[-1]]
  for part, other in zip(theta, reprior.forward(reprior.inverse(theta)), strict=True):
    np.testing.assert_allclose(part, other, atol=1e-3)


@pytest.mark.slow
@pytest.mark.filterwarnings('ignore::tfp_reprior.diagnostics.SamplingWarning')
@pytest.mark.parametrize('num_updates, is_removed', [(14, False), (20, True)])
def test_a_run_that_tries_a_map_and_takes_it_off_goes_on_bit_for_bit(
  num_updates, is_removed, tmp_path, monkeypatch
):
  monkeypatch.setattr(planner, '_LONGER', 1e9)
  expected = _sample(layer_regularizer='tuned')
  assert expected.anchor is None
  result, _, stages = _stopped_and_resumed(
    num_updates, tmp_path, monkeypatch, layer_regularizer='tuned'
  )
  assert 'placing' in stages and ('removing' in stages) == is_removed
  sampling_runs.assert_same(result, expected)


@pytest.mark.parametrize('layer_regularizer', [3.0, 'tuned'])
def test_a_run_is_not_resumed_with_steps_of_another_kind(layer_regularizer, tmp_path):
  def open_with(num_stages):
    chosen = settings.Settings(layer_regularizer=layer_regularizer, num_stages=num_stages)
    driver.Driver(toys.tiny_posterior(), chosen, None, None, tmp_path)._open_folder(resume=True)

  open_with(None)
  open_with(3)
  with pytest.raises(ValueError, match='run of something else: num_stages was 3 and is None'):
    open_with(1)


@pytest.mark.parametrize(
  'changes, message',
  [
    (dict(sampler='standard'), "leave `layer_regularizer` out.*sampler='standard'"),
    (dict(regularizer='tuned'), "leave `layer_regularizer` out.*regularizer='tuned'"),
    (dict(layer_regularizer=-1.0), '`layer_regularizer` must be positive'),
    (dict(layer_regularizer='auto'), "`layer_regularizer` must be positive.*'auto'"),
    (
      dict(layer_regularizer='tuned', num_warmup_steps=None, step_size=0.1),
      r"`layer_regularizer='tuned'` finds a step size.*step_size=0.1",
    ),
    (dict(num_stages=2), '`num_stages` must be one of 1, 3. Received: num_stages=2'),
    (dict(layer_regularizer=[1.0, 2.0]), r"one for each of the layers \['hidden_1'\]"),
  ],
)
def test_what_is_wrong_is_refused_by_name(changes, message):
  with pytest.raises(ValueError, match=message):
    _sample(**changes)
