"""Pictures of how chains mix. Each function returns a `pictures.Picture`, or a list of them."""

import numpy as np

from tfp_reprior.diagnostics import convergence, verdict
from tfp_reprior.plots import drawing, pictures

_MAX_POINTS = 160  # of a line, which keeps the page small
_MAX_CHAINS = 6
_NUM_BLOCKS = 100  # of steps, over which acceptance is averaged
_NUM_BINS = 24
_NUM_LENGTHS = 12
_SMALLEST, _LARGEST = 1e-3, 1e2  # values of R-hat - 1 that can be told apart in a picture


def effective_sample_sizes(title, groups, unit):
  """Distributions over projections.

  Args:
    title: Text.
    groups: List of pairs: text, and effective sample sizes per `unit`, `[r]` or empty. What is one
      number has no distribution, and is left out.
    unit: `'step'` or `'second'`.

  Returns:
    The picture; None if no chain moved.
  """
  groups = [(i, label, np.asarray(v)) for i, (label, v) in enumerate(groups)]
  groups = [(i, label, v[np.isfinite(v)]) for i, label, v in groups if len(v) > 1]
  groups = [group for group in groups if len(group[-1])]
  if not groups:
    return None

  def draw_fn(ax):
    everything = np.concatenate([v for _, _, v in groups])
    low, high = drawing.limits(everything)
    is_wide = np.max(everything) > 10 * np.min(everything)
    if is_wide:
      low, high = np.min(everything), np.max(everything)
      drawing.log_scale(ax, 'x', everything)
    else:
      ax.locator_params(axis='x', nbins=5)
    bins = (np.geomspace if is_wide else np.linspace)(low, high, _NUM_BINS + 1)
    for i, _, values in groups:
      style = drawing.line_style(i)
      ax.hist(values, bins, histtype='stepfilled', color=style['color'], alpha=0.2)
      ax.hist(values, bins, histtype='step', linewidth=1.2, **style)
      ax.axvline(np.median(values), color=style['color'], linestyle=':')
    ax.locator_params(axis='y', nbins=5, integer=True)
    ax.set(xlabel=f'effective samples per {unit}', ylabel='number of projections')

  of_unit = {
    'step': 'Per step of one chain: 1 would be independent draws.',
    'second': 'Of all chains together, by the time of sampling alone.',
  }
  return pictures.Picture(
    title,
    draw_fn,
    [pictures.line_key(i, f'{label} (median {np.median(v):.3g})') for i, label, v in groups],
    'How many random projections have which effective sample size (ESS); dotted lines are medians. '
    f'Further right is better, and the left end is what mixes worst. {of_unit[unit]}',
  )


def r_hat(title, groups):
  """R-hat of growing beginnings of the chains, on an axis that is logarithmic in R-hat - 1.

  Args:
    title: Text.
    groups: List of triples: text, draws `[s, c, r]` or None, and steps per draw.
  """
  curves = []
  for i, (label, draws, thinning) in enumerate(groups):
    if draws is not None:
      lengths, values = _growing_r_hat(draws)
      curves.append((i, label, thinning * lengths, values))

  def draw_fn(ax):
    from matplotlib import ticker

    good = verdict.GOOD_R_HAT
    ax.axhline(good - 1, color=drawing.MUTED, linestyle='--', linewidth=1)
    for i, _, steps, values in curves:
      ax.plot(steps, np.clip(values - 1, _SMALLEST, _LARGEST), **drawing.line_style(i))
    drawing.log_scale(ax, 'x', np.concatenate([steps for _, _, steps, _ in curves]))
    ax.set_yscale('log')
    largest = np.nanmax([np.max(np.clip(v, None, 1 + _LARGEST)) for *_, v in curves] + [1.1]) - 1
    ax.set(ylim=(_SMALLEST / 1.2, 2 * largest), xlabel='steps of a chain', ylabel='largest R-hat')
    ax.yaxis.set_major_locator(ticker.FixedLocator([1e-3, 1e-2, 1e-1, 1, 10, 100]))
    ax.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f'{1 + value:g}'))
    ax.yaxis.set_minor_locator(ticker.NullLocator())

  return pictures.Picture(
    title,
    draw_fn,
    [
      *(pictures.line_key(i, f'{label} ({_shown_r_hat(v[-1])})') for i, label, _, v in curves),
      ('dash', drawing.MUTED, f'good: {verdict.GOOD_R_HAT}'),
    ],
    'How far chains are from telling the same, by the worst projection, if they had been stopped '
    'there. It should fall to the dashed line; a plateau above it means that chains stay apart.',
  )


