"""Runs that are stopped, in every way, and go on to the same numbers, bit for bit."""

import contextlib
import functools
import itertools
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import time
import types
import warnings

import numpy as np
import pytest
import sampling_runs
import toys

import tfp_reprior as tfr
from tfp_reprior.internal import files
from tfp_reprior.sampling import checkpoints, draws, progress, result

# Bit for bit also after the rewriting of graphs, of which a process that goes on makes new ones.
pytestmark = pytest.mark.optimized

ALWAYS, NEVER = 1e-9, 1e9  # seconds between checkpoints
# Burn-in is two pieces of one draw; sampling is pieces of one, two, three, three and three.
IN_BURNIN, FIRST_DRAW, LATER = 1, 3, 5


@contextlib.contextmanager
def _after_update(number, act):
  """Calls `act` when progress was shown for the `number`-th time, before anything is saved."""
  update, calls = progress.Progress.update, itertools.count(1)

  def update_and_act(self, *arguments):
    update(self, *arguments)
    if next(calls) == number:
      act()

  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(progress.Progress, 'update', update_and_act)
    yield


@contextlib.contextmanager
def _warnings(pattern):
  """Checks that there are warnings, and what all of them say; yields them.

  Not `pytest.warns`, which forgets which warnings of other packages are to be ignored.
  """
  with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter('always', UserWarning)
    warnings.simplefilter('ignore', tfr.diagnostics.SamplingWarning)  # of runs as short as these
    yield caught
  assert caught and all(re.search(pattern, str(w.message)) for w in caught)


WARMED = dict(step_size=None, num_warmup_steps=200, num_burnin_steps=0, num_results=6)


class _Crash(Exception):
  pass


def _crash():
  raise _Crash


def _run_until(number, run_dir, checkpoint_seconds=ALWAYS, **changes):
  with _after_update(number, _crash), pytest.raises(_Crash):
    sampling_runs.sample(run_dir=run_dir, checkpoint_seconds=checkpoint_seconds, **changes)


@pytest.fixture(scope='module')
def reference():
  return sampling_runs.reference()


@pytest.fixture(scope='module')
def finished(tmp_path_factory):
  """The folder of a finished run; not to be changed."""
  folder = tmp_path_factory.mktemp('finished')
  sampling_runs.sample(run_dir=folder)
  return folder


@pytest.mark.parametrize('number', [IN_BURNIN, IN_BURNIN + 1, FIRST_DRAW, LATER])
@pytest.mark.parametrize('checkpoint_seconds', [ALWAYS, NEVER])
def test_a_run_that_crashed_goes_on_as_if_it_had_not(
  number, checkpoint_seconds, tmp_path, reference
):
  _run_until(number, tmp_path, checkpoint_seconds)
  resumed = sampling_runs.sample(run_dir=tmp_path)
  sampling_runs.assert_same(resumed, reference)
  assert resumed.draws.numbers == [2, 5, 8, 11]


def test_a_run_on_classes_that_crashed_goes_on_as_if_it_had_not(tmp_path):
  settings = dict(sampling_runs.categorical(), num_burnin_steps=0)
  expected = sampling_runs.sample(**settings, num_kept_draws=12)
  _run_until(3, tmp_path, **settings)
  resumed = sampling_runs.sample(run_dir=tmp_path, **settings)
  sampling_runs.assert_same(resumed, expected)
  np.testing.assert_array_equal(resumed.test_prediction.mean, expected.test_prediction.mean)


def test_a_run_that_crashed_again_and_again_comes_to_its_end(tmp_path, reference):
  for _ in range(4):
    _run_until(2, tmp_path)  # a piece further each time
  resumed = sampling_runs.sample(run_dir=tmp_path)
  sampling_runs.assert_same(resumed, reference)
  np.testing.assert_array_equal(resumed.test_prediction.mean, reference.test_prediction.mean)


_CHILD = """
import gc, sys, time
gc.disable()  # it ends soon
sys.path.insert(0, sys.argv[2])
import sampling_runs
from tfp_reprior.sampling import progress

update = progress.Progress.update

def slow_update(self, *arguments):
  update(self, *arguments)
  time.sleep(0.05)

progress.Progress.update = slow_update
sampling_runs.sample(
  run_dir=sys.argv[1], num_results=60, num_kept_draws=60, checkpoint_seconds=1e-9
)
"""


