"""Data from .npz and .csv files: what is read, and what every mistake is told."""

import re
import zipfile

import numpy as np
import pytest

import tfp_reprior as tfr

RNG = np.random.default_rng(0)
IRIS = """length, width ,species
1.0,10,setosa
2.0,20,virginica
3.0,30,setosa
4.0,40,virginica
5.0,60,setosa
"""


@pytest.fixture
def save(tmp_path):
  """Function that writes arrays to a .npz file, or text to a .csv file; returns the path."""

  def write(text=None, **arrays):
    path = tmp_path / ('data.npz' if text is None else 'data.csv')
    if text is None:
      np.savez(path, **arrays)
    else:
      path.write_text(text, encoding='utf-8')
    return str(path)

  return write


def _refuses(message):
  return pytest.raises(ValueError, match=re.escape(message))


def test_arrays_are_split_at_random(save):
  x, y = RNG.normal(size=(50, 3)) * [1, 10, 100], np.arange(50.0)
  path = save(x=x, y=y)
  data = tfr.data.load(path, seed=1)
  assert data.x_train.shape == (40, 3) and data.x_test.shape == (10, 3)
  assert data.y_train.shape == (40, 1) and data.num_classes is None
  restored = data.preparation.restore(np.concatenate([data.y_train, data.y_test]))[:, 0]
  np.testing.assert_allclose(np.sort(restored), y, atol=1e-4)
  np.testing.assert_allclose(data.x_train.mean(axis=0), 0, atol=1e-6)  # column by column
  np.testing.assert_allclose(data.x_train.std(axis=0), 1, atol=1e-6)
  rows = np.round(restored).astype(int)
  expected = (x[rows] - x[rows[:40]].mean(axis=0)) / x[rows[:40]].std(axis=0)
  np.testing.assert_allclose(np.concatenate([data.x_train, data.x_test]), expected, atol=1e-5)
  assert not np.array_equal(tfr.data.load(path, seed=2).y_train, data.y_train)


def test_training_and_test_arrays_are_kept_apart(save):
  x, y = RNG.normal(size=(6, 2)), RNG.normal(size=(6, 2))
  path = save(x_train=x[:4], y_train=y[:4], x_test=x[4:], y_test=y[4:])
  data = tfr.data.load(path)
  np.testing.assert_allclose(data.preparation.restore(data.y_train), y[:4], atol=1e-5)
  np.testing.assert_allclose(data.preparation.restore(data.y_test), y[4:], atol=1e-5)
  assert len(tfr.data.load(path, num_train=3, num_test=1).x_train) == 3


def test_training_arrays_alone_are_split(save):
  path = save(x_train=np.arange(10.0), y_train=np.arange(10.0))
  data = tfr.data.load(path)
  assert data.x_train.shape == (8, 1) and data.x_test.shape == (2, 1)


@pytest.mark.parametrize(
  'labels, names',
  [
    ([1, 10, 2, 1, 10], ('1', '2', '10')),
    (['b', 'a', 'c', 'a', 'b'], ('a', 'b', 'c')),
    ([[1], [10], [2], [1], [10]], ('1', '2', '10')),
  ],
)
def test_integers_and_text_are_classes(save, labels, names):
  path = save(x=RNG.normal(size=(5, 4, 4)), y=np.array(labels))
  data = tfr.data.load(path, 4, 1)
  assert data.num_classes == 3 and data.preparation.class_names == names
  assert data.y_train.shape == (4, 3)
  np.testing.assert_allclose([data.x_train.mean(), data.x_train.std()], [0, 1], atol=1e-6)


def test_labels_belong_to_their_inputs(save):
  y = RNG.integers(0, 3, 20) + 5
  data = tfr.data.load(save(x=10.0 * y, y=y), seed=3)
  x = data.x_train[:, 0] * data.preparation.x_std[0] + data.preparation.x_mean[0]
  np.testing.assert_array_equal(data.y_train.argmax(axis=1) + 5, np.round(x / 10))


