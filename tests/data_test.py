"""Built-in data sets: prepared as promised, from rows that exist, without overlap."""

import os
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
  assert {a.dtype for a in dataset} == {np.dtype(np.float32)}


@pytest.mark.parametrize('name', ['digits', 'diabetes'])
def test_inputs_are_standardized_with_the_figures_of_the_training_inputs(name):
  dataset = tfr.data.load(name, 20, 7)
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


def test_all_data_can_be_loaded():
  dataset = tfr.data.load('diabetes', 400, 42)
  rows = [*_indices('diabetes', dataset.x_train), *_indices('diabetes', dataset.x_test)]
  assert sorted(rows) == list(range(442))


def test_data_are_determined_by_the_seed():
  first, again, other = (tfr.data.load('digits', 20, 7, seed) for seed in (3, 3, 4))
  for a, b, c in zip(first, again, other, strict=True):
    np.testing.assert_array_equal(a, b)
    assert not np.array_equal(a, c)


def test_standardize_uses_one_mean_and_one_deviation():
  train, test = np.array([[1.0, 5.0], [3.0, 7.0]]), np.array([[4.0, 9.0]])  # mean 4, variance 5
  actual = tfr.data.standardize(train, test)
  expected = np.array([[-3, 1], [-1, 3]]) / np.sqrt(5), np.array([[0, 5]]) / np.sqrt(5)
  for a, e in zip(actual, expected, strict=True):
    assert a.dtype == np.float32
    np.testing.assert_allclose(a, e, rtol=1e-6)


def test_centered_one_hot_of_an_example():
  actual = tfr.data.centered_one_hot([2, 0], num_classes=4)
  expected = [[-0.25, -0.25, 0.75, -0.25], [0.75, -0.25, -0.25, -0.25]]
  assert actual.dtype == np.float32
  np.testing.assert_array_equal(actual, expected)
  assert tfr.data.centered_one_hot(np.zeros([0], int), 4).shape == (0, 4)


def _refuses(message):
  return pytest.raises(ValueError, match=re.escape(message))


def test_unknown_names_are_refused():
  with _refuses("`name` must be one of 'digits', 'diabetes', 'cifar10'. Received: name='mnist'"):
    tfr.data.load('mnist', 20, 7)


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
  'labels, shape, shown',
  [([0, 3], (2,), '[0 3]'), ([-1, 2], (2,), '[-1  2]'), ([[0]], (1, 1), '[[0]]')],
)
def test_labels_must_be_a_vector_of_classes(labels, shape, shown):
  message = (
    '`labels` must be a vector of integers from 0 to 2. Received: labels of dtype int64 and shape '
    f'{shape}, {shown}'
  )
  with _refuses(message):
    tfr.data.centered_one_hot(labels, 3)


@pytest.mark.parametrize('labels', [[0.0, 1.0, 2.0], [True, False, True]])
def test_labels_must_be_integers(labels):
  with _refuses('`labels` must be a vector of integers from 0 to 2.'):
    tfr.data.centered_one_hot(labels, 3)


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


def test_a_set_that_is_not_there_is_not_downloaded(tmp_path):
  with pytest.raises(ValueError, match="must hold 'cifar10' as prepared by TensorFlow Datasets"):
    tfr.data.load('cifar10', 10, 10, data_dir=str(tmp_path))


def test_cifar10_is_prepared_as_in_the_paper():
  data_dir = os.environ.get('TFP_REPRIOR_DATA_DIR')
  if not data_dir:
    pytest.skip('TFP_REPRIOR_DATA_DIR names no folder of TensorFlow Datasets with cifar10')
  data = tfr.data.load('cifar10', 200, 50, data_dir=data_dir)
  assert data.x_train.shape == (200, 32, 32, 3) and data.y_test.shape == (50, 10)
  np.testing.assert_allclose([data.x_train.mean(), data.x_train.std()], [0, 1], atol=1e-4)
  np.testing.assert_allclose(data.y_train.sum(axis=1), 0, atol=1e-6)
