"""Misuse, damage and attacks: a part of the campaign of `scripts/faults.py`, and parsers."""

import math
import pathlib
import re
import sys

import hypothesis
import keras
import numpy as np
import pytest
import sampling_runs
import script_modules
from hypothesis import strategies as st

import tfp_reprior as tfr
from tfp_reprior.cli import predict
from tfp_reprior.data import files
from tfp_reprior.internal import parsing
from tfp_reprior.sampling import saved_models

PACKAGE = pathlib.Path(tfr.__file__).parent
SHORT = hypothesis.settings(
  max_examples=50,
  deadline=None,
  database=None,
  derandomize=True,
  suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture],
)


def test_a_part_of_the_campaign_has_no_silent_case(capsys):
  script_modules.run('faults', ['--groups=flags,arguments,files,inputs', '--every=11'])
  assert re.search(r'^\d\d cases, 0 silent', capsys.readouterr().out, re.MULTILINE)


def test_the_campaign_has_four_hundred_cases_without_damage_and_notices_silent_ones():
  faults = script_modules.load('faults')
  assert len(list(faults.all_cases({'flags', 'arguments', 'files'}, None))) > 400
  with pytest.raises(faults.Silent, match='accepted'):
    faults.check_refused(lambda: None, 'x')
  with pytest.raises(faults.Silent, match='traceback: KeyError'):
    faults.check_refused({}.popitem, 'x')
  with pytest.raises(faults.Silent, match='unnamed'):
    faults.check_refused(lambda: tfr.sampling.Settings(seed=-1), 'width')
  with pytest.raises(faults.Silent, match='exit code 0'):
    faults.check_command(['presets'], 'x')


@SHORT
@hypothesis.given(st.text(max_size=12))
def test_texts_are_numbers_only_if_everyone_reads_them_so(text):
  is_plain = re.fullmatch(r'[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?', text, re.ASCII) is not None
  assert parsing.is_finite_number(text) == (is_plain and math.isfinite(float(text)))


@SHORT
@hypothesis.given(st.floats(allow_nan=False, allow_infinity=False), st.integers(0, 2**62))
def test_numbers_come_back_from_their_texts(number, integer):
  assert parsing.number(repr(number)) == number
  assert parsing.integer(str(integer)) == integer


@SHORT
@hypothesis.given(st.binary(max_size=60))
def test_any_bytes_as_a_table_or_an_archive_are_read_or_refused(tmp_path, raw):
  for name, read in (('a.csv', files.read_csv), ('a.npz', files.read_npz)):
    (tmp_path / name).write_bytes(raw)
    try:
      read(str(tmp_path / name))
    except tfr.errors.InputError as e:
      assert name in str(e)


@SHORT
@hypothesis.given(
  st.lists(st.lists(st.floats(-1e300, 1e300), min_size=3, max_size=3), min_size=2, max_size=5)
)
def test_tables_of_numbers_come_back_as_they_are(tmp_path, rows):
  lines = ['a,b,c', *(','.join(repr(v + 0.5) for v in row) for row in rows)]
  (tmp_path / 'a.csv').write_text('\n'.join(lines))
  raw = files.read_csv(str(tmp_path / 'a.csv'), 'c:real')
  np.testing.assert_array_equal(raw.y[:, 0], [row[2] + 0.5 for row in rows])
  np.testing.assert_array_equal(raw.x.columns['a'], [row[0] + 0.5 for row in rows])


def test_nothing_in_the_package_unpickles_or_runs_text():
  pattern = r'\b(pickle\.loads?|joblib\.load|allow_pickle=True|yaml\.load|safe_mode=False)\b'
  for path in PACKAGE.rglob('*.py'):
    source = path.read_text()
    assert not re.search(pattern, source), path
    assert not re.search(r'(?<![\w.])(eval|exec)\(', source), path


def test_pickles_are_not_loaded(tmp_path):
  class Attack:
    def __reduce__(self):
      return pathlib.Path.touch, (tmp_path / 'attacked',)

  np.savez(tmp_path / 'a.npz', x=np.array([Attack()], object), y=np.zeros(1))
  with pytest.raises(tfr.errors.InputError, match='a.npz must be a .npz file of arrays'):
    tfr.data.load(tmp_path / 'a.npz')
  assert not (tmp_path / 'attacked').exists()


def test_names_of_data_sets_lead_to_no_other_place():
  for name in ('huggingface:mnist', 'kaggle:a/b', '../mnist', 'gs://a/b'):
    with pytest.raises(tfr.errors.InputError, match=f'Received: name={name!r}'):
      tfr.data.load(name)


def test_texts_that_would_be_formulas_are_quoted_in_tables(tmp_path):
  names = np.array(['=HYPERLINK("http://a")', '-1', '@x'])
  arrays = {
    'label': names,
    'class_names': names,
    'class_probabilities': np.eye(3),
    'probability_stddev': np.zeros([3, 3]),
  }
  predict.write_table(tmp_path / 'a.csv', arrays, {})
  _, *lines = (tmp_path / 'a.csv').read_text().splitlines()
  assert [line.split(',')[0] for line in lines] == ['"\'=HYPERLINK(""http://a"")"', '-1', "'@x"]


def test_layers_that_cannot_be_loaded_again_are_told_before_a_run():
  class Mine(keras.layers.Dense):
    pass

  inner = keras.Sequential([keras.Input((3,)), Mine(2)])
  model = keras.Sequential([keras.Input((3,)), inner, keras.layers.Lambda(lambda x: x)])
  with pytest.warns(UserWarning) as caught:
    saved_models.warn_of_layers(model)
  first, second = (str(w.message) for w in caught)
  assert 'Mine is not registered' in first and '`load_result` will need it' in first
  assert 'a Lambda is code' in second
  saved_models.warn_of_layers(sampling_runs.make_model())  # no warning


def test_another_backend_of_keras_is_refused_with_a_sentence(monkeypatch):
  monkeypatch.setenv('KERAS_BACKEND', 'jax')
  monkeypatch.delitem(sys.modules, 'tfp_reprior.internal.backend')
  with pytest.raises(tfr.errors.InputError, match="KERAS_BACKEND=tensorflow .*the backend 'jax'"):
    __import__('tfp_reprior.internal.backend')


@pytest.mark.parametrize('seeds', [(0, 2**32), (1, 2**40 + 1), (5, 2**63 - 1)])
def test_seeds_do_not_repeat(seeds):
  projections = [tfr.diagnostics.RandomProjections([(4,)], 2, seed)([[1.0] * 4]) for seed in seeds]
  assert not np.any(np.equal(*projections))
