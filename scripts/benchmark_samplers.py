"""Compares samplers on one posterior: effective samples per gradient and per second.

Each sampler warms up by the same procedure (`tfr.warm_up`; NUTS by dual averaging), then runs the
same number of gradients: samplers with several gradients a transition take fewer transitions. Step
sizes and steps are by gradient, also where a step of the integrator takes three. All start from the
same weights, images of N(0, I) under the repriorisation. Effective sample sizes are per chain, of

  theta           100 random projections of the weights, fresh draws of what the data don't see
                  among them; for networks of up to 2^24 weights
  f               100 random projections of the outputs for test inputs
  log_likelihood  with the readout integrated out, but for samplers that move it
  norms           squared norms of the weights of each layer
  state           100 random projections of the hidden parts that the sampler moves: of the weights,
                  or in data space of the u, which has no fresh draws
  state norms     squared norms of these

as the mean over projections or layers, for theta and f also the minimum. For these two there is
also the size by the variance that the sampler of --reference has found for the same posterior, if
--json has it (`tfr.diagnostics.slow_effective_sample_size`): chains that are short against their
correlations have no more than they should. The mean of the log-
likelihood, and by how many of its standard deviations it rises from the first half of a chain to
the second, tell whether chains have arrived; the effective size of a drift says nothing. For
kernels that use no gradient we count likelihoods. With --json each row is saved when it is made,
and the same command goes on; several commands may share a file.
"""

import functools
import itertools
import pathlib
import time

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp
from absl import app, flags

import tfp_reprior as tfr
from tfp_reprior.benchmarks import results, table_data, table_models, timing
from tfp_reprior.internal import random
from tfp_reprior.plots import drawing, sampler_rows
from tfp_reprior.sampling import coordinates, runner, warmup

_DATA = flags.DEFINE_string(
  'data',
  None,
  'As of `tfr.data.load`; by default digits, or cifar10. Or a table with real targets, such as '
  'diamonds, of `tfp_reprior.benchmarks.table_data`.',
)
_DATA_DIR = flags.DEFINE_string('data_dir', None, 'Of TFDS, for cifar10 in place of the digits.')
_WIDTHS = flags.DEFINE_list('widths', ['64', '256', '1024'], 'Widths of the network.')
_DEPTH = flags.DEFINE_integer('depth', 3, 'Hidden layers of the network.', 1)
_NUMS_DATA = flags.DEFINE_list('nums_data', ['64', '256'], 'Numbers of training data.')
_NUM_TEST = flags.DEFINE_integer('num_test', 100, 'Number of test inputs.', 1)
_LIKELIHOOD = flags.DEFINE_enum(
  'likelihood',
  'gaussian',
  ['gaussian', 'categorical'],
  'Of the targets, centered one-hot vectors, or of the labels; nuts_repriorised and '
  'elliptical_slice know the first only.',
)
_NOISE_SCALE = flags.DEFINE_float('noise_scale', 0.1, 'Of real targets.', 1e-6)
_SAMPLERS = flags.DEFINE_list(
  'samplers',
  [
    'uncalibrated_standard',
    'standard',
    'uncalibrated_langevin',
    'langevin',
    'uncalibrated_rotation',
    'rotation',
    'auto',
    'crank_nicolson',
    'elliptical_slice',
    'nuts_standard',
    'nuts_repriorised',
  ],
  'Which to compare; uncalibrated_langevin is that of Hron et al. (2022). A regularizer other than '
  'noise goes after a colon: rotation:n*noise, rotation:inf, rotation:tuned. auto is rotation with '
  'hidden layers in data space, where they qualify. The regularizer of hidden layers, for a map on '
  'every layer, goes after a +: auto+3, auto+tuned. The stages of a step, in place of those of the '
  'sampler by default, go after a /: auto/3, auto+10/1. A number of gradients of a transition, in '
  'place of what warm-up finds, goes after an @: auto@1. A - at the end leaves out moves of the '
  'readout alone, which are for other likelihoods than the Gaussian: auto:inf-.',
)
_NUM_GRADIENTS = flags.DEFINE_integer('num_gradients', 4000, 'Gradients of each chain.', 100)
_NUM_WARMUP_STEPS = flags.DEFINE_integer('num_warmup_steps', 1500, 'Gradients of warm-up.', 100)
_STEPS_AFTER_WARMUP = flags.DEFINE_bool(
  'steps_after_warmup',
  False,
  'Warm up with transitions of any length, and take the steps after an @ only then: many at once '
  'leave few transitions to adapt to.',
)
_START = flags.DEFINE_enum(
  'start', 'prior', ['prior', 'optimized'], 'Where chains start, as of `tfr.sample_posterior`.'
)
_NUM_CHAINS = flags.DEFINE_integer('num_chains', 2, 'Chains, side by side.', 2)
_THINNING = flags.DEFINE_integer('thinning', 4, 'Traces a state for this many gradients.', 1)
_SEEDS = flags.DEFINE_list('seeds', ['1'], 'Seeds of everything random, the data among it.')
_REFERENCE = flags.DEFINE_string(
  'reference', 'auto', 'Sampler whose rows of --json tell the variances of projections.'
)
_JSON = flags.DEFINE_string('json', None, 'File to write the figures to, and to go on from.')
_ALSO = flags.DEFINE_list('also', [], 'Such files of earlier runs, to show with this one.')
_FIGURE = flags.DEFINE_string(
  'figure',
  None,
  'File to draw to, such as a .png: samplers, or some at three widths or numbers of data, or more.',
)


