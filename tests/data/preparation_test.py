"""Preparation: what is done to raw data, undone, and written down."""

import re

import numpy as np
import pytest

import tfp_reprior as tfr
from tfp_reprior.data import preparation as preparation_lib


def _refuses(message):
  return pytest.raises(ValueError, match=re.escape(message))


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


def _prepare(x, y, **kwargs):
  raw = preparation_lib.RawData(x, y, **kwargs)
  return tfr.data.Preparation.of(raw, x, y)


def test_columns_are_standardized_by_themselves_if_asked_for():
  x, y = np.array([[1.0, 50.0], [3.0, 70.0]]), np.array([[1.0], [2.0]])
  np.testing.assert_allclose(_prepare(x, y, by_column=True).inputs(x), [[-1, -1], [1, 1]])
  mean, std = 31.0, np.std([1, 3, 50, 70])
  np.testing.assert_allclose(_prepare(x, y).inputs(x), (x - mean) / std, rtol=1e-6)


def test_constant_columns_become_zeros():
  x = np.array([[0.1, 1.0], [0.1, 3.0], [0.1, 5.0]])
  prepared = _prepare(x, np.arange(3.0)[:, np.newaxis], by_column=True).inputs(x)
  np.testing.assert_allclose(prepared[:, 0], np.zeros(3), atol=1e-12)


def test_real_targets_are_restored():
  y = np.array([[1.0, 100.0], [2.0, 300.0], [6.0, 200.0]])
  preparation = _prepare(np.arange(3.0)[:, np.newaxis], y)
  prepared = preparation.targets(y)
  np.testing.assert_allclose(prepared.mean(axis=0), 0, atol=1e-6)
  np.testing.assert_allclose(prepared.std(axis=0), 1, atol=1e-6)
  np.testing.assert_allclose(preparation.restore(prepared), y, rtol=1e-5)
  np.testing.assert_allclose(preparation.restore_scale(np.ones(2)), y.std(axis=0))


def test_constant_targets_are_refused():
  y = np.array([[1.0, 2.0], [2.0, 2.0], [3.0, 2.0]])
  with _refuses('Training targets must not be constant. Received: 3 targets'):
    preparation_lib.refuse_constants(y)


def test_labels_are_looked_up_by_name():
  preparation = tfr.data.Preparation(class_names=('cat', 'dog', 'eel'))
  labels = preparation.labels(['eel', 'cat'])
  np.testing.assert_array_equal(labels, [2, 0])
  np.testing.assert_allclose(preparation.targets(labels)[0], [-1 / 3, -1 / 3, 2 / 3], rtol=1e-6)
  with _refuses('Labels must be among the classes cat, dog, eel. Received: ape'):
    preparation.labels(['cat', 'ape'])


@pytest.mark.parametrize('name', ['digits', 'diabetes', 'toy'])
def test_a_preparation_survives_as_text(name):
  preparation = tfr.data.load(name, 20, 7).preparation
  assert tfr.data.Preparation.from_json(preparation.to_json()) == preparation


def test_the_default_preparation_changes_nothing():
  a = np.array([[1.5, -2.0]], np.float32)
  preparation = tfr.data.Preparation()
  for same in (preparation.inputs(a), preparation.targets(a), preparation.restore(a)):
    np.testing.assert_array_equal(same, a)
