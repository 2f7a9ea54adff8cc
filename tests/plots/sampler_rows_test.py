"""Pictures of effective samples: the axis is what the rows have several of."""

import pytest

from tfp_reprior.plots import drawing, sampler_rows


def _rows(samplers, widths, nums_data):
  return [
    {'sampler': s, 'width': w, 'n': n, 'seed': seed}
    | {f'{key} ESS / 1k gradients': n + w + seed for key in sampler_rows.QUANTITIES}
    for s in samplers
    for w in widths
    for n in nums_data
    for seed in (1, 3)
  ]


@pytest.mark.parametrize(
  ('sizes', 'label', 'xs'),
  [
    (
      (['auto', 'standard'], [8], [4, 8, 16]),
      'data for each unit of a layer (width 8)',
      [0.5, 1, 2],
    ),
    ((['auto'], [4, 8, 16], [4]), 'width', [4, 8, 16]),
    ((['auto', 'standard'], [8], [4, 8]), 'effective samples per 1,000 gradients', None),
  ],
)
def test_the_axis_is_what_there_are_several_of(sizes, label, xs):
  with drawing.canvas(7.2, 4.0) as figure:
    sampler_rows.draw(figure, _rows(*sizes))
    figure.canvas.draw()
  assert figure.get_supxlabel() == label
  if xs is not None:
    line = figure.axes[0].lines[0]
    assert list(line.get_xdata()) == xs
    scale = 1000 if label == 'width' else 1
    width = sizes[1][0]
    assert line.get_ydata()[0] == pytest.approx((4 + width + 2) / scale)  # the mean over seeds


def test_samplers_over_widths_are_those_with_several_and_one_step_is_dashed():
  rows = _rows(['auto', 'auto@1'], [4, 8, 16], [4]) + _rows(['rotation'], [8], [4])
  rows += _rows(['standard'], [4, 8], [4]) + _rows(['standard@25'], [16], [4])
  with drawing.canvas(7.2, 4.0) as figure:
    sampler_rows.draw(figure, rows)
  styles = {line.get_label(): line.get_linestyle() for line in figure.axes[0].get_lines()}
  assert styles == {'standard': '-', 'in data space': '-', 'one step': '--'}


def test_sizes_by_variance_are_shown_where_all_rows_have_them():
  rows = _rows(['standard', 'auto'], [4, 8, 16], [4])
  for i, row in enumerate(rows):
    row['theta ESS / 1k gradients, by variance'] = 1000.0 + i
    if i:
      row['f ESS / 1k gradients, by variance'] = 1000.0
  for ending in ('', ', by variance'):
    del rows[-1][f'theta ESS / 1k gradients{ending}']  # a network too wide for its weights
  with drawing.canvas(7.2, 4.0) as figure:
    sampler_rows.draw(figure, rows)
  weights, outputs = (ax.lines[0].get_ydata()[0] for ax in figure.axes)
  assert weights == 1000.5  # the mean over seeds
  assert outputs == 4 + 4 + 2
