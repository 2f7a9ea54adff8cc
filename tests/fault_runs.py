"""The third table of `faults.py`: what is done with finished runs, in Python and by commands."""

import json
import pathlib
import shutil

import fault_cases
import numpy as np

import tfp_reprior as tfr
from tfp_reprior.internal import files

X = np.linspace(-1, 1, 5, dtype=np.float32)[:, np.newaxis]
_TABLE = 'size,color,kind\n' + ''.join(
  f'{i / 7},{"red" if i % 3 else "blue"},{"=1+2" if i % 2 else "b"}\n' for i in range(20)
)
_COMMAND = ('sample', '--data=table.csv', '--width=4', '--depth=1', '--step_size=0.2', '--quiet')
_COMMAND += ('--num_results=4', '--thinning=1', '--num_burnin_steps=0', '--num_chains=2')


def refused(folder):
  """Yields names, functions that must refuse, and what the error names.

  Args:
    folder: Of a finished run of `fault_cases.sample`.
  """
  result = tfr.load_result(folder)
  prediction = result.predict(X)
  y = prediction.mean
  for name, x in (
    ('no columns', X[:, :0]),
    ('two columns', np.ones([5, 2])),
    ('a vector', X[:, 0]),
    ('NaN', X * np.nan),
    ('masked', np.ma.masked_less(X, 0)),
    ('complex', X + 1j),
    ('text', X.astype(str)),
    ('nothing', None),
    ('no rows', X[:0]),
    ('generator', (row for row in X)),
    ('too large', X * 1e300),
    ('images', np.ones([5, 8, 8, 1])),
    ('number', 0.5),
  ):
    yield f'predict {name}', lambda x=x: result.predict(x), 'x'
  for value in (0, -1, True, 1.5, '3', None, 10**30):
    yield f'batch_size={value}', lambda v=value: result.predict(X, batch_size=v), 'batch_size'
    yield f'num_samples={value}', lambda v=value: prediction.sample(v), 'num_samples'
  for value in (-1, True, 1.5, 'a', None):
    yield f'sample seed={value}', lambda v=value: prediction.sample(2, seed=v), 'seed'
  for value in (0.0, 1.0, -0.5, np.nan, 'a', [0.5, 2.0], None, 1j):
    yield f'quantile {value}', lambda v=value: prediction.quantile(v), 'q'
  for name, value in (
    ('short', y[:2]),
    ('NaN', y * np.nan),
    ('text', y.astype(str)),
    ('complex', y + 1j),
    ('masked', np.ma.masked_less(y, 0)),
    ('nothing', None),
    ('a number', 1.5),
  ):
    yield f'evaluate {name}', lambda v=value: result.evaluate(prediction, v), 'y'
    yield f'log_prob {name}', lambda v=value: prediction.log_prob(v), 'y'
  yield 'evaluate without targets', lambda: result.evaluate(), 'y_test'
  for name in ('nothing', '', 5, None):
    yield f'r_hat {name!r}', lambda n=name: result.r_hat(n), 'name'
    yield f'ESS {name!r}', lambda n=name: result.effective_sample_size(n), 'name'
  for value in (99, -99, 1.5, 'a', None):
    yield f'weights {value}', lambda v=value: result.weights(v), 'draw'
    yield f'assign chain={value}', lambda v=value: result.assign(0, v), 'chain'
  other = tfr.models.fcn((1,), 1, width=5, depth=1)
  for name, arguments, named in (
    ('nothing', (None,), 'path'),
    ('empty', ('',), 'path'),
    ('number', (5,), 'path'),
    ('missing', ('missing',), 'missing'),
    ('a file', (folder / 'result.json',), 'result.json'),
    ('folder without a run', (folder / 'checkpoints',), 'checkpoints'),
    ('other model', (folder, other), 'model'),
    ('no model', (folder, 'model'), 'model'),
    ('other likelihood', (folder, None, tfr.likelihoods.Gaussian(0.7)), 'likelihood'),
    ('no likelihood', (folder, None, 'gaussian'), 'likelihood'),
  ):
    yield f'load_result {name}', lambda a=arguments: tfr.load_result(*a), named
  for path in (None, '', 5, folder / 'result.json', '/dev/null/run', 'a\0b'):
    yield f'save to {path}', lambda p=path: result.save(p), 'path'
  write = tfr.report.write_report
  for name, arguments, named in (
    ('no results', ([], 'a.html'), 'results'),
    ('one result, no list', (result, 'a.html'), 'results'),
    ('no result', ([5], 'a.html'), 'results'),
    ('too many names', ([result], 'a.html', ['a', 'b']), 'names'),
    ('folder', ([result], '.'), 'path'),
    ('missing folder', ([result], 'no/a.html'), 'path'),
    ('device', ([result], '/dev/null'), '/dev/null'),
    ('path of another type', ([result], 5), 'path'),
    ('empty', ([result], ''), 'path'),
  ):
    yield f'report {name}', lambda a=arguments: write(*a), named
  yield from _crafted(folder)
  yield from _foreign(folder)


