"""Data sets by name: prepared as promised, from rows that exist, without overlap."""

import re
import sys

import numpy as np
import pytest
import sklearn.datasets

import tfp_reprior as tfr

RAW = {'digits': sklearn.datasets.load_digits(), 'diabetes': sklearn.datasets.load_diabetes()}


def _normalized_rows(x):
  """Rows with mean 0 and deviation 1: the same before and after an affine map of all entries."""
  x = np.asarray(x, np.float64).reshape(len(x), -1)
  x = x - x.mean(axis=1, keepdims=True)
  return x / x.std(axis=1, keepdims=True)


def _indices(name, x):
  """The rows of the raw data set from which `x` was made."""
  distances = np.abs(_normalized_rows(x)[:, np.newaxis] - _normalized_rows(RAW[name].data))
  distances = distances.max(axis=-1)
  assert np.all(np.sum(distances < 1e-4, axis=1) == 1)
  return np.argmin(distances, axis=1)


@pytest.mark.parametrize(
  'name, input_shape, outputs', [('digits', (8, 8), 10), ('diabetes', (10,), 1)]
)
def test_shapes_and_dtypes(name, input_shape, outputs):
  dataset = tfr.data.load(name, 20, 7)
  assert dataset.x_train.shape == (20, *input_shape)
  assert dataset.y_train.shape == (20, outputs)
  assert dataset.x_test.shape == (7, *input_shape)
  assert dataset.y_test.shape == (7, outputs)
  assert {a.dtype for a in dataset[:4]} == {np.dtype(np.float32)}


@pytest.mark.parametrize('name', ['digits', 'diabetes'])
def test_inputs_are_standardized_with_the_figures_of_the_training_inputs(name):
  dataset = tfr.data.load(name, 20, 7, seed=1)
  train, test = (_indices(name, x) for x in (dataset.x_train, dataset.x_test))
  raw = RAW[name].data
  mean, std = raw[train].mean(), raw[train].std()
  for x, rows in ((dataset.x_train, train), (dataset.x_test, test)):
    expected = (raw[rows] - mean) / std
    np.testing.assert_allclose(x.reshape(len(x), -1), expected, rtol=0, atol=1e-5)
  assert abs(raw[test].mean() - mean) > 0.01 * std  # else the two could not be told apart


def test_real_targets_are_standardized_with_the_figures_of_the_training_targets():
  dataset = tfr.data.load('diabetes', 20, 7)
  raw = RAW['diabetes'].target[:, np.newaxis]
  train, test = (_indices('diabetes', x) for x in (dataset.x_train, dataset.x_test))
  mean, std = raw[train].mean(), raw[train].std()
  np.testing.assert_allclose(dataset.y_train, (raw[train] - mean) / std, rtol=0, atol=1e-5)
  np.testing.assert_allclose(dataset.y_test, (raw[test] - mean) / std, rtol=0, atol=1e-5)


def test_classes_are_centered_one_hot_vectors():
  dataset = tfr.data.load('digits', 50, 20)
  for x, y in ((dataset.x_train, dataset.y_train), (dataset.x_test, dataset.y_test)):
    labels = RAW['digits'].target[_indices('digits', x)]
    for row, label in zip(y, labels, strict=True):
      expected = np.full(10, -0.1)
      expected[label] = 0.9
      np.testing.assert_allclose(row, expected, rtol=0, atol=1e-7)


@pytest.mark.parametrize('name', ['digits', 'diabetes'])
@pytest.mark.parametrize('seed', [0, 1])
def test_training_and_test_data_are_disjoint(name, seed):
  dataset = tfr.data.load(name, 100, 100, seed)
  rows = [*_indices(name, dataset.x_train), *_indices(name, dataset.x_test)]
  assert len(set(rows)) == 200


@pytest.mark.parametrize(
  'num_train, num_test, expected',
  [
    (400, 42, (400, 42)),
    (400, None, (400, 42)),
    (None, 42, (400, 42)),
    (None, None, (354, 88)),  # a fifth of 442
  ],
)
def test_all_data_can_be_loaded(num_train, num_test, expected):
  dataset = tfr.data.load('diabetes', num_train, num_test)
  assert (len(dataset.x_train), len(dataset.x_test)) == expected
  rows = [*_indices('diabetes', dataset.x_train), *_indices('diabetes', dataset.x_test)]
  assert sorted(rows) == list(range(442))


def test_data_are_determined_by_the_seed():
  first, again, other = (tfr.data.load('digits', 20, 7, seed) for seed in (3, 3, 4))
  assert first.preparation == again.preparation != other.preparation
  for a, b, c in zip(first[:4], again[:4], other[:4], strict=True):
    np.testing.assert_array_equal(a, b)
    assert not np.array_equal(a, c)


