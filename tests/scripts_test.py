"""Each script, at toy size."""

import json
import subprocess
import sys
import types

import numpy as np
import pytest
import script_modules
import tensorflow as tf

import tfp_reprior as tfr

SCRIPTS = script_modules.SCRIPTS

# The smallest run of each script, and what it must print.
RUNS = {
  'demo': (
    '--width=8 --num_train=10 --num_test=20 --num_results=10 --thinning=2 --num_warmup_steps=100 '
    '--standard_steps=2 --output={json}.demo',
    ['acceptance by chain', 'ESS/1k steps', 'The page that compares', 'in data space: hidden_1'],
  ),
  'calibration': (
    '--models=unknown --num_replications=10 --num_chains=3 --num_draws=2 --num_burnin_steps=4 '
    '--thinning=2 --json={json} --figure={json}.png',
    ['verdict of control', '| unknown | noise scale |'],
  ),
  'walk': ('', ['One gradient: ', 'One draw: ', '  densities/collapsed_posterior.py']),
  'make_testdata': ('--output={json}.testdata', ['tiny_images/1.0.0', '60 train, 30 test']),
  'benchmark_tables': (
    '--models=linear --tables=wine,diabetes --first_split=3 --num_splits=1 --json={json}',
    ['wine, split 3, linear: nll', 'diabetes, split 3, linear: nll'],
  ),
  'benchmark_choices': (
    '--choice=regularizer --values=inf --problems=wine --width=4 --num_train=20 --num_chains=2 '
    '--num_results=4 --num_warmup_steps=100 --json={json}',
    ['wine, regularizer inf: first log-likelihood'],
  ),
  'benchmark_long_run': ('--nums_draws=60,120', ['| with verdict |']),
  'faults': ('--groups=arguments --every=40', [' cases, 0 silent']),
  'benchmark_density': (
    '--widths=4 --nums_data=3 --nums_chains=2 --num_rounds=1 --json={json}',
    ['collapsed / standard', '| 4 | 3 | 2 |'],
  ),
  'benchmark_step': (
    '--widths=4 --nums_data=3 --nums_chains=2 --num_rounds=1 --json={json}',
    ['8 rotations / gradient of likelihood', '| 4 | 3 | 2 |'],
  ),
  'benchmark_updates': (
    '--width=4 --num_inputs=5 --num_rounds=1 --json={json}',
    ['| leapfrog, start, its own noise |', '| rotation, finish |'],
  ),
  'benchmark_precision': (
    '--widths=4 --num_data=8 --num_draws=1 --num_momenta=2 --json={json}',
    ['rotation, acceptance', '| 5 | data | float64 |'],
  ),
  'render_docs': ('--check', ['Pages that differ: none']),
  'benchmark_linearised': (
    '--widths=3 --regularizers=1 --num_data=2 --num_draws=3 --num_probes=1 --json={json}',
    ['G and H, off', '| 3 | 1 |'],
  ),
  'benchmark_ntk': (
    '--widths=4 --nums_data=3 --num_outputs=2 --num_rounds=1 --json={json}',
    ['structured ms', '| fcn | 4 | 3 | 2 |', '| cnn | 4 | 3 | 2 | - |'],
  ),
  'benchmark_run': (
    '--width=4 --num_train=5 --num_steps=100 --thinning=10',
    ['acceptance by chain', 'share of the run', '| 100% |'],
  ),
  'benchmark_warmup': (
    '--problems=wine-4 --samplers=auto --num_seeds=1 --num_results=8 --num_warmup_steps=100 '
    '--json={json}',
    ['lowest acceptance', '| wine-4 | auto | 0 |'],
  ),
  'benchmark_anchor': (
    '--widths=4 --nums_data=8 --angles=0,1 --num_chains=2 --num_warmup_steps=100 '
    '--num_transitions=2 --json={json}',
    ['acceptance at 0 | acceptance at 1 | readout map', '| 4 | 8 | 1 |'],
  ),
  'benchmark_samplers': (
    '--widths=4 --nums_data=5 --num_test=3 --num_gradients=100 --num_warmup_steps=100 '
    '--samplers=elliptical_slice,nuts_repriorised --json={json}',
    [
      'theta ESS / 1k gradients',
      '| 4 | 5 | 1 | elliptical_slice |',
      '| 4 | 5 | 1 | nuts_repriorised |',
    ],
  ),
}


# Whose graphs are functions of the package, which other tests trace: that takes most of their time.
EAGER = {'benchmark_density', 'benchmark_linearised', 'benchmark_precision'}
# Run below, with two devices in `internal/two_devices.py`, and in `reproduce_test.py`.
ELSEWHERE = {'benchmark_curvature', 'benchmark_memory', 'benchmark_distributed', 'reproduce'}


