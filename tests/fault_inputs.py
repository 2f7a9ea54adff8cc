"""The second table of `faults.py`: what users have in hand, which must be refused or done right.

Nothing is sampled: `posterior_of` goes as far as `sample_posterior` does before it runs.
"""

import datetime
import decimal
import functools
import tempfile
from unittest import mock

import keras
import numpy as np
import pandas as pd
import scipy.sparse
import tensorflow as tf

import tfp_reprior as tfr
from tfp_reprior.sampling import driver, runs

X = np.linspace(-1, 1, 12).reshape(6, 2)
Y = np.sin(3 * X[:, :1])
LABELS = np.array([0, 1, 0, 1, 1, 0])


class _Accepted(Exception):
  """What would be sampled."""


class _Driver(driver.Driver):
  def run(self, resume=True):
    raise _Accepted(self._posterior, self._x_test, self._y_test)


@functools.cache
def model(num_outputs=1):
  return tfr.models.fcn((2,), num_outputs, width=2, depth=1)


def posterior_of(x=X, y=Y, network=None, **arguments):
  """The prepared data that a run would be about: arrays x, y, x_test."""
  arguments = dict(num_chains=1, num_results=2, step_size=0.1, progress=False) | arguments
  with mock.patch.object(runs.driver_lib, 'Driver', _Driver):
    try:
      tfr.sample_posterior(network or model(), x, y, **arguments)
    except _Accepted as e:
      posterior, x_test, _ = e.args
      return [np.asarray(a) for a in (posterior.x, posterior.y, x_test) if a is not None]


def frame(**columns):
  return pd.DataFrame({'a': X[:, 0], 'b': X[:, 1]} | columns)


def bad_inputs():
  """Yields names, inputs that must be refused, and what names them."""
  whole = [(int(v), 2) for v in range(6)]
  yield 'generator', (row for row in X), 'x'
  yield 'iterator', iter(X.tolist()), 'x'
  yield 'set', {1.0, 2.0}, 'x'
  yield 'function', len, 'x'
  yield 'text', 'abc', 'x'
  yield 'bytes', b'abc', 'x'
  yield 'number', 1.5, 'x'
  yield 'array without dimensions', np.array(1.5), 'x'
  yield 'empty list', [], 'x'
  yield 'no rows', X[:0], 'x'
  yield 'no columns', X[:, :0], 'x'
  yield 'one dimension', X[:, 0], 'x'
  yield 'three dimensions', X[:, :, np.newaxis], 'x'
  yield 'too many columns', np.ones([6, 3]) * X[:, :1], 'x'
  yield 'ragged lists', [[1.0, 2.0], [3.0]] * 3, 'x'
  yield 'ragged tensor', tf.ragged.constant([[1.0, 2.0], [3.0]]), 'x'
  yield 'sparse tensor', tf.sparse.from_dense(X), 'x'
  yield 'sparse matrix', scipy.sparse.csr_matrix(X), 'x'
  yield 'sparse array', scipy.sparse.coo_array(X), 'x'
  yield 'complex', X + 1j, 'x'
  yield 'complex without imaginary part', X.astype(complex), 'x'
  yield 'dates', np.full([6, 2], np.datetime64('2020-01-01')), 'x'
  yield 'durations', np.full([6, 2], np.timedelta64(3, 's')), 'x'
  yield 'structured', np.array(whole, [('a', 'f8'), ('b', 'f8')]), 'x'
  yield 'bytes as cells', np.full([6, 2], b'1.5'), 'x'
  yield 'text as cells', np.full([6, 2], '1.5'), 'x'
  yield 'masked', np.ma.masked_less(X, 0), 'x'
  yield 'masked without a mask', np.ma.array(X), 'x'
  yield 'NaN', np.where(X > 0.9, np.nan, X), 'x'
  yield 'infinite', np.where(X > 0.9, -np.inf, X), 'x'
  yield 'infinite float16', np.where(X > 0.9, np.inf, X).astype(np.float16), 'x'
  yield 'objects', np.full([6, 2], {}, object), 'column'
  yield 'lists as cells', frame(b=[[1, 2]] * 6), "'b'"
  yield 'huge integers', [[10**400, 1]] * 6, 'column'
  yield 'None as cells', np.where(X > 0.9, None, X), 'olumn'
  yield 'names twice', pd.DataFrame(X, columns=['a', 'a']), "'a'"
  yield 'names alike as text', pd.DataFrame(X, columns=[1, '1']), "'1'"
  yield 'frame without columns', pd.DataFrame(index=range(6)), 'x'
  yield 'frame without rows', frame()[:0], 'x'
  yield 'frame with NaN', frame(b=[np.nan, 1, 2, 3, 4, 5]), "'b'"
  yield 'frame with NA', frame(b=pd.array([1, 2, None, 4, 5, 6], 'Int64')), "'b'"
  yield 'frame with infinity', frame(b=[np.inf, 1, 2, 3, 4, 5]), "'b'"
  yield 'frame with dates', frame(b=pd.date_range('2020', periods=6)), "'b'"
  yield 'frame with time zones', frame(b=pd.date_range('2020', periods=6, tz='UTC')), "'b'"
  yield 'frame with periods', frame(b=pd.period_range('2020', periods=6, freq='M')), "'b'"
  yield 'frame with durations', frame(b=pd.to_timedelta(range(6), unit='s')), "'b'"
  yield 'frame with datetime.date', frame(b=[datetime.date(2020, 1, 1)] * 6), "'b'"
  yield 'frame with complex', frame(b=1j * X[:, 0]), "'b'"
  yield 'frame with names of rows', frame(b=[f'id{i}' for i in range(6)]), 'x'
  yield 'frame with a third column', frame(c=X[:, 0]), 'x'
  yield 'dict of other lengths', {'a': [1.0] * 6, 'b': [1.0] * 5}, "'b'"
  yield 'dict of scalars', {'a': 1.0, 'b': 2.0}, "'a'"
  yield 'empty dict', {}, 'x'