def _wait_for(condition, seconds):
  end = time.monotonic() + seconds
  while not condition():
    assert time.monotonic() < end, 'waited too long'
    time.sleep(0.005)


def test_a_run_that_was_killed_goes_on_as_if_it_had_not(tmp_path):
  run_dir, log = tmp_path / 'run', tmp_path / 'log'
  tests = str(pathlib.Path(sampling_runs.__file__).parent)
  store = checkpoints.CheckpointStore(run_dir / 'checkpoints')
  with open(log, 'w') as output:
    child = subprocess.Popen(
      [sys.executable, '-c', _CHILD, str(run_dir), tests], stdout=output, stderr=output
    )
  try:
    # Past burn-in, which has two draws; it writes sixty times, over three seconds and more.
    _wait_for(lambda: max(store.numbers(), default=0) > 2 or child.poll() is not None, 300)
    time.sleep(random.uniform(0.0, 1.0))
    assert child.poll() is None, f'it ended by itself:\n{log.read_text()}'
  finally:
    child.kill()  # SIGKILL, which nothing can catch
    child.wait(timeout=30)
  assert not (run_dir / 'result.npz').exists()
  assert 2 < max(store.numbers()) < 62
  resumed = sampling_runs.sample(run_dir=run_dir, num_results=60, num_kept_draws=60)
  sampling_runs.assert_same(resumed, sampling_runs.reference(60))
  assert resumed.num_draws == len(resumed.draws) == 60


def test_a_finished_run_takes_no_more_steps(finished, reference):
  with _after_update(1, lambda: pytest.fail('a step was taken')):
    sampling_runs.assert_same(sampling_runs.sample(run_dir=finished), reference)


@functools.cache
def _warmed():
  """A run that warms up, without a folder."""
  return sampling_runs.sample(**WARMED)


@pytest.mark.parametrize('number', [1, 3, 9, 14])
def test_a_warm_up_that_crashed_goes_on_bit_for_bit(number, tmp_path):
  settings = dict(WARMED, run_dir=tmp_path, checkpoint_seconds=ALWAYS)
  with _after_update(number, _crash), pytest.raises(_Crash):
    sampling_runs.sample(**settings)
  with _after_update(number, _crash):  # and once more, further on
    with contextlib.suppress(_Crash):
      sampling_runs.sample(**settings)
  resumed = sampling_runs.sample(**settings)
  sampling_runs.assert_same(resumed, _warmed())
  assert resumed.warmup.table() == _warmed().warmup.table()


def test_more_results_go_on_with_a_finished_run(tmp_path, reference):
  short = sampling_runs.sample(run_dir=tmp_path, num_results=5)
  assert short.is_complete and short.num_draws == 5
  extended = sampling_runs.sample(run_dir=tmp_path, num_results=12)
  sampling_runs.assert_same(extended, reference)
  assert extended.draws.numbers == [1, 3, 5, 7, 9, 11]  # spread as the first call decided
  assert extended.settings['num_results'] == 12
  sampling_runs.assert_same(tfr.load_result(tmp_path), reference)


def test_more_results_do_not_change_burnin_or_keep_draws_that_nobody_wants(tmp_path):
  changes = dict(run_dir=tmp_path, num_burnin_steps=None, num_kept_draws=0)
  sampling_runs.sample(num_results=5, **changes)
  extended = sampling_runs.sample(num_results=12, **changes)
  assert len(extended.warmup_trace['energy']) == 2  # a fifth of the first ten steps
  assert extended.settings['num_burnin_steps'] == 2
  assert extended.num_draws == 12 and len(extended.draws) == 0