def _refuses(message):
  return pytest.raises(ValueError, match=re.escape(message))


@pytest.mark.parametrize('name', ['digit', './table.txt', ''])
def test_unknown_names_are_refused(name):
  message = (
    "`name` must be 'digits', 'diabetes', 'toy', a path that ends in .npz or .csv, or a data set "
    f'of TensorFlow Datasets, of its catalogue or in `data_dir`. Received: name={name!r}, data_dir'
  )
  with _refuses(message):
    tfr.data.load(name, 20, 7)


@pytest.mark.parametrize('name', ['num_train', 'num_test'])
@pytest.mark.parametrize('value', [0, -1, 2.0])
def test_numbers_of_data_must_be_positive_integers(name, value):
  arguments = {'num_train': 20, 'num_test': 7, name: value}
  with _refuses(f'`{name}` must be a positive integer. Received: {name}={value!r}'):
    tfr.data.load('digits', **arguments)


@pytest.mark.parametrize('name, size', [('digits', 1797), ('diabetes', 442)])
def test_more_data_than_there_are_cannot_be_loaded(name, size):
  message = (
    f'`num_train + num_test` must be at most {size} here. Received: num_train + num_test={size + 1}'
  )
  with _refuses(message):
    tfr.data.load(name, size, 1)


@pytest.mark.parametrize(
  'standardize',
  [
    lambda: tfr.data.standardize(np.ones([3, 1]), np.ones([2, 1])),
    lambda: tfr.data.load('diabetes', 1, 5),  # one training target has no deviation
  ],
)
def test_constant_data_cannot_be_standardized(standardize):
  with pytest.raises(ValueError, match='constant'):
    standardize()


def test_without_scikit_learn_the_error_says_what_to_install(monkeypatch):
  monkeypatch.setitem(sys.modules, 'sklearn', None)
  with pytest.raises(ImportError, match=re.escape('pip install tfp-reprior[data]')):
    tfr.data.load('digits', 20, 7)


def test_classes_are_counted_and_named():
  assert tfr.data.load('diabetes', 20, 7).num_classes is None
  digits = tfr.data.load('digits', 20, 7)
  assert digits.num_classes == 10
  assert digits.preparation.class_names == tuple('0123456789')


def test_the_toy_has_a_gap_and_is_tested_on_a_wider_grid():
  data = tfr.data.load('toy')
  x, x_test = (
    a[:, 0] * data.preparation.x_std[0] + data.preparation.x_mean[0]
    for a in (data.x_train, data.x_test)
  )
  assert len(x) == 20 and len(x_test) == 200
  assert np.all((np.abs(x) > 0.399) & (np.abs(x) < 1.001)) and x.min() < 0 < x.max()
  np.testing.assert_allclose(x_test, np.linspace(-1.5, 1.5, 200), atol=1e-5)
  for inputs, y in [(x, data.y_train), (x_test, data.y_test)]:
    errors = data.preparation.restore(y)[:, 0] - (np.sin(4 * inputs) + inputs)
    assert 0.05 < errors.std() < 0.15  # the noise is 0.1


def test_the_toy_has_as_many_data_as_asked_for():
  data = tfr.data.load('toy', num_train=5, num_test=3)
  assert data.x_train.shape == data.y_train.shape == (5, 1)
  assert data.x_test.shape == data.y_test.shape == (3, 1)


def test_only_tables_have_a_target_column():
  with _refuses("`target` must be `None` unless `name` is a .csv file. Received: target='y' for"):
    tfr.data.load('toy', target='y')


def test_labels_are_positions_of_classes():
  digits = pytest.importorskip('sklearn.datasets').load_digits()
  data = tfr.data.load('digits', num_train=30, num_test=10, seed=1)
  assert data.labels_train.shape == (30,) and data.labels_test.shape == (10,)
  images = {
    image.tobytes(): label for image, label in zip(digits.images, digits.target, strict=True)
  }
  raw = data.x_train * data.preparation.x_std + data.preparation.x_mean
  expected = [images[(np.round(image) + 0.0).astype(np.float64).tobytes()] for image in raw]
  np.testing.assert_array_equal(data.labels_train, expected)
  assert np.issubdtype(data.labels_train.dtype, np.integer)


def test_real_targets_have_no_labels():
  with pytest.raises(ValueError, match='Labels are of classes. Received: data with real targets'):
    tfr.data.load('toy').labels_train  # noqa: B018
