"""The command line as a whole: help, exit codes, errors, silence."""

import os
import pathlib
import subprocess
import sys

import pytest

import tfp_reprior as tfr
from tfp_reprior.cli import main

COMMANDS = ('sample', 'warmup', 'predict', 'report', 'figure', 'benchmark', 'presets')


def _run(*arguments, **environment):
  """`python -m tfp_reprior`, in a process that hides nothing by itself."""
  kept = {k: v for k, v in os.environ.items() if k != 'TF_CPP_MIN_LOG_LEVEL'}
  return subprocess.run(
    [sys.executable, '-m', 'tfp_reprior', *arguments],
    capture_output=True,
    text=True,
    timeout=600,
    env={**kept, **environment},
  )


def _help(capsys, *arguments):
  with pytest.raises(SystemExit) as e:
    main.main([*arguments, '--help'])
  assert e.value.code == 0
  captured = capsys.readouterr()
  assert captured.err == ''
  return captured.out


def test_help_names_every_command(capsys):
  text = _help(capsys)
  assert all(f'\n    {command}' in text for command in COMMANDS)
  assert all(f' {code} ' in text for code in (0, 1, 2, 3, 130))


@pytest.mark.parametrize('command', COMMANDS)
def test_help_of_every_command_has_an_example_and_defaults(capsys, command):
  text = _help(capsys, command)
  assert f'\n  tfp-reprior {command} ' in text
  assert '(default: ' in text
  assert max(map(len, text.splitlines())) <= 100


def test_help_does_not_import_tensorflow():
  code = (
    'import sys, tfp_reprior.cli.main as main\n'
    'try:\n  main.main(["sample", "--help"])\n'
    'except SystemExit:\n  pass\n'
    'heavy = {"tensorflow", "tensorflow_probability", "keras", "matplotlib"} & set(sys.modules)\n'
    'assert not heavy, heavy\n'
  )
  result = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, timeout=60)
  assert result.returncode == 0, result.stderr


def test_help_as_a_module_is_quiet():
  result = _run('--help')
  assert result.returncode == 0 and result.stderr == ''
  assert result.stdout.startswith('usage: tfp-reprior')


def test_the_version_is_that_of_the_package(capsys):
  with pytest.raises(SystemExit):
    main.main(['--version'])
  assert capsys.readouterr().out == f'tfp-reprior {tfr.__version__}\n'


@pytest.mark.parametrize(
  'arguments, message',
  [
    ([], 'the following arguments are required: COMMAND'),
    (['simple'], "invalid choice: 'simple'"),
    (['sample', '--data=toy'], 'the following arguments are required: --run_dir'),
    (['sample', '--data=toy', '--run_dir=r', '--wdith=3'], 'unrecognized arguments: --wdith=3'),
    (['sample', '--data=toy', '--run_dir=r', '--width=0'], 'argument --width: 0 is not positive'),
    (['sample', '--data=toy', '--run_dir=r', '--width=a'], "invalid positive_integer value: 'a'"),
    (['sample', '--data=toy', '--run_dir=r', '--num_burnin_steps=-1'], '-1 is negative'),
    (['warmup', '--data=toy', '--noise_scale=nan'], "invalid scale value: 'nan'"),
    (['warmup'], 'the following arguments are required: --data, or a --preset'),
    (['report'], 'the following arguments are required: RUN_DIR'),
  ],
)
def test_wrong_usage_exits_with_2_and_says_why(capsys, arguments, message):
  with pytest.raises(SystemExit) as e:
    main.main(arguments)
  assert e.value.code == 2
  assert message in capsys.readouterr().err


