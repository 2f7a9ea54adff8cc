"""What the report says of a run, as numbers and sentences."""

import functools
import math

import numpy as np

from tfp_reprior import diagnostics
from tfp_reprior.sampling import metrics

NAMES = {'theta': 'weights', 'f': 'outputs at x_test', 'noise_scale': 'noise scale'}
METRICS = {
  'rmse': 'RMSE',
  'coverage_90': 'coverage of 90 % intervals',
  'negative_log_likelihood': 'negative log likelihood',
}
LEVELS = ('good', 'unsure', 'bad')
_MIN_DRAWS = 4  # fewer have no autocorrelation to speak of
_SMALL_R_HAT, _LARGE_R_HAT = 1.05, 1.1
_SMALL_ESS = 100
_LOW_ACCEPTANCE = {True: 0.2, False: 0.95}  # with accept / reject, and without


class Run:
  """A result with a label, and the figures that several parts of the page share.

  Args:
    result: A `tfp_reprior.sampling.Result`.
    label: What the page calls it.
  """

  def __init__(self, result, label):
    self.result = result
    self.label = label
    self.names = [n for n in NAMES if n in result.trace and result.num_draws >= _MIN_DRAWS]

  @functools.cached_property
  def ess(self):
    """Effective sample sizes `[r]` by name, of all chains together."""
    return {n: np.asarray(self.result.effective_sample_size(n)) for n in self.names}

  def ess_per(self, unit):
    """Effective samples per `'step'` of one chain, or per `'second'` of all, `[r]` by name."""
    seconds, steps = self.result.seconds['sampling'], self.result.num_steps * self.result.num_chains
    return {n: ess / {'step': steps, 'second': seconds}[unit] for n, ess in self.ess.items()}

  @functools.cached_property
  def r_hat(self):
    """R-hat `[r]` by name; empty for a single chain."""
    names = self.names if self.result.num_chains > 1 else []
    return {n: np.sqrt(self.result.r_hat_squared(n)) for n in names}

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
    figures = {} if self.y_test is None else self.result.evaluate(self.prediction, self.y_test)
    return {METRICS.get(n, n.replace('_', ' ')): value for n, value in figures.items()}

  @functools.cached_property
  def figures(self):
    """All figures that runs are compared by: floats by what they are called."""
    figures = {}
    for unit in ('step', 'second'):
      for name, ess in self.ess_per(unit).items():
        figures[f'ESS per {unit}, {NAMES[name]}, median'] = float(np.median(ess))
        figures[f'ESS per {unit}, {NAMES[name]}, smallest'] = float(np.min(ess))
    for name, r_hat in self.r_hat.items():
      figures[f'R-hat, {NAMES[name]}, largest'] = float(np.max(r_hat))
    figures['acceptance, mean'] = float(np.mean(self.result.trace['acceptance']))
    milliseconds = 1000 * self.result.seconds['sampling']
    figures['milliseconds per step of all chains'] = milliseconds / self.result.num_steps
    return figures | {f'test {name}': value for name, value in self.metrics.items()}


def verdict(run):
  """Whether the chains mixed.

  Returns:
    level: `'good'`, `'unsure'` or `'bad'`.
    badge: A few words.
    sentences: List of what there is to say.
  """
  result, acceptance = run.result, run.figures['acceptance, mean']
  level, badge, facts, advice = _mixing(run)
  sentences = [*facts, f'Mean acceptance is {acceptance:.3f}.', *advice]
  is_calibrated = not result.settings['sampler'].startswith('uncalibrated')
  if not acceptance >= _LOW_ACCEPTANCE[is_calibrated]:
    level = max('unsure', level, key=LEVELS.index)
    cost = 'most steps are wasted' if is_calibrated else 'without accept / reject draws are biased'
    sentences.append(f'That is low: {cost}, and a smaller step size may serve better.')
  if not result.is_complete:
    level, badge = max('unsure', level, key=LEVELS.index), f'Interrupted. {badge}'
    planned = result.settings['num_results']
    sentences.insert(0, f'The run was interrupted after {result.num_draws:,} of {planned:,} draws.')
  return level, badge, sentences


