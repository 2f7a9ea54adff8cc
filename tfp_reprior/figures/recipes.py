"""What a figure is made of."""

import pathlib
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

DATA = {'digits': 'digits', 'cifar10': 'CIFAR-10'}  # what to call them


class Recipe(NamedTuple):
  """How to make a figure.

  A figure consists of pieces, which are computed one by one, and kept. A piece is a dict of plain
  numbers and text that says all that its results depend on.

  Attributes:
    pieces: Function of a scale and of a dict of what all figures share, `data` and `seed`; returns
      a list of pieces.
    compute: Function of a piece and a `Context`; returns a dict of numbers, text and lists.
    draw: Function of a matplotlib figure and a list of rows, each a piece with its results.
    takes_seeds: Whether rows may be of several seeds.
    work: Function of a piece; returns its `estimate.Work`, from which we tell the time that it will
      take. By default pieces take no time worth mentioning.
  """

  pieces: Callable
  compute: Callable
  draw: Callable
  takes_seeds: bool = False
  work: Callable | None = None


class Context(NamedTuple):
  """What a piece is computed with, and does not depend on.

  Attributes:
    data_dir: Folder of TensorFlow Datasets, or None.
    run_dir: Folder for what a piece needs to survive an interruption. It need not exist, and is
      removed when the piece is finished.
    progress: Whether to show progress bars.
  """

  data_dir: str | None
  run_dir: pathlib.Path
  progress: bool


def describe(row):
  """The data of a row, as text."""
  return f'{DATA[row["data"]]}, n = {row["num_train"]}'


def over_seeds(figures):
  """One dict with `min`, `mean` and `max`: that of one seed, or of the means of several."""
  if len(figures) == 1:
    return figures[0]
  means = [f['mean'] for f in figures]
  return {'min': min(means), 'mean': sum(means) / len(means), 'max': max(means)}


def spread(figures):
  """Lows, means and highs `[3, ...]` of a list of dicts with `min`, `mean` and `max`."""
  return np.array([[f[which] for f in figures] for which in ('min', 'mean', 'max')])
