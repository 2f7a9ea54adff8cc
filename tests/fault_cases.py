"""The tables of `faults.py`: wrong flags, arguments and files, and the run that is damaged."""

import io
import zipfile

import numpy as np

import tfp_reprior as tfr

_SMALL = ('--data=toy', '--width=4', '--depth=1', '--num_results=2', '--step_size=0.1', '--quiet')
_BAD_COUNTS = (
  '0',
  '-1',
  '1.5',
  'abc',
  '',
  '1_000',
  'nan',
  '1e3',
  ' 7',
  '９',
  '99999999999999999999',
)
_BAD_NUMBERS = ('-1', 'nan', 'abc', '', '1_000', '1e999', '0x10', '1,5', 'True')
_COUNTS = (
  'num_train',
  'num_test',
  'width',
  'depth',
  'num_heads',
  'num_integrator_steps',
  'num_chains',
  'num_results',
  'thinning',
  'num_warmup_steps',
  'chunk_size',
)


def sample(folder, **arguments):
  """The small run, or one of other arguments."""
  x = np.linspace(-1, 1, 10, dtype=np.float32)[:, np.newaxis]
  given = dict(
    noise_scale=0.2,
    x_test=x[::3],
    num_chains=2,
    num_results=60,
    thinning=2,
    num_burnin_steps=4,
    step_size=0.2,
    num_projections=3,
    num_kept_draws=4,
    seed=1,
    run_dir=folder,
    checkpoint_seconds=1e-9,
    progress=False,
  )
  model = tfr.models.fcn((1,), 1, width=8, depth=1)
  return tfr.sample_posterior(model, x, np.sin(3 * x), **{**given, **arguments})


def outcome(result):
  """What two runs that are the same have in common: arrays."""
  x = np.linspace(-1, 1, 5, dtype=np.float32)[:, np.newaxis]
  draws = [part for i in range(len(result.draws)) for part in result.draws[i]]
  traces = [result.trace[name] for name in sorted(result.trace)]
  return [*traces, *draws, *result.theta_moments.mean, result.predict(x).mean]