def _growing_r_hat(draws):
  """Lengths `[p]`, and the largest R-hat `[p]` of so many draws, as the verdict has it."""
  s = len(draws)
  first = min(s, max(4, s // 50))
  lengths = np.unique(np.geomspace(first, s, _NUM_LENGTHS).astype(int))
  values = [np.atleast_1d(convergence.r_hat(draws[:length])) for length in lengths]
  return lengths, np.array([np.max(v[~np.isnan(v)], initial=1.0) for v in values])


def _shown_r_hat(value):
  return f'{value:.3f}' if value < 1 + _LARGEST else f'over {_LARGEST:.0f}'


def trace(what, values, thinning, guilty=()):
  """The values `[s, c]` of each chain over steps, those of `guilty` chains in their own color."""

  def draw_fn(ax):
    _draw_chains(ax, thinning * np.arange(1, len(values) + 1), values, guilty)
    ax.set(xlabel='step', ylabel=what)

  return pictures.Picture(
    f'Trace of {what}',
    draw_fn,
    _chain_keys(values.shape[1], guilty),
    'Chains should cross and cover the same range, without drift.',
  )


def projections(what, draws, ess, thinning, guilty=()):
  """Traces of the slowest and of a typical projection, and their autocorrelations.

  Args:
    what: Text.
    draws: `[s, c, r]`. What is one number, r = 1, has no projections: its own trace is shown.
    ess: Effective sample sizes `[r]`.
    thinning: Steps per draw.
    guilty: Chains at fault.
  """
  order = np.argsort(ess)
  which = 'The projections with the smallest and with the median effective sample size. '
  shown = {'slowest projection': order[0], 'typical projection': order[len(order) // 2]}
  if len(order) == 1:
    which, shown = '', {what: 0}
  shown = {text: draws[:, :, i] for text, i in shown.items()}
  whole = trace(what, next(iter(shown.values())), thinning, guilty)

  def draw_traces(*axes):
    for ax, (text, values) in zip(axes, shown.items(), strict=True):
      _draw_chains(ax, thinning * np.arange(1, len(values) + 1), values, guilty)
      ax.set(ylabel=text.removesuffix(' projection'))
    ax.set(xlabel='step')

  def draw_autocorrelations(ax):
    for i, values in enumerate(shown.values()):
      rho = convergence.autocorrelation(values)
      ax.plot(thinning * np.arange(len(rho)), rho, **drawing.line_style(i))
    ax.axhline(0, color=drawing.MUTED, linewidth=0.7)
    ax.set(xlabel='steps apart', ylabel='autocorrelation', ylim=(None, 1.02))

  return [
    whole._replace(draw_fn=draw_traces, caption=which + whole.caption, num_rows=len(shown)),
    pictures.Picture(
      f'Autocorrelation of {what}',
      draw_autocorrelations,
      [pictures.line_key(i, text) for i, text in enumerate(shown)],
      'How alike draws are that lie so many steps apart, mean over chains. The sooner it falls to '
      'zero, the more a draw is worth.',
    ),
  ]


def acceptance(result):
  """Acceptance of a `tfp_reprior.sampling.Result` over steps, warm-up included."""
  guilty = result.verdict.guilty_chains

  def draw_fn(ax):
    for steps, values in _phases(result, 'acceptance'):
      starts = np.arange(0, len(values), _stride(values, _NUM_BLOCKS))
      sizes = np.diff(np.append(starts, len(values)))
      means = np.add.reduceat(values, starts) / sizes[:, np.newaxis]
      middles = (steps[starts] + steps[starts + sizes - 1]) / 2
      color = drawing.COLORS[0]
      ax.fill_between(middles, means.min(1), means.max(1), color=color, alpha=0.2, linewidth=0)
      ax.plot(middles, means.mean(1), color=color)
      ax.plot(middles, means[:, guilty], color=drawing.FAULT)
    ax.axvline(0, color=drawing.MUTED, linestyle=':')
    ax.set(xlabel='step', ylabel='share of accepted moves', ylim=(None, 1.02))

  keys = [('line', drawing.COLORS[0], 'mean'), ('band', drawing.COLORS[0], 'range over chains')]
  return pictures.Picture(
    'Acceptance',
    draw_fn,
    [*keys, *(_guilty_key(c) for c in guilty)],
    'Means over blocks of steps; warm-up lies left of the dotted line. Right of it the curve '
    'should be level, with no chain far below the others.',
  )


def energy(result):
  """Energy of a `tfp_reprior.sampling.Result` over steps, with what the verdict makes of it."""
  guilty = result.verdict.guilty_chains

  def draw_fn(ax):
    for steps, values in _phases(result, 'energy'):
      _draw_chains(ax, steps, values, guilty)
    # The start of warm-up is often so far off that nothing else could be seen.
    low, high = drawing.limits(values)
    bottom, top = ax.get_ylim()
    ax.axvline(0, color=drawing.MUTED, linestyle=':')
    ax.set(ylim=(max(bottom, 2 * low - high), min(top, 2 * high - low)))
    ax.set(xlabel='step', ylabel='energy')

  return pictures.Picture(
    'Energy',
    draw_fn,
    _chain_keys(result.num_chains, guilty),
    f'{_energy_verdict(result.verdict.mixing.get("energy"))}Minus the log-density of state and '
    'momentum, up to a constant; warm-up, which may leave the frame, lies left of the dotted line. '
    'Energy mixes slowest of all: what settles last shows here.',
  )


def _energy_verdict(mixing):
  """A sentence, or nothing if too few draws were made to tell."""
  if mixing is None or np.isnan(mixing.bulk_ess):
    return ''
  found = f'R-hat {_shown_r_hat(mixing.r_hat)}, {mixing.bulk_ess:,.0f} effective samples'
  if mixing.r_hat <= verdict.GOOD_R_HAT and mixing.bulk_ess >= verdict.GOOD_ESS:
    return f'Good: all chains are at one level ({found}). '
  if mixing.r_hat <= verdict.BAD_R_HAT:
    return f'Rough: chains are about at one level, in a short run ({found}). '
  return f'Bad: chains are not at one level yet ({found}). '


def _phases(result, name):
  """Steps `[s]` and values `[s, c]` of warm-up, which ends at step 0, and of sampling."""
  if len(result.warmup_trace.get(name, ())):
    steps = np.cumsum(result.warmup_trace['steps'])
    yield steps - steps[-1], result.warmup_trace[name]
  values = result.trace[name]
  yield result.settings['thinning'] * np.arange(1, len(values) + 1), values


def _stride(values, num_points):
  return -(-len(values) // num_points)


def _shown_chains(num_chains, guilty):
  """Chains in the order of drawing: those at fault last, on top, and always among them."""
  innocent = [c for c in range(num_chains) if c not in guilty][:_MAX_CHAINS]
  return innocent, list(guilty)[:_MAX_CHAINS]


def _draw_chains(ax, steps, values, guilty=()):
  every = slice(None, None, _stride(values, _MAX_POINTS))
  innocent, shown = _shown_chains(values.shape[1], guilty)
  for c in innocent:
    alpha = 0.6 if shown else 1.0
    ax.plot(steps[every], values[every, c], linewidth=0.7, alpha=alpha, **drawing.line_style(c))
  for c in shown:
    ax.plot(steps[every], values[every, c], linewidth=1.3, color=drawing.FAULT)


def _chain_keys(num_chains, guilty=()):
  innocent, shown = _shown_chains(num_chains, guilty)
  keys = [pictures.line_key(c, f'chain {c + 1}') for c in innocent]
  keys += [_guilty_key(c) for c in shown]
  hidden = num_chains - len(keys)
  return [*keys, ('band', drawing.MUTED, f'{hidden} not shown')] if hidden else keys


def _guilty_key(c):
  return 'line', drawing.FAULT, f'chain {c + 1}, at fault'