_ADVICE = {
  'good': ('Mixed', []),
  'unsure': (
    'Too short',
    ['Means are rough and tails unknown: run longer for figures to rely on.'],
  ),
  'bad': (
    'Not mixed',
    ['The chains disagree: do not trust averages; run longer, or burn in longer.'],
  ),
}


def _mixing(run):
  """Level and badge, what is the case, and what to do about it."""
  result = run.result
  if not run.names:
    return 'bad', 'Too short', [f'Chains of {result.num_draws} draws are too short to judge.'], []
  if not all(np.all(np.isfinite(result.trace[n])) for n in run.names):
    return 'bad', 'Diverged', ['The chains left the range of floating point numbers.'], []
  levels, facts = {}, []
  for name, ess in run.ess.items():
    r_hat = float(np.max(run.r_hat.get(name, math.nan)))
    is_good = r_hat <= _SMALL_R_HAT and np.min(ess) >= _SMALL_ESS
    levels[name] = 'good' if is_good else 'unsure' if r_hat <= _LARGE_R_HAT else 'bad'
    fact = f'the largest R-hat is {r_hat:.3f} and ' if run.r_hat else ''
    facts.append(
      f'For the {NAMES[name]} {fact}the smallest effective sample size is {np.min(ess):,.0f} of '
      f'{result.num_draws * result.num_chains:,} draws.'
    )
  if not run.r_hat:
    return 'unsure', 'One chain', ['One chain cannot be checked against another.', *facts], []
  if {levels.get('f'), levels.get('noise_scale', 'good')} == {'good'} != {levels['theta']}:
    advice = 'Rely on predictions there, but not on averages of weights.'
    return 'unsure', 'Outputs mixed, weights not', facts, [advice]
  worst = max(levels.values(), key=LEVELS.index)
  badge, advice = _ADVICE[worst]
  return worst, badge, facts, advice


def r_hat_curve(draws, num_points=25):
  """R-hat**2 - 1 of growing beginnings of chains.

  Args:
    draws: `[s, c, r]`.
    num_points: The most lengths to choose.

  Returns:
    lengths: How many draws were counted, `[p]`.
    values: `[p, r]`, infinite where no chain moved.
  """
  s = len(draws)
  lengths = np.unique(np.geomspace(min(s, max(_MIN_DRAWS, s // 50)), s, num_points).astype(int))
  values = np.stack([diagnostics.r_hat_squared(draws[:length]) for length in lengths]) - 1
  return lengths, np.where(np.isfinite(values), values, np.inf)


def autocorrelation(draws):
  """Autocorrelation of draws `[s, c]`, each chain about its own mean, averaged over chains.

  Returns:
    `[t]`, from lag 0 to three times the lag at which it falls below 0.05, or to half of the draws.
  """
  s = len(draws)
  centered = draws - np.mean(draws, axis=0)
  power = np.abs(np.fft.rfft(centered, 2 * s, axis=0)) ** 2
  covariance = np.mean(np.fft.irfft(power, axis=0)[:s], axis=1) / (s - np.arange(s))
  rho = covariance / covariance[0] if covariance[0] > 0 else np.ones(s)
  is_small = rho < 0.05
  end = max(10, 3 * int(np.argmax(is_small))) if np.any(is_small) else s
  return rho[: max(2, min(end, s // 2))]


def coverage(prediction, y, levels):
  """The share of `y` `[m, k]` within the central interval of each probability in `levels`."""
  distance = np.abs(2 * prediction.cdf(y) - 1).ravel()
  return np.array([np.mean(distance <= level) for level in levels])


def accuracy_of_surest(probabilities, labels):
  """Accuracy on the inputs of greatest confidence, `[m]`: on one of them, on two, ..., on all."""
  order = np.argsort(-np.max(probabilities, axis=-1), kind='stable')
  is_right = np.argmax(probabilities, axis=-1) == labels
  return np.cumsum(is_right[order]) / np.arange(1, len(labels) + 1)


def binned_errors(stddev, errors, num_bins=10):
  """Root mean squares of both vectors in groups of like `stddev`, five or more each: `[b, 2]`."""
  pairs = np.stack([stddev, errors], axis=-1)[np.argsort(stddev)]
  groups = np.array_split(pairs, min(num_bins, max(1, len(pairs) // 5)))
  return np.array([np.sqrt(np.mean(group**2, axis=0)) for group in groups])
