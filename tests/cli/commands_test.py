"""Every command at toy size: what it prints, what it writes, and that this is right."""

import argparse
import csv
import dataclasses
import pathlib
import re
import shlex
import signal
import types

import keras
import numpy as np
import pytest
import sampling_runs

import tfp_reprior as tfr
from tfp_reprior.cli import (
  benchmark,
  figure,
  flags,
  likelihood,
  main,
  networks,
  predict,
  presets,
  report,
  sample,
  warmup,
)
from tfp_reprior.sampling import progress, samplers

# With larger steps chains of four draws may never move, which counts as a failure.
SHORT = (
  '--num_chains=2 --num_results=4 --thinning=1 --num_burnin_steps=0 --step_size=0.02 --quiet'
).split()
SIZES = ['--width=8', '--depth=1', *SHORT]
CLASSES = 'a,b,kind\n' + ''.join(f'{i},{i * i % 7},{"xyz"[i % 3]}\n' for i in range(12))


def _sample_toy(folder):
  """The exit code of a run on the toy data; all share their graphs."""
  with sampling_runs.shared_graphs('toy'):
    return main.main(
      ['sample', '--data=toy', '--num_test=10', f'--run_dir={folder}', '--no-report', *SIZES]
    )


@pytest.fixture(scope='module')
def toy_run(tmp_path_factory):
  """The folder of a run on the toy data."""
  folder = tmp_path_factory.mktemp('runs') / 'toy'
  assert _sample_toy(folder) == 0
  return folder


@pytest.fixture(scope='module')
def class_run(tmp_path_factory):
  """The folder of a run on classes in a .csv file."""
  folder = tmp_path_factory.mktemp('runs')
  (folder / 'data.csv').write_text(CLASSES)
  code = main.main(
    ['sample', f'--data={folder / "data.csv"}', f'--run_dir={folder / "run"}', '--no-report']
    + ['--likelihood=gaussian']
    + SIZES
  )
  assert code == 0
  return folder / 'run'


def _read_table(path):
  with open(path, newline='') as file:
    return list(csv.DictReader(file))


def test_sampling_prints_its_summary_and_keeps_the_result(toy_run, capsys):
  assert _sample_toy(toy_run) == 0  # goes on with a run that is complete
  out = capsys.readouterr().out
  assert 'toy: 20 training and 10 test data, inputs of shape (1,), 1 real target; devices: ' in out
  assert (
    'rotation, step size 0.02, damping 0.0392, 1 step: 2 chains of 4 draws, 1 steps each' in out
  )
  assert 'test rmse: ' in out and 'report' not in out
  result = tfr.load_result(toy_run)
  assert result.num_draws == 4 and result.settings['step_size'] == 0.02
  data = tfr.data.load('toy', num_test=10)
  np.testing.assert_array_equal(result.posterior.x, data.x_train)
  assert result.preparation == data.preparation


def test_flags_reach_the_sampler(tmp_path, monkeypatch):
  class Reached(Exception):
    pass

  def reach(**arguments):
    raise Reached(arguments)

  monkeypatch.setattr(tfr, 'sample_posterior', reach)
  arguments = '--sampler=langevin --damping=0.3 --seed=5 --noise_scale=0.2 --num_train=6'
  with pytest.raises(Reached) as e:
    main.main(['sample', '--data=toy', f'--run_dir={tmp_path}', *arguments.split(), *SIZES])
  [given] = e.value.args
  expected = {'sampler': 'langevin', 'damping': 0.3, 'seed': 5, 'num_chains': 2, 'thinning': 1}
  assert {name: given[name] for name in expected} == expected
  assert given['likelihood'].noise_scale == 0.2 and len(given['x']) == 6
  tfr.sampling.Settings(**{name: given[name] for name in expected})