def bad_targets():
  """Yields names, targets that must be refused, and what names them."""
  yield 'too short', Y[:5], 'y'
  yield 'too long', np.ones(7) * 1.5, 'y'
  yield 'generator', (v for v in Y), 'y'
  yield 'number', 2.5, 'y'
  yield 'empty', [], 'y'
  yield 'two columns', np.ones([6, 2]) * Y, 'y'
  yield 'three dimensions', Y[..., np.newaxis], 'y'
  yield 'transposed', Y.T, 'y'
  yield 'complex', Y + 1j, 'y'
  yield 'dates', np.full(6, np.datetime64('2020-01-01')), 'y'
  yield 'masked', np.ma.masked_less(Y, 0), 'y'
  yield 'NaN', np.where(Y > 0.5, np.nan, Y), 'y'
  yield 'infinite', np.where(Y > 0.5, np.inf, Y), 'y'
  yield 'series with NaN', pd.Series([np.nan, 1, 2, 3, 4, 5]), 'y'
  yield 'series with NA', pd.Series([1, None, 3, 4, 5, 6], dtype='Int64'), 'y'
  yield 'None among text', np.array(['a', None, 'b', 'a', 'b', 'a'], object), 'y'
  yield 'NaN among text', np.array(['a', np.nan, 'b', 'a', 'b', 'a'], object), 'y'
  yield 'numbers among text', np.array(['a', 1, 'b', 'a', 1, 'a'], object), 'y'
  yield 'three classes of one output', list('abcabc'), 'y'
  yield 'one class', list('aaaaaa'), 'y'
  yield 'bytes', np.array([b'a', b'b'] * 3), 'y'
  yield 'ragged', [[1.0], [2.0, 3.0]] * 3, 'y'
  yield 'sparse', scipy.sparse.csr_matrix(Y), 'y'
  yield 'objects', np.full(6, {}, object), 'y'
  yield 'huge integers', [10**400] * 6, 'y'
  yield 'decimals', [decimal.Decimal('1.5')] * 6, 'y'
  yield 'dict', {'y': Y}, 'y'