def _copy(folder, name='copy'):
  shutil.rmtree(name, ignore_errors=True)
  return pathlib.Path(shutil.copytree(folder, name))


def _crafted(folder):
  """Cases of a result.json with other content, and a checksum that is right."""
  description, run = files.load_json(folder / 'result.json')

  def load(change):
    path = _copy(folder) / 'result.json'
    files.save_json(path, change(json.loads(json.dumps(description))), run)
    result = tfr.load_result(path.parent)
    result.predict(X)
    result.summary()
    tfr.report.write_report([result], 'crafted.html')

  for key, value in description.items():
    named = 'model.keras' if key == 'model' else 'result.json'
    if value is not None:  # as that of a run without warm-up
      yield f'crafted: no {key}', lambda k=key: load(lambda d: {**d, k: None}), named
    yield f'crafted: {key} is text', lambda k=key: load(lambda d: {**d, k: 'x'}), named
  yield 'crafted: other format', lambda: load(lambda d: {**d, 'format': 99}), 'result.json'
  yield 'crafted: draws of air', lambda: load(lambda d: {**d, 'draws': [7]}), 'draw-'
  bad = {'name': 'os.system', 'noise_scale': 1.0}
  yield 'crafted: likelihood', lambda: load(lambda d: {**d, 'likelihood': bad}), 'os.system'
  for text in ('', 'x', '[]', '{"x_mean": "a"}', '{"code": 1}'):
    yield f'crafted: preparation {text}', lambda t=text: load(lambda d: {**d, 'preparation': t}), ''

  def page(name):
    seconds = {'sampling': 1.0, name: 1.0}
    load(lambda d: {**d, 'settings': {**d['settings'], name: name}, 'seconds': seconds})
    text = pathlib.Path('crafted.html').read_text()
    raise tfr.errors.InputError('unescaped' if '<script' in text else 'escaped')

  yield 'crafted: script in a key', lambda: page('<script>alert(1)</script>'), 'escaped'
  yield 'crafted: end of a tag', lambda: page('"><script src=//a>'), 'escaped'


def _foreign(folder):
  """Cases of files of another run, or of another version, in the folder of a run."""
  saved, run = files.load_json(folder / 'settings.json')

  def go_on(change):
    path = _copy(folder)
    change(path)
    fault_cases.sample(path)

  def version(name):
    versions = {**saved['versions'], name: '0.0.1'}
    return lambda p: files.save_json(p / 'settings.json', {**saved, 'versions': versions}, run)

  for name in saved['versions']:
    yield f'other version of {name}', lambda n=name: go_on(version(n)), '0.0.1'
  for name, value in (('seed', 7), ('thinning', 3), ('num_chains', 5), ('step_size', 0.3)):
    fields = {**saved, name: value}
    yield (
      f'run of another {name}',
      lambda f=fields: go_on(lambda p: files.save_json(p / 'settings.json', f, run)),
      f'{name} was {value}',
    )

  def rename(pattern, change):
    path = _copy(folder)
    for file in path.glob(pattern):
      if file.suffix == '.npz':
        files.save_arrays(file, files.load_arrays(file), change)
      else:
        files.save_json(file, files.load_json(file)[0], change)
    fault_cases.outcome(tfr.load_result(path))

  for pattern in ('draws/*.npz', 'result.npz', 'result.json'):
    yield f'{pattern} of another run', lambda p=pattern: rename(p, 'other'), 'of another run'


def right(folder):
  """Yields names and functions that return what is given, and what it must be equal to."""
  expected = fault_cases.outcome(tfr.load_result(folder))

  def moved(name):
    path = _copy(folder, name)
    given = fault_cases.outcome(tfr.load_result(path))
    return _flat(given), _flat(expected)

  for name in ('moved', 'with space', 'ümläut', 'new\nline', '-dash', "quote'", '$HOME', 'x' * 200):
    yield f'a run in {name!r}', lambda n=name: moved(n)

  def linked():
    pathlib.Path('link').symlink_to(folder)
    return _flat(fault_cases.outcome(tfr.load_result('link'))), _flat(expected)

  yield 'a link to a run', linked
  for name, x in (
    ('integers', np.array([[0], [1]])),
    ('booleans', np.array([[False], [True]])),
    ('lists', [[0], [1]]),
    ('float64', np.array([[0.0], [1.0]])),
  ):
    plain = np.array([[0.0], [1.0]], np.float32)
    yield (
      f'predict {name}',
      lambda x=x, p=plain: tuple(tfr.load_result(folder).predict(v).mean for v in (x, p)),
    )


def _flat(arrays):
  return np.concatenate([np.ravel(a) for a in arrays])


