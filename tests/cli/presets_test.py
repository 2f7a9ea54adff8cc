"""Presets: flags that exist, models that can be built, and flags that go before them."""

import dataclasses
import pathlib
import re
import shlex

import numpy as np
import pytest

import tfp_reprior as tfr
from tfp_reprior.cli import flags, likelihood, main, networks, presets

TESTDATA = f'--data_dir={pathlib.Path(__file__).parents[2] / "testdata"}'
FULL = [name for name in presets.PRESETS if not name.endswith('-small')]


def _parse(*arguments):
  return presets.parse_args(main._parser(), list(arguments))


def _sample(name, *arguments):
  return _parse('sample', f'--preset={name}', '--run_dir=r', *arguments)


every_preset = pytest.mark.parametrize('name', presets.PRESETS)


@every_preset
def test_a_preset_is_the_command_that_it_stands_for(name):
  args = vars(_sample(name))
  spelled_out = vars(_parse(*shlex.split(presets.command(name))[1:], '--run_dir=r'))
  varying = ('preset', 'data_dir', 'parser', 'run')
  assert {k: v for k, v in args.items() if k not in varying} == {
    k: v for k, v in spelled_out.items() if k not in varying
  }
  assert presets.PRESETS[name].flags.items() <= args.items()


def _num_parameters(model, width):
  """By hand, for images of 32 x 32 x 3 and 10 classes."""
  if model == 'fcn':
    return (3072 + 1) * width + 2 * (width + 1) * width + (width + 1) * 10
  stages = [6 * 1, 2 + 5 * 4 + 2, 8 + 5 * 16 + 8]  # with the convolutions of skips, times 9 width^2
  return 27 * width + 9 * sum(stages) * width**2 + (4 * width + 1) * 10


@every_preset
def test_a_preset_builds_its_model_and_posterior(name):
  args = _sample(name)
  rng = np.random.default_rng(0)
  x = rng.normal(size=(4, 32, 32, 3)).astype(np.float32)
  y = tfr.data.centered_one_hot([0, 3, 9, 3], 10)
  model = networks.make(args, tfr.data.Dataset(x, y, x, y))
  chosen = likelihood.make(args)
  preparation = tfr.data.Preparation(class_names=tuple('0123456789'))
  targets = likelihood.targets(chosen, preparation, y)
  posterior = tfr.Posterior(model, x, targets, likelihood=chosen)
  posterior.reprior(args.regularizer)
  assert posterior.split.num_parameters == _num_parameters(args.model, args.width)
  num_features = args.width * (4 if args.model == 'wide_resnet' else 1) + 1
  assert posterior.split.num_features == num_features and posterior.split.num_outputs == 10


@pytest.mark.parametrize('name', FULL)
def test_full_presets_are_those_of_the_paper(name):
  args = _sample(name)
  assert args.data == 'cifar10' and args.activation == 'gelu'
  assert args.num_results * args.thinning == 3_000_000 and args.num_warmup_steps == 20_000
  assert args.sampler == 'uncalibrated_langevin' and args.step_size is None
  is_resnet, is_categorical = (name.startswith(x) for x in ('wide-resnet', 'categorical'))
  assert args.model == ('wide_resnet' if is_resnet else 'fcn')
  assert (args.depth, args.thinning) == ((20, 100) if is_resnet else (3, 25))
  assert args.likelihood == ('categorical' if is_categorical else 'gaussian')
  scales = args.noise_scale, args.output_scale
  assert scales == ((None, 1.0) if is_categorical else (0.1, None))
  assert args.regularizer == ('n*noise' if is_resnet else 'noise' if is_categorical else None)


def test_widths_and_data_sizes_are_in_the_names():
  for width in (32, 64, 128, 384, 512, 768, 1024):
    assert (_sample(f'fcn-width-{width}').width, _sample(f'fcn-width-{width}').num_train) == (
      width,
      256,
    )
    assert _sample(f'fcn-width-{width}-small').width == width
  for size in (1024, 10240, 40960):
    fcn, resnet = _sample(f'fcn-data-size-{size}'), _sample(f'wide-resnet-{size}')
    assert (fcn.num_train, fcn.width) == (size, 512)
    assert (resnet.num_train, resnet.width) == (size, 128)
  for width in (32, 64, 128, 256):
    assert _sample(f'categorical-width-{width}').width == width