def _arguments(arguments, tmp_path):
  return arguments.format(json=tmp_path / 'figures.json').split()


def _start(name, arguments, tmp_path):
  """The script in a process of its own."""
  command = [sys.executable, str(SCRIPTS / f'{name}.py'), *_arguments(arguments, tmp_path)]
  env = script_modules.several_threads()
  return subprocess.run(command, capture_output=True, text=True, timeout=600, env=env)


@pytest.fixture
def run(capsys, tmp_path, monkeypatch, no_drawings):
  """Runs a script in this process, for TensorFlow takes seconds to start; returns its output."""
  for kind in ('inter', 'intra'):  # it has started, with one thread
    monkeypatch.setattr(tf.config.threading, f'set_{kind}_op_parallelism_threads', lambda _: None)

  def run(name, arguments):
    script_modules.run(name, _arguments(arguments, tmp_path))
    return capsys.readouterr().out

  return run


def test_every_script_is_run():
  assert {*RUNS, *ELSEWHERE} == {path.stem for path in SCRIPTS.glob('*.py')}


@pytest.mark.parametrize('name', sorted({*RUNS, *ELSEWHERE}))
def test_every_script_is_a_program(name):
  source = (SCRIPTS / f'{name}.py').read_text()
  assert source.endswith("\n\nif __name__ == '__main__':\n  app.run(main)\n")


@pytest.mark.parametrize('name', RUNS)
def test_script_runs_at_toy_size(name, run, tmp_path):
  arguments, expected = RUNS[name]
  tf.config.run_functions_eagerly(name in EAGER)
  try:
    output = run(name, arguments)
  finally:
    tf.config.run_functions_eagerly(False)
  for text in expected:
    assert text in output
  if '--json=' in arguments:
    assert json.loads((tmp_path / 'figures.json').read_text())


@pytest.mark.slow  # to trace the gradients of Jacobians takes three times as long
def test_gradients_of_tangent_kernels_are_timed_too(run):
  arguments = '--widths=4 --nums_data=3 --num_outputs=2 --num_rounds=1 --gradient'
  assert '| cnn | 4 | 3 | 2 | - |' in run('benchmark_ntk', arguments)


def test_samplers_of_several_runs_are_drawn(run, tmp_path):
  row = {'width': 4, 'sampler': 'rotation', 'theta ESS / 1k gradients': 3.0}
  for num_data in (5, 6):
    rows = [{'n': num_data, **row, 'f ESS / 1k gradients': 7.0}]
    (tmp_path / f'{num_data}.json').write_text(json.dumps(rows))
  paths = f'{tmp_path}/5.json,{tmp_path}/6.json'
  arguments = f'--samplers= --also={paths} --figure={tmp_path}/samplers.png'
  assert '| 6 | 4 | rotation |' in run('benchmark_samplers', arguments)
  assert (tmp_path / 'samplers.png').read_bytes().startswith(b'\x89PNG')


@pytest.mark.parametrize('samplers', [['auto@1'], ['standard', 'auto@1']])
def test_samplers_are_drawn_over_widths(samplers, run, tmp_path):
  rows = [
    {'n': 5, 'width': w, 'sampler': s, 'seed': i}
    | {f'{key} ESS / 1k gradients': 1.0 + w + i for key in ('theta', 'f')}
    for s in samplers
    for w in (4, 8, 16)
    for i in (1, 2)
  ]
  (tmp_path / 'rows.json').write_text(json.dumps(rows))
  arguments = f'--samplers= --also={tmp_path}/rows.json --figure={tmp_path}/widths.png'
  run('benchmark_samplers', arguments)
  assert (tmp_path / 'widths.png').read_bytes().startswith(b'\x89PNG')


def test_samplers_are_compared_with_labels_too(run):
  arguments = (
    '--likelihood=categorical --widths=4 --nums_data=5 --num_test=3 --num_gradients=100 '
    '--num_warmup_steps=100 --samplers=rotation:inf/3@5'
  )
  assert '| 4 | 5 | 1 | rotation:inf/3@5 |' in run('benchmark_samplers', arguments)