@pytest.mark.parametrize(
  'arguments, message',
  [
    (['sample', '--data=missing.csv', '--run_dir={}/r'], 'There is no file missing.csv'),
    (['sample', '--data=digit', '--run_dir={}/r'], "Received: name='digit'"),
    (['sample', '--data=toy', '--run_dir={}/r', '--model=mlp'], 'Received: --model=mlp'),
    (['sample', '--data=toy', '--run_dir={}/r', '--preset=fcn'], 'Received: --preset=fcn'),
    (['sample', '--data=digits', '--run_dir={}/r', '--subset=last'], "Received: subset='last'"),
    (['presets', 'fcn'], 'Received: --preset=fcn'),
    (['sample', '--data=toy', '--run_dir={}/r', '--model={}/file.keras'], 'Keras cannot load'),
    (['sample', '--data=toy', '--run_dir={}/r', '--sampler=gibbs'], "Received: sampler='gibbs'"),
    (['sample', '--data=toy', '--run_dir={}/r', '--num_warmup_steps=99'], 'must be 100 or more'),
    (
      ['sample', '--data=toy', '--run_dir={}/r', '--num_warmup_steps=200', '--step_size=0.1'],
      'give one of the two. Received: num_warmup_steps=200, step_size=0.1',
    ),
    (['sample', '--data=toy', '--run_dir={}/file.keras/r'], 'file.keras'),
    (['warmup', '--data=toy', '--log_targets=yes'], 'Logarithms are of positive targets'),
    (
      ['warmup', '--data=toy', '--log_targets=yes', '--likelihood=student_t'],
      'Received: --log_targets=yes with --likelihood=student_t',
    ),
    (['warmup', '--data=toy', '--target=y'], '`target` must be `None` unless'),
    (['predict', '{}', '--data=new.csv'], 'must be a folder that holds a finished run'),
    (['predict', '{}', '--data=new.csv', '--output=a.txt'], 'Received: --output=a.txt'),
    (['report', '{}'], 'must be a folder that holds a finished run'),
    (['report', '{}', '--output={}/none/a.html'], '--output must be a file in a folder that ex'),
  ],
)
def test_mistakes_exit_with_1_and_one_line(capsys, tmp_path, arguments, message):
  (tmp_path / 'file.keras').write_text('not a model')
  assert main.main([a.format(tmp_path) for a in arguments]) == 1
  captured = capsys.readouterr()
  assert captured.err.startswith('tfp-reprior: error: ') and captured.err.count('\n') == 1
  assert message in captured.err


@pytest.mark.parametrize('error', [ValueError('of NumPy'), KeyError('a'), TypeError('b')])
def test_bugs_keep_their_traceback(monkeypatch, tmp_path, error):
  def fail(*args, **kwargs):
    raise error

  monkeypatch.setattr(tfr, 'sample_posterior', fail)
  with pytest.raises(type(error)):
    main.main(['sample', '--data=toy', f'--run_dir={tmp_path}'])


def test_ctrl_c_exits_with_130(monkeypatch, capsys):
  def interrupt(*args, **kwargs):
    raise KeyboardInterrupt

  monkeypatch.setattr(tfr.data, 'load', interrupt)
  assert main.main(['warmup', '--data=toy']) == 130
  assert capsys.readouterr().err == 'tfp-reprior: Interrupted.\n'


def test_what_was_held_back_is_shown_after_a_failure():
  code = (
    'import os, tfp_reprior.cli.main as main\n'
    'for fails in (False, True):\n'
    '  with main._held_back_stderr():\n'
    '    os.write(2, b"a line\\n")\n'
    '    if fails:\n      raise ImportError("no library")\n'
  )
  result = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, timeout=60)
  assert result.stderr.count('a line\n') == 1
  assert result.stderr.endswith('ImportError: no library\n')


def test_sampling_writes_the_verdict_alone_to_stderr_if_quiet(tmp_path):
  sizes = (
    '--width=8 --depth=1 --num_results=4 --thinning=1 --num_chains=2 --num_test=10 '
    '--step_size=0.02 --num_burnin_steps=0'
  )
  result = _run(
    'sample', '--data=toy', *sizes.split(), f'--run_dir={tmp_path}', '--no-report', '--quiet'
  )
  assert result.returncode == 0, result.stderr
  assert result.stderr.startswith('tfp-reprior: warning: Too few effective samples')
  assert result.stderr.count('\n') == 1
  assert 'toy: 20 training and 10 test data' in result.stdout


def test_the_console_script_is_the_module():
  text = (pathlib.Path(__file__).parents[2] / 'setup.py').read_text()
  assert "'tfp-reprior = tfp_reprior.cli.main:main'" in text
