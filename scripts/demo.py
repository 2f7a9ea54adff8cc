"""What repriorisation gains: the same posterior, sampled with and without it.

Samples the posterior of a fully connected network on scikit-learn's digits with underdamped
Langevin dynamics in the standard parametrisation, and with the sampler of this package that it
chooses by itself. Both are tuned by the same procedure, start from the same weights, take the same
number of steps, and are corrected by accept / reject: both sample the same, exact posterior, if
they run long enough. Ends with a page that compares them.
"""

import pathlib

from absl import app, flags

import tfp_reprior as tfr

_WIDTH = flags.DEFINE_integer('width', 256, 'Width of the three hidden layers.', lower_bound=1)
_NUM_TRAIN = flags.DEFINE_integer('num_train', 64, 'Number of training images.', lower_bound=1)
_NUM_TEST = flags.DEFINE_integer('num_test', 300, 'Number of test images.', lower_bound=1)
_NUM_CHAINS = flags.DEFINE_integer('num_chains', 2, 'Number of chains.', lower_bound=1)
_NUM_RESULTS = flags.DEFINE_integer('num_results', 300, 'Draws of a chain.', lower_bound=8)
_THINNING = flags.DEFINE_integer('thinning', 16, 'Steps for each draw.', lower_bound=1)
_NUM_TUNING_STEPS = flags.DEFINE_integer('num_tuning_steps', 150, 'As of tfr.mcmc.tune.', 4)
_SEED = flags.DEFINE_integer('seed', 1, 'Seed of everything random.')
_OUTPUT = flags.DEFINE_string('output', 'runs/demo', 'Folder for the runs and the page.')


def main(argv):
  if len(argv) > 1:
    raise app.UsageError(f'Unknown arguments: {argv[1:]}')
  tfr.compilation.keep_freed_memory()
  data = tfr.data.load('digits', _NUM_TRAIN.value, _NUM_TEST.value, seed=_SEED.value)
  model = tfr.models.fcn(data.x_train.shape[1:], 10, _WIDTH.value)
  folder = pathlib.Path(_OUTPUT.value)
  results = []
  for name, sampler in [('standard', 'standard'), ('repriorised', 'auto')]:
    print(f'\n{name}', flush=True)
    results.append(
      tfr.sample_posterior(
        model,
        data.x_train,
        data.y_train,
        x_test=data.x_test,
        y_test=data.y_test,
        run_dir=folder / name,
        sampler=sampler,
        num_chains=_NUM_CHAINS.value,
        num_results=_NUM_RESULTS.value,
        thinning=_THINNING.value,
        num_tuning_steps=_NUM_TUNING_STEPS.value,
        seed=_SEED.value,
      )
    )
    print(results[-1].summary(), flush=True)
  page = tfr.report.write_report(results, folder / 'report.html', ['standard', 'repriorised'])
  print(f'\nThe page that compares them: {pathlib.Path(page).resolve()}')


if __name__ == '__main__':
  app.run(main)
