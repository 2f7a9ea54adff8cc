"""Models on the command line."""

import argparse
import inspect
import pathlib
import re

import keras
import numpy as np
import pytest

import tfp_reprior as tfr
from tfp_reprior.cli import flags, main, networks

TESTDATA = f'--data_dir={pathlib.Path(__file__).parents[2] / "testdata"}'


def _make(*arguments, shape=(8, 8, 3)):
  """The model of a command line, for data of a shape and three classes."""
  parser = argparse.ArgumentParser()
  flags.add_problem(parser)
  x, y = np.zeros([4, *shape], np.float32), tfr.data.centered_one_hot([0, 1, 2, 0], 3)
  data = tfr.data.Dataset(x, y, x, y)
  return networks.make(
    parser.parse_args(['--data=mine', '--likelihood=gaussian', *arguments]), data
  )


@pytest.mark.parametrize('name', networks.MODELS)
def test_models_are_those_of_the_package_with_their_defaults(name):
  model = _make(f'--model={name}')
  assert model.name == name
  assert model.input_shape == (None, 8, 8, 3) and model.output_shape == (None, 3)
  signature = inspect.signature(getattr(tfr.models, name)).parameters
  for flag, value in networks.MODELS[name].items():
    if flag != 'width':  # which has no default, or that of the paper
      assert value == signature[flag].default, flag


@pytest.mark.parametrize(
  'arguments, expected',
  [
    ('--width=5 --depth=2 --activation=relu', lambda: tfr.models.fcn((8, 8, 3), 3, 5, 2, 'relu')),
    (
      '--width=5 --weight_std=2 --bias_std=1',
      lambda: tfr.models.fcn((8, 8, 3), 3, 5, weight_std=2.0, bias_std=1.0),
    ),
    (
      '--model=cnn --width=5 --depth=1 --pooling=average --activation=erf',
      lambda: tfr.models.cnn((8, 8, 3), 3, 5, 1, pooling='average', activation='erf'),
    ),
    (
      '--model=wide_resnet --width=2 --depth=8 --activation=tanh',
      lambda: tfr.models.wide_resnet((8, 8, 3), 3, 2, 8, 'tanh'),
    ),
    (
      '--model=attention --width=6 --depth=2 --num_heads=3 --patch_size=2 --activation=relu',
      lambda: tfr.models.attention((8, 8, 3), 3, 6, 2, 3, 2, 'relu'),
    ),
  ],
)
def test_flags_reach_the_model(arguments, expected):
  def layers(model):  # names of layers without a name are counted up
    configs = [layer['config'] for layer in model.get_config()['layers']]
    return [{k: v for k, v in config.items() if k != 'name'} for config in configs]

  assert layers(_make(*arguments.split())) == layers(expected())


@pytest.mark.parametrize(
  'arguments, message',
  [
    ('--model=mlp', '--model must be fcn, cnn, wide_resnet, attention, or a file that ends in'),
    (
      '--model=fcn --pooling=average',
      '--model=fcn has --width, --depth, --activation, --weight_std, --bias_std. Received: '
      '--pooling=average',
    ),
    (
      '--model=wide_resnet --num_heads=2',
      '--model=wide_resnet has --width, --depth, --activation. Received: --num_heads=2',
    ),
    ('--model=wide_resnet --depth=3', '--depth=3 for mine: `depth` must be 6 m + 2'),
    ('--model=attention --patch_size=3', '--patch_size=3 for mine: `patch_size` must divide'),
    ('--model=cnn --pooling=max', "--pooling=max for mine: `pooling` must be one of 'flatten', "),
  ],
)
def test_flags_that_do_not_fit_the_model_are_refused(arguments, message):
  with pytest.raises(ValueError, match=re.escape(message)):
    _make(*arguments.split())


def test_saved_models_have_no_flags(tmp_path):
  tfr.models.fcn((8, 8, 3), 3, 4).save(tmp_path / 'mine.keras')
  assert _make(f'--model={tmp_path / "mine.keras"}').name == 'fcn'
  with pytest.raises(ValueError, match='mine.keras has no flags. Received: --width=8'):
    _make(f'--model={tmp_path / "mine.keras"}', '--width=8')


@pytest.mark.parametrize(
  'name, shape, message',
  [
    ('cnn', (10,), '(height, width, channels), or (height, width) for one channel. Received: '),
    ('wide_resnet', (10,), '(height, width, channels), or (height, width) for one channel. Receiv'),
    ('wide_resnet', (6, 6, 1), 'must be multiples of 4, because two stages halve them. Received: '),
    ('attention', (10,), '(height, width, channels) or (length, features). Received: '),
  ],
)
def test_data_of_another_shape_are_refused(name, shape, message):
  with pytest.raises(ValueError, match=re.escape(message) + '.*' + re.escape(repr(shape))):
    _make(f'--model={name}', shape=shape)


def test_saved_models_for_other_channels_are_refused(tmp_path, capsys):
  layers = [keras.Input((8, 8, 1)), keras.layers.Flatten(), keras.layers.Dense(3)]
  keras.Sequential(layers, name='gray').save(tmp_path / 'gray.keras')
  arguments = ['--data=tiny_images', TESTDATA, f'--model={tmp_path / "gray.keras"}']
  assert main.main(['sample', *arguments, '--num_train=5', f'--run_dir={tmp_path / "r"}']) == 1
  message = "must have shape [n, 8, 8, 1] for the model 'gray'. Received: x of shape (5, 8, 8, 3)"
  assert message in capsys.readouterr().err
