"""Simulation-based calibration: checks that draws are draws of the posterior.

Draw weights from the prior, simulate targets, and sample the posterior. Then the rank of the true
value of any quantity among L independent draws is uniform on 0, ..., L (Talts et al. 2018), also if
the quantity depends on the data, as the log-likelihood does (Modrák et al. 2022). This is done many
times, for three models, and each has a control that the same test must reject: there the noise of
the targets is smaller, or the logits are larger, than the sampler assumes.

Density, map, starts and kernel are those of `tfr.sample_posterior`, with settings that its warm-up
finds for one data set. The targets are made inside of one graph, so that thousands of short runs
are cheap. With `--full` every run is one of `tfr.sample_posterior` itself, with its own warm-up.
"""

import json
import pathlib
import warnings

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp
from absl import app, flags
from tqdm import auto as tqdm

import tfp_reprior as tfr
from tfp_reprior.benchmarks import results, timing
from tfp_reprior.internal import random
from tfp_reprior.plots import drawing
from tfp_reprior.sampling import runner, warmup

_MODELS = flags.DEFINE_list('models', ['known', 'unknown', 'categorical'], 'Which to check.')
_SAMPLER = flags.DEFINE_string('sampler', 'auto', 'A name of `tfr.make_sampler`.')
_HIDDEN_SPACE = flags.DEFINE_enum(
  'hidden_space', 'weights', ['weights', 'data'], 'Where hidden layers move.'
)
_NUM_REPLICATIONS = flags.DEFINE_integer('num_replications', 500, 'Data sets for each model.', 10)
_FULL = flags.DEFINE_bool('full', False, 'Runs of `tfr.sample_posterior`; some seconds each.')
_NUM_CHAINS = flags.DEFINE_integer('num_chains', 21, 'Chains for each data set.', 2)
_NUM_DRAWS = flags.DEFINE_integer('num_draws', 3, 'Draws of each chain.', 2)
_NUM_BURNIN = flags.DEFINE_integer('num_burnin_steps', 200, 'Gradients before the first draw.', 1)
_THINNING = flags.DEFINE_integer('thinning', 100, 'Gradients between two draws.', 1)
_ERROR = flags.DEFINE_float(
  'error', 1.5, 'Noise of controls is divided by it, logits are multiplied.'
)
_SEED = flags.DEFINE_integer('seed', 1, 'Seed of everything random.')
_JSON = flags.DEFINE_string('json', None, 'File to write settings, p-values and ranks to.')
_FIGURE = flags.DEFINE_string('figure', None, 'File to draw the ranks to, such as a .png.')

FALSE_ALARM = 1e-3  # of all quantities of all models together
_MOST_BINS = 16
_SHORTER = 0.7  # than the step that warm-up finds: other data sets may need shorter ones

# Number of data, outputs, prior scale of the readout, and likelihood. The networks have 7 features:
# with fewer data than that, the linear algebra is that of the data space.
_PRIOR = {'distribution': 'LogNormal', 'loc': -1.0, 'scale': 0.5}
MODELS = {
  'known': (12, 2, 1.0, {'name': 'Gaussian', 'noise_scale': 0.3}),
  'unknown': (6, 2, 1.0, {'name': 'Gaussian', 'noise_scale': _PRIOR}),
  'categorical': (12, 3, 3.0, {'name': 'Categorical'}),
}
# Inputs of the networks; and, in data space, fewer data than a unit has weights in any layer.
_NUM_INPUTS = {'weights': 2, 'data': 6}
_MOST_DATA = {'weights': 12, 'data': 4}