def test_the_largest_curvatures_are_those_of_the_hessian():
  values = np.array([40.0, 9.0, 5.0, *np.linspace(1, 2, 20)])
  rotation = np.linalg.qr(np.random.default_rng(1).normal(size=[23, 23]))[0]
  root = tf.constant(rotation * np.sqrt(values))

  def log_likelihood_fn(x, y):
    z = tf.concat([tf.reshape(x, [2, -1]), y], axis=-1)
    return -0.5 * tf.constant([1.0, 2.0], tf.float64) * tf.reduce_sum((z @ root) ** 2, axis=-1)

  sampler = types.SimpleNamespace(num_moving_parts=2, log_likelihood_fn=log_likelihood_fn)
  state = [tf.ones([2, 3, 5], tf.float64), tf.ones([2, 8], tf.float64), tf.ones([2], tf.float64)]
  found = script_modules.load('benchmark_curvature').largest_eigenvalues(sampler, state, 12, seed=1)
  np.testing.assert_allclose(found[:, :3], [values[:3], 2 * values[:3]], rtol=1e-6)


def test_curvatures_have_the_step_sizes_of_warm_up_beside_them(run, monkeypatch):
  def warm_up(posterior, layer_regularizer, num_chains, seed, **_):
    sampler = tfr.make_sampler(posterior, layer_regularizer=layer_regularizer)
    state = [p.numpy() for p in sampler.start_fn(num_chains, seed)]
    blocks = [
      tfr.sampling.Block(stage, step_size, 1.0, 1, 1.0, 1, [0.8], 0.0)
      for stage, step_size in (('settling', 0.0625), ('placing', 0.5))
    ]
    return tfr.sampling.Warmup(
      0.75, 1.0, 1, 9, blocks, [], state=state, anchor=[p.numpy() for p in sampler.anchor.parts]
    )

  monkeypatch.setattr(tfr, 'warm_up', warm_up)
  output = run('benchmark_curvature', '--widths=4 --nums_data=8 --num_iterations=11')
  for which, step_size in (('readout', '0.0625'), ('every layer', '0.25')):
    [line] = [text for text in output.splitlines() if f'| 4 | 8 | 1 | {which} |' in text]
    largest, second, tenth, limit, step, ratio = map(float, line.split('|')[5:11])
    assert step == float(step_size) and largest > second > tenth
    assert limit == pytest.approx(2 / largest**0.5, rel=0.02)
    assert ratio == pytest.approx(step / limit, rel=0.02)


def test_the_peak_memory_of_a_gradient_is_measured_in_a_process_of_its_own(run, monkeypatch):
  arguments = '--width=4 --nums_data=8 --chunk_sizes=3'
  printed = run('benchmark_memory', f'{arguments} --measure=8,3')
  commands = []

  def start(command, **_):
    if command[0] == sys.executable:  # not git, which tells the commit
      commands.append(command)
    return types.SimpleNamespace(stdout=printed)

  monkeypatch.setattr(subprocess, 'run', start)
  output = run('benchmark_memory', arguments)
  assert 'peak less data MiB' in output and '| 3 | 8 |' in output
  script = str(SCRIPTS / 'benchmark_memory.py')
  assert commands == [[sys.executable, script, *arguments.split(), '--measure=8,3']]


def test_the_peak_memory_of_a_run_is_measured_stage_by_stage(run):
  arguments = '--run=without_weights --width=8 --num_results=8 --measure=5,0'
  *peaks, num_weights = map(float, run('benchmark_memory', arguments).split()[-1].split(','))
  assert len(peaks) == 4 and peaks == sorted(peaks)
  assert num_weights == 3073 * 8 + 2 * 9 * 8 + 9 * 10


def test_the_demo_tells_no_gain_off_chains_that_failed():
  demo = script_modules.load('demo')

  def result(level, ess, num_steps):
    reasons = [tfr.diagnostics.Reason(level, 'Chain 2 never moved.', '')] * (level == 'failed')
    mixing = dict.fromkeys(('hidden', 'f'), tfr.diagnostics.Mixing(1.0, 90.0, 90.0, ess))
    verdict = tfr.diagnostics.Verdict(level, reasons, mixing)
    return types.SimpleNamespace(verdict=verdict, num_steps=num_steps, num_chains=2)

  good = result('unsure', 100.0, 1000)
  assert 'gives 8.0 times as many' in demo.gain(good, result('good', 400.0, 500))
  for pair in ((good, result('failed', 1.0, 500)), (result('failed', 1.0, 500), good)):
    sentence = demo.gain(*pair)
    assert 'No gain is told' in sentence and 'Chain 2 never moved.' in sentence
    assert 'times' not in sentence


def test_unknown_arguments_are_refused(tmp_path):
  result = _start('demo', 'quickly', tmp_path)
  assert result.returncode != 0 and "Unknown arguments: ['quickly']" in result.stderr