def test_saved_keras_models_are_sampled(tmp_path, capsys):
  model = keras.Sequential(
    [keras.Input((1,)), keras.layers.Dense(5, 'tanh'), keras.layers.Dense(1)], name='mine'
  )
  model.save(tmp_path / 'mine.keras')
  code = main.main(
    ['sample', '--data=toy', '--num_test=3', f'--model={tmp_path / "mine.keras"}', '--no-report']
    + [f'--run_dir={tmp_path / "run"}', *SHORT]
  )
  assert code == 0
  assert "Posterior(model='mine', n=20, num_parameters=17" in capsys.readouterr().out


def test_a_folder_with_a_run_of_other_data_is_refused(toy_run, capsys):
  before = (toy_run / 'settings.json').read_text()
  for data in ('--data=diabetes', '--seed=3'):
    arguments = ['sample', '--data=toy', f'--run_dir={toy_run}', '--num_test=10', *SIZES, data]
    assert main.main(arguments) == 1
    assert 'error: `run_dir` holds a run of something else' in capsys.readouterr().err
  assert (toy_run / 'settings.json').read_text() == before


def test_no_resume_refuses_a_folder_with_a_run(toy_run, capsys):
  arguments = ['sample', '--data=toy', '--num_test=10', f'--run_dir={toy_run}', '--no-resume']
  assert main.main([*arguments, *SIZES]) == 1
  assert '`run_dir` holds a run already' in capsys.readouterr().err


def test_ctrl_c_keeps_what_there_is_and_the_same_command_goes_on(tmp_path, monkeypatch, capsys):
  class Interrupting(progress.Progress):
    def update(self, *args):
      super().update(*args)
      signal.raise_signal(signal.SIGINT)

  with monkeypatch.context() as patch:
    patch.setattr(progress, 'Progress', Interrupting)
    assert _sample_toy(tmp_path) == 130
  assert 'the same command goes on with it' in capsys.readouterr().out
  partial = tfr.load_result(tmp_path)
  assert 0 < partial.num_draws < 4 and not partial.is_complete
  assert _sample_toy(tmp_path) == 0
  assert tfr.load_result(tmp_path).is_complete


def test_reports_are_written_with_the_run_and_on_several(toy_run, monkeypatch, tmp_path, capsys):
  written = []
  monkeypatch.setattr(tfr.report, 'write_report', lambda *arguments: written.append(arguments))
  result = tfr.load_result(toy_run)
  sample.write_report(result, str(toy_run))
  assert written.pop() == ([result], toy_run / 'report.html', [str(toy_run)])
  assert f'The report is {toy_run / "report.html"}' in capsys.readouterr().out
  output = tmp_path / 'both.html'
  assert main.main(['report', str(toy_run), str(toy_run), f'--output={output}']) == 0
  [(results, path, names)] = written
  assert [r.num_draws for r in results] == [4, 4]
  assert path == output and names == [str(toy_run)] * 2


def test_a_report_of_a_run_is_a_page(toy_run, tmp_path, capsys):
  pytest.importorskip('matplotlib')
  output = tmp_path / 'report.html'
  assert main.main(['report', str(toy_run), f'--output={output}']) == 0
  assert capsys.readouterr().out == f'The report is {output}\n'
  assert '</html>' in output.read_text()


def test_a_run_without_matplotlib_is_no_failure(toy_run, monkeypatch, capsys):
  def refuse(*arguments):
    raise ImportError('pip install something')

  monkeypatch.setattr(tfr.report, 'write_report', refuse)
  sample.write_report(tfr.load_result(toy_run), str(toy_run))
  assert 'No report was written. pip install something' in capsys.readouterr().out