@pytest.mark.parametrize(
  'changes, difference',
  [
    (dict(step_size=0.5), 'step_size was 0.4 and is 0.5'),
    (dict(damping=0.5), 'damping was None and is 0.5'),
    (dict(num_stages=3), 'num_stages was None and is 3'),
    (dict(seed=7), 'seed was 1 and is 7'),
    (dict(thinning=3), 'thinning was 2 and is 3'),
    (dict(num_chains=3), 'num_chains was 2 and is 3'),
    (dict(num_burnin_steps=6), 'num_burnin_steps was 2 and is 6'),
    (dict(sampler='langevin'), "sampler was 'rotation' and is 'langevin'"),
    (dict(noise_scale=0.3), 'noise_scale was 0.2 and is 0.3'),
    (dict(regularizer='n*noise'), "regularizer was 'noise' and is 'n\\*noise'"),
    (sampling_runs.bernoulli(), r'likelihood was .Gaussian\(.* and is .Bernoulli\('),
    (dict(x=sampling_runs.X + 1e-6), r"x was '\(10, 1\) float32 .*' and is '\(10, 1\) float32"),
    (dict(y=sampling_runs.Y[::-1]), r"y was '\(10, 2\) float32 .*' and is"),
    (dict(x_test=None), r"x_test was '\(4, 1\) float32 .*' and is None"),
    (
      dict(model=tfr.models.fcn((1,), 2, width=9, depth=1)),
      r'shapes of the weights was \[\[1, 8\].* and is \[\[1, 9\]',
    ),
    (
      dict(model=sampling_runs.make_model('relu')),
      'outputs of the model for the first inputs was .* and is',
    ),
    (
      dict(model=tfr.models.fcn((1,), 2, width=8, depth=1, bias_std=0.2)),
      'outputs of the model for the first inputs was .* and is',
    ),
  ],
)
def test_a_folder_with_another_run_is_refused_and_the_difference_named(
  changes, difference, finished
):
  before = (finished / 'settings.json').read_text()
  with pytest.raises(ValueError, match=f'`run_dir` holds a run of something else: .*{difference}'):
    sampling_runs.sample(run_dir=finished, **changes)
  assert (finished / 'settings.json').read_text() == before


def test_names_of_layers_make_no_other_run(tmp_path, reference):
  def rebuilt():
    layers = tfr.layers.NTKDense(8, 2**0.5, 0.1, 'gelu'), tfr.layers.NTKDense(2, 1.0, 0.1)
    return toys.functional((1,), *layers)

  first, second = rebuilt(), rebuilt()
  assert first.name != second.name and first.layers[1].name != second.layers[1].name
  sampling_runs.sample(first, run_dir=tmp_path, num_results=5)
  resumed = sampling_runs.sample(second, run_dir=tmp_path)
  np.testing.assert_array_equal(resumed.trace['theta'], reference.trace['theta'])


def test_a_folder_that_holds_a_run_is_refused_without_resume(finished, tmp_path):
  with pytest.raises(ValueError, match='`run_dir` holds a run already.*resume=False'):
    sampling_runs.sample(run_dir=finished, resume=False)
  new = sampling_runs.sample(run_dir=tmp_path / 'new', resume=False, num_results=1)
  assert new.is_complete


