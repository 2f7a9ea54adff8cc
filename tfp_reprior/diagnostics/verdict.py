"""The verdict on a run: whether its draws can be trusted, why not, and what to do about it."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tfp_reprior.diagnostics import convergence, disagreement
from tfp_reprior.internal import files

LEVELS = ('good', 'unsure', 'failed')

# What is judged, in this order, by what it is called.
NAMES = {
  'f': 'outputs at x_test',
  'noise_scale': 'noise scale',
  'output_scale': 'output scale',
  'parameters': 'other parameters of the likelihood',
  'log_likelihood': 'log-likelihood',
  'log_prob': 'log-density',
  'energy': 'energy',
  'hidden': 'hidden weights',
  'theta': 'weights',
  'squared_norms': 'squared norms of layers',
}
# Those of them that are parameters of the likelihood.
PARAMETERS = ('noise_scale', 'output_scale', 'parameters')
# Weights may stay apart while all that they predict agrees: networks have symmetries.
_WEIGHTS = ('hidden', 'theta', 'squared_norms')

# As in Stan, for four chains.
GOOD_R_HAT = 1.01
GOOD_ESS = 400
# Above this chains are said to disagree, if they are so long that it is not chance.
BAD_R_HAT = 1.1
_FEWEST_DRAWS = 4
_ENOUGH_DRAWS = 50
# The share of a chain's draws that it may stand still for, and in how many draws at least.
_STANDSTILL, _FEWEST_STANDING = 0.2, 20
_ENOUGH_STANDING = 10  # to say that a chain never moved


class SamplingWarning(UserWarning):
  """Says that a run failed, or that it is too short to rely on: the verdict, in words.

  #### Examples

  ```python
  import warnings

  import tfp_reprior as tfr

  with warnings.catch_warnings():  # for short runs that only try something out
    warnings.simplefilter('ignore', tfr.diagnostics.SamplingWarning)
  ```
  """


class Reason(NamedTuple):
  """One thing that is wrong with a run; `judge` has an example.

  Attributes:
    level: `'unsure'` or `'failed'`.
    text: What is the case, a sentence.
    advice: What to do about it, a sentence.
    chains: Tuple of the chains at fault, from 0 on; empty if it is none alone.
  """

  level: str
  text: str
  advice: str
  chains: tuple[int, ...] = ()


class Mixing(NamedTuple):
  """How well one kind of quantity mixed, by the worst of its entries; `measure` has an example.

  Attributes:
    r_hat: The largest rank-normalized split R-hat.
    bulk_ess: The smallest bulk effective sample size of all chains together.
    tail_ess: The smallest tail effective sample size.
    mean_ess: The mean bulk effective sample size.
  """

  r_hat: float
  bulk_ess: float
  tail_ess: float
  mean_ess: float


@dataclasses.dataclass(frozen=True)
class Verdict:
  """Whether the draws of a run can be trusted; `judge` has an example.

  Attributes:
    level: `'good'`; `'unsure'`, if they are usable but rough or incomplete; or `'failed'`.
    reasons: List of `Reason`, the worst first; empty if all is good.
    mixing: Dict of the `Mixing` of each kind of quantity.
  """

  level: str
  reasons: list[Reason]
  mixing: dict[str, Mixing]

  @property
  def headline(self) -> str:
    """The verdict in a few words."""
    return {
      'good': 'The chains mixed.',
      'unsure': 'Too few effective samples, or other doubts.',
      'failed': 'Sampling failed: do not use these draws.',
    }[self.level]

  @property
  def advice(self) -> list[str]:
    """List of what to do, without repetition."""
    unique = list(dict.fromkeys(r.advice for r in self.reasons if r.advice))
    return [a for a in unique if not any(b != a and a[:-1] in b for b in unique)]

  @property
  def guilty_chains(self) -> list[int]:
    """The chains that are at fault by themselves, from 0 on."""
    return sorted({c for r in self.reasons for c in r.chains})

  def __str__(self):
    return ' '.join([self.headline, *(r.text for r in self.reasons), *self.advice])

  def __repr__(self):
    known = [m for m in self.mixing.values() if np.isfinite(m.bulk_ess)]
    worst = ''
    if known:
      r_hat, bulk_ess = max(m.r_hat for m in known), min(m.bulk_ess for m in known)
      worst = f', max_r_hat={r_hat:.3f}, min_bulk_ess={bulk_ess:.0f}'
    return f'Verdict({self.level!r}, num_reasons={len(self.reasons)}{worst})'


def measure(trace: Mapping[str, np.ndarray]) -> dict[str, Mixing]:
  """The `Mixing` of each kind of quantity in a trace.

  Args:
    trace: Dict of arrays `[s, c]` or `[s, c, r]`, by the names of `Result.trace`; others are left
      out.

  Returns:
    Dict, empty if there are fewer than four draws.

  #### Examples

  ```python
  import numpy as np
  import tfp_reprior as tfr

  trace = {'log_likelihood': np.random.default_rng(1).normal(size=[1000, 4])}
  tfr.diagnostics.measure(trace)['log_likelihood'].r_hat  # ==> close to 1
  ```
  """
  mixing = {}
  for name in NAMES:
    if name in trace and len(trace[name]) >= _FEWEST_DRAWS and np.size(trace[name]):
      draws = np.asarray(trace[name])
      bulk = np.atleast_1d(convergence.bulk_effective_sample_size(draws))
      tail = np.atleast_1d(convergence.tail_effective_sample_size(draws))
      r_hat = np.atleast_1d(convergence.r_hat(draws))
      if np.all(np.isnan(bulk)):  # nothing moves, or nothing is finite
        mixing[name] = Mixing(np.nan, np.nan, np.nan, np.nan)
      else:
        figures = np.nanmax(r_hat), np.nanmin(bulk), np.nanmin(tail), np.nanmean(bulk)
        mixing[name] = Mixing(*map(float, figures))
  return mixing


def judge(
  trace: Mapping[str, np.ndarray],
  acceptance_bounds: Sequence[float] = (0.2, 1.0),
  num_planned: int | None = None,
  doubts: Sequence[Reason] = (),
) -> Verdict:
  """Judges a run by its trace.

  Thresholds are those of Stan, R-hat 1.01 and 400 effective samples, for every quantity. A run that
  misses them is `'unsure'`, unless chains left the range of floating point numbers, stood still, or
  clearly disagree: then it has failed.

  Args:
    trace: As `Result.trace`: at least `'acceptance'` and `'log_likelihood'`, `[s, c]`.
    acceptance_bounds: Pair of floats: the mean acceptance of a chain has to lie between them.
    num_planned: Integer, the draws that were asked for, if the run may have been interrupted.
    doubts: List of `Reason`, of what is known from elsewhere.

  Returns:
    A `Verdict`.

  #### Examples

  ```python
  import numpy as np
  import tfp_reprior as tfr

  rng = np.random.default_rng(1)
  trace = {'acceptance': np.full([500, 4], 0.8), 'log_likelihood': rng.normal(size=[500, 4])}
  trace['log_likelihood'][:, 2] = 3.0
  verdict = tfr.diagnostics.judge(trace)
  print(verdict)  # Sampling failed ... Chain 3 never moved. ...
  verdict.reasons[0].advice  # what to do about the worst of it
  ```
  """
  num_draws, num_chains = np.shape(trace['acceptance'])
  reasons = list(doubts)
  if num_planned is not None and num_draws < num_planned:
    reasons.append(
      Reason(
        'unsure',
        f'The run was interrupted after {num_draws:,} of {num_planned:,} draws.',
        'The same call with the same run_dir goes on.',
      )
    )
  mixing = measure(trace)
  broken = _not_finite(trace)
  reasons += _broken_reasons(broken)
  still = _standing_still(trace, broken)
  reasons += still + _acceptance_reasons(trace, acceptance_bounds, broken)
  if not broken:
    reasons += _mixing_reasons(trace, mixing, num_draws, num_chains, bool(still))
  reasons.sort(key=lambda r: -LEVELS.index(r.level))
  level = reasons[0].level if reasons else 'good'
  return Verdict(level, reasons, mixing)


def _chains(indices):
  """Chains by number, from 1 on, as text."""
  names = [str(i + 1) for i in indices]
  if len(names) == 1:
    return f'Chain {names[0]}'
  return f'Chains {", ".join(names[:-1])} and {names[-1]}'


def _not_finite(trace):
  """The chains that have a number that is not finite."""
  bad = np.zeros(np.shape(trace['acceptance'])[1], bool)
  for name in NAMES:
    if name in trace:
      for values in files.pieces(np.asarray(trace[name])):
        bad |= ~np.all(np.isfinite(values), axis=tuple(i for i in range(values.ndim) if i != 1))
  return list(np.flatnonzero(bad))


def _broken_reasons(broken):
  if not broken:
    return []
  return [
    Reason(
      'failed',
      f'{_chains(broken)} left the range of floating point numbers.',
      'Standardize inputs and targets (tfr.data does), and see that none is extreme; then take a '
      'corrected sampler, one without "uncalibrated" in its name, or a smaller step_size.',
      tuple(map(int, broken)),
    )
  ]


def _standing_still(trace, broken):
  """Of chains whose log-likelihood stays the same from draw to draw."""
  values = np.asarray(trace['log_likelihood'])
  num_draws = len(values)
  if num_draws < 2:
    return []
  runs = [_longest_run(chain) for chain in values.T]
  others = [c for c in range(len(runs)) if c not in broken]
  never = [c for c in others if runs[c][1] == num_draws]
  reasons = []
  if never:
    reasons.append(
      Reason(
        'failed' if num_draws >= _ENOUGH_STANDING else 'unsure',
        f'{_chains(never)} never moved.',
        'Longer runs do not cure that: steps are too long there. Warm up longer '
        '(num_warmup_steps), or give a smaller step_size.',
        tuple(never),
      )
    )
  for c in others:
    first, length = runs[c]
    if c not in never and length > max(_FEWEST_STANDING, _STANDSTILL * num_draws):
      reasons.append(
        Reason(
          'failed',
          f'{_chains([c])} stood still from draw {first + 1:,} to {first + length:,} of '
          f'{num_draws:,}.',
          'Steps are too long where it stood: warm up longer (num_warmup_steps), or give a smaller '
          'step_size.',
          (c,),
        )
      )
  return reasons


def _longest_run(values):
  """Where the longest run of equal numbers begins, and its length."""
  starts = np.flatnonzero(np.append(True, values[1:] != values[:-1]))
  lengths = np.diff(np.append(starts, len(values)))
  i = int(np.argmax(lengths))
  return int(starts[i]), int(lengths[i])


def _acceptance_reasons(trace, bounds, broken):
  low, high = bounds
  mean = np.mean(trace['acceptance'], axis=0)
  reasons = []
  for bad, word, advice in (
    (mean < low, 'only', 'Warm up longer (num_warmup_steps), or give a smaller step_size.'),
    (mean > high, 'as much as', 'Steps could be longer: warm up longer (num_warmup_steps).'),
  ):
    indices = [c for c in np.flatnonzero(bad) if c not in broken]
    if indices:
      figures = ', '.join(f'{mean[c]:.3f}' for c in indices)
      verb = 'accepts' if len(indices) == 1 else 'accept'
      reasons.append(
        Reason(
          'unsure',
          f'{_chains(indices)} {verb} {word} {figures} of the proposals.',
          advice,
          tuple(map(int, indices)) if len(indices) < len(mean) else (),
        )
      )
  return reasons


def _mixing_reasons(trace, mixing, num_draws, num_chains, is_still):
  """Of quantities that did not mix, or not long enough."""
  known = {name: m for name, m in mixing.items() if np.isfinite(m.bulk_ess)}
  if not known:
    text = f'Chains of {num_draws:,} draws are too short to judge.'
    return [] if is_still else [Reason('unsure', text, 'Run longer (num_results).')]
  disagreeing = [n for n, m in known.items() if not m.r_hat <= BAD_R_HAT]
  if disagreeing and num_draws >= _ENOUGH_DRAWS:
    reasons = []
    if not is_still:
      outputs_agree = 'f' in known and not set(disagreeing) - set(_WEIGHTS)
      level = 'unsure' if outputs_agree else 'failed'
      worst = max(disagreeing, key=lambda n: known[n].r_hat)
      what = f'the {NAMES[worst]} {_has(worst)}'
      text, advice, guilty = disagreement.explain(trace[worst], what)
      if outputs_agree:
        text += ' Outputs agree.'
        advice = f'Rely on predictions, not on averages of weights. {advice}'
      text = f'{text} R-hat of {_listed(known, disagreeing)}.'
      reasons.append(Reason(level, text, advice, guilty))
    return reasons
  short = [n for n, m in known.items() if not min(m.bulk_ess, m.tail_ess) >= GOOD_ESS]
  uneven = [n for n, m in known.items() if not m.r_hat <= GOOD_R_HAT]
  if not short and not uneven:
    return []
  texts = []
  if short:
    name = min(short, key=lambda n: min(known[n].bulk_ess, known[n].tail_ess))
    size = min(known[name].bulk_ess, known[name].tail_ess)
    texts.append(
      f'The {NAMES[name]} {_has(name)} {size:,.0f} effective samples of '
      f'{num_draws * num_chains:,} draws; {GOOD_ESS} are good.'
    )
  if uneven:
    name = max(uneven, key=lambda n: known[n].r_hat)
    texts.append(f'R-hat of the {NAMES[name]} is {known[name].r_hat:.3f}; {GOOD_R_HAT} is good.')
  advice = 'Means are rough and tails rougher: run longer (num_results) for figures to rely on.'
  return [Reason('unsure', ' '.join(texts), advice)]


def _has(name):
  return 'have' if NAMES[name].endswith('s') or name == 'f' else 'has'


def _listed(mixing, names):
  worst = sorted(names, key=lambda n: -mixing[n].r_hat)[:3]
  return ', '.join(f'the {NAMES[n]} is {mixing[n].r_hat:.2f}' for n in worst)