def bad_models():
  """Yields names, functions that make models that must be refused, and what names them."""
  layers = keras.layers

  def sequential(*inner, **kwargs):
    return keras.Sequential([keras.Input((2,)), *inner], **kwargs)

  def functional(fn):
    inputs = keras.Input((2,))
    return keras.Model(inputs, fn(inputs))

  def two_inputs():
    a, b = keras.Input((2,)), keras.Input((2,))
    return keras.Model([a, b], layers.Dense(1)(layers.Concatenate()([a, b])))

  def shared():
    dense = layers.Dense(2)
    return functional(lambda x: dense(dense(x)))

  yield 'no model', lambda: 'fcn', 'model'
  yield 'a class', lambda: keras.Model, 'model'
  yield 'a layer', lambda: layers.Dense(1), 'model'
  yield 'a function', lambda: len, 'model'
  yield 'two inputs', two_inputs, 'input'
  yield 'two outputs', lambda: functional(lambda x: [layers.Dense(1)(x)] * 2), 'output'
  yield 'no readout', lambda: sequential(layers.Dense(2), layers.ReLU()), 'end'
  yield 'no layers', lambda: functional(lambda x: x), 'end'
  yield 'softmax', lambda: sequential(layers.Dense(1, activation='softmax')), 'activation'
  yield 'shared readout', shared, 'readout'
  yield 'dropout', lambda: sequential(layers.Dropout(0.5), layers.Dense(1)), 'dropout'
  yield 'batch norm', lambda: sequential(layers.BatchNormalization(), layers.Dense(1)), 'batch'
  yield 'layer norm', lambda: sequential(layers.LayerNormalization(), layers.Dense(1)), 'layer'
  yield 'frozen', lambda: sequential(layers.Dense(2, trainable=False), layers.Dense(1)), 'frozen'
  yield 'recurrent', lambda: keras.Sequential([keras.Input((3, 2)), layers.LSTM(2)]), 'lstm'
  yield 'float16', lambda: sequential(layers.Dense(1, dtype='float16')), 'float16'
  yield 'mixed', lambda: sequential(layers.Dense(1, dtype='mixed_float16')), 'float16'
  yield 'unbuilt', lambda: keras.Sequential([layers.Dense(1)]), 'keras.Input'
  yield 'no call', type('Mine', (keras.Model,), {}), 'Mine'
  yield 'of images', lambda: tfr.models.cnn((8, 8, 1), 1, width=2), 'x'


def bad_settings():
  """Yields arguments of `sample_posterior` that must be refused, and what names them."""
  new, short = X[:2], Y[:2]
  for name, value in (
    ('x_test', np.where(X > 0.9, np.nan, X)),
    ('x_test', X[:, :1]),
    ('x_test', np.ma.masked_less(X, 0)),
    ('x_test', X + 1j),
    ('x_test', []),
    ('noise_scale', True),
    ('noise_scale', 'small'),
    ('noise_scale', [0.1, 0.2]),
    ('noise_scale', []),
    ('noise_scale', 1j),
    ('noise_scale', 1e-300),
    ('standardize', 'yes'),
    ('standardize', None),
    ('likelihood', tfr.likelihoods.Gaussian),
    ('chunk_size', 2.5),
    ('chunk_size', True),
    ('thinning', 0),
    ('seed', np.float32(1)),
    ('num_chains', np.array([2])),
    ('over_dispersion', 0.0),
    ('damping', 1.5),
    ('layer_regularizer', -1.0),
    ('layer_regularizer', 'all'),
    ('layer_regularizer', [1.0, 2.0, 3.0]),
    ('layer_regularizer', True),
    ('run_dir', 5),
    ('run_dir', b'\0'),
    ('run_dir', 'a\0b'),
    ('checkpoint_seconds', np.nan),
    ('checkpoint_seconds', 'often'),
    ('progress', 'no'),
    ('resume', 'no'),
    ('strategy', tf.distribute.MirroredStrategy),
  ):
    yield f'{name}={str(value)[:20]!r}', {name: value}, name
  yield 'classes and real y', dict(likelihood=tfr.likelihoods.Categorical()), 'y'
  yield 'y_test too short', {'x_test': new, 'y_test': Y[:1]}, 'y_test'
  yield 'y_test with NaN', {'x_test': new, 'y_test': short * np.nan}, 'y_test'
  yield 'y_test complex', {'x_test': new, 'y_test': short + 1j}, 'y_test'
  yield 'noise and likelihood', dict(noise_scale=1.0, likelihood='gaussian'), 'noise_scale'
  yield 'step size and warm-up', dict(num_warmup_steps=300), 'num_warmup_steps'