# Weights of a network that are made anew for each draw, if its layers are in data space.
_LARGEST_NETWORK = 2**24
_NUM_TIMED = 20  # gradients, or one transition
_TABLES = set(table_data.TABLES) - set(table_data.CLASSES)
_CHOSEN = dict.fromkeys(['step size', 'damping', 'steps', 'regularizer'], '')


def make(posterior, name, seed):
  """Makes a tuned kernel.

  Args:
    posterior: A `tfp_reprior.Posterior`.
    name: One of `--samplers`.
    seed: Integer.

  Returns:
    sampler: A `tfp_reprior.sampling.Sampler`, for its coordinates.
    kernel: The kernel.
    chosen: Its settings, a dict.
    length: The gradients of a transition, about, if it takes as many as it needs.
    count_fn: Function of the results of a transition; returns the gradients that it took,
      `[*chains]`.
    start: The state to start from.
  """
  if name == 'elliptical_slice':
    return make_elliptical_slice(posterior, seed)
  if name.startswith('nuts'):
    return make_nuts(posterior, name, seed)
  moves_readout = False if name.endswith('-') else None
  name, _, transition = name.rstrip('-').partition('@')
  name, _, num_stages = name.partition('/')
  name, _, layer_regularizer = name.partition('+')
  name, _, regularizer = name.partition(':')
  default = None if name.endswith('standard') else 'noise'
  num_stages = int(num_stages) if num_stages else None
  if layer_regularizer != 'tuned':  # no map on every layer unless it is asked for
    layer_regularizer = float(layer_regularizer or 'inf')
  num_steps = None
  if transition and not _STEPS_AFTER_WARMUP.value:
    num_steps = steps_of(transition, coordinates.num_stages(name, layer_regularizer, num_stages))
  found = tfr.warm_up(
    posterior,
    sampler=name,
    regularizer=float(regularizer) if regularizer == 'inf' else regularizer or default,
    layer_regularizer=layer_regularizer,
    moves_readout=moves_readout,
    num_stages=num_stages,
    num_integrator_steps=num_steps,
    num_chains=_NUM_CHAINS.value,
    num_warmup_steps=_NUM_WARMUP_STEPS.value,
    start=_START.value,
    seed=seed,
    progress=False,
  )
  sampler = tfr.make_sampler(
    posterior,
    name,
    regularizer=found.regularizer,
    layer_regularizer=found.layer_regularizer,
    moves_readout=moves_readout,
    num_stages=num_stages,
  )
  if sampler.anchor is not None:
    sampler.anchor.place(found.anchor)
  num_integrator_steps, damping = found.num_integrator_steps, found.damping
  if transition and num_integrator_steps != steps_of(transition, sampler.num_stages):
    num_integrator_steps = steps_of(transition, sampler.num_stages)
    damping = warmup.default_damping(found.step_size, num_integrator_steps)
  length = sampler.num_gradients(num_integrator_steps)
  found_settings = {
    'step_size': found.step_size,
    'damping': damping,
    'num_integrator_steps': num_integrator_steps,
  }
  kernel = warmup.sampling_kernel(sampler, found_settings)
  # By gradient, so that rows compare.
  per_gradient = found.step_size / sampler.num_stages
  steps = num_integrator_steps * sampler.num_stages
  chosen = _CHOSEN | {'step size': per_gradient, 'steps': steps}
  if sampler.has_damping:
    chosen['damping'] = damping
  chosen['regularizer'] = str(found.regularizer)
  start = [tf.constant(p) for p in found.state]
  return (
    sampler,
    kernel,
    chosen,
    length,
    lambda _: tf.fill([_NUM_CHAINS.value], float(length)),
    start,
  )