def test_predictions_are_in_the_units_of_the_data(toy_run, tmp_path, capsys):
  (tmp_path / 'new.csv').write_text('y,x\n1.5,0.5\n-1,-0.7\n')
  output = tmp_path / 'out.csv'
  arguments = ['predict', str(toy_run), f'--data={tmp_path / "new.csv"}', f'--output={output}']
  assert main.main(arguments) == 0
  out = capsys.readouterr().out
  assert 'rmse: ' in out and f'2 predictions are in {output}' in out
  # The same by hand, with standardized data.
  preparation = tfr.data.load('toy', num_test=10).preparation
  x = (np.array([[0.5], [-0.7]]) - preparation.x_mean) / preparation.x_std
  result = tfr.load_result(toy_run)
  result.preparation = tfr.data.Preparation()
  prediction = result.predict(x.astype(np.float32))
  mean, std = preparation.y_mean[0], preparation.y_std[0]
  for i, row in enumerate(_read_table(output)):
    row = {name: float(value) for name, value in row.items()}
    np.testing.assert_allclose(row['mean'], mean + std * prediction.mean[i, 0], rtol=1e-4)
    np.testing.assert_allclose(row['stddev'], std * prediction.stddev[i, 0], rtol=1e-4)
    for q in (0.05, 0.5, 0.95):
      expected = mean + std * prediction.quantile(q)[i, 0]
      np.testing.assert_allclose(row[f'quantile_{q}'], expected, rtol=1e-4)


def test_prices_are_sampled_and_predicted_in_logarithms(tmp_path, capsys):
  rows = [f'{i},{np.exp(i / 3):.4f}\n' for i in range(1, 21)]
  (tmp_path / 'data.csv').write_text('size,price\n' + ''.join(rows))
  run_dir = tmp_path / 'run'
  arguments = ['sample', f'--data={tmp_path / "data.csv"}', f'--run_dir={run_dir}', '--no-report']
  assert main.main([*arguments, *SIZES]) == 0
  assert 'targets in logarithms' in capsys.readouterr().out
  predict = ['predict', str(run_dir), f'--data={tmp_path / "data.csv"}']
  assert main.main([*predict, f'--output={tmp_path / "out.csv"}']) == 0
  row = _read_table(tmp_path / 'out.csv')[0]
  assert 0 < float(row['quantile_0.05']) < float(row['quantile_0.5']) < float(row['mean'])
  assert main.main([*arguments, '--log_targets=no', *SIZES]) == 1  # another run
  assert 'holds a run of something else' in capsys.readouterr().err


def test_predictions_of_classes_have_labels_and_probabilities(class_run, tmp_path, capsys):
  (tmp_path / 'new.csv').write_text('b,a\n1,0.5\n3,7\n')
  arguments = ['predict', str(class_run), f'--data={tmp_path / "new.csv"}']
  assert main.main([*arguments, f'--output={tmp_path / "out.csv"}']) == 0
  assert main.main([*arguments, f'--output={tmp_path / "out.npz"}']) == 0
  assert 'accuracy' not in capsys.readouterr().out
  arrays = np.load(tmp_path / 'out.npz')
  assert arrays['class_names'].tolist() == ['x', 'y', 'z']
  assert arrays['mean'].shape == arrays['stddev'].shape == (2, 3)
  assert arrays['quantiles'].shape == (3, 2, 3)
  np.testing.assert_allclose(arrays['class_probabilities'].sum(axis=1), 1)
  for i, row in enumerate(_read_table(tmp_path / 'out.csv')):
    probabilities = {c: float(row[f'probability_{c}']) for c in 'xyz'}
    np.testing.assert_allclose(
      list(probabilities.values()), arrays['class_probabilities'][i], rtol=1e-4
    )
    assert row['label'] == arrays['label'][i] == max(probabilities, key=probabilities.get)
    np.testing.assert_allclose(float(row['mean_y']), arrays['mean'][i, 1], rtol=1e-4)


@pytest.fixture(scope='module')
def softmax_run(tmp_path_factory):
  """The folder of a run on classes in a .csv file, with the categorical likelihood."""
  folder = tmp_path_factory.mktemp('runs')
  (folder / 'data.csv').write_text(CLASSES)
  code = main.main(
    ['sample', f'--data={folder / "data.csv"}', f'--run_dir={folder / "run"}', '--no-report']
    + ['--likelihood=categorical', '--regularizer=n*noise', *SIZES]
  )
  assert code == 0
  return folder / 'run'