def refused():
  """Yields names, functions that must refuse, and what the error names."""
  for name, x, named in bad_inputs():
    yield f'x: {name}', lambda x=x: posterior_of(x), named
  for name, y, named in bad_targets():
    yield f'y: {name}', lambda y=y: posterior_of(y=y), named
  for name, make, named in bad_models():
    yield f'model: {name}', lambda m=make: posterior_of(network=m()), named
  for name, arguments, named in bad_settings():
    yield f'sample_posterior: {name}', lambda a=arguments: posterior_of(**a), named
  split = tfr.models.ReadoutSplit(model())
  for seed in (True, 1.5, 'a', 2**64, [1, 2, 3], np.nan):
    yield f'sample_prior seed={seed}', lambda s=seed: split.sample_prior(2, seed=s), 'seed'


def right():
  """Yields names and functions that return what is given, and what it must be equal to."""
  expected = posterior_of()
  whole = np.arange(12).reshape(6, 2) * 11 - 60
  for kind in ('int8', 'int16', 'int32', 'int64', 'float16', 'float32', 'longdouble'):
    yield f'x of {kind}', lambda k=kind: _pair(whole.astype(k), whole.astype(float))
  yield 'x of uint8', lambda: _pair((whole + 60).astype(np.uint8), whole + 60.0)
  yield 'x of booleans', lambda: _pair(whole > 0, (whole > 0) * 1.0)
  extreme = np.array([[-32768, 32767], [32767, -32768], [0, 1], [5, 9], [7, 3], [1, 2]], np.int16)
  yield 'x of all int16', lambda: _pair(extreme, extreme.astype(float))
  for name, x in (
    ('lists', X.tolist()),
    ('tuples', tuple(map(tuple, X))),
    ('a tensor', tf.constant(X)),
    ('a variable', tf.Variable(X)),
    ('a matrix', np.asmatrix(X)),
    ('Fortran order', np.asfortranarray(X)),
    ('reversed strides', X[::-1][::-1]),
    ('big-endian', X.astype('>f8')),
    ('read-only', _read_only(X)),
    ('objects', X.astype(object)),
    ('a frame', frame()),
    ('a frame with an index', frame().set_index(pd.Index(list('fedcba')))),
    ('a dict', {'a': X[:, 0], 'b': X[:, 1]}),
    ('columns of 1e200', X * 1e200),
    ('columns of 1e-200', X * 1e-200),
    ('columns far from 0', X + 1e6),
  ):
    yield f'x as {name}', lambda x=x: (posterior_of(x)[0], _rounded(expected[0], x))
  for name, y in (
    ('vector', Y[:, 0]),
    ('list', Y.tolist()),
    ('series', pd.Series(Y[:, 0])),
    ('frame', pd.DataFrame(Y)),
    ('tensor', tf.constant(Y)),
    ('1e200', Y * 1e200),
  ):
    yield f'y as {name}', lambda y=y: (posterior_of(y=y)[1], expected[1])
  for name, y in (
    ('booleans', LABELS > 0),
    ('text', np.where(LABELS, 'b', 'a')),
    ('a series', pd.Series(LABELS)),
    ('categories', pd.Series(np.where(LABELS, 'y', 'x'), dtype='category')),
    ('a column', LABELS[:, np.newaxis]),
    ('int8', LABELS.astype(np.int8)),
    ('7 and 9', np.where(LABELS, 9, 7)),
  ):
    yield f'classes as {name}', lambda y=y: (posterior_of(y=y)[1].ravel(), LABELS)
  yield 'seeds beyond 32 bits differ', _seeds_differ
  yield 'a folder with spaces, umlauts and a newline', _odd_folder


def _pair(x, plain):
  return posterior_of(x)[0], posterior_of(plain)[0]


def _rounded(expected, x):
  """What is expected, or, of numbers whose last digits are lost, what is given."""
  given = posterior_of(x)[0]
  return given if np.allclose(given, expected, atol=1e-6) else expected


def _read_only(x):
  x = x.copy()
  x.flags.writeable = False
  return x


def _seeds_differ():
  draws = [tfr.models.ReadoutSplit(model()).sample_prior(4, seed=s)[0] for s in (0, 2**32, 2**40)]
  is_other = [np.all(np.not_equal(draws[i], draws[i - 1])) for i in range(3)]
  return np.array(is_other), np.ones(3, bool)


def _odd_folder():
  with tempfile.TemporaryDirectory() as folder:
    return posterior_of(run_dir=f'{folder}/a b\nü/ß')[0], posterior_of()[0]
