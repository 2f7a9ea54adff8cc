"""Sets of TensorFlow Datasets: those of `testdata/`, which are always there, and CIFAR-10."""

import os
import pathlib
import re

import numpy as np
import pytest
import script_modules

import tfp_reprior as tfr
from tfp_reprior.data import sources

ROOT = pathlib.Path(__file__).parents[2]
TESTDATA = str(ROOT / 'testdata')


@pytest.fixture(scope='module')
def made():
  """For each split, the images and labels that `scripts/make_testdata.py` draws."""
  script = script_modules.load('make_testdata')
  return {split: script.make_images(split) for split in ('train', 'test')}


def test_testdata_hold_what_the_script_draws(made):
  raw = sources.tensorflow_dataset('tiny_images', TESTDATA, 'others')
  assert raw.class_names == ('across', 'upright', 'slanted') and raw.target_name == 'label'
  for split, x, y in [('train', raw.x, raw.y), ('test', raw.x_test, raw.y_test)]:
    assert x.dtype == np.uint8 and x.shape[1:] == (8, 8, 3)
    expected, actual = (
      sorted((int(label), image.tobytes()) for image, label in zip(images, labels, strict=True))
      for images, labels in (made[split], (x, y))
    )
    assert actual == expected


def test_images_are_prepared_as_in_the_paper(made):
  data = tfr.data.load('tiny_images', 40, 20, data_dir=TESTDATA)
  assert data.x_train.shape == (40, 8, 8, 3) and data.y_test.shape == (20, 3)
  np.testing.assert_allclose([data.x_train.mean(), data.x_train.std()], [0, 1], atol=1e-5)
  mean, std = data.preparation.x_mean, data.preparation.x_std
  for split, x, y in [('train', data.x_train, data.y_train), ('test', data.x_test, data.y_test)]:
    labels = {image.tobytes(): label for image, label in zip(*made[split], strict=True)}
    for image, target in zip(x, y, strict=True):
      label = labels[np.round(image * std + mean).astype(np.uint8).tobytes()]
      np.testing.assert_allclose(target, np.eye(3)[label] - 1 / 3, atol=1e-6)


def test_cifar10_is_prepared_as_in_the_paper():
  data_dir = os.environ.get('TFP_REPRIOR_DATA_DIR')
  if not data_dir:
    pytest.skip('TFP_REPRIOR_DATA_DIR names no folder of TensorFlow Datasets with cifar10')
  data = tfr.data.load('cifar10', 200, 50, data_dir=data_dir)
  assert data.x_train.shape == (200, 32, 32, 3) and data.y_test.shape == (50, 10)
  np.testing.assert_allclose([data.x_train.mean(), data.x_train.std()], [0, 1], atol=1e-4)
  np.testing.assert_allclose(data.y_train.sum(axis=1), 0, atol=1e-6)
  assert data.preparation.class_names[:2] == ('airplane', 'automobile')


def test_a_set_that_is_not_there_is_not_downloaded_but_told_how_to(tmp_path):
  message = (
    "`data_dir` must hold 'cifar10' as prepared by TensorFlow Datasets; to prepare it, run on a "
    'machine with network: python -c "import tensorflow_datasets as tfds; '
    f"tfds.load('cifar10', data_dir='{tmp_path}')\". Received: data_dir='{tmp_path}'"
  )
  with pytest.raises(ValueError, match=re.escape(message)):
    tfr.data.load('cifar10', 10, 10, data_dir=str(tmp_path))


def test_a_set_that_was_made_elsewhere_needs_its_folder(tmp_path):
  message = f"or in `data_dir`. Received: name='tiny_images', data_dir='{tmp_path}'"
  with pytest.raises(ValueError, match=re.escape(message)):
    tfr.data.load('tiny_images', 10, 10, data_dir=str(tmp_path))


@pytest.mark.parametrize('name', ['imdb_reviews', 'imagenet2012', 'coco'])
def test_sets_that_are_not_images_of_one_shape_with_labels_are_refused(name, tmp_path):
  message = '`name` must be a data set of inputs of one shape and their classes, such as'
  with pytest.raises(ValueError, match=re.escape(message)):
    tfr.data.load(name, data_dir=str(tmp_path))