def test_every_kind_of_preset_has_a_small_one():
  kinds, small_kinds = (
    {re.sub(r'(-\d+)?(-small)?$', '', name) for name in names}
    for names in (FULL, set(presets.PRESETS) - set(FULL))
  )
  assert kinds == small_kinds == {'fcn-width', 'fcn-data-size', 'categorical-width', 'wide-resnet'}


def test_explicit_flags_go_before_a_preset():
  for arguments in (['--width=7'], ['--width=7', '--preset=fcn-width-32']):
    args = _sample('fcn-width-32', *arguments)
    assert args.width == 7 and args.depth == 3 and args.num_train == 256
  args = _parse('sample', '--data=digits', '--run_dir=r', '--preset=fcn-width-32')
  assert args.data == 'digits'


def test_without_a_preset_the_defaults_are_there():
  _sample('fcn-width-32')
  args = _parse('sample', '--data=toy', '--run_dir=r')
  assert args.width is None and args.num_results == 1000


def test_a_preset_is_sampled(tmp_path, capsys):
  arguments = (
    '--preset=fcn-width-32-small --data=tiny_images --subset=balanced --num_train=12 --num_test=6 '
    '--num_results=4 --thinning=1 --num_burnin_steps=0 --step_size=0.1 --no-report --quiet'
  )
  assert main.main(['sample', *arguments.split(), TESTDATA, f'--run_dir={tmp_path}']) == 0
  assert 'tiny_images: 12 training and 6 test data' in capsys.readouterr().out
  result = tfr.load_result(tmp_path)
  assert result.settings['num_chains'] == 2 and result.settings['num_results'] == 4
  assert result.posterior.split.num_features == 33
  labels = np.argmax(result.posterior.y, axis=1)
  assert np.bincount(labels).tolist() == [4, 4, 4]


def test_with_a_step_size_the_warm_up_of_a_preset_is_burn_in():
  args = _sample('fcn-width-32', '--step_size=0.1')
  assert (args.num_warmup_steps, args.num_burnin_steps) == (None, 20_000)
  assert _sample('fcn-width-32').num_burnin_steps is None


@every_preset
def test_a_preset_has_settings_of_the_package(name):
  for arguments in ([], ['--step_size=0.1']):
    args = vars(_sample(name, *arguments))
    fields = {f.name for f in dataclasses.fields(tfr.sampling.Settings)}
    settings = tfr.sampling.Settings(**{k: v for k, v in args.items() if k in fields})
    assert settings.warmup_budget + settings.burnin_budget >= 300


def test_the_command_that_warm_up_prints_has_the_preset_and_what_was_changed():
  args = _parse('warmup', '--preset=fcn-width-32-small', '--data=digits', '--width=5')
  command = flags.command(args, 'sample', {'step_size': 0.1})
  expected = '--preset=fcn-width-32-small --data=digits --width=5 --step_size=0.1'
  assert command == f'tfp-reprior sample {expected}'


def test_presets_are_listed_and_shown(capsys):
  assert main.main(['presets']) == 0
  lines = capsys.readouterr().out.splitlines()
  assert [line.split()[0] for line in lines] == list(presets.PRESETS)
  assert 'fully connected, width 1024, 256 images' in '\n'.join(lines)
  assert main.main(['presets', 'fcn-width-1024']) == 0
  assert capsys.readouterr().out == presets.command('fcn-width-1024') + '\n'


@pytest.mark.parametrize(
  'name, hint', [('fcn-width-102', 'did you mean fcn-width-1024? '), ('zzzz', '')]
)
def test_unknown_presets_are_refused(capsys, name, hint):
  assert main.main(['warmup', f'--preset={name}']) == 1
  message = (
    f'--preset must be one of those that `tfp-reprior presets` lists; {hint}Received: '
    f'--preset={name}\n'
  )
  assert message in capsys.readouterr().err