def flip(path, i):
  """Flips a bit of a file."""
  content = bytearray(path.read_bytes())
  content[i // 8] ^= 1 << (i % 8)
  path.write_bytes(content)


def commands():
  """Yields arguments of the command line that must be refused, and what the answer names."""
  start = ('sample', *_SMALL, '--run_dir=r')
  for flag in _COUNTS:
    for value in _BAD_COUNTS:
      yield (*start, f'--{flag}={value}'), flag
  for flag in ('num_burnin_steps', 'seed'):
    for value in ('-1', '1.5', 'abc', '', '1_000', 'nan', 'True', '99999999999999999999'):
      yield (*start, f'--{flag}={value}'), flag
  for flag in ('step_size', 'damping', 'noise_scale', 'checkpoint_seconds', 'regularizer'):
    for value in _BAD_NUMBERS:
      yield (*start, f'--{flag}={value}'), flag
  for flag in ('run_dir', 'data', 'data_dir'):
    for value in ('', '  '):
      yield (*start, f'--{flag}={value}'), flag
  for flag in ('sampler', 'likelihood', 'hidden_space', 'model', 'subset', 'activation', 'preset'):
    for value in ('', 'x', '<script>alert(1)</script>', '../../etc/passwd', 'é\x1b[31m'):
      yield (*start, f'--{flag}={value}'), flag
  for flag, value in (('width', 10**8), ('depth', 10**9), ('num_chains', 10**9)):
    yield (*start, '--depth=3', f'--{flag}={value}'), flag
  for name in ('huggingface:mnist', 'kaggle:titanic', 'nothing', 'a/../../b', 'http://a/b', '~'):
    yield ('sample', f'--data={name}', '--run_dir=r'), name
  for prior in ('lognormal:1', 'lognormal:nan,1', 'gamma:a,b', 'cauchy:1,2', 'uniform:2,1', ':'):
    yield (*start, f'--noise_scale={prior}'), 'noise_scale'
  for command in ('predict', 'report'):
    end = ('--data=new.csv',) if command == 'predict' else ()
    yield (command, 'missing', *end), 'missing'
    yield (command, '', *end), 'empty'
    for output in ('', 'no/folder/a.html', '/'):
      yield (command, 'missing', *end, f'--output={output}'), 'output'
  for arguments in ((), ('simple',), ('--version=1',), ('figure', 'none'), ('presets', 'none')):
    yield arguments, (arguments or ('COMMAND',))[-1].removeprefix('--').split('=')[0]


def calls():
  """Yields names, functions that must refuse, and what the error names."""
  bad_counts = (True, 0, -1, 1.5, '1', None, np.nan, 10**30, [1])
  for name in ('num_chains', 'num_results', 'thinning', 'num_projections'):
    for value in bad_counts:
      yield f'{name}={value!r}', lambda n=name, v=value: tfr.sampling.Settings(**{n: v}), name
  for name in ('num_burnin_steps', 'num_kept_draws', 'num_integrator_steps', 'num_warmup_steps'):
    for value in (True, -1, 1.5, '1', np.nan, 10**30):
      yield f'{name}={value!r}', lambda n=name, v=value: tfr.sampling.Settings(**{n: v}), name
  for name in ('step_size', 'damping', 'over_dispersion', 'regularizer'):
    for value in (True, -1, np.nan, b'1', 1j, [], object()):
      yield f'{name}={value!r}', lambda n=name, v=value: tfr.sampling.Settings(**{n: v}), name
  for value in (True, -1, 1.5, '1', None, 2**63, np.nan):
    yield f'seed={value!r}', lambda v=value: tfr.sampling.Settings(seed=v), 'seed'
  for name in ('sampler', 'hidden_space'):
    for value in ('', 'x', 3):
      yield f'{name}={value!r}', lambda n=name, v=value: tfr.sampling.Settings(**{n: v}), name
  for model, shape in (('fcn', (3,)), ('cnn', (8, 8, 1)), ('wide_resnet', (8, 8, 1))):
    make = getattr(tfr.models, model)
    for name in ('width', 'depth', 'num_outputs'):
      for value in (True, 0, 2.0, '3', None, 10**30):
        arguments = {'num_outputs': 1, 'width': 2, name: value}
        yield f'{model} {name}={value!r}', lambda m=make, s=shape, a=arguments: m(s, **a), name
    for name in ('weight_std', 'readout_weight_std', 'readout_bias_std'):
      for value in (True, -1.0, np.nan, np.inf, 'a'):
        arguments = {'num_outputs': 1, 'width': 2, name: value}
        named = name.removeprefix('readout_')
        yield f'{model} {name}={value!r}', lambda m=make, s=shape, a=arguments: m(s, **a), named
  yield 'fcn of 10**8 units', lambda: tfr.models.fcn((1,), 1, width=10**8), 'width'
  yield 'fcn of 10**9 layers', lambda: tfr.models.fcn((1,), 1, 1, depth=10**9), 'depth'
  model = tfr.models.fcn((2,), 1, width=2, depth=1)
  good_x, good_y = np.ones([3, 2], np.float32), np.array([[1.0], [2.0], [4.0]], np.float32)
  for name, x, y in (
    ('x', np.full([3, 2], np.nan), good_y),
    ('y', good_x, np.full([3, 1], np.inf)),
    ('x', np.ones([3, 5], np.float32), good_y),
    ('y', good_x, good_y[:2]),
    ('x', good_x[:0], good_y[:0]),
    ('x', np.array([['a', 'b']] * 3), good_y),
    ('x', good_x + 1j, good_y),
    ('y', good_x, None),
    ('x', None, good_y),
  ):
    yield (
      f'Posterior with {name} of {np.shape(x)}, {np.shape(y)}',
      lambda x=x, y=y: tfr.Posterior(model, x, y),
      name,
    )
  short = dict(num_results=1, num_chains=1, num_burnin_steps=0, step_size=0.1, progress=False)
  for name, value in (
    ('run_dir', ''),
    ('run_dir', '/dev/null/x'),
    ('checkpoint_seconds', -1.0),
    ('checkpoint_seconds', True),
    ('num_projections', 10**9),
    ('num_chains', 10**9),
    ('num_results', 10**9),
    ('regularizer', 'one'),
    ('noise_scale', -1.0),
    ('noise_scale', np.nan),
    ('likelihood', 'poisson distribution'),
    ('strategy', 'mirrored'),
    ('chunk_size', 0),
    ('y_test', good_y),
  ):
    arguments = {**short, name: value}
    yield (
      f'sample_posterior {name}={value!r}',
      lambda a=arguments: tfr.sample_posterior(model, good_x + np.eye(3, 2), good_y, **a),
      name,
    )


def _archive(**members):
  content = io.BytesIO()
  with zipfile.ZipFile(content, 'w') as archive:
    for name, raw in members.items():
      archive.writestr(f'{name}.npy', raw)
  return content.getvalue()


def _array(array=None, shape=None, dtype='<f8'):
  """The bytes of a .npy file; with a `shape` those of its header alone."""
  file = io.BytesIO()
  if shape is None:
    np.lib.format.write_array(file, array, allow_pickle=True)
  else:
    header = {'descr': dtype, 'fortran_order': False, 'shape': shape}
    np.lib.format.write_array_header_1_0(file, header)
  return file.getvalue()


def files():
  """Yields names, functions that load files that must be refused, and what the error names."""
  numbers = np.arange(12.0).reshape(6, 2)
  whole = _archive(x=_array(numbers), y=_array(numbers))
  tables = {
    'empty': b'',
    'only names': b'a,b\n',
    'no names': b'1,2\n3,4\n5,6\n',
    'no names, text classes': b'1.5,2,yes\n3,4,no\n5,6,yes\n',
    'names twice': b'a,a\n1,2\n3,4\n',
    'an empty name': b'a,\n1,2\n3,4\n',
    'one column': b'a\n1\n2\n',
    'semicolons': b'a;b\n1;2\n3;4\n',
    'short line': b'a,b\n1\n3,4\n',
    'long line': b'a,b\n1,2,3\n3,4\n',
    'missing value': b'a,b\n1,\n3,4\n',
    'missing input': b'a,b\n,1.5\n3,4.5\n',
    'underscore': b'a,b\n1,1_000\n3,4.5\n',
    'infinite': b'a,b\n1,inf\n3,4.5\n',
    'too large': b'a,b\n1,1e999\n3,4.5\n',
    'not a number': b'a,b\n1,nan\n3,4.5\n',
    'text in numbers': b'a,b\n1,1.5\n3,4.5\n4,x\n',
    'other digits': 'a,b\n1,１.5\n3,4.5\n'.encode(),
    'constant targets': b'a,b\n1,2.5\n2,2.5\n3,2.5\n4,2.5\n5,2.5\n6,2.5\n',
    'one class': b'a,b\n1,x\n2,x\n3,x\n4,x\n5,x\n',
    'open quote': b'a,b\n"1,2\n3,4\n',
    'latin-1': b'a,b\n1,\xe9\n3,4\n',
    'utf-16': 'a,b\n1,2\n'.encode('utf-16'),
    'NUL': b'a,b\n1,\x002\n3,4\n',
    'long field': b'a,b\n1,' + b'9' * 200_000 + b'\n3,4\n',
    'hexadecimal': b'a,b\n1,0x1p3\n3,4.5\n',
    'a date': b'a,b\n1,2020-01-01\n3,4.5\n4,5.5\n',
  }
  for name, raw in tables.items():
    yield f'csv: {name}', lambda r=raw: _load('table.csv', r), 'table.csv'
  header = _array(numbers)[:60]
  archives = {
    'empty': b'',
    'no archive': b'hello',
    'no arrays': _archive(),
    'cut': whole[: len(whole) // 2],
    'without its end': whole[:-10],
    'only x': _archive(x=_array(numbers)),
    'only y': _archive(y=_array(numbers)),
    'x_train alone': _archive(x_train=_array(numbers)),
    'header alone': _archive(x=header, y=header),
    'no header': _archive(x=b'abc', y=b'abc'),
    '80 TB': _archive(x=_array(shape=(10**13,)), y=_array(shape=(10**13,))),
    'negative shape': _archive(x=_array(shape=(-1,)), y=_array(shape=(2,))),
    'objects': _archive(x=_array(np.array([{}, []], object)), y=_array(numbers)),
    'complex': _archive(x=_array(numbers + 1j), y=_array(numbers)),
    'text': _archive(x=_array(np.array(['a', 'b'])), y=_array(numbers)),
    'dates': _archive(x=_array(np.array(['2020'], 'M8[D]')), y=_array(numbers)),
    'lengths': _archive(x=_array(numbers), y=_array(numbers[:3])),
    'scalars': _archive(x=_array(np.array(1.0)), y=_array(np.array(1.0))),
    'no rows': _archive(x=_array(numbers[:0]), y=_array(numbers[:0])),
    'NaN': _archive(x=_array(np.full([6, 2], np.nan)), y=_array(numbers)),
    'infinite y': _archive(x=_array(numbers), y=_array(np.full([6, 2], np.inf))),
    'y of rank 3': _archive(x=_array(numbers), y=_array(numbers[..., np.newaxis])),
    'constant y': _archive(x=_array(numbers), y=_array(np.ones([6, 1]))),
    'one class': _archive(x=_array(numbers), y=_array(np.zeros(6, int))),
  }
  for name, raw in archives.items():
    yield f'npz: {name}', lambda r=raw: _load('arrays.npz', r), 'arrays.npz'
  for name in ('nothing.csv', 'nothing.npz', 'nothing.xlsx', '.csv', 'a\0b.csv'):
    yield f'load {name!r}', lambda n=name: tfr.data.load(n), name.strip('.').split('\0')[0]
  for name, value in (('num_train', 0), ('num_test', True), ('seed', -1), ('subset', 'x')):
    yield f'load {name}={value}', lambda n=name, v=value: tfr.data.load('toy', **{n: v}), name


def _load(name, raw):
  with open(name, 'wb') as file:
    file.write(raw)
  return tfr.data.load(name)
