"""What a result shows of itself: pictures on axes, HTML for notebooks, and a baseline."""

import copy
import functools
import re

import numpy as np
import pytest
import sampling_runs
from matplotlib import figure

import tfp_reprior as tfr
from tfp_reprior.sampling import baseline

Y_TEST = np.concatenate(
  [np.sin(3 * sampling_runs.X_TEST), np.cos(2 * sampling_runs.X_TEST)], axis=1
)


@functools.cache
def _regression():
  return sampling_runs.sample(y_test=Y_TEST)


@functools.cache
def _classes():
  return sampling_runs.sample(
    **sampling_runs.categorical(), y_test=np.array([0, 0, 2, 2]), num_burnin_steps=0
  )


def _axes():
  return figure.Figure().subplots()


def test_predictions_of_the_test_data_or_others_are_drawn():
  for result, title in ((_regression(), 'Prediction of output 1 of 2'), (_classes(), 'Probab')):
    ax = _axes()
    assert result.plot_predictions(ax=ax) is ax
    assert ax.get_title().startswith(title) and ax.get_xlabel() == 'x'
    ax = result.plot_predictions(np.linspace(-3, 3, 7)[:, np.newaxis], ax=_axes())
    assert ax.get_xlim()[1] > 3


def test_reliability_is_drawn():
  assert _regression().plot_reliability(ax=_axes()).get_ylabel() == 'observed coverage'
  assert _classes().plot_reliability(ax=_axes()).get_ylabel() == 'accuracy'
  ax = _classes().plot_reliability(sampling_runs.X[:2], [0, 1], ax=_axes())
  assert ax.get_xlabel() == 'confidence'
  with pytest.raises(ValueError, match='compares with targets'):
    _regression().plot_reliability(sampling_runs.X)


@pytest.mark.parametrize('name', ['log_likelihood', 'f', 'squared_norms'])
def test_traces_are_drawn_by_chain(name):
  result = _regression()
  ax = result.plot_trace(name, _axes())
  assert len(ax.lines) == 2
  values = np.reshape(result.trace[name], [12, 2, -1])
  slowest = np.argmin(np.atleast_1d(result.effective_sample_size(name)))
  np.testing.assert_array_equal(ax.lines[1].get_ydata(), values[:, 1, slowest])


def test_unknown_traces_and_missing_test_data_are_refused():
  with pytest.raises(ValueError, match="name='weights'"):
    _regression().plot_trace('weights')
  result = copy.copy(_regression())
  result._x_test = None
  with pytest.raises(ValueError, match='Without test data in the run give `x`'):
    result.plot_predictions()


def test_energy_is_drawn():
  ax = _regression().plot_energy(_axes())
  assert ax.get_ylabel() == 'energy' and len(ax.lines) >= 2


def test_notebooks_show_the_verdict_first_and_names_are_escaped():
  result = copy.copy(_regression())
  result.settings = result.settings | {'sampler': '<script>'}
  page = result._repr_html_()
  assert '<script>' not in page and '&lt;script&gt;' in page and len(page) < 3000
  text = re.sub('<.*?>', '', page)
  assert text.startswith(result.verdict.headline) and 'test rmse' in text


def test_baselines_do_not_look_at_inputs():
  y = sampling_runs.Y
  expected = np.sqrt(np.mean((Y_TEST - y.mean(axis=0)) ** 2))
  assert _regression().evaluate_baseline()['rmse'] == pytest.approx(expected, rel=1e-5)
  figures = _classes().evaluate_baseline()
  assert set(figures) == set(_classes().evaluate())
  assert figures['accuracy'] == 0.5  # of classes 0, 0, 2, 2, the most frequent in training is 2
  shares = np.array([4, 4, 5]) / 13
  expected = -np.mean(np.log(shares[[0, 0, 2, 2]]))
  assert figures['class_negative_log_likelihood'] == pytest.approx(expected)


def test_a_yes_or_no_has_the_frequency_of_yes_as_baseline():
  prediction = tfr.sampling.BernoulliPrediction(np.full([2, 3, 1], 0.5))
  figures = baseline.evaluate(prediction, np.array([[1], [1], [0]]), np.array([[1], [0], [1]]))
  assert figures['accuracy'] == pytest.approx(2 / 3)