def steps_of(num_gradients, num_stages):
  """How many steps of so many stages about so many gradients are, at least one."""
  return max(1, round(int(num_gradients) / num_stages))


def make_elliptical_slice(posterior, seed):
  """As `make`; its gradients are likelihoods, of all chains at once."""
  shapes = [(_NUM_CHAINS.value, *s) for s in posterior.split.event_shapes]
  collapsed = tfr.CollapsedPosterior(posterior)
  counter = tf.Variable(0.0, trainable=False)  # the results of the kernel do not tell

  def log_likelihood_fn(*phi):
    counter.assign_add(1.0)
    return collapsed.log_likelihood_fn(*phi)

  def count_fn(_):
    count = tf.fill([_NUM_CHAINS.value], counter.read_value())
    counter.assign(0.0)
    return count

  kernel = tfp.experimental.mcmc.EllipticalSliceSampler(
    normal_sampler_fn=lambda seed: random.normal_parts(shapes, tf.float32, seed),
    log_likelihood_fn=log_likelihood_fn,
  )
  sampler = tfr.make_sampler(posterior, 'rotation')
  start = sampler.start_fn(_NUM_CHAINS.value, seed)
  return sampler, kernel, _CHOSEN, 8, count_fn, start


def make_nuts(posterior, name, seed):
  """As `make`."""
  is_standard = name == 'nuts_standard'
  target = posterior if is_standard else tfr.CollapsedPosterior(posterior)
  kernel = tfp.mcmc.NoUTurnSampler(target.target_log_prob_fn, 0.01, max_tree_depth=6)
  kernel = tfp.mcmc.DualAveragingStepSizeAdaptation(kernel, _NUM_WARMUP_STEPS.value // 30)
  sampler = tfr.make_sampler(posterior, 'standard' if is_standard else 'langevin')
  start = sampler.start_fn(_NUM_CHAINS.value, seed)
  return sampler, kernel, _CHOSEN, 32, lambda r: r.inner_results.leapfrogs_taken, start


def measure(case):
  """The figures of one sampler, posterior and seed."""
  posterior, x_test = load(case['width'], case['n'], case['seed'])
  name, seed = case['sampler'], case['seed']
  sampler, kernel, chosen, length, count_fn, start = make(posterior, name, seed)
  network, split = posterior.split, sampler.posterior.split
  has_weights = network.num_parameters <= _LARGEST_NETWORK
  project = {
    'theta': tfr.diagnostics.RandomProjections(network.event_shapes, seed=1)
    if has_weights
    else None,
    'f': tfr.diagnostics.RandomProjections([(len(x_test), split.num_outputs)], seed=2),
    'state': tfr.diagnostics.RandomProjections(split.event_shapes[: split.num_hidden], seed=3),
  }
  takes_what_it_needs = name == 'elliptical_slice' or name.startswith('nuts')

  def trace_fn(state, results):
    number = tf.stack([getattr(results, 'number', tf.constant(0)), 1])
    parts = sampler.parts_fn(state)
    hidden = parts[: split.num_hidden]
    trace = {'gradients': count_fn(results), 'state': project['state'](hidden)}
    trace['state norms'] = squared_norms(hidden)
    if has_weights:
      theta = split.to_weights(parts, number)
      trace['theta'] = project['theta'](theta)
      trace['norms'] = squared_norms(theta[: network.num_hidden])
    f = network.apply(theta, x_test) if has_weights else split.apply_new(parts, x_test, number)
    trace['f'] = project['f'](f)
    inner = runner.innermost(results)
    if hasattr(inner, 'target_log_prob'):
      trace['log_likelihood'] = inner.target_log_prob - sampler.unmap_fn(state)[1]
    return trace

  thinning = 1 if takes_what_it_needs else max(1, _THINNING.value // length)
  num_draws = _NUM_GRADIENTS.value // (thinning * length)
  trace, state = runner.run_chains(kernel, start, trace_fn, num_draws, thinning, seed=seed + 1)
  skip = num_draws // 5
  kept = {key: values[skip:] for key, values in trace.items()}
  gradients = thinning * kept['gradients'].sum(0).mean()
  seconds = seconds_per_gradient(kernel, state, count_fn, length)
  row = chosen | {'acceptance': float(np.mean(kept.get('acceptance', np.nan)))}
  for key in sampler_rows.QUANTITIES:
    if key in kept:
      ess = np.mean(tfr.diagnostics.effective_sample_size(kept[key]), axis=0)  # over chains
      sizes = {'': np.mean(ess)}
      if key in ('theta', 'f'):
        row[f'{key} minimum'] = float(1000 * np.min(ess) / gradients)
        row[f'{key} variance'] = float(np.mean(np.var(kept[key], axis=(0, 1))))
        variance = reference_variance(case, key, row)
        if variance is not None:
          sizes[', by variance'] = tfr.diagnostics.slow_effective_sample_size(kept[key], variance)
      for kind, size in sizes.items():
        row[f'{key} ESS / 1k gradients{kind}'] = float(1000 * size / gradients)
        row[f'{key} ESS / s{kind}'] = float(size * _NUM_CHAINS.value / (gradients * seconds))
  if 'log_likelihood' in kept:
    row['log_likelihood mean'] = float(np.mean(kept['log_likelihood']))
    first, second = np.array_split(kept['log_likelihood'], 2)
    deviation = np.sqrt(np.mean(np.var(first, axis=0) + np.var(second, axis=0)) / 2)
    rise = np.mean(second - np.mean(first, axis=0))
    row['log_likelihood rise'] = float(rise / deviation) if deviation else np.nan
  row['ms / gradient of all chains'] = 1000 * seconds
  row['R-hat^2 - 1, f'] = float(np.mean(tfr.diagnostics.r_hat_squared(kept['f']))) - 1
  return row


def reference_variance(case, key, row):
  """The mean variance of projections, of the row of --reference; None if there is none."""
  if case['sampler'] == _REFERENCE.value:
    return row[f'{key} variance']
  if _JSON.value is None or not pathlib.Path(_JSON.value).exists():
    return None

  def posterior_of(row):
    settings = [row['settings'][name] for name in ('data', 'likelihood', 'num_test')]
    return [row[name] for name in ('width', 'n', 'seed')] + settings

  name = f'{key} variance'
  rows = [r for r in results.load(_JSON.value) if name in r and r['sampler'] == _REFERENCE.value]
  found = [r for r in rows if posterior_of(r) == posterior_of(case)]
  return found[-1][name] if found else None


def squared_norms(parts):
  """Of each part: `[chains, parts]`."""
  return tf.stack([tf.reduce_sum(p**2, axis=range(1, p.shape.rank)) for p in parts], axis=1)


def seconds_per_gradient(kernel, state, count_fn, length):
  """How long a gradient of all chains takes, without what is traced; the median of some runs."""

  def observe(_, results, summary, seed):
    del seed
    return {'gradients': count_fn(results)}, summary

  timed = runner.Runner(kernel, observe, 1, seed=0)
  carry = timed.start(state)
  num_timed = max(1, _NUM_TIMED // length)
  timed.prepare(carry)
  observed = []
  for i in range(4):  # the first warms up
    begin = time.perf_counter()
    carry, trace = timed.advance(carry, num_timed * i, num_timed)
    observed.append((time.perf_counter() - begin) / trace['gradients'].sum(0).mean())
  return float(np.median(observed[1:]))


@functools.lru_cache(maxsize=1)
def load(width, num_data, seed):
  """A posterior, and test inputs."""
  if data_name() in _TABLES:
    rows = table_data.load(data_name(), seed, num_data)
    to_numbers = table_models.numbers()
    x, x_test = to_numbers.fit_transform(rows.x_train), to_numbers.transform(rows.x_test)
    y = tfr.data.standardize(rows.y_train[:, np.newaxis], rows.y_test[:, np.newaxis])[0]
    model = tfr.models.fcn(x.shape[1:], 1, width, _DEPTH.value)
    return tfr.Posterior(model, x, y, _NOISE_SCALE.value), x_test[: _NUM_TEST.value]
  data = tfr.data.load(data_name(), num_data, _NUM_TEST.value, seed, _DATA_DIR.value)
  num_outputs = data.y_train.shape[1] if _LIKELIHOOD.value == 'gaussian' else 10
  model = tfr.models.fcn(data.x_train.shape[1:], num_outputs, width, _DEPTH.value)
  if _LIKELIHOOD.value == 'gaussian':
    return tfr.Posterior(model, data.x_train, data.y_train, _NOISE_SCALE.value), data.x_test
  categorical = tfr.likelihoods.Categorical(output_scale=1.0)
  return tfr.Posterior(model, data.x_train, data.labels_train, likelihood=categorical), data.x_test


def data_name():
  return _DATA.value or ('digits' if _DATA_DIR.value is None else 'cifar10')


def rows():
  """Yields the figures, row by row."""
  for path in _ALSO.value:
    yield from results.load(path)
  settings = {
    'data': data_name(),
    'likelihood': _LIKELIHOOD.value,
    'num_test': _NUM_TEST.value,
    'num_gradients': _NUM_GRADIENTS.value,
    'num_warmup_steps': _NUM_WARMUP_STEPS.value,
    'num_chains': _NUM_CHAINS.value,
    'thinning': _THINNING.value,
  }
  # Only where they are given, so that earlier rows are found again.
  others = (_DEPTH, _NOISE_SCALE, _STEPS_AFTER_WARMUP, _START)
  settings |= {f.name: f.value for f in others if f.present}
  sizes = [[int(i) for i in flag.value] for flag in (_NUMS_DATA, _WIDTHS, _SEEDS)]
  cases = (
    {'width': width, 'n': num_data, 'seed': seed, 'sampler': sampler, 'settings': settings}
    for num_data, width, seed, sampler in itertools.product(*sizes, _SAMPLERS.value)
  )
  yield from results.measured(cases, measure, _JSON.value)


def main(argv):
  if len(argv) > 1:
    raise app.UsageError(f'Unknown arguments: {argv[1:]}')
  tfr.compilation.keep_freed_memory()
  if _FIGURE.value is None:
    timing.report(rows())
    return
  with drawing.canvas(7.2, 4.0) as figure:  # first, because it fails without matplotlib
    measured = timing.report(rows())
    sampler_rows.draw(figure, measured)
    figure.savefig(_FIGURE.value, dpi=200)


if __name__ == '__main__':
  app.run(main)