def test_classes_are_sampled_with_their_likelihood(softmax_run):
  result = tfr.load_result(softmax_run)
  assert isinstance(result.posterior.likelihood, tfr.likelihoods.Categorical)
  assert result.settings['regularizer'] == 'n*noise'
  names = [line.split(',')[-1] for line in CLASSES.splitlines()[1:]]
  data = tfr.data.load(softmax_run.parent / 'data.csv')
  np.testing.assert_array_equal(result.posterior.y, data.labels_train)
  labels = np.concatenate([result.posterior.y, result.y_test])
  assert sorted('xyz'[i] for i in labels) == sorted(names)


def test_predictions_of_a_softmax_are_probabilities(softmax_run, tmp_path, capsys):
  (tmp_path / 'new.csv').write_text('b,a,kind\n1,0.5,y\n3,7,x\n')
  arguments = ['predict', str(softmax_run), f'--data={tmp_path / "new.csv"}']
  assert main.main([*arguments, f'--output={tmp_path / "out.csv"}']) == 0
  assert main.main([*arguments, f'--output={tmp_path / "out.npz"}']) == 0
  assert 'accuracy: ' in capsys.readouterr().out
  prediction = tfr.load_result(softmax_run).predict([[0.5, 1.0], [7.0, 3.0]])
  arrays = np.load(tmp_path / 'out.npz')
  assert set(arrays) == {'class_probabilities', 'class_names', 'label', 'probability_stddev'}
  np.testing.assert_allclose(arrays['class_probabilities'], prediction.mean, rtol=1e-4)
  np.testing.assert_allclose(arrays['probability_stddev'], prediction.function_stddev, rtol=1e-3)
  for i, row in enumerate(_read_table(tmp_path / 'out.csv')):
    for j, name in enumerate('xyz'):
      np.testing.assert_allclose(
        float(row[f'probability_{name}']), prediction.mean[i, j], rtol=1e-4
      )
    assert row['label'] == 'xyz'[np.argmax(prediction.mean[i])]
    assert len(row) == 9 and float(row['a']) in (0.5, 7)


def test_two_classes_may_have_one_output(tmp_path, capsys):
  (tmp_path / 'data.csv').write_text(CLASSES.replace('z', 'y'))
  arguments = [f'--data={tmp_path / "data.csv"}', *SIZES]
  run_dir = tmp_path / 'run'
  assert main.main(['sample', *arguments, f'--run_dir={run_dir}', '--no-report']) == 0
  result = tfr.load_result(run_dir)
  assert result.posterior.split.num_outputs == 1 and set(result.posterior.y.numpy().flat) == {0, 1}
  output = tmp_path / 'out.csv'
  assert main.main(['predict', str(run_dir), arguments[0], f'--output={output}']) == 0
  out = capsys.readouterr().out
  assert 'accuracy: ' in out and '2 classes: --likelihood=bernoulli; gaussian fits' in out
  for row in _read_table(output):
    assert float(row['probability_x']) + float(row['probability_y']) == pytest.approx(1, abs=1e-4)
    assert row['label'] == max('xy', key=lambda name: float(row[f'probability_{name}']))


def test_runs_on_classes_of_other_programs_call_them_by_numbers(softmax_run, tmp_path, capsys):
  result = tfr.load_result(softmax_run)
  result.preparation = tfr.data.Preparation()
  result.save(tmp_path / 'run')
  np.savez(tmp_path / 'new.npz', x=np.zeros([2, 2], np.float32), y=np.array([0, 2]))
  arguments = ['predict', str(tmp_path / 'run'), f'--data={tmp_path / "new.npz"}']
  assert main.main([*arguments, f'--output={tmp_path / "out.npz"}']) == 0
  assert 'accuracy: ' in capsys.readouterr().out
  assert np.load(tmp_path / 'out.npz')['class_names'].tolist() == ['0', '1', '2']


