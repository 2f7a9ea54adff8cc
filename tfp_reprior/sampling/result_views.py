"""What a result shows of itself: pictures on axes of matplotlib, and a summary for notebooks."""

import html
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tfp_reprior import errors
from tfp_reprior.diagnostics import verdict as verdict_lib
from tfp_reprior.internal import checks
from tfp_reprior.plots import mixing, of_results, pictures
from tfp_reprior.sampling import baseline

_TONES = {'good': '#00664a', 'unsure': '#855300', 'failed': '#b3261e'}


class Views:
  """Methods of `Result` that draw what the page draws, and its HTML for notebooks."""

  def plot_predictions(
    self: Any, x: ArrayLike | None = None, y: ArrayLike | None = None, ax: Any = None
  ) -> Any:
    """Draws predictions: what the page shows first.

    Of one input, bands or probabilities against it; else what was predicted against what was
    observed, or which class is taken for which.

    Args:
      x: Inputs `[m, ...]` in the units of the training inputs; by default those of the test data.
      y: Their targets; by default those of the test data, if `x` is not given.
      ax: The axes of matplotlib to draw on; by default those of a new figure.

    Returns:
      The axes.

    #### Examples

    ```python
    import numpy as np
    import tfp_reprior as tfr

    x = np.linspace(-1, 1, 10, dtype=np.float32)[:, np.newaxis]
    y = np.sin(3 * x)
    model = tfr.models.fcn((1,), 1, width=16, depth=1)
    settings = dict(num_chains=2, num_results=20, num_burnin_steps=0, step_size=0.1)
    result = tfr.sample_posterior(model, x, y, x_test=x, y_test=y, **settings, progress=False)
    result.plot_predictions().figure.savefig('predictions.png')
    result.plot_predictions(np.linspace(-3, 3, 50)[:, np.newaxis])  # where there are no data
    result.plot_reliability()
    result.plot_trace()
    result.plot_trace('noise_scale')
    result.plot_energy()
    ```
    """
    if x is None:
      x, y, prediction = self.x_test, self.y_test, self._need_test_prediction()
    else:
      x, prediction = np.asarray(x), self.predict(x)
      y = None if y is None else self._observed(y)
    return pictures.show(of_results.prediction(self, x, prediction, y), ax)

  def plot_reliability(
    self: Any, x: ArrayLike | None = None, y: ArrayLike | None = None, ax: Any = None
  ) -> Any:
    """Draws whether predictions are right as often as they say.

    For classes accuracy against confidence, for real targets the coverage of intervals.

    Args:
      x: As of `plot_predictions`.
      y: As of `plot_predictions`; if `x` is given, `y` has to be.
      ax: As of `plot_predictions`.

    Returns:
      The axes.
    """
    prediction = self._need_test_prediction() if x is None else self.predict(x)
    y = self.y_test if x is None else y
    if y is None:
      raise errors.InputError('`plot_reliability` compares with targets. Received: y=None')
    y = y if x is None else self._observed(y)
    return pictures.show(of_results.reliability(prediction, y), ax)

  def plot_trace(self: Any, name: str = 'log_likelihood', ax: Any = None) -> Any:
    """Draws a quantity over the steps of every chain; chains at fault in red.

    Args:
      name: A name of `trace`; of several numbers, as of projections, the slowest one is drawn.
      ax: As of `plot_predictions`.

    Returns:
      The axes.
    """
    checks.one_of('name', name, tuple(self.trace))
    values = np.asarray(self.trace[name])
    values = values.reshape([*values.shape[:2], -1])
    slowest = int(np.argmin(np.nan_to_num(np.atleast_1d(self.effective_sample_size(name)))))
    what = verdict_lib.NAMES.get(name, name)
    what = what if values.shape[2] == 1 else f'{what}, slowest'
    guilty = self.verdict.guilty_chains
    picture = mixing.trace(what, values[..., slowest], self.settings['thinning'], guilty)
    return pictures.show(picture, ax)

  def plot_energy(self: Any, ax: Any = None) -> Any:
    """Draws the energy of every chain, warm-up included: what settles last shows here.

    Args:
      ax: As of `plot_predictions`.

    Returns:
      The axes.
    """
    return pictures.show(mixing.energy(self), ax)

  def _need_test_prediction(self: Any):
    if self.x_test is None:
      raise errors.InputError('Without test data in the run give `x`. Received: x=None')
    return self.test_prediction

  def _test_figures(self: Any) -> list[tuple[str, str]]:
    """Pairs of a name and text: the figures of the test data, if any, each with the baseline."""
    if self.y_test is None or not len(self.draws):
      return []
    name, simple = baseline.name(self.test_prediction, self.y_test), self.evaluate_baseline()
    return [
      (f'test {key.replace("_", " ")}', f'{value:.4g} ({name}: {simple[key]:.4g})')
      for key, value in self.evaluate().items()
    ]

  def _repr_html_(self: Any) -> str:
    """A few lines for notebooks, the verdict first."""
    verdict = self.verdict
    rows = [
      ('run', f'{self.num_chains} chains of {self.num_draws:,} draws, {self.settings["sampler"]}')
    ]
    known = {n: m for n, m in verdict.mixing.items() if np.isfinite(m.bulk_ess)}
    if known:
      worst, fewest = max(m.r_hat for m in known.values()), min(m.bulk_ess for m in known.values())
      rows.append(('largest R-hat, smallest ESS', f'{worst:.3f}, {fewest:,.0f}'))
    rows += self._test_figures()
    cells = ''.join(
      f'<tr><th style="text-align:left">{html.escape(a)}</th>'
      f'<td style="text-align:left">{html.escape(b)}</td></tr>'
      for a, b in rows
    )
    reasons = ' '.join([*(r.text for r in verdict.reasons), *verdict.advice])
    tone = _TONES[verdict.level]
    return (
      f'<div><p style="border-left:4px solid {tone};padding-left:8px"><b style="color:{tone}">'
      f'{html.escape(verdict.headline)}</b> {html.escape(reasons)}</p>'
      f'<p>{html.escape(repr(self.posterior))}</p><table>{cells}</table></div>'
    )
