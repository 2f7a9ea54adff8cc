"""Subsets: random, balanced and first ones, of sets with and without test data of their own."""

import re

import numpy as np
import pytest

import tfp_reprior as tfr

COUNTS = (20, 30, 50)  # of three classes


@pytest.fixture(scope='module')
def together(tmp_path_factory):
  """A file of data whose inputs are their positions, without test data of its own."""
  path = tmp_path_factory.mktemp('subsets') / 'together.npz'
  labels = np.random.default_rng(1).permutation(np.repeat(range(3), COUNTS))
  np.savez(path, x=np.arange(100.0), y=labels)
  return str(path)


@pytest.fixture(scope='module')
def apart(tmp_path_factory):
  """A file of training and test data whose inputs are their positions."""
  path = tmp_path_factory.mktemp('subsets') / 'apart.npz'
  labels = np.random.default_rng(1).permutation(np.repeat(range(3), COUNTS))
  np.savez(path, x_train=np.arange(100.0), y_train=labels, x_test=np.arange(100.0), y_test=labels)
  return str(path)


def _positions(data):
  """Where training and test data were in the file."""
  p = data.preparation
  restored = [x[:, 0] * p.x_std[0] + p.x_mean[0] for x in (data.x_train, data.x_test)]
  return [np.round(x).astype(int).tolist() for x in restored]


def _counts(y):
  return np.bincount(np.argmax(y, axis=1), minlength=3)


@pytest.mark.parametrize('num_train, num_test', [(12, 9), (30, 30), (13, 8), (1, 1), (14, 14)])
@pytest.mark.parametrize('seed', range(3))
def test_balanced_subsets_have_as_many_of_each_class(together, apart, num_train, num_test, seed):
  for path in (together, apart):
    data = tfr.data.load(path, num_train, num_test, seed, subset='balanced')
    for y, size in [(data.y_train, num_train), (data.y_test, num_test)]:
      assert len(y) == size
      assert np.ptp(_counts(y)) == (size % 3 != 0)
  train, test = _positions(tfr.data.load(together, num_train, num_test, seed, subset='balanced'))
  assert len({*train, *test}) == num_train + num_test


def test_random_subsets_are_not_balanced(together):
  assert np.ptp(_counts(tfr.data.load(together, 60, 30).y_train)) > 1


def test_what_balanced_training_data_leave_are_the_test_data(together):
  data = tfr.data.load(together, 60, subset='balanced')
  assert _counts(data.y_train).tolist() == [20, 20, 20]
  assert _counts(data.y_test).tolist() == [0, 10, 30]
  train, test = _positions(data)
  assert sorted(train + test) == list(range(100))


def test_all_test_data_are_taken_unless_asked_for_fewer(apart):
  assert _positions(tfr.data.load(apart, 3, subset='balanced'))[1] == list(range(100))


def test_balanced_subsets_are_determined_by_the_seed(together):
  first, again, other = (
    _positions(tfr.data.load(together, 12, 9, seed, subset='balanced')) for seed in (3, 3, 4)
  )
  assert first == again != other


def test_which_class_has_one_more_is_random(together):
  # The chance that 40 seeds leave a class out is less than 3 (2 / 3)^40 < 1e-6.
  more = {
    int(np.argmax(tfr.data.load(together, 1, 9, seed, subset='balanced').y_train))
    for seed in range(40)
  }
  assert more == {0, 1, 2}


@pytest.mark.parametrize('seed', [0, 1])
def test_first_subsets_are_in_order(together, apart, seed):
  assert _positions(tfr.data.load(together, 5, 3, seed, subset='first')) == [
    [0, 1, 2, 3, 4],
    [5, 6, 7],
  ]
  assert _positions(tfr.data.load(apart, 5, 3, seed, subset='first')) == [
    [0, 1, 2, 3, 4],
    [0, 1, 2],
  ]


def test_random_is_the_default(together):
  assert _positions(tfr.data.load(together, 5, 3)) == _positions(
    tfr.data.load(together, 5, 3, subset='random')
  )


def _refuses(message):
  return pytest.raises(ValueError, match=re.escape(message))


def test_unknown_subsets_are_refused():
  message = "`subset` must be one of 'random', 'balanced', 'first'. Received: subset='last'"
  with _refuses(message):
    tfr.data.load('toy', subset='last')


def test_a_class_with_too_few_is_named(together, apart):
  message = "`subset='balanced'` needs 21 of each class for {}={}. Received: 20 of class '0'"
  with _refuses(message.format('num_train', 61)):
    tfr.data.load(together, 61, subset='balanced')
  with _refuses(message.format('num_train + num_test', 61)):
    tfr.data.load(together, 31, 30, subset='balanced')
  with _refuses(message.format('num_train', 62)):
    tfr.data.load(apart, 62, 3, subset='balanced')
  with _refuses(message.format('num_test', 63)):
    tfr.data.load(apart, 3, 63, subset='balanced')


def test_real_targets_cannot_be_balanced():
  message = "`subset` must be 'random' or 'first' for real targets. Received: subset='balanced'"
  with _refuses(message):
    tfr.data.load('diabetes', 5, 5, subset='balanced')


def test_balanced_subsets_have_a_size(together):
  with _refuses("`subset='balanced'` needs `num_train`. Received: num_train=None"):
    tfr.data.load(together, num_test=3, subset='balanced')
