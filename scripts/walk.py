"""Walks one gradient and one draw through the files of the package, for those who read it.

Prints how many files there are, how often the walk goes from one to another, and the files in the
order in which they are first entered. Eager, one hidden layer, the default sampler:
  python scripts/walk.py
"""

import pathlib
import sys

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp
from absl import app

import tfp_reprior as tfr
from tfp_reprior.sampling import observations, warmup

_PACKAGE = pathlib.Path(tfr.__file__).parent


def walk(fn):
  """The files of the package that a call of `fn` is in, one after the other."""
  files = []

  def note(frame, event, _):
    path = pathlib.Path(frame.f_code.co_filename)
    if event == 'call' and _PACKAGE in path.parents:
      name = str(path.relative_to(_PACKAGE))
      if files[-1:] != [name]:
        files.append(name)

  sys.setprofile(note)
  try:
    fn()
  finally:
    sys.setprofile(None)
  return files


def main(argv):
  if len(argv) > 1:
    raise app.UsageError(f'Unknown arguments: {argv[1:]}')
  x = np.linspace(-1, 1, 10, dtype=np.float32)[:, np.newaxis]
  posterior = tfr.Posterior(tfr.models.fcn((1,), 1, width=8, depth=1), x, np.sin(3 * x), 0.1)
  density, sampler = tfr.CollapsedPosterior(posterior), tfr.make_sampler(posterior)
  observer = observations.Observer(sampler, tf.constant(x), num_projections=3, seed=1)
  settings = {'step_size': 0.1, 'damping': 0.1, 'num_integrator_steps': 1}
  kernel = warmup.sampling_kernel(sampler, settings)
  state, summary = sampler.start_fn(2, seed=1), observer.empty(2)
  results = kernel.bootstrap_results(state)
  density.target_log_prob_fn(*state)  # finds out what it keeps

  def draw():
    observer.draw(*kernel.one_step(state, results, seed=[1, 2]), summary)

  def gradient():
    tfp.math.value_and_gradient(density.target_log_prob_fn, state)

  for name, fn in (('gradient', gradient), ('draw', draw)):
    files = walk(fn)
    print(f'One {name}: {len(set(files))} files, {len(files) - 1} changes of file')
    print('  ' + '\n  '.join(dict.fromkeys(files)))


if __name__ == '__main__':
  app.run(main)
