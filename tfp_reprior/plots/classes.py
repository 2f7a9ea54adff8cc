"""Pictures of predictions of classes. Each function returns a `pictures.Picture`."""

import numpy as np

from tfp_reprior.diagnostics import metrics
from tfp_reprior.plots import drawing, pictures

_MAX_POINTS = 300
_MAX_NUMBERS = 12  # classes with numbers in the picture, and names beside it
_LONGEST_NAME = 12
_FEW = 5
_ROOM = 42  # letters below an axis
_BLUE, _ORANGE = drawing.COLORS[:2]
_CALIBRATED = ('dash', drawing.MUTED, 'calibrated')


def probabilities(result, x, prediction):
  """Probabilities against a one-dimensional input `x` `[m, 1]`, with their bands over draws."""
  k = prediction.mean.shape[1]
  # Of many, those that are likely anywhere.
  shown = np.sort(np.argsort(-np.max(prediction.mean, axis=0))[: len(drawing.COLORS)])
  inputs = np.ravel(x)
  [input_name] = result.preparation.input_names or ['x']
  order = np.argsort(inputs)
  order = order[:: -(-len(order) // _MAX_POINTS)]
  low, high = np.quantile(prediction.probabilities[:, order], [0.05, 0.95], axis=0)
  x_train, y_train = result.training_data
  x_train = np.ravel(x_train)
  is_categorical = y_train.ndim == 1
  observed = np.eye(k)[y_train] if is_categorical else y_train  # [n, k]

  def draw_fn(ax):
    for i, j in enumerate(shown):
      color = drawing.COLORS[i]
      ax.fill_between(inputs[order], low[:, j], high[:, j], color=color, alpha=0.16, linewidth=0)
      ax.plot(inputs[order], prediction.mean[order, j], color=color)
      for value, level in ((1, 1.04), (0, -0.04)):
        if value == 1 or not is_categorical:
          x = x_train[observed[:, j] == value]
          ax.plot(x, np.full(len(x), level), '|', color=color, markersize=6)
    ax.set(xlabel=input_name, ylabel='probability', ylim=(-0.08, 1.08))

  what = 'class' if is_categorical else 'output'
  names = result.preparation.class_names if is_categorical else None
  names = names or [f'{what} {j}' for j in range(k)]
  legend = [('line', drawing.COLORS[i], names[j]) for i, j in enumerate(shown)]
  return pictures.Picture(
    'Probabilities' if len(shown) == k else f'Probabilities, {len(shown)} of {k}',
    draw_fn,
    [*legend, ('band', drawing.MUTED, '90 % of draws')],
    'Marks at the top are training data of the class'
    + ('. ' if is_categorical else ' (1), and at the bottom of the other (0). ')
    + 'Away from them the draws should differ, and bands open.',
  )


def reliability(probabilities, labels):
  """Accuracy against confidence, for classes."""
  _, confidence, accuracy, share = metrics.reliability(probabilities, labels)
  low, high = metrics.wilson(accuracy, share * len(labels))

  def draw_fn(ax):
    ax.plot([0, 1], [0, 1], color=drawing.MUTED, linestyle='--', linewidth=1)
    ax.vlines(confidence, low, high, color=_BLUE, linewidth=1.2)
    ax.plot(confidence, accuracy, color=_BLUE, linewidth=0.7, alpha=0.6)
    ax.scatter(confidence, accuracy, 12 + 100 * share, color=_BLUE, zorder=3)
    ax.set(xlabel='confidence', ylabel='accuracy', xlim=(0, 1.03), ylim=(-0.02, 1.05))

  return pictures.Picture(
    'Reliability of class probabilities',
    draw_fn,
    [('dot', _BLUE, 'test data by confidence'), _CALIBRATED],
    'Larger dots hold more data; bars are 95 % intervals (Wilson). Below the diagonal predictions '
    'are too sure of themselves, above it not sure enough.',
  )


def confusion(probabilities, labels, names):
  """How often each class is taken for which.

  Args:
    probabilities: `[m, k]`.
    labels: Integers `[m]`.
    names: List of k texts.
  """
  k = len(names)
  counts = np.zeros([k, k], int)
  np.add.at(counts, (labels, np.argmax(probabilities, axis=-1)), 1)
  shares = counts / np.maximum(np.sum(counts, axis=1, keepdims=True), 1)

  def draw_fn(ax):
    from matplotlib import patches

    for i, j in zip(*np.nonzero(counts), strict=True):
      color, strength = (_BLUE if i == j else _ORANGE), 0.1 + 0.35 * shares[i, j]
      ax.add_patch(
        patches.Rectangle((j - 0.5, i - 0.5), 1, 1, color=color, alpha=strength, linewidth=0)
      )
      if k <= _MAX_NUMBERS:
        ax.text(j, i, str(counts[i, j]), ha='center', va='center', fontsize=8)
    every = -(-k // _MAX_NUMBERS)
    short = [
      name if len(name) <= _LONGEST_NAME else f'{name[: _LONGEST_NAME - 1]}…' for name in names
    ]
    is_crowded = max(map(len, short)) * min(k, _MAX_NUMBERS) > _ROOM
    ax.set_xticks(range(0, k, every), short[::every], rotation=60 if is_crowded else 0)
    ax.set_yticks(range(0, k, every), short[::every])
    ax.set(xlim=(-0.5, k - 0.5), ylim=(k - 0.5, -0.5), xlabel='predicted', ylabel='true')
    ax.grid(visible=False)

  return pictures.Picture(
    'What is taken for what',
    draw_fn,
    [('band', _BLUE, 'right'), ('band', _ORANGE, 'wrong')],
    'Numbers of test data. Rows are the true classes; what lies off the diagonal was taken for '
    'another class.',
    size=(4.2, 3.4 if k > _FEW else 2.7),
  )


def uncertain_images(x, probabilities, labels, names, chosen):
  """The test images that the prediction is least sure about, with what it says.

  Args:
    x: Images `[m, h, w]` or `[m, h, w, channels]`, one or three channels.
    probabilities: `[m, k]`.
    labels: Integers `[m]`, or None.
    names: List of k texts.
    chosen: Numbers of up to eight of them.
  """
  images = np.asarray(x, np.float64)[chosen]
  images = images[..., 0] if images.ndim == 4 and images.shape[-1] == 1 else images
  low, high = np.min(images), np.max(images)
  images = (images - low) / (high - low or 1.0)

  def title(i):
    lines = [f'{names[j]} {probabilities[i, j]:.2f}' for j in np.argsort(-probabilities[i])[:2]]
    return '\n'.join(lines if labels is None else [f'true: {names[labels[i]]}', *lines])

  def draw_fn(ax):
    ax.set_axis_off()
    columns = 4
    rows = -(-len(chosen) // columns)
    for place, (i, image) in enumerate(zip(chosen, images, strict=True)):
      row, column = divmod(place, columns)
      cell = ax.inset_axes([column / columns, 1 - (row + 0.6) / rows, 0.9 / columns, 0.6 / rows])
      cell.imshow(image, cmap='gray', interpolation='nearest')
      cell.set_axis_off()
      ax.text(
        (column + 0.45) / columns,
        1 - (row + 0.63) / rows,
        title(i),
        transform=ax.transAxes,
        ha='center',
        va='top',
        fontsize=8,
        linespacing=1.25,
      )
    ax.set(xlabel='', ylabel='images')

  return pictures.Picture(
    'Least certain',
    draw_fn,
    [],
    'The test images with the least confident predictions: what they are, and the two likeliest '
    'classes with their probabilities. A person may be unsure about them, too.',
    size=(4.2, 3.9),
  )


def accuracy_of_surest(probabilities, labels):
  """Accuracy where the least sure predictions are left out, for classes."""
  accuracy = metrics.accuracy_of_surest(probabilities, labels)
  share = np.arange(1, len(labels) + 1) / len(labels)
  error = np.sqrt(accuracy * (1 - accuracy) / np.arange(1, len(labels) + 1))

  def draw_fn(ax):
    low, high = accuracy - 2 * error, np.minimum(accuracy + 2 * error, 1)
    ax.fill_between(share, low, high, color=_BLUE, alpha=0.16, linewidth=0)
    ax.axhline(accuracy[-1], color=drawing.MUTED, linestyle='--', linewidth=1)
    ax.plot(share, accuracy, color=_BLUE)
    ax.set(xlabel='share of test data, the surest first', ylabel='accuracy', xlim=(0, 1))
    ax.set(ylim=drawing.limits([accuracy[-1], *low[len(low) // 20 :], 1.0]))

  return pictures.Picture(
    'Accuracy of the surest',
    draw_fn,
    [
      ('line', _BLUE, 'accuracy'),
      ('band', _BLUE, 'two standard errors'),
      ('dash', drawing.MUTED, 'of all'),
    ],
    'If confidence means anything, the surest predictions are right most often, and the curve '
    'falls from left to right.',
  )


def true_classes(probabilities, labels):
  """Histogram of the probability of the class that is true."""
  chosen = probabilities[np.arange(len(labels)), labels]
  is_right = np.argmax(probabilities, axis=-1) == labels
  bins = np.linspace(0, 1, 21)

  def draw_fn(ax):
    parts, colors = [chosen[is_right], chosen[~is_right]], [_BLUE, _ORANGE]
    ax.hist(parts, bins, stacked=True, color=colors, alpha=0.5)
    ax.set(xlabel='probability of the true class', ylabel='number of test data', xlim=(0, 1))

  return pictures.Picture(
    'Probability of the true class',
    draw_fn,
    [('band', _BLUE, 'right'), ('band', _ORANGE, 'wrong')],
    'What was wrong should lie in the middle, where the prediction was unsure, rather than at the '
    'left, where it was sure of another class.',
  )
