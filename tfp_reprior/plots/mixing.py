"""Plots of how chains mix. Each function returns a `svg.Plot`, or a list of them."""

import numpy as np

from tfp_reprior.diagnostics import convergence
from tfp_reprior.plots import drawing, svg

_MAX_POINTS = 160  # of a line, which keeps the page small
_MAX_CHAINS = 6
_NUM_BLOCKS = 100  # of steps, over which acceptance is averaged
_NUM_BINS = 24


def effective_sample_sizes(title, groups, unit):
  """Distributions over projections.

  Args:
    title: Text.
    groups: List of pairs: text, and effective sample sizes per `unit`, `[r]` or empty. What is one
      number has no distribution, and is left out.
    unit: `'step'` or `'second'`.

  Returns:
    The plot; None if no chain moved.
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
    ax.set(xlabel=f'effective samples per {unit}', ylabel='projections')

  of_unit = {
    'step': 'Per step of one chain: 1 would be independent draws.',
    'second': 'Of all chains together, by the time of sampling alone.',
  }
  return svg.plot(
    title,
    draw_fn,
    [svg.line_key(i, f'{label} (median {np.median(v):.3g})') for i, label, v in groups],
    'How many random projections have which bulk effective sample size; dotted lines are medians. '
    f'Further right is better, and the left end is what mixes worst. {of_unit[unit]}',
  )


def r_hat(title, groups):
  """R-hat**2 - 1 of growing beginnings of the chains, as in the paper.

  Args:
    title: Text.
    groups: List of triples: text, draws `[s, c, r]` or None, and steps per draw.
  """
  curves = []
  for i, (label, draws, thinning) in enumerate(groups):
    if draws is not None:
      lengths, values = convergence.r_hat_curve(draws)
      ordered = np.sort(values, axis=1)
      curves.append(
        (i, label, thinning * lengths, ordered[:, -1], ordered[:, len(ordered[0]) // 2])
      )

  def draw_fn(ax):
    for i, _, steps, largest, median in curves:
      ax.plot(steps, largest, **drawing.line_style(i))
      ax.plot(steps, median, linewidth=0.8, alpha=0.8, **drawing.line_style(i))
    drawing.log_scale(ax, 'x', np.concatenate([c[2] for c in curves]))
    drawing.log_scale(ax, 'y', np.concatenate([v for c in curves for v in c[3:]]))
    ax.set(xlabel='steps of a chain', ylabel='R-hat² − 1')

  return svg.plot(
    title,
    draw_fn,
    [
      svg.line_key(i, f'{label} ({largest[-1]:.3g} at the end)')
      for i, label, _, largest, _ in curves
    ],
    'Variance between chains over variance within. Thick: the worst projection, thin: the median. '
    'It should fall below 0.1 (an R-hat of 1.05) and go on falling; a plateau means that chains '
    'stay apart.',
  )


def projections(what, draws, ess, thinning):
  """Traces of the slowest and of a typical projection, and their autocorrelations.

  Args:
    what: Text.
    draws: `[s, c, r]`. What is one number, r = 1, has no projections: its own trace is shown.
    ess: Effective sample sizes `[r]`.
    thinning: Steps per draw.
  """
  order = np.argsort(ess)
  which = 'The projections with the smallest and with the median effective sample size. '
  shown = {'slowest projection': order[0], 'typical projection': order[len(order) // 2]}
  if len(order) == 1:
    which, shown = '', {what: 0}
  shown = {text: draws[:, :, i] for text, i in shown.items()}

  def draw_traces(*axes):
    for ax, (text, values) in zip(axes, shown.items(), strict=True):
      _draw_chains(ax, thinning * np.arange(1, len(values) + 1), values)
      ax.set(ylabel=text.removesuffix(' projection'))
    ax.set(xlabel='step')

  def draw_autocorrelations(ax):
    for i, values in enumerate(shown.values()):
      rho = convergence.autocorrelation(values)
      ax.plot(thinning * np.arange(len(rho)), rho, **drawing.line_style(i))
    ax.axhline(0, color=drawing.MUTED, linewidth=0.7)
    ax.set(xlabel='lag in steps', ylabel='autocorrelation', ylim=(None, 1.02))

  return [
    svg.plot(
      f'Trace of {what}',
      draw_traces,
      _chain_keys(draws.shape[1]),
      f'{which}Chains should cross and cover the same range, without drift.',
      num_rows=len(shown),
    ),
    svg.plot(
      f'Autocorrelation of {what}',
      draw_autocorrelations,
      [svg.line_key(i, text) for i, text in enumerate(shown)],
      'How alike draws are that lie so many steps apart, mean over chains. The sooner it falls to '
      'zero, the more a draw is worth.',
    ),
  ]


def histories(result):
  """Acceptance and energy of a `tfp_reprior.sampling.Result` over steps, warm-up included."""

  def phases(name):
    """Steps `[s]` and values `[s, c]` of warm-up, which ends at step 0, and of sampling."""
    if len(result.warmup_trace.get(name, ())):
      steps = np.cumsum(result.warmup_trace['steps'])
      yield steps - steps[-1], result.warmup_trace[name]
    values = result.trace[name]
    yield result.settings['thinning'] * np.arange(1, len(values) + 1), values

  def draw_acceptance(ax):
    for steps, values in phases('acceptance'):
      starts = np.arange(0, len(values), _stride(values, _NUM_BLOCKS))
      sizes = np.diff(np.append(starts, len(values)))
      means = np.add.reduceat(values, starts) / sizes[:, np.newaxis]
      middles = (steps[starts] + steps[starts + sizes - 1]) / 2
      color = drawing.COLORS[0]
      ax.fill_between(middles, means.min(1), means.max(1), color=color, alpha=0.2, linewidth=0)
      ax.plot(middles, means.mean(1), color=color)
    ax.axvline(0, color=drawing.MUTED, linestyle=':')
    ax.set(xlabel='step', ylabel='acceptance', ylim=(None, 1.02))

  def draw_energy(ax):
    for steps, values in phases('energy'):
      _draw_chains(ax, steps, values)
    # The start of warm-up is often so far off that nothing else could be seen.
    low, high = drawing.limits(values)
    bottom, top = ax.get_ylim()
    ax.axvline(0, color=drawing.MUTED, linestyle=':')
    ax.set(ylim=(max(bottom, 2 * low - high), min(top, 2 * high - low)))
    ax.set(xlabel='step', ylabel='energy')

  return [
    svg.plot(
      'Acceptance',
      draw_acceptance,
      [('line', drawing.COLORS[0], 'mean'), ('band', drawing.COLORS[0], 'lowest to highest chain')],
      'Means over blocks of steps; warm-up lies left of the dotted line. Right of it the curve '
      'should be level, with no chain far below the others.',
    ),
    svg.plot(
      'Energy',
      draw_energy,
      _chain_keys(result.num_chains),
      'Minus the log-density of state and momentum, up to a constant; warm-up, which may leave the '
      'frame, lies left of the dotted line. All chains should settle at one level.',
    ),
  ]


def _stride(values, num_points):
  return -(-len(values) // num_points)


def _draw_chains(ax, steps, values):
  every = slice(None, None, _stride(values, _MAX_POINTS))
  for c in range(min(_MAX_CHAINS, values.shape[1])):
    ax.plot(steps[every], values[every, c], linewidth=0.7, **drawing.line_style(c))


def _chain_keys(num_chains):
  keys = [svg.line_key(i, f'chain {i + 1}') for i in range(min(_MAX_CHAINS, num_chains))]
  hidden = num_chains - len(keys)
  return [*keys, ('band', drawing.MUTED, f'{hidden} not shown')] if hidden else keys