def test_several_outputs_of_zeros_and_ones_are_left_to_python():
  posterior = tfr.Posterior(
    tfr.models.fcn((1,), 2, width=4),
    np.zeros([3, 1], np.float32),
    np.zeros([3, 2], int),
    likelihood=tfr.likelihoods.Bernoulli(),
  )
  with pytest.raises(ValueError, match='in Python only.*Received: a run with 2 outputs'):
    predict.class_names(posterior)


@pytest.mark.parametrize(
  ('arguments', 'message'),
  [
    ('--data=toy --likelihood=categorical', 'Labels are of classes. Received: data with real'),
    ('--data=digits --likelihood=bernoulli', 'two classes.*Received: data with 10 classes'),
    (
      '--data=digits --likelihood=categorical --noise_scale=0.2',
      '--noise_scale is of Gaussian noise. Received: --noise_scale=0.2 with',
    ),
  ],
)
@pytest.mark.parametrize('command', ['sample --run_dir={}/run', 'warmup'])
def test_likelihoods_that_do_not_suit_the_data_are_refused(
  command, arguments, message, tmp_path, capsys
):
  assert main.main(command.format(tmp_path).split() + arguments.split()) == 1
  assert re.search(message, capsys.readouterr().err)
  assert not (tmp_path / 'run').exists()


def test_predictions_of_known_classes_are_judged(class_run, tmp_path, capsys):
  (tmp_path / 'known.csv').write_text(CLASSES)
  arguments = ['predict', str(class_run), f'--data={tmp_path / "known.csv"}']
  assert main.main([*arguments, f'--output={tmp_path / "out.csv"}']) == 0
  assert 'accuracy: ' in capsys.readouterr().out


def test_runs_of_other_programs_take_data_as_they_are(toy_run, tmp_path):
  result = tfr.load_result(toy_run)
  result.preparation = tfr.data.Preparation()
  result.save(tmp_path / 'run')
  x = np.array([[0.5], [-0.7]], np.float32)
  np.savez(tmp_path / 'new.npz', x=x)
  arguments = ['predict', str(tmp_path / 'run'), f'--data={tmp_path / "new.npz"}']
  assert main.main([*arguments, f'--output={tmp_path / "out.npz"}']) == 0
  expected = result.predict(x).mean
  np.testing.assert_allclose(np.load(tmp_path / 'out.npz')['mean'], expected, rtol=1e-6)


def test_inputs_of_another_shape_are_told(toy_run, tmp_path, capsys):
  np.savez(tmp_path / 'new.npz', x=np.ones([2, 3]))
  arguments = ['predict', str(toy_run), f'--data={tmp_path / "new.npz"}']
  assert main.main([*arguments, f'--output={tmp_path / "out.npz"}']) == 1
  assert '[n, 1]' in capsys.readouterr().err


def test_warm_up_prints_its_table_and_the_command_that_uses_it(capsys):
  code = main.main(
    ['warmup', '--data=toy', '--width=8', '--depth=1', '--num_warmup_steps=100', '--num_train=5']
    + ['--num_test=3', '--num_chains=2', '--quiet']
  )
  assert code == 0
  data, head, *table, blank, command = capsys.readouterr().out.splitlines()
  assert data.startswith('toy: 5 training and 3 test data')
  assert head.startswith('stage        step size  damping') and blank == ''
  assert table[0].startswith('first step ') and table[-1].startswith('check ')
  step_size, damping, steps = table[-1].split()[1:4]
  words = command.split()
  assert words[:7] == (
    'tfp-reprior sample --data=toy --num_train=5 --num_test=3 --width=8 --depth=1'.split()
  )
  found = dict(word.removeprefix('--').split('=') for word in words[7:])
  assert float(found.pop('damping')) == pytest.approx(float(damping), rel=1e-2)
  expected = dict(num_chains='2', step_size=step_size, num_integrator_steps=steps, run_dir='DIR')
  assert found == {**expected, 'likelihood': 'gaussian'}  # what it came to be