X = np.ones([4, 2]) * np.arange(4)[:, np.newaxis]
Y = np.arange(4.0)


@pytest.mark.parametrize(
  'arrays, message',
  [
    (dict(x=X), 'must hold the arrays x and y, or x_train and y_train'),
    (dict(x=X), 'Received: x'),
    (dict(x_train=X, y_train=Y, x_test=X), 'and perhaps x_test and y_test'),
    (dict(x=X, y=Y[:3]), 'y in data.npz must have a target for each of 4 inputs. Received: shape'),
    (dict(x=X, y=np.ones([4, 2], int)), 'y in data.npz must be floats [n] or [n, k], or labels'),
    (dict(x=X, y=np.where(Y == 2, np.nan, Y)), 'y in data.npz must be finite. Received: nan at'),
    (dict(x=np.where(X == 2, np.inf, X), y=Y), 'x in data.npz must be finite. Received: inf at'),
    (dict(x=np.array(list('abcd')), y=Y), 'x in data.npz must hold numbers, a row for each'),
    (dict(x=X, y=np.ones(4, int)), 'Targets in data.npz must have two classes or more. Received'),
    (
      dict(x_train=X, y_train=Y, x_test=X[:, :1], y_test=Y),
      'Training and test data in data.npz must have the same shapes and kinds. Received: x_train',
    ),
    (dict(x=X, y=np.array([{}, {}, {}, {}])), 'data.npz must be a .npz file of arrays'),
  ],
)
def test_mistakes_in_arrays_are_told(save, monkeypatch, tmp_path, arrays, message):
  save(**arrays)
  monkeypatch.chdir(tmp_path)
  with _refuses(message):
    tfr.data.load('data.npz')


def test_files_that_are_no_arrays_are_refused(tmp_path):
  for name, content in [('a.npz', b'no archive'), ('b.npz', b'')]:
    (tmp_path / name).write_bytes(content)
    with _refuses(f'{name} must be a .npz file of arrays, as of numpy.savez'):
      tfr.data.load(str(tmp_path / name))
  np.save(tmp_path / 'c.npz.npy', X)
  (tmp_path / 'c.npz.npy').rename(tmp_path / 'c.npz')
  with _refuses('c.npz must be a .npz file of arrays, as of numpy.savez'):
    tfr.data.load(str(tmp_path / 'c.npz'))


@pytest.mark.parametrize('name', ['missing.npz', 'missing.csv'])
def test_missing_files_are_told(name):
  with _refuses(f'There is no file {name}'):
    tfr.data.load(name)


def test_the_last_column_of_a_table_is_the_target(save):
  data = tfr.data.load(save(IRIS), 4, 1)
  assert data.preparation.feature_names == ('length', 'width')
  assert data.preparation.target_name == 'species'
  assert data.preparation.class_names == ('setosa', 'virginica')
  assert data.x_train.shape == (4, 2) and data.y_train.shape == (4, 2)
  np.testing.assert_allclose(data.x_train.std(axis=0), 1, atol=1e-6)


@pytest.mark.parametrize('text', [IRIS, '\ufeff' + IRIS, IRIS.replace('\n', '\r\n'), IRIS + '\n\n'])
def test_tables_of_spreadsheets_are_read(save, text):
  assert tfr.data.load(save(text), 4, 1).preparation.feature_names == ('length', 'width')


def test_a_target_column_of_numbers_is_real_unless_said_otherwise(save):
  path = save('a,b\n1,0\n2,1\n3,1\n4,10\n5,9\n')
  real, classes = tfr.data.load(path, 4, 1, target='b'), tfr.data.load(path, 4, 1, target='b:class')
  assert real.num_classes is None and real.y_train.shape == (4, 1)
  assert classes.preparation.class_names == ('0', '1', '9', '10')
  first = tfr.data.load(path, 4, 1, target='a')
  assert first.preparation.feature_names == ('b',) and first.preparation.target_name == 'a'


