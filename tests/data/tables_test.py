"""Tables of mixed columns: what becomes of each kind, and what is refused."""

import datetime
import re

import numpy as np
import pytest

import tfp_reprior as tfr
from tfp_reprior.data import preparation as preparation_lib
from tfp_reprior.data import tables

pd = pytest.importorskip('pandas')
COLORS = ['red', 'blue', 'red', 'red', 'green', 'blue']
FRAME = pd.DataFrame({'rooms': np.arange(1, 7), 'color': COLORS})


def _refuses(message):
  return pytest.raises(tfr.errors.InputError, match=re.escape(message))


def _prepare(x, **kwargs):
  table = tables.as_table(x)
  raw = preparation_lib.RawData(table, np.arange(float(len(table)))[:, np.newaxis], **kwargs)
  return tfr.data.Preparation.of(raw, table, raw.y)


def test_categories_are_one_hot_and_weigh_as_much_as_a_number():
  preparation = _prepare(FRAME)
  assert preparation.input_names == ('rooms', 'color=blue', 'color=green', 'color=red')
  x = preparation.inputs(FRAME)
  np.testing.assert_allclose(x.mean(axis=0), 0, atol=1e-6)
  np.testing.assert_allclose([x[:, 0].var(), x[:, 1:].var(axis=0).sum()], 1, rtol=1e-5)
  one_hot = np.array([[color == name for name in ('blue', 'green', 'red')] for color in COLORS])
  scaled = preparation.restore_inputs(x)
  np.testing.assert_allclose(scaled[:, 1:], one_hot, atol=1e-6)
  restored = tfr.data.Preparation.from_json(preparation.to_json())
  assert restored == preparation


def test_new_tables_are_taken_by_names_of_columns():
  preparation = _prepare(FRAME)
  shuffled = FRAME.assign(note='a')[['note', 'color', 'rooms']]
  np.testing.assert_array_equal(preparation.inputs(shuffled), preparation.inputs(FRAME))
  by_position = preparation.inputs(FRAME.to_numpy(object))
  np.testing.assert_array_equal(by_position, preparation.inputs(FRAME))
  with _refuses("there is no ['color']. Received: ['rooms']"):
    preparation.inputs(FRAME[['rooms']])
  with _refuses("Column 'rooms' must hold numbers, as in training. Received: 'many'"):
    preparation.inputs(FRAME.assign(rooms='many'))
  with _refuses("Column 'color' must hold categories as in training, such as 'blue'. Received: 1"):
    preparation.inputs(np.ones([2, 2]))
  with pytest.warns(UserWarning, match="'color' has values that the training data do not.*pink"):
    x = preparation.inputs(FRAME.assign(color='pink'))
  np.testing.assert_allclose(preparation.restore_inputs(x)[:, 1:], 0, atol=1e-6)


@pytest.mark.parametrize(
  ('column', 'message'),
  [
    ([1.0, None, 3.0, 4.0, np.nan, 6.0], "'a' must have no missing values"),
    (['x', None, 'y', 'x', 'y', 'x'], 'Received: 1 missing, the first in row 1'),
    (pd.date_range('2024-01-01', periods=6), "'a' holds dates, which have no scale of their own"),
    ([datetime.date(2024, 1, i) for i in range(1, 7)], 'days since a date'),
    ([f'2024-01-{i}' for i in range(10, 16)], "'a' holds dates"),
    ([1.0, np.inf, 3.0, 4.0, 5.0, 6.0], "'a' must be finite. Received: inf in row 1"),
    ([np.nan] * 6, "'a' has no value at all"),
  ],
)
def test_columns_without_a_meaning_are_refused(column, message):
  with _refuses(message):
    _prepare(pd.DataFrame({'a': column, 'b': np.arange(6)}))


def test_columns_that_name_rows_are_refused():
  with _refuses('Received: 30 values in 30 rows'):
    _prepare(pd.DataFrame({'name': [f'n{i}' for i in range(30)]}))