def test_sampling_goes_on_from_a_warm_up(tmp_path, capsys):
  (tmp_path / 'data.csv').write_text(CLASSES)
  arguments = ['--width=8', '--depth=1', '--likelihood=categorical', '--regularizer=2.5']
  arguments += [f'--data={tmp_path / "data.csv"}', '--num_warmup_steps=100', '--num_results=4']
  run_dir = f'--run_dir={tmp_path / "run"}'
  assert main.main(['warmup', *arguments, run_dir, '--quiet']) == 0
  *_, last_block, _, command = capsys.readouterr().out.splitlines()
  assert '--likelihood=categorical' in command and '--regularizer=2.5' in command
  words = shlex.split(command)
  assert set(words[2:]) == {*arguments, run_dir}
  assert main.main([*words[1:], '--quiet', '--no-report']) in (0, 3)
  result = tfr.load_result(tmp_path / 'run')
  assert result.warmup.table().splitlines()[-1] == last_block
  assert result.settings['regularizer'] == 2.5


def _parse_warmup(*arguments):
  return presets.parse_args(main._parser(), ['warmup', '--data=toy', *arguments])


def test_a_tuned_regularizer_is_part_of_the_command():
  found = tfr.sampling.Warmup(0.1, 0.2, 4, 700, [], [], regularizer='n*noise')
  args = _parse_warmup('--regularizer=tuned', '--num_warmup_steps=500', '--damping=0.5')
  assert warmup.command(args, found) == (
    "tfp-reprior sample --data=toy '--regularizer=n*noise' --damping=0.2 --step_size=0.1 "
    '--num_integrator_steps=4 --run_dir=DIR'
  )


def test_a_sampler_without_damping_has_none_in_the_command():
  found = tfr.sampling.Warmup(0.1, float('nan'), 1, 700, [], [])
  args = _parse_warmup('--sampler=crank_nicolson')
  assert warmup.command(args, found) == (
    'tfp-reprior sample --data=toy --sampler=crank_nicolson --step_size=0.1 --run_dir=DIR'
  )


STUCK = '--data=toy --num_test=3 --sampler=langevin --step_size=1.5 --num_results=20 --no-report'


def test_a_run_that_failed_exits_with_3_and_says_so(tmp_path, capsys):
  command = ['sample', *STUCK.split(), f'--run_dir={tmp_path}', '--width=8', '--depth=1']
  command += ['--num_chains=2', '--num_burnin_steps=0', '--thinning=1', '--quiet']
  assert main.main(command) == 3
  captured = capsys.readouterr()
  [line] = [line for line in captured.err.splitlines() if line.startswith('tfp-reprior: ')]
  assert line.startswith('tfp-reprior: sampling failed: do not use these draws. Chains 1 and 2')
  assert 'never moved' in line and 'SamplingWarning' not in captured.err
  assert tfr.load_result(tmp_path).verdict.level == 'failed'  # it is kept, to be looked at


def test_a_short_run_is_a_warning(toy_run, capsys):
  result = tfr.load_result(toy_run)
  assert result.verdict.level == 'unsure'
  assert _sample_toy(toy_run) == 0
  err = capsys.readouterr().err
  assert err.count(f'tfp-reprior: warning: {result.verdict}\n') == 1
  assert 'SamplingWarning' not in err


@pytest.mark.parametrize(
  'level, is_complete, code, lines',
  [
    ('good', True, 0, 0),
    ('unsure', True, 0, 1),
    ('failed', True, 3, 1),
    ('failed', False, 130, 1),
  ],
)
def test_the_exit_code_is_that_of_the_verdict(
  level, is_complete, code, lines, monkeypatch, tmp_path, capsys
):
  reasons = [tfr.diagnostics.Reason(level, 'It is so.', 'Do that.')]
  verdict = tfr.diagnostics.Verdict(level, reasons, {})
  result = types.SimpleNamespace(
    verdict=verdict, is_complete=is_complete, summary=lambda: 'the summary'
  )
  monkeypatch.setattr(tfr, 'sample_posterior', lambda **_: result)
  arguments = ['sample', '--data=toy', '--no-report', f'--run_dir={tmp_path}']
  assert main.main(arguments) == code
  captured = capsys.readouterr()
  assert 'the summary' in captured.out and captured.err.count('\n') == lines
  assert captured.err.endswith('It is so. Do that.\n') or not lines