def prepare_commands(main):
  """Makes the run, and files, that `commands` are about, in the working folder."""
  pathlib.Path('table.csv').write_text(_TABLE)
  pathlib.Path('broken.keras').write_bytes(b'PK\x03\x04')
  pathlib.Path('folder.csv').mkdir()
  pathlib.Path('file').write_text('x')
  np.savez('new.npz', x=np.ones([3, 3]))
  np.savez('numbers.npz', x=np.ones([3, 2]))
  for name, text in (
    ('bom.csv', '\ufeff' + _TABLE),
    ('crlf.csv', _TABLE.replace('\n', '\r\n')),
    ('quoted.csv', _TABLE.replace('red', '"red"')),
    ('less.csv', 'size\n1\n'),
    ('unknown.csv', 'size,color,kind\n1,red,c\n'),
    ('text.csv', 'size,color\nlarge,red\nsmall,red\n'),
    ('hole.csv', 'size,color\n,red\n1,red\n'),
    ('only.csv', 'size,color\n'),
  ):
    pathlib.Path(name).write_bytes(text.encode())
  code = main([*_COMMAND, '--run_dir=run'])
  if code not in (0, 3):
    raise RuntimeError(f'the run of the commands ended with {code}')


def commands():
  """Yields arguments of commands that must be refused, and what the answer names."""
  for name, named in (
    ('less.csv', 'color'),
    ('unknown.csv', 'c'),
    ('text.csv', 'size'),
    ('hole.csv', 'size'),
    ('only.csv', 'only.csv'),
    ('folder.csv', 'folder.csv'),
    ('new.npz', 'x'),
    ('numbers.npz', 'color'),
    ('missing.csv', 'missing.csv'),
    ('missing.txt', 'missing.txt'),
    ('/dev/zero', '/dev/zero'),
  ):
    yield ('predict', 'run', f'--data={name}'), named
  for output in ('a.txt', '/dev/null', 'folder.csv', 'file/a.csv', 'no/a.csv', 'a'):
    yield ('predict', 'run', '--data=table.csv', f'--output={output}'), 'output'
  for output in ('/dev/null', 'folder.csv', 'file/a.html', 'no/a.html'):
    yield ('report', 'run', f'--output={output}'), 'output'
  for run in ('file', 'folder.csv', 'run/draws', 'table.csv', 'run/result.json'):
    yield ('report', run), run
    yield ('predict', run, '--data=table.csv'), run
  for value in ('file', 'file/run', '/proc/run', '/dev/null'):
    yield (*_COMMAND, f'--run_dir={value}'), 'run_dir'
  for flag, value in (
    ('seed', 7),
    ('width', 8),
    ('thinning', 2),
    ('num_chains', 3),
    ('step_size', 0.3),
    ('noise_scale', 0.5),
    ('data', 'toy'),
    ('num_train', 9),
  ):
    yield (*_COMMAND, '--run_dir=run', f'--{flag}={value}'), 'run_dir'
  yield (*_COMMAND, '--run_dir=run', '--no-resume'), 'run_dir'
  for flag, value in (
    ('target', 'nothing'),
    ('target', ''),
    ('target', 'size:colour'),
    ('num_train', 10**6),
    ('num_test', 10**6),
    ('missing', 'guess'),
    ('subset', 'all'),
    ('model', 'missing.keras'),
    ('model', 'broken.keras'),
    ('model', 'table.csv'),
    ('model', 'cnn'),
    ('pooling', 'maximum'),
    ('patch_size', 3),
    ('strategy', 'all'),
    ('strategy', 'multiworker'),
    ('devices', 'GPU:7'),
    ('likelihood', 'gaussian '),
    ('output_scale', 'lognormal:1'),
    ('regularizer', 'none'),
    ('layer_regularizer', '1,,2'),
    ('layer_regularizer', '-1'),
    ('nothing', 1),
    ('widt', 8),
  ):
    yield (*_COMMAND, '--run_dir=new', f'--{flag}={value}'), flag
  for name in ('bom.csv:size', 'folder.csv', 'file', '/dev/stdin', '/dev/zero', '.', '/', 'a.npz'):
    yield ('sample', f'--data={name}', '--run_dir=new', '--quiet'), name
  for flag, value in (
    ('width', 10**8),
    ('num_data', 10**10),
    ('num_chains', 10**9),
    ('likelihood', 'student_t'),
  ):
    yield ('benchmark', '--num_rounds=1', f'--{flag}={value}'), flag
  for flag, value in (('scale', 'huge'), ('out', 'file'), ('out', ''), ('seed', -1)):
    yield ('figure', 'linear-map', f'--{flag}={value}'), flag
  for name in ('', 'linear map', 'all', '../linear-map'):
    yield ('figure', name), 'NAME' if not name else name
  for command in ('sample', 'warmup', 'predict', 'report', 'figure'):
    yield (command,), ''
    yield (command, '--nothing'), ''
  yield ('presets', ''), 'preset'


def accepted():
  """Yields pairs of names of files with the same table, written in other ways."""
  for name in ('bom.csv', 'crlf.csv', 'quoted.csv'):
    yield name, 'table.csv'
