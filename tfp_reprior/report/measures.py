"""What the report says of a run, as numbers."""

import functools

import numpy as np

from tfp_reprior.diagnostics import metrics, verdict
from tfp_reprior.sampling import baseline

# What is drawn; all of `verdict.NAMES` is in tables.
DRAWN = ('hidden', 'theta', 'f', *verdict.PARAMETERS, 'log_likelihood')
METRICS = {
  'rmse': 'RMSE',
  'coverage_90': 'coverage of 90 % intervals',
  'negative_log_likelihood': 'negative log likelihood',
}


def _named(figures):
  return {METRICS.get(n, n.replace('_', ' ')): value for n, value in figures.items()}


def ess_names(unit, name, size):
  """What the median and the smallest of `size` effective sample sizes are called; one has one."""
  what = f'ESS per {unit}, {verdict.NAMES[name]}'
  return (f'{what}, median', f'{what}, smallest') if size > 1 else (what,)


class Run:
  """A result with a label, and the figures that several parts of the page share.

  Args:
    result: A `tfp_reprior.sampling.Result`.
    label: What the page calls it.

  Attributes:
    names: List of the quantities to draw, of those that were judged. The weights are drawn by the
      hidden ones, if there are any: the readout may be drawn anew each time, and would hide them.
  """

  def __init__(self, result, label):
    self.result = result
    self.label = label
    known = [n for n in DRAWN if n in self.verdict.mixing]
    self.names = [n for n in known if n != 'theta' or 'hidden' not in known]

  @property
  def verdict(self):
    """The `tfp_reprior.diagnostics.Verdict`."""
    return self.result.verdict

  @property
  def is_failed(self):
    return self.verdict.level == 'failed'

  def draws(self, name):
    """The trace of a quantity, `[s, c, r]`, also if it is one number."""
    values = np.asarray(self.result.trace[name])
    return values.reshape([*values.shape[:2], -1])

  def r_hat_group(self, name, label):
    """A group of `plots.mixing.r_hat`; without draws if there is no other chain to compare with."""
    has_curve = name in self.names and self.result.num_chains > 1
    return label, self.draws(name) if has_curve else None, self.result.settings['thinning']

  @functools.cached_property
  def ess(self):
    """Bulk effective sample sizes `[r]` by name, of all chains together."""
    return {n: np.atleast_1d(self.result.effective_sample_size(n)) for n in self.names}

  def ess_per(self, unit):
    """Effective samples per `'step'` of one chain, or per `'second'` of all, `[r]` by name."""
    seconds, steps = self.result.seconds['sampling'], self.result.num_steps * self.result.num_chains
    return {n: ess / {'step': steps, 'second': seconds}[unit] for n, ess in self.ess.items()}

  @property
  def r_hat(self):
    """The largest rank-normalized R-hat by name."""
    return {n: self.verdict.mixing[n].r_hat for n in self.names}

  @functools.cached_property
  def prediction(self):
    """The prediction at the test inputs; None without them, or without kept draws."""
    return self.result.test_prediction if len(self.result.draws) else None

  @property
  def y_test(self):
    """Test targets `[m, ...]`; None without them, or without a prediction."""
    return None if self.prediction is None else self.result.y_test

  @functools.cached_property
  def classes(self):
    """Class probabilities `[m, c]` at the test inputs and labels `[m]`; None without classes."""
    return None if self.y_test is None else metrics.classes(self.prediction, self.y_test)

  @functools.cached_property
  def metrics(self):
    """Figures of merit on the test data, by what they are called."""
    if self.y_test is None:
      return {}
    return _named(self.result.evaluate(self.prediction, self.y_test))

  @functools.cached_property
  def baseline(self):
    """The same figures for what does not look at inputs."""
    if self.y_test is None:
      return {}
    return _named(baseline.evaluate(self.prediction, self.result.training_data[1], self.y_test))

  @property
  def baseline_name(self):
    return baseline.name(self.prediction, self.y_test)

  @property
  def facts(self):
    """What the run was of, pairs of a name and text, the first thing to know."""
    result, settings = self.result, self.result.settings
    preparation = result.preparation
    num_test = 0 if result.x_test is None else len(result.x_test)
    names = preparation.class_names
    target = preparation.target_name and f', target {preparation.target_name}'
    target = f', {len(names)} classes' if names else target or ''
    counts = f'{settings["num_data"]:,} to train, {num_test:,} to test{target}'
    data = settings.get('data')
    return [
      ('data', f'{data}: {counts}' if data else counts),
      ('model', f'{settings["model"]}: {self._layers()}{settings["num_parameters"]:,} weights'),
      (
        'sampler',
        f'{settings["sampler"]}, {result.num_chains} chains of {result.num_draws:,} draws',
      ),
      ('date', settings.get('date', 'unknown')),
    ]

  def _layers(self):
    """Depth and width, from the kernels of the hidden layers."""
    variables = self.result.posterior.split.network.model.trainable_variables
    kernels = [tuple(v.shape) for v in variables if len(v.shape) > 1][:-1]  # without the readout
    widths = list(dict.fromkeys(shape[-1] for shape in kernels))
    if not widths:
      return ''
    count = 'one hidden layer' if len(kernels) == 1 else f'{len(kernels)} hidden layers'
    text = f'{widths[0]}' if len(widths) == 1 else f'{min(widths)} to {max(widths)}'
    return f'{count} of width {text}, '

  @functools.cached_property
  def figures(self):
    """All figures that runs are compared by, those of the test data first: floats by name."""
    figures = {f'test {name}': value for name, value in self.metrics.items()}
    for unit in ('step', 'second'):
      for name, ess in self.ess_per(unit).items():
        known = ess[np.isfinite(ess)]
        if len(known):
          summaries = float(np.median(known)), float(np.min(known))
          figures |= zip(ess_names(unit, name, len(ess)), summaries, strict=False)
    for name, r_hat in self.r_hat.items():
      figures[f'R-hat, {verdict.NAMES[name]}, largest'] = r_hat
    figures['acceptance, mean'] = float(np.mean(self.result.trace['acceptance']))
    milliseconds = 1000 * self.result.seconds['sampling']
    figures['milliseconds per step of all chains'] = milliseconds / self.result.num_steps
    return figures
