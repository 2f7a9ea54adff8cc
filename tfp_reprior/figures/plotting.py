"""What the drawings of several figures share."""

from tfp_reprior.report import drawing

# The same color for the same thing in all figures.
STANDARD = {'color': drawing.COLORS[1], 'marker': 'o', 'label': 'standard'}
REPRIORISED = {'color': drawing.COLORS[0], 'marker': 's', 'label': 'repriorised'}
DATA = {'digits': 'digits', 'cifar10': 'CIFAR-10'}


def curve_with_band(ax, x, means, lows, highs, **style):
  """A line with markers, and a band from `lows` to `highs` around it."""
  ax.plot(x, means, markersize=3.5, **style)
  ax.fill_between(x, lows, highs, color=style['color'], alpha=0.15, linewidth=0)


def spread(figures):
  """Lows, means and highs of a list of dicts with `min`, `mean` and `max`."""
  return tuple([f[which] for f in figures] for which in ('min', 'mean', 'max'))


def log_log(ax, x, y):
  """Makes both axes logarithmic, with ticks at the values of x."""
  from matplotlib import ticker

  drawing.log_scale(ax, 'y', y)
  ax.set_xscale('log')
  ax.xaxis.set_major_locator(ticker.FixedLocator(sorted(set(x))))
  ax.xaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f'{value:g}'))
  ax.xaxis.set_minor_locator(ticker.NullLocator())


def legend(figure):
  """One legend for all panels, above them."""
  entries = {}
  for ax in figure.axes:
    handles, labels = ax.get_legend_handles_labels()
    entries |= dict(zip(labels, handles, strict=True))
  figure.legend(
    entries.values(), entries.keys(), loc='outside upper center', ncols=len(entries), frameon=False
  )


def describe(row):
  """The data of a row, as text."""
  return f'{DATA[row["data"]]}, n = {row["num_train"]}'