class Calibration:
  """Replications of one model, a key of `MODELS`; the other arguments are those of the flags."""

  def __init__(
    self, model, sampler, hidden_space, seed, num_chains, num_draws, num_burnin_steps, thinning
  ):
    num_data, num_outputs, readout_std, likelihood = MODELS[model]
    num_data, inputs = min(num_data, _MOST_DATA[hidden_space]), _NUM_INPUTS[hidden_space]
    network = tfr.models.fcn((inputs,), num_outputs, 6, depth=2, readout_weight_std=readout_std)
    x = np.random.default_rng(seed).normal(size=(num_data + 2, inputs)).astype(np.float32)
    self._x, self._x_test = x[:num_data], x[num_data:]
    self._split = self._moving_split = tfr.models.ReadoutSplit(network)
    if hidden_space == 'data':
      self._moving_split = tfr.models.DataSpaceSplit(self._split, tf.constant(self._x), 'data')
      if any(s.space != 'data' for s in self._moving_split.layer_spaces):
        raise ValueError(f'All layers must be in data space. Received: {self._moving_split}')
    self._likelihood = tfr.likelihoods.from_dict(likelihood)
    self._has_labels = isinstance(self._likelihood, tfr.likelihoods.Categorical)
    shape = (num_data,) if self._has_labels else (num_data, num_outputs)
    self._prior = self._posterior(np.zeros(shape, np.int32 if self._has_labels else np.float32))
    self._sampler = {'sampler': sampler, 'hidden_space': hidden_space}
    self._seed, self._shape = seed, (num_draws, num_chains)
    self._num_burnin_steps, self._thinning = num_burnin_steps, thinning
    self.names = ['projection, all weights', 'projection, hidden weights', 'f(x1)', 'f(x2)']
    self.names += ['log-likelihood', 'squared norm, first layer', 'squared norm, readout']
    self.names += ['noise scale'] * len(self._likelihood.event_shapes)
    how = {**self._sampler, 'num_chains': 32, 'num_warmup_steps': 200, 'seed': seed}
    found = tfr.warm_up(self._posterior(self.simulate(0)[1]), progress=False, **how)
    settings = ('step_size', 'damping', 'num_integrator_steps')
    self.chosen = {name: getattr(found, name) for name in settings}
    self.chosen['step_size'] *= _SHORTER
    self._graph = tf.function(self._replicate, autograph=False)

  def _posterior(self, y, split=None):
    split = self._split if split is None else split
    return tfr.Posterior(split, self._x, y, likelihood=self._likelihood)

  def simulate(self, number, error=1.0):
    """Weights from the prior, and targets for them, with an error in the noise or the logits."""
    theta_seed, y_seed = random.split_seed(tf.stack([self._seed, number]), 2)
    theta = self._prior.sample_prior(seed=theta_seed)
    f, likelihood = self._prior.split.apply(theta, self._x), self._prior.likelihood_given(theta)
    if self._has_labels:
      return theta, tfp.distributions.Categorical(error * f).sample(seed=y_seed)
    return theta, tfp.distributions.Normal(f, likelihood.noise_scale / error).sample(seed=y_seed)

  def quantities(self, posterior, theta):
    """The quantities of weights `[..., *event_shape]`, in the order of the names: `[..., q]`."""
    split, num_hidden = posterior.split, posterior.split.num_hidden
    values = []
    for end in (len(theta), num_hidden):
      project = tfr.diagnostics.RandomProjections(split.event_shapes[:end], 1, self._seed)
      values.append(project(theta[:end])[..., 0])
    values += tf.unstack(split.apply(theta, self._x_test)[..., 0], axis=-1)
    values.append(posterior.log_likelihood_fn(*theta))
    values += [tf.reduce_sum(theta[i] ** 2, axis=[-2, -1]) for i in (0, num_hidden)]
    if posterior.likelihood.event_shapes:
      values.append(posterior.likelihood_given(theta).noise_scale)
    return tf.stack(values, axis=-1)

  def _replicate(self, number, error):
    """The true quantities `[q]`, those of the draws `[s, c, q]`, and their acceptance `[s, c]`."""
    theta, y = self.simulate(number, error)
    posterior = self._posterior(y)
    sampler = tfr.make_sampler(self._posterior(y, self._moving_split), **self._sampler)
    length = self.chosen['num_integrator_steps']
    start_seed, seed, weights_seed = random.split_seed(tf.stack([self._seed + 1, number]), 3)

    def trace_fn(state, results):
      ratio = tf.exp(tf.minimum(runner.innermost(results).log_accept_ratio, 0.0))
      acceptance = tf.where(tf.math.is_nan(ratio), 0.0, ratio)  # NaN counts as rejected
      return state, acceptance

    chains = tfp.mcmc.sample_chain(
      self._shape[0],
      sampler.start_fn(self._shape[1], start_seed),
      kernel=warmup.sampling_kernel(sampler, self.chosen),
      num_burnin_steps=-(-self._num_burnin_steps // length),
      num_steps_between_results=-(-self._thinning // length) - 1,
      trace_fn=trace_fn,
      seed=seed,
    )
    states, acceptance = chains.trace
    draws = self.quantities(posterior, sampler.theta_fn(states, weights_seed))
    return self.quantities(posterior, theta), draws, acceptance

  def _replicate_in_full(self, number, error):
    """As `_replicate`, by a run of its own."""
    theta, y = self.simulate(number, error)
    posterior = self._posterior(y)
    num_draws, num_chains = self._shape
    how = {**self._sampler, 'seed': int(number), 'progress': False}
    how |= {'num_chains': num_chains, 'num_results': num_draws, 'num_kept_draws': num_draws}
    how |= {'num_burnin_steps': self._num_burnin_steps, 'thinning': self._thinning}
    with warnings.catch_warnings():
      warnings.simplefilter('ignore', tfr.diagnostics.SamplingWarning)  # that draws are few
      result = tfr.sample_posterior(posterior, **how)
    draws = [self.quantities(posterior, result.weights(i)) for i in range(num_draws)]
    return self.quantities(posterior, theta), tf.stack(draws), result.trace['acceptance']

  def run(self, num_replications, error=1.0, is_full=False, name=None):
    """Counts of the ranks `[q, L + 1]`, effective draws `[q]`, and the lowest acceptance."""
    replicate = self._replicate_in_full if is_full else self._graph
    ranks, excess, acceptance = [], [], []
    for i in tqdm.tqdm(range(1, num_replications + 1), name, mininterval=2.0):
      truth, draws, accepted = map(np.asarray, replicate(tf.constant(i), tf.constant(error)))
      ranks.append(np.sum(draws < truth, axis=(0, 1)))
      # The variance of chain means is that of draws, over their effective number in a chain.
      of_means = np.var(np.mean(draws, axis=0), axis=0, ddof=1)
      excess.append(len(draws) * of_means / np.var(draws, axis=(0, 1), ddof=1))
      acceptance.append(float(np.mean(accepted)))
    num_draws = draws.shape[0] * draws.shape[1]
    counts = [np.bincount(r, minlength=num_draws + 1) for r in np.transpose(ranks)]
    return np.array(counts), num_draws / np.mean(excess, axis=0), min(acceptance)


def p_values(counts):
  """Chi-square p-values `[q]` that ranks are uniform, by counts `[q, L + 1]`."""
  num_ranks, total = counts.shape[1], np.sum(counts[0])
  num_bins = int(min(_MOST_BINS, num_ranks, total // 5))  # five or more are expected in each
  bins = np.arange(num_ranks) * num_bins // num_ranks
  expected = total * np.bincount(bins) / num_ranks
  observed = np.array([np.bincount(bins, c) for c in counts])
  statistic = np.sum((observed - expected) ** 2 / expected, axis=1)
  return tfp.distributions.Chi2(np.float64(num_bins - 1)).survival_function(statistic).numpy()


def rows(record):
  """Yields a row for each quantity; keeps ranks and settings in `record`."""
  how = (_NUM_CHAINS.value, _NUM_DRAWS.value, _NUM_BURNIN.value, _THINNING.value)
  how = (_SAMPLER.value, _HIDDEN_SPACE.value, _SEED.value, *how)
  calibrations = {m: Calibration(m, *how) for m in _MODELS.value}
  bound = FALSE_ALARM / sum(len(c.names) for c in calibrations.values())
  for model, calibration in calibrations.items():
    record[model] = {'quantities': calibration.names, 'kernel': calibration.chosen, 'bound': bound}
    for kind, error in (('sampler', 1.0), ('control', _ERROR.value)):
      counts, ess, acceptance = calibration.run(
        _NUM_REPLICATIONS.value, error, _FULL.value, f'{model}, {kind}'
      )
      record[model][kind] = {
        'p-values': p_values(counts).tolist(),
        'effective draws': ess.tolist(),
        'lowest acceptance': acceptance,
        'rank counts': counts.tolist(),
      }
    sampler, control = record[model]['sampler'], record[model]['control']
    for i, name in enumerate(calibration.names):
      row = {'model': model, 'quantity': name, 'effective draws': sampler['effective draws'][i]}
      for key, p in (('', sampler['p-values'][i]), (' of control', control['p-values'][i])):
        row |= {f'p-value{key}': p, f'verdict{key}': 'rejected' if p < bound else 'uniform'}
      yield row


def band(total, num_ranks, num_simulations=20_000):
  """Half the height, at each rank, of a band that holds 99.9 % of whole curves of `draw`."""
  level = np.arange(1, num_ranks) / num_ranks
  stddev = np.sqrt(level * (1 - level) / total)
  rng = np.random.default_rng(0)
  counts = rng.multinomial(total, np.full(num_ranks, 1 / num_ranks), num_simulations)
  distances = np.abs(np.cumsum(counts, axis=1)[:, :-1] / total - level) / stddev
  return np.append(stddev * np.quantile(np.max(distances, axis=1), 0.999), 0.0)


def draw(figure, record):
  """The distribution function of the ranks, less that of uniform ones, with a band."""
  figure.set_size_inches(5.2, 1.2 + 1.8 * len(record))
  axes = figure.subplots(len(record), 2, sharex=True, sharey='col', squeeze=False)
  for (model, entry), row in zip(record.items(), axes, strict=True):
    for ax, kind in zip(row, ('sampler', 'control'), strict=True):
      counts = np.array(entry[kind]['rank counts'])
      total, num_ranks = np.sum(counts[0]), counts.shape[1]
      level, half = np.arange(1, num_ranks + 1) / num_ranks, band(total, num_ranks)
      ax.fill_between(level, -half, half, color=drawing.MUTED, alpha=0.2, linewidth=0)
      for i, curve in enumerate(np.cumsum(counts, axis=1) / total - level):
        ax.plot(level, curve, **drawing.line_style(i), lw=1, label=entry['quantities'][i])
      ax.set_title(f'{model}: {kind}', fontsize=9)
  figure.supxlabel('rank of the true value among the draws, as a fraction', fontsize=9)
  figure.supylabel('share of ranks up to it, less the uniform share', fontsize=9)
  lines = {line.get_label(): line for ax in axes[:, 0] for line in ax.get_lines()}
  figure.legend(lines.values(), lines, loc='outside upper center', ncols=2, frameon=False)


def main(argv):
  if len(argv) > 1:
    raise app.UsageError(f'Unknown arguments: {argv[1:]}')
  # Operations on networks this small are over before a second thread has begun.
  tf.config.threading.set_inter_op_parallelism_threads(1)
  tf.config.threading.set_intra_op_parallelism_threads(1)
  record = {}
  with drawing.canvas(7.2, 5.2) as figure:
    measured = timing.report(rows(record))
    if _FIGURE.value is not None:
      draw(figure, record)
      figure.savefig(_FIGURE.value, dpi=160, pil_kwargs={'optimize': True})
  if _JSON.value is not None:
    settings = {f.name: f.value for f in flags.FLAGS.get_key_flags_for_module(argv[0])}
    settings = {k: v for k, v in settings.items() if k not in ('json', 'figure')}
    figures = {'version': tfr.__version__, 'settings': settings, 'models': record}
    figures |= {'made': results.provenance(), 'rows': measured}
    pathlib.Path(_JSON.value).write_text(json.dumps(figures))


if __name__ == '__main__':
  app.run(main)