def _truncate(raw):
  return raw[: len(raw) // 2]


def _flip(raw):
  middle = len(raw) // 2
  return raw[:middle] + bytes([raw[middle] ^ 0x10]) + raw[middle + 1 :]


@pytest.mark.parametrize('damage', [_truncate, _flip, lambda raw: b''])
def test_a_damaged_checkpoint_falls_back_to_the_one_before(damage, tmp_path, reference):
  _run_until(LATER + 1, tmp_path)
  paths = sorted((tmp_path / 'checkpoints').glob('*.npz'))
  assert len(paths) == 3
  paths[-1].write_bytes(damage(paths[-1].read_bytes()))
  with _warnings(f'{paths[-1].name} is damaged'):
    resumed = sampling_runs.sample(run_dir=tmp_path)
  sampling_runs.assert_same(resumed, reference)


@pytest.mark.parametrize('name', ['draws/draw-0000000002.npz', 'checkpoints/trace-sampling.bin'])
@pytest.mark.parametrize('damage', [_truncate, None])
def test_damaged_and_missing_draws_and_traces_are_made_again(name, damage, tmp_path, reference):
  sampling_runs.sample(run_dir=tmp_path)
  expected = (tmp_path / name).read_bytes()
  if damage is None:
    (tmp_path / name).unlink()
  else:
    (tmp_path / name).write_bytes(damage(expected))
  (tmp_path / 'draws' / 'draw-0000000005.npz.tmp7').write_text('of a process that was killed')
  (tmp_path / 'notes.tmp').write_text('of the user')
  if name.startswith('draws'):
    with pytest.raises(tfr.errors.InputError, match='draw-0000000002.npz is (damaged|missing)'):
      tfr.load_result(tmp_path).predict(sampling_runs.X)
  with _warnings('is damaged|is missing|cannot be read'):
    resumed = sampling_runs.sample(run_dir=tmp_path)
  sampling_runs.assert_same(resumed, reference)
  assert (tmp_path / name).read_bytes() == expected
  assert [path.name for path in tmp_path.rglob('*.tmp*')] == ['notes.tmp']
  sampling_runs.assert_same(tfr.load_result(tmp_path), reference)


def test_draws_of_another_run_and_other_results_are_refused(finished, tmp_path):
  for other, changes in (('same', {}), ('other', dict(num_burnin_steps=4))):
    sampling_runs.sample(run_dir=tmp_path / other, **changes)
  shutil.copytree(finished, tmp_path / 'run')
  draw = pathlib.Path('draws') / 'draw-0000000002.npz'
  shutil.copy(tmp_path / 'same' / draw, tmp_path / 'run' / draw)  # the same numbers: no harm
  tfr.load_result(tmp_path / 'run').predict(sampling_runs.X)
  shutil.copy(tmp_path / 'other' / draw, tmp_path / 'run' / draw)
  with pytest.raises(tfr.errors.InputError, match='draw-0000000002.npz is of another run'):
    tfr.load_result(tmp_path / 'run').predict(sampling_runs.X)
  for name, message in (('result.npz', 'of another run'), ('model.keras', 'not the model of this')):
    shutil.copytree(finished, tmp_path / 'run', dirs_exist_ok=True)
    shutil.copy(tmp_path / 'other' / name, tmp_path / 'run' / name)
    with pytest.raises(tfr.errors.InputError, match=f'{name} is .*{message}'):
      tfr.load_result(tmp_path / 'run')


def test_if_all_checkpoints_are_damaged_the_run_begins_anew(tmp_path, reference):
  _run_until(LATER + 1, tmp_path)
  for path in (tmp_path / 'checkpoints').glob('*.npz'):
    path.write_bytes(_truncate(path.read_bytes()))
  with _warnings('is damaged') as caught:
    _run_until(LATER, tmp_path)  # and it is saved anew, for the next time
  assert len(caught) == 3
  with _after_update(LATER, lambda: pytest.fail('began anew once more')):
    resumed = sampling_runs.sample(run_dir=tmp_path)
  sampling_runs.assert_same(resumed, reference)


def test_folders_without_access_or_room_are_refused_before_sampling(tmp_path, monkeypatch):
  (tmp_path / 'file').write_text('')
  with _after_update(1, lambda: pytest.fail('a step was taken')):
    for path in (tmp_path / 'file', '/dev/null/x'):
      with pytest.raises(ValueError, match='`run_dir` must be a folder that can be written to'):
        sampling_runs.sample(run_dir=path)
    with pytest.MonkeyPatch.context() as patch:
      patch.setattr(files, 'save_json', _no_space)
      with pytest.raises(ValueError, match='run_dir.* can be written to .No space left on device'):
        sampling_runs.sample(run_dir=tmp_path / 'full')
    monkeypatch.setattr(shutil, 'disk_usage', lambda _: types.SimpleNamespace(free=1000))
    with pytest.raises(ValueError, match='`run_dir` must have room for checkpoints'):
      sampling_runs.sample(run_dir=tmp_path / 'new' / 'run')
    assert not (tmp_path / 'new').exists()


def _no_space(*_):
  raise OSError(28, 'No space left on device')


@contextlib.contextmanager
def _full_disk(owner, name):
  """Every second call of a method that writes fails."""
  write, calls = getattr(owner, name), itertools.count()

  def fail_sometimes(*arguments):
    return _no_space() if next(calls) % 2 else write(*arguments)

  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(owner, name, fail_sometimes)
    yield


def test_a_checkpoint_that_cannot_be_written_does_not_end_the_run(tmp_path, reference):
  with _full_disk(checkpoints.CheckpointStore, 'save'):
    with _warnings('Could not write to .*No space left.*going on without'):
      completed = sampling_runs.sample(run_dir=tmp_path, checkpoint_seconds=ALWAYS)
  sampling_runs.assert_same(completed, reference)
  sampling_runs.assert_same(tfr.load_result(tmp_path), reference)


def test_draws_that_cannot_be_written_are_left_out(tmp_path, reference):
  with _full_disk(draws.Draws, 'add'):
    with _warnings('Could not write to'):
      completed = sampling_runs.sample(run_dir=tmp_path)
  sampling_runs.assert_same(completed, reference)
  assert completed.draws.numbers == [2, 8]


def test_a_result_that_cannot_be_written_is_an_error_that_has_it(tmp_path, reference):
  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(result.Result, 'save', _no_space)
    with pytest.raises(tfr.errors.RunError, match='could not be saved .No space left') as error:
      sampling_runs.sample(run_dir=tmp_path)
  sampling_runs.assert_same(error.value.result, reference)
  sampling_runs.assert_same(sampling_runs.sample(run_dir=tmp_path), reference)


def _press_ctrl_c():
  os.kill(os.getpid(), signal.SIGINT)


def test_ctrl_c_ends_with_what_there_is_and_the_same_call_goes_on(tmp_path, reference):
  handler = signal.getsignal(signal.SIGINT)
  with _after_update(LATER, _press_ctrl_c):
    stopped = sampling_runs.sample(run_dir=tmp_path, checkpoint_seconds=NEVER)
  assert signal.getsignal(signal.SIGINT) is handler
  assert not stopped.is_complete and stopped.num_draws == 6
  np.testing.assert_array_equal(stopped.trace['theta'], reference.trace['theta'][:6])
  assert stopped.predict(sampling_runs.X).mean.shape == (10, 2)
  assert '(interrupted)' in stopped.summary()
  loaded = tfr.load_result(tmp_path)
  assert not loaded.is_complete and loaded.num_draws == 6
  # Six draws are left, in pieces of one, two and three.
  with _after_update(4, lambda: pytest.fail('what was saved was made anew')):
    completed = sampling_runs.sample(run_dir=tmp_path, checkpoint_seconds=NEVER)
  sampling_runs.assert_same(completed, reference)
  assert tfr.load_result(tmp_path).is_complete


def test_ctrl_c_between_draws_is_answered_and_goes_on_bit_for_bit(tmp_path):
  settings = dict(thinning=40, num_results=3, num_kept_draws=3, num_burnin_steps=0)
  expected = sampling_runs.sample(**settings)
  for number in (1, 2, 4):  # pieces have 10 steps, 20 and 10
    with _after_update(number, _press_ctrl_c), contextlib.suppress(KeyboardInterrupt):
      sampling_runs.sample(run_dir=tmp_path, checkpoint_seconds=NEVER, **settings)
  resumed = sampling_runs.sample(run_dir=tmp_path, **settings)
  for name, values in expected.trace.items():
    np.testing.assert_array_equal(resumed.trace[name], values)


def test_ctrl_c_works_without_a_folder(reference):
  with _after_update(LATER, _press_ctrl_c):
    stopped = sampling_runs.sample()
  assert not stopped.is_complete and stopped.num_draws == 6
  np.testing.assert_array_equal(stopped.trace['f'], reference.trace['f'][:6])


def test_ctrl_c_in_burnin_raises_and_keeps_the_checkpoint(tmp_path, reference):
  handler = signal.getsignal(signal.SIGINT)
  with _after_update(IN_BURNIN, _press_ctrl_c):
    with pytest.raises(KeyboardInterrupt, match='interrupted before the first draw'):
      sampling_runs.sample(run_dir=tmp_path, checkpoint_seconds=NEVER)
  assert signal.getsignal(signal.SIGINT) is handler
  assert checkpoints.CheckpointStore(tmp_path / 'checkpoints').numbers() == [1]
  sampling_runs.assert_same(sampling_runs.sample(run_dir=tmp_path), reference)


def test_a_second_ctrl_c_ends_at_once(tmp_path, reference):
  def press_twice():
    _press_ctrl_c()
    _press_ctrl_c()

  handler = signal.getsignal(signal.SIGINT)
  with _after_update(LATER, press_twice), pytest.raises(KeyboardInterrupt):
    sampling_runs.sample(run_dir=tmp_path, checkpoint_seconds=ALWAYS)
  assert signal.getsignal(signal.SIGINT) is handler
  sampling_runs.assert_same(sampling_runs.sample(run_dir=tmp_path), reference)


def test_a_folder_in_use_is_refused(tmp_path):
  code = 'import sys; from tfp_reprior.internal import files\n'
  code += 'with files.held(sys.argv[1]): print("held", flush=True); input()'
  command = [sys.executable, '-c', code, str(tmp_path)]
  with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
    assert b'held' in other.stdout.readline()
    with pytest.raises(ValueError, match='`run_dir` is in use.*Received: run_dir='):
      sampling_runs.sample(run_dir=tmp_path, num_results=1)
    assert not list(tmp_path.iterdir())
    other.kill()  # which lets go
  assert sampling_runs.sample(run_dir=tmp_path, num_results=1)