def test_columns_named_by_their_number_are_names(save):
  assert tfr.data.load(save('0,1\n1,5\n2,6\n3,9\n'), 2, 1).preparation.feature_names == ('0',)


@pytest.mark.parametrize(
  'old, new, message',
  [
    ('2.0,20', '2.0,', "data.csv, line 3, column 'width': the value is missing"),
    ('3.0,30', 'tall,30', "line 4, column 'length': must be a finite number. Received: 'tall'"),
    ('3.0,30', 'nan,30', "line 4, column 'length': the value is missing"),
    ('4.0,40,virginica', '4.0,40,', "line 5, column 'species': the value is missing"),
    ('4.0,40,virginica', '4.0,40', 'line 5: must have 3 values, as line 1. Received: 2'),
    ('5.0,60', '5.0,60,70', 'line 6: must have 3 values, as line 1. Received: 4'),
    ('4.0,40,virginica', '4.0,40,7', "line 2, column 'species': must be a finite number. Receiv"),
    ('length, width ', 'length,length', 'must have names, all different. Received'),
    ('length, width ', 'length,', 'must have names, all different. Received'),
    ('length, width ,species', '1,2,3', 'must begin with a line of names of the columns, w'),
    ('length, width ,species\n', '', 'with letters where numbers follow. Received: 1.0,10,setosa'),
    ('2.0,20', '2.0,2_0', "line 3, column 'width': must be a finite number. Received: '2_0'"),
    ('2.0,20', '"2.0,20', 'line 6: unexpected end of data'),
  ],
)
def test_mistakes_in_tables_are_told(save, old, new, message):
  assert IRIS.count(old) == 1
  with _refuses(message):
    tfr.data.load(save(IRIS.replace(old, new)))


def test_other_files_than_tables_are_told(save, tmp_path):
  with _refuses("must have two columns or more, with commas between them. Received: ['a;b']"):
    tfr.data.load(save('a;b\n1;2\n'))
  with _refuses('must have a line of names and a line of data at least'):
    tfr.data.load(save('a,b\n'))
  (tmp_path / 'latin.csv').write_bytes(b'a,b\n1,\xe9\n')
  with _refuses('latin.csv must be text in UTF-8'):
    tfr.data.load(str(tmp_path / 'latin.csv'))


def test_classes_that_are_equal_numbers_are_one_class(save):
  text = 'a,b\n1.5,1\n2.5,1.0\n3.5,2\n4.5,+2.00\n5.5,1e0\n6.5,0.5\n'
  preparation = tfr.data.load(save(text), target='b:class').preparation
  assert preparation.class_names == ('0.5', '1', '2')
  _, y = tfr.data.load_new(save('a,b\n1.5,2.0\n1.5,1\n'), preparation)
  assert y.tolist() == ['2', '1']


def test_archives_that_claim_more_than_they_hold_are_refused_before_memory_is_asked_for(tmp_path):
  header = {'descr': '<f8', 'fortran_order': False, 'shape': (10**13,)}
  with zipfile.ZipFile(tmp_path / 'a.npz', 'w') as archive:
    for name in ('x.npy', 'y.npy'):
      with archive.open(name, 'w') as file:
        np.lib.format.write_array_header_1_0(file, header)
  with _refuses('a.npz is damaged: x.npy should have 80000000000000 bytes of numbers. Received: 0'):
    tfr.data.load(tmp_path / 'a.npz')


def test_an_unknown_target_column_is_told(save):
  path = save(IRIS)
  for target in ('petal', 'petal:class'):
    with _refuses(f'which are length, width, species. Received: target={target!r}'):
      tfr.data.load(path, target=target)


def test_new_tables_are_prepared_as_the_training_data_were(save):
  preparation = tfr.data.load(save(IRIS), 4, 1).preparation
  x, y = tfr.data.load_new(save('species,note,width,length\nsetosa,a,20,2\n'), preparation)
  expected = (np.array([[2.0, 20.0]]) - preparation.x_mean) / preparation.x_std
  np.testing.assert_allclose(preparation.inputs(x), expected, rtol=1e-6)
  assert y.tolist() == ['setosa']
  x, y = tfr.data.load_new(save('length,width\n2,20\n'), preparation)
  np.testing.assert_allclose(preparation.inputs(x), expected, rtol=1e-6)
  assert y is None


