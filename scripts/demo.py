"""What repriorisation gains: the same posterior, sampled with and without it.

Samples the posterior of a fully connected network on scikit-learn's digits with underdamped
Langevin dynamics in the standard parametrisation, and with the sampler that this package chooses by
itself. Both warm up by the same procedure, start from the same weights, and accept / reject: both
sample the same, exact posterior. The standard one takes several times as many steps, because it
needs them. The other one has layers in data space, where they qualify (docs/data_space.md), and
says which. Ends with a page that compares the two, and with a sentence on what was gained, which is
read off chains that passed the verdict on their draws, or not at all.
"""

import pathlib
import warnings

from absl import app, flags

import tfp_reprior as tfr

_WIDTH = flags.DEFINE_integer('width', 256, 'Width of the three hidden layers.', lower_bound=1)
_NUM_TRAIN = flags.DEFINE_integer('num_train', 64, 'Number of training images.', lower_bound=1)
_NUM_TEST = flags.DEFINE_integer('num_test', 300, 'Number of test images.', lower_bound=1)
_NUM_CHAINS = flags.DEFINE_integer('num_chains', 4, 'Number of chains.', lower_bound=1)
_NUM_RESULTS = flags.DEFINE_integer('num_results', 150, 'Draws of a chain.', lower_bound=8)
_THINNING = flags.DEFINE_integer('thinning', 12, 'Steps for each draw.', lower_bound=1)
_NUM_WARMUP_STEPS = flags.DEFINE_integer(
  'num_warmup_steps', None, 'By default as runs choose.', 100
)
_STANDARD_STEPS = flags.DEFINE_integer(
  'standard_steps', 5, 'How many times as many steps the standard parametrisation takes.', 1
)
_SEED = flags.DEFINE_integer('seed', 1, 'Seed of everything random.')
_OUTPUT = flags.DEFINE_string('output', 'runs/demo', 'Folder for the runs and the page.')


def gain(standard, repriorised):
  """A sentence on how many effective samples a step has, or why that can't be said.

  Of the slowest kind of quantity that both have, and of the outputs.
  """
  for name, result in (('standard', standard), ('repriorised', repriorised)):
    if result.verdict.level == 'failed':
      return (
        f'No gain is told: the {name} chains failed. {result.verdict.reasons[0].text} A longer run '
        '(--num_results) may pass.'
      )
  ratios = {}
  for name in ('hidden', 'f'):
    sizes = [
      r.verdict.mixing[name].mean_ess / (r.num_steps * r.num_chains)
      for r in (standard, repriorised)
    ]
    ratios[name] = sizes[1] / sizes[0]
  return (
    f'Repriorised, a step gives {ratios["hidden"]:.1f} times as many effective samples of the '
    f'weights, and {ratios["f"]:.1f} times as many of the outputs, as without.'
  )


def main(argv):
  if len(argv) > 1:
    raise app.UsageError(f'Unknown arguments: {argv[1:]}')
  tfr.compilation.keep_freed_memory()
  warnings.simplefilter('ignore', tfr.diagnostics.SamplingWarning)  # the summary says it
  data = tfr.data.load('digits', _NUM_TRAIN.value, _NUM_TEST.value, seed=_SEED.value)
  model = tfr.models.fcn(data.x_train.shape[1:], 10, _WIDTH.value)
  folder = pathlib.Path(_OUTPUT.value)
  results = []
  for name, sampler, factor in [
    ('standard', 'standard', _STANDARD_STEPS.value),
    ('repriorised', 'auto', 1),
  ]:
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
        thinning=factor * _THINNING.value,
        num_warmup_steps=_NUM_WARMUP_STEPS.value,
        seed=_SEED.value,
        noise_scale=0.1,
      )
    )
    print(results[-1].summary(), flush=True)
  page = tfr.report.write_report(results, folder / 'report.html', ['standard', 'repriorised'])
  print(f'\nThe page that compares them: {pathlib.Path(page).resolve()}')
  names = results[1].posterior.split.names_in_data_space
  if names:
    print(
      f'\nRepriorised, with layers in data space: {", ".join(names)}. There chains move what the '
      'data can see of the weights, and effective samples are of that (docs/data_space.md).'
    )
  print(f'\n{gain(*results)}')


if __name__ == '__main__':
  app.run(main)