def test_missing_values_are_imputed_by_asking():
  frame = pd.DataFrame({'a': [1.0, np.nan, 3.0, 8.0], 'b': ['x', 'y', None, 'x']})
  preparation = _prepare(frame, missing='impute')
  values = preparation.restore_inputs(preparation.inputs(frame))
  np.testing.assert_allclose(values[:, 0], [1, 3, 3, 8], atol=1e-5)  # the median of 1, 3 and 8
  np.testing.assert_allclose(values[:, 1:], [[1, 0], [0, 1], [1, 0], [1, 0]], atol=1e-5)
  new = pd.DataFrame({'a': [np.nan], 'b': [None]})
  np.testing.assert_allclose(
    preparation.restore_inputs(preparation.inputs(new)), [[3, 1, 0]], atol=1e-6
  )


def test_numbers_may_be_categories_and_nullable():
  frame = pd.DataFrame(
    {'a': pd.Categorical([2, 10, 2, 10]), 'b': pd.array([1, 2, 3, 4], 'Int64'), 'c': [True] * 4}
  )
  preparation = _prepare(frame)
  assert preparation.input_names == ('a=10', 'a=2', 'b', 'c')
  same = frame.assign(a=[2.0, 10.0, 2.0, 10.0])  # as another program may write them
  np.testing.assert_array_equal(preparation.inputs(same), preparation.inputs(frame))


def test_columns_come_back_from_inputs():
  frame = pd.DataFrame({'a': [2.0, 3.0, 5.0, 7.0], 'b': list('xyyz'), 'c': [1.0, 4.0, 9.0, 16.0]})
  preparation = _prepare(frame)
  x = preparation.restore_inputs(preparation.inputs(frame))
  columns = tables.decode(preparation.columns, x)
  assert list(columns) == ['a', 'b', 'c'] and list(columns['b']) == list('xyyz')
  for name in 'ac':
    np.testing.assert_allclose(columns[name], frame[name], rtol=1e-6)
  assert tables.decode(preparation.columns, np.zeros([1, 5]))['b'] == ['?']


@pytest.mark.parametrize(
  ('y', 'num_classes'),
  [
    ([0, 1, 2] * 4, 3),
    ([3, 7] * 4, 2),
    (np.repeat(np.arange(100), 5), 100),  # as of CIFAR-100
    (np.arange(12), None),
    (np.arange(300) * 7, None),
    (['a', 'b', 'c'], 3),
    ([True, False], 2),
    ([0.0, 1.0] * 5, None),
  ],
)
def test_text_and_integers_of_few_values_are_classes(y, num_classes):
  values = tables.class_values(np.array(y))
  assert (None if values is None else len(values)) == num_classes


def test_large_numbers_and_small_integers_do_not_overflow():
  x = np.array([[-1e200], [0.0], [1e200]])
  kinds = [x, np.array([[-30000], [0], [30000]], np.int16), np.array([[0], [127], [254]], np.uint8)]
  for values in kinds:
    raw = preparation_lib.RawData(values, np.arange(3.0)[:, np.newaxis], by_column=True)
    prepared = tfr.data.Preparation.of(raw, values, raw.y).inputs(values)
    np.testing.assert_allclose(prepared[:, 0], np.array([-1, 0, 1]) * np.sqrt(1.5), atol=1e-6)
  constant = np.full([3, 1], 1e200)
  raw = preparation_lib.RawData(constant, raw.y, by_column=True)
  assert not np.any(tfr.data.Preparation.of(raw, constant, raw.y).inputs(constant))


def test_what_is_standardized_stays_as_it_is():
  x = np.random.default_rng(0).normal(size=[50, 3])
  x = ((x - x.mean(axis=0)) / x.std(axis=0)).astype(np.float32)
  raw = preparation_lib.RawData(x, x, by_column=True)
  preparation = tfr.data.Preparation.of(raw, x, x)
  np.testing.assert_array_equal(preparation.inputs(x), x)
  np.testing.assert_array_equal(preparation.targets(x), x)
