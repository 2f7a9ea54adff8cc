"""What a person sees of a run, and Ctrl-C."""

import signal

import numpy as np
import pytest
import tensorflow as tf

import tfp_reprior as tfr
from tfp_reprior.internal import interrupts
from tfp_reprior.sampling import progress


def _scalars(folder):
  """The events in a folder: tag -> step -> value."""
  scalars = {}
  for path in sorted(folder.glob('events.*')):
    for record in tf.data.TFRecordDataset(str(path)):
      event = tf.compat.v1.Event.FromString(record.numpy())
      for value in event.summary.value:
        scalars.setdefault(value.tag, {})[event.step] = float(tf.make_ndarray(value.tensor))
        assert value.metadata.plugin_data.plugin_name in ('scalars', '')  # once for each tag
  return scalars


def _traces(lengths):
  rng = np.random.default_rng(0)
  return [
    {
      'acceptance': rng.uniform(size=(s, 2)),
      'log_prob': rng.normal(size=(s, 2)),
      'theta': rng.normal(size=(s, 2, 3)),
    }
    for s in lengths
  ]


def test_scalars_for_tensorboard_can_be_read_back(tmp_path):
  traces = _traces([4, 6, 10])
  shown = progress.Progress('sampling', 60, is_shown=False, folder=tmp_path)
  for trace in traces:
    shown.update(3 * len(trace['theta']), trace)
  shown.close()
  scalars = _scalars(tmp_path)
  names = ('acceptance', 'log_prob', 'min ESS', 'max R-hat')
  assert set(scalars) == {f'sampling/{name}' for name in names}
  for name in ('acceptance', 'log_prob'):
    values = scalars[f'sampling/{name}']
    assert sorted(values) == [12, 30, 60]  # steps of a chain
    np.testing.assert_allclose(
      [values[s] for s in (12, 30, 60)], [np.mean(t[name]) for t in traces], rtol=1e-6
    )
  # Of all draws so far, from eight on.
  draws = np.concatenate([t['theta'] for t in traces])
  running = tfr.diagnostics.RunningDiagnostics()
  running.update(draws)
  assert sorted(scalars['sampling/min ESS']) == [30, 60]
  expected = np.min(running.effective_sample_size())
  assert scalars['sampling/min ESS'][60] == pytest.approx(expected, rel=1e-5)
  assert scalars['sampling/max R-hat'][60] == pytest.approx(np.max(running.r_hat()), rel=1e-5)


def test_the_bar_goes_on_from_what_was_done(capsys):
  shown = progress.Progress('warm-up', 100, num_done=40)
  shown.describe('settling')
  shown.update(60, _traces([4])[0])
  shown.close()
  error = capsys.readouterr().err
  assert 'warm-up (settling)' in error and '40/100' in error and '100/100' in error
  assert 'acceptance=' in error


def test_a_hidden_bar_prints_nothing(capsys):
  shown = progress.Progress('warm-up', 100, is_shown=False)
  shown.update(60, _traces([4])[0])
  shown.close()
  assert capsys.readouterr() == ('', '')


@pytest.mark.parametrize('name', ['SIGINT', 'SIGTERM', 'SIGHUP'])
def test_the_first_signal_is_noted_and_the_second_is_as_usual(name, monkeypatch):
  number, received = getattr(signal, name), []
  before = signal.signal(number, lambda *_: received.append(number))
  try:
    with interrupts.Interrupts() as interrupt:
      assert not interrupt.is_set
      signal.raise_signal(number)
      assert interrupt.is_set and not received
      signal.raise_signal(number)
      assert received == [number]
    assert interrupts.exit_code() == 128 + number
  finally:
    signal.signal(number, before)


def test_signals_that_are_ignored_stay_ignored():
  before = signal.signal(signal.SIGINT, signal.SIG_IGN)
  try:
    with interrupts.Interrupts() as interrupt:
      signal.raise_signal(signal.SIGINT)
    assert not interrupt.is_set and signal.getsignal(signal.SIGINT) is signal.SIG_IGN
  finally:
    signal.signal(signal.SIGINT, before)


def test_a_handler_of_the_caller_comes_back():
  def handler(*_):
    pass

  before = signal.signal(signal.SIGINT, handler)
  try:
    with interrupts.Interrupts() as interrupt:
      assert signal.getsignal(signal.SIGINT) is not handler
    assert signal.getsignal(signal.SIGINT) is handler and not interrupt.is_set
  finally:
    signal.signal(signal.SIGINT, before)


def test_files_get_few_lines(capsys):
  shown = progress.Progress('sampling', 1000)
  for _ in range(1000):
    shown.update(1, {})
  shown.close()
  assert capsys.readouterr().err.count('\r') <= 4  # at the beginning and at the end