def test_new_arrays_are_prepared_as_the_training_data_were(save):
  preparation = tfr.data.load(save(x=10 * X, y=5 * Y)).preparation
  for names in (('x', 'y'), ('x_test', 'y_test')):
    x, y = tfr.data.load_new(
      save(**dict(zip(names, (10 * X[:1], 5 * Y[:1]), strict=True))), preparation
    )
    np.testing.assert_array_equal(x, 10 * X[:1])
    np.testing.assert_array_equal(y, [[0.0]])
  assert tfr.data.load_new(save(x=X), preparation)[1] is None


def test_mistakes_in_new_data_are_told(save):
  preparation = tfr.data.load(save(IRIS), 4, 1).preparation
  with _refuses("must have all columns of the training inputs; it has no ['width']. Received: ["):
    tfr.data.load_new(save('length,species\n1,setosa\n'), preparation)
  with _refuses('Labels must be among the classes setosa, virginica. Received: rosa'):
    tfr.data.load_new(save('length,width,species\n1,2,rosa\n'), preparation)
  with _refuses('must be classes, as the training targets. Received: dtype float64'):
    tfr.data.load_new(save(x=X, y=Y), preparation)
  with _refuses('must hold an array x (or x_test). Received: y'):
    tfr.data.load_new(save(y=Y), preparation)
  with _refuses("`path` must end in .npz or .csv. Received: path='new.txt'"):
    tfr.data.load_new('new.txt', preparation)
  with _refuses('New inputs must come in a .npz file'):
    tfr.data.load_new(save(IRIS), tfr.data.Preparation())


HOUSES = """rooms,color,price
1,red,10.5
2,blue,20.5
,red,30.5
4,,40.5
5,green,50.5
6,red,60.5
"""


def test_columns_of_text_are_categories_and_missing_cells_are_imputed_by_asking(save):
  path = save(HOUSES)
  with _refuses("data.csv, line 4, column 'rooms': the value is missing"):
    tfr.data.load(path)
  data = tfr.data.load(path, 5, 1, subset='first', missing='impute')
  assert data.preparation.input_names == ('rooms', 'color=blue', 'color=green', 'color=red')
  x = data.preparation.restore_inputs(data.x_train)
  np.testing.assert_allclose(x[:, 0], [1, 2, 3, 4, 5], atol=1e-5)  # 3 is the median of the others
  np.testing.assert_allclose(x[3, 1:], [0, 0, 1], atol=1e-5)  # red is the most frequent
  new, _ = tfr.data.load_new(save('color,rooms\n,7\n'), data.preparation)
  restored = data.preparation.restore_inputs(data.preparation.inputs(new))
  np.testing.assert_allclose(restored, [[7, 0, 0, 1]], atol=1e-5)


def test_integers_of_few_values_are_classes_and_a_note_says_so(save):
  path = save('a,b\n' + ''.join(f'{i}.5,{i % 3}\n' for i in range(9)))
  data = tfr.data.load(path)
  assert data.num_classes == 3
  assert data.note == "'b': integers of 3 values, taken as classes; for regression: target b:real"
  real = tfr.data.load(path, target='b:real')
  assert real.num_classes is None and not real.note
  many = tfr.data.load(save('a,b\n' + ''.join(f'{i}.5,{7 * i}\n' for i in range(9))))
  assert many.num_classes is None and 'taken as real numbers; for classes' in many.note


def test_classes_are_split_in_proportion(save):
  y = np.repeat(['a', 'b', 'c'], [100, 50, 10])
  data = tfr.data.load(save(x=np.arange(160.0), y=y))
  np.testing.assert_array_equal(np.bincount(data.labels_train), [80, 40, 8])
  np.testing.assert_array_equal(np.bincount(data.labels_test), [20, 10, 2])