@pytest.mark.parametrize('command', ['sample', 'warmup'])
def test_a_warm_up_that_fails_exits_with_3(command, monkeypatch, tmp_path, capsys):
  def fail(**_):
    raise tfr.sampling.WarmupError('No step size makes every chain move:\nchain 2 rejects it.')

  for name in ('sample_posterior', 'warm_up'):
    monkeypatch.setattr(tfr, name, fail)
  assert main.main([command, '--data=toy', f'--run_dir={tmp_path}']) == 3
  assert capsys.readouterr().err == (
    'tfp-reprior: error: No step size makes every chain move: chain 2 rejects it.\n'
  )


def test_the_benchmark_knows_likelihoods(capsys):
  arguments = ['--width=4', '--num_data=3', '--num_rounds=1', '--likelihood=categorical']
  assert main.main(['benchmark', *arguments]) == 0
  out = capsys.readouterr().out
  assert '| composed: value and gradient |' in out and 'Categorical(' in out


def test_the_benchmark_prints_a_table_and_the_machine(capsys):
  assert main.main(['benchmark', '--width=4', '--num_data=3', '--num_rounds=1']) == 0
  out = capsys.readouterr().out
  for text in ('tensorflow: ', '| standard: value and gradient |', '| rotation: step |'):
    assert text in out


def test_the_figure_is_where_it_says(tmp_path, capsys):
  copy = tmp_path / 'copy.json'
  words = ['--scale=smoke', f'--out={tmp_path}', f'--json={copy}', '--quiet']
  assert main.main(['figure', 'linear-map', *words]) == 0
  path = capsys.readouterr().out.removeprefix('The figure is ').strip()
  assert copy.read_bytes() == pathlib.Path(path).with_suffix('.json').read_bytes()
  assert path == str(tmp_path / 'linear-map-smoke.png') and pathlib.Path(path).exists()


@pytest.mark.parametrize('command', [sample, warmup])
def test_defaults_are_those_of_the_package(command):
  parser = argparse.ArgumentParser()
  command.add_arguments(parser)
  for field in dataclasses.fields(tfr.sampling.Settings):
    if field.name not in ('num_projections', 'num_kept_draws', 'over_dispersion'):
      assert parser.get_default(field.name) == field.default, field.name


def test_help_knows_every_sampler_model_and_data_set():
  assert all(name in networks.HELP for name in networks.MODELS)
  assert all(name in flags.SAMPLERS for name in samplers.NAMES)
  assert all(name in flags.DATA for name in tfr.data.BUILT_IN)
  assert set(likelihood.NAMES) == set(tfr.likelihoods.NAMES)
  assert all(name in likelihood.HELP for name in likelihood.NAMES)


@pytest.mark.parametrize('text', ['loud', '-1', '0', '-inf'])
def test_regularizers_are_names_or_positive(text):
  with pytest.raises((argparse.ArgumentTypeError, ValueError)):
    flags.regularizer(text)
  assert [flags.regularizer(t) for t in ('tuned', 'inf', '2')] == ['tuned', float('inf'), 2.0]


@pytest.mark.parametrize('command', [sample, warmup, predict, presets, report, figure, benchmark])
def test_examples_in_help_can_be_typed(command, monkeypatch, capsys):
  seen = []
  for module in (command, sample):
    monkeypatch.setattr(module, 'run', lambda args: seen.append(args) or 0)
  text = command.DESCRIPTION.replace('\\\n', '')
  examples = [line for line in text.splitlines() if line.startswith('  tfp-reprior ')]
  assert examples
  for line in examples:
    assert main.main(line.split()[1:]) == 0, capsys.readouterr().err
  assert len(seen) == len(examples)
