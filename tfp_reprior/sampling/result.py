"""The result of sampling: traces, predictions, diagnostics, files."""

import functools
import textwrap
from typing import Any

import keras
import numpy as np
from numpy.typing import ArrayLike

from tfp_reprior import diagnostics, errors, likelihoods
from tfp_reprior.data import preparation as preparation_lib
from tfp_reprior.densities import posterior as posterior_lib
from tfp_reprior.diagnostics import verdict as verdict_lib
from tfp_reprior.internal import checks, files
from tfp_reprior.internal.types import Path
from tfp_reprior.sampling import (
  arviz_export,
  baseline,
  identity,
  moments,
  predicting,
  result_views,
  saved_models,
)
from tfp_reprior.sampling import draws as draws_lib
from tfp_reprior.sampling import warmup as warmup_lib

FORMAT = 3  # of files
_STARTS = {
  'prior': 'draws of the prior of the coordinates',
  'optimized': 'where draws of the prior climbed to',
  'model': 'near the weights of the model, so other regions may be missed by all chains',
}


class Result(result_views.Views):
  """What `tfp_reprior.sample_posterior` returns, and `tfp_reprior.load_result`.

  Letters: s draws, c chains, r random projections, m inputs, k outputs.

  Attributes:
    posterior: The `tfp_reprior.Posterior`.
    settings: Dict of what was run, with the step size and damping in use.
    trace: Dict of arrays: `'acceptance'` `[s, c]`, the mean acceptance since the last draw;
      `'log_likelihood'` `[s, c]`, in the coordinates of the sampler, with respect to N(0, I);
      `'log_prob'` `[s, c]`, with that prior, up to a constant; `'energy'` `[s, c]`, minus the
      log-density of state and momentum, up to a constant; `'theta'` `[s, c, r]`, random projections
      of the weights; `'hidden'` `[s, c, r]`, of the hidden ones alone; `'squared_norms'`
      `[s, c, parts]`, of the hidden parts, minus their prior mean; and, with test inputs, `'f'`
      `[s, c, r]`, random projections of the outputs for them; and, where they are unknown,
      `'noise_scale'` and `'output_scale'` `[s, c, 1]`, and `'parameters'` `[s, c, p]`, all others
      of the likelihood.
    warmup_trace: Dict of such arrays for the transitions before, and of `'steps'`, the gradients
      of each, and `'step_size'`.
    seconds: Dict of the time that each phase took.
    warmup: The `Warmup`, or None if the step size was given.
    is_complete: False if the run was interrupted.
    draws: The kept draws: a sequence of lists of parts `[c, *event_shape]`. These, and what is
      called weights here, are the parts of `posterior`: the weights themselves, unless layers are
      in data space; `weights` has the weights in any case.
    theta_moments: Mean and variance of every part over all draws, by chain: a pair `mean`,
      `variance` of lists of parts `[c, *event_shape]`.
    anchor: That of the `LayerwiseReprior`, a list of hidden parts, if every layer had a map.
    preparation: The `tfp_reprior.data.Preparation` that the data of `posterior` have been through.

  #### Examples

  ```python
  import numpy as np
  import tfp_reprior as tfr

  x = np.linspace(-1, 1, 10, dtype=np.float32)[:, np.newaxis]
  model = tfr.models.fcn((1,), 1, width=16, depth=1)
  settings = dict(num_chains=2, num_results=20, num_burnin_steps=0, step_size=0.1)
  result = tfr.sample_posterior(model, x, np.sin(3 * x), **settings, progress=False)
  print(result.summary())
  result.trace['log_likelihood'].shape  # ==> (20, 2)
  result.predict(x).mean.shape  # ==> (10, 1)
  ```
  """

  def __init__(
    self,
    posterior: posterior_lib.Posterior,
    settings: dict[str, Any],
    trace: dict[str, np.ndarray],
    warmup_trace: dict[str, np.ndarray],
    seconds: dict[str, float],
    warmup: warmup_lib.Warmup | None,
    is_complete: bool,
    draws: draws_lib.Draws,
    theta_moments: moments.MeanAndVariance,
    f_moments: tuple[np.ndarray, np.ndarray] | None = None,
    x_test: np.ndarray | None = None,
    y_test: np.ndarray | None = None,
    anchor: list[np.ndarray] | None = None,
    preparation: preparation_lib.Preparation | None = None,
  ) -> None:
    self.posterior = posterior
    self.settings = settings
    self.trace = trace
    self.warmup_trace = warmup_trace
    self.seconds, self.warmup = seconds, warmup
    self.is_complete = is_complete
    self.draws = draws
    self.theta_moments = theta_moments
    self._f_moments = f_moments
    self.anchor = anchor
    self._x_test, self._y_test = x_test, y_test
    self.preparation = preparation_lib.Preparation() if preparation is None else preparation
    self._predictor = predicting.Predictor(posterior)

  @property
  def num_draws(self) -> int:
    """Draws of each chain."""
    return len(self.trace['acceptance'])

  @property
  def num_chains(self) -> int:
    return self.settings['num_chains']

  @property
  def num_steps(self) -> int:
    """Steps of each chain, without burn-in."""
    return self.num_draws * self.settings['thinning']

  @property
  def x_test(self) -> np.ndarray | None:
    """Test inputs `[m, ...]` in the units of the user, or None."""
    return None if self._x_test is None else self.preparation.restore_inputs(self._x_test)

  @property
  def y_test(self) -> np.ndarray | None:
    """Test targets in the units of the user, or None; of classes, labels from 0 on."""
    return None if self._y_test is None else self._restored(self._y_test)

  @property
  def training_data(self) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and targets, as `x_test` and `y_test` are."""
    return self.preparation.restore_inputs(self.posterior.x), self._restored(self.posterior.y)

  def _restored(self, y):
    return np.asarray(y) if self.preparation.class_names else self.preparation.restore(y)

  def predict(self, x: ArrayLike, batch_size: int = 1024) -> predicting.Prediction:
    """Predicts at new inputs, by the kept draws.

    With Gaussian noise the readout is integrated out: each draw of the hidden weights gives a
    mean and a variance. For classes each draw gives probabilities, and with other likelihoods a
    distribution.

    Args:
      x: Inputs `[m, ...]` in the units of the training inputs, or a table with their columns.
      batch_size: Positive integer, inputs at a time.

    Returns:
      A `Prediction`; for classes a `CategoricalPrediction` or `BernoulliPrediction`, and for
      likelihoods by distributions a `DistributionPrediction`.
    """
    dtype = self.posterior.split.dtype.as_numpy_dtype
    x = self.preparation.inputs(x, dtype)
    return self._predictor.predict(x, self.draws, self.preparation, batch_size)

  @property
  def test_prediction(self) -> predicting.Prediction | None:
    """What `predict` gives at the test inputs, or None without any.

    Its mean and standard deviations are over all draws, and so is all that follows from them; the
    rest is by the kept ones, unknown noise too.
    """
    if self._x_test is None:
      return None
    return self._predictor.predict(
      self._x_test, self.draws, self.preparation, f_moments=self._f_moments
    )

  def evaluate(
    self,
    prediction: predicting.Prediction | None = None,
    y: ArrayLike | None = None,
  ) -> dict[str, float]:
    """Figures of merit; see `tfp_reprior.diagnostics.evaluate`. By default, of the test data.

    Targets `y` are as those of training: real numbers, or classes by their names or numbers.
    """
    if prediction is None:
      if self.x_test is None or self.y_test is None:
        raise errors.InputError(
          'Without arguments `evaluate` needs a run with `x_test` and `y_test`. Received: '
          f'x_test={_kind(self.x_test)}, y_test={_kind(self.y_test)}'
        )
      return diagnostics.evaluate(self.test_prediction, self.y_test)
    return diagnostics.evaluate(prediction, self._observed(y))

  def evaluate_baseline(self) -> dict[str, float]:
    """The figures of `evaluate` on the test data for what does not look at inputs.

    The mean of the training targets, with their deviation; for classes, how frequent each is, so
    that the majority class is predicted.
    """
    return baseline.evaluate(self.test_prediction, self.training_data[1], self.y_test)

  def _observed(self, y):
    """Targets as predictions take them: labels for classes that are given by name."""
    y, names = checks.array('y', y), self.preparation.class_names
    if names is None or y.size > len(y):
      return y
    is_named = {str(v) for v in np.unique(y)} <= set(names)
    labels = self.preparation.labels(y.ravel()) if is_named else y
    is_one_hot = isinstance(self.posterior.likelihood, likelihoods.Gaussian)
    return self.preparation.targets(labels) if is_one_hot else labels

  @functools.cached_property
  def verdict(self) -> verdict_lib.Verdict:
    """Whether the draws can be trusted, a `tfp_reprior.diagnostics.Verdict`."""
    return diagnostics.judge(
      self.trace,
      self.settings['acceptance_bounds'],
      None if self.is_complete else self.settings['num_results'],
      [] if self.warmup is None else self.warmup.doubts,
    )

  def effective_sample_size(self, name: str = 'theta') -> np.ndarray:
    """Bulk effective sample size of each quantity, of all chains together: `[r]`, or a number."""
    return diagnostics.bulk_effective_sample_size(self._traced(name))

  def r_hat(self, name: str = 'theta') -> np.ndarray:
    """Rank-normalized split R-hat of each quantity: `[r]`, or a number."""
    return diagnostics.r_hat(self._traced(name))

  def _traced(self, name):
    checks.one_of('name', name, tuple(self.trace))
    return self.trace[name]

  def summary(self) -> str:
    """A table of the run, the verdict on it, its mixing and its test figures, as text."""
    settings = self.settings
    step = f'step size {settings["step_size"]:.4g}'
    if settings['damping'] is not None:
      num_steps = settings['num_integrator_steps']
      step += f', damping {settings["damping"]:.3g}, {num_steps} step{"s"[: num_steps != 1]}'
      if settings.get('num_stages', 1) > 1:
        step += f' of {settings["num_stages"]} gradients'
    acceptance = ', '.join(f'{a:.3f}' for a in np.mean(self.trace['acceptance'], axis=0)[:8])
    lines = [
      repr(self.posterior),
      f'{settings["sampler"]}, {step}: {self.num_chains} chains of {self.num_draws} draws, '
      f'{settings["thinning"]} steps each' + ('' if self.is_complete else ' (interrupted)'),
      f'starts: {_STARTS[settings.get("start", "prior")]}',
      *(['targets: in logarithms, and so is their noise'] if self.preparation.log_below else []),
      ', '.join(f'{phase} {seconds:.1f} s' for phase, seconds in self.seconds.items()),
      f'acceptance by chain: {acceptance}' + (', ...' if self.num_chains > 8 else ''),
      '',
      f'{"slowest of":26}{"R-hat":>8}{"bulk ESS":>10}{"tail ESS":>10}{"ESS/1k steps":>14}'
      f'{"ESS/s":>10}',
    ]
    for name, m in self.verdict.mixing.items():
      per_step = 1000 * m.bulk_ess / (self.num_steps * self.num_chains)
      lines.append(
        f'{verdict_lib.NAMES[name]:26}{m.r_hat:8.3f}{m.bulk_ess:10.4g}{m.tail_ess:10.4g}'
        f'{per_step:14.4g}{m.bulk_ess / self.seconds["sampling"]:10.4g}'
      )
    lines += self._parameter_lines()
    if figures := self._test_figures():
      lines += ['', *(f'{name}: {text}' for name, text in figures)]
    return '\n'.join([*lines, '', *textwrap.wrap(str(self.verdict), 100)])

  def _parameter_lines(self):
    lines = []
    for name, values in self.parameter_draws().items():
      low, high = np.quantile(values, [0.05, 0.95])
      text = f'mean {np.mean(values):.4g}, 90 % between {low:.4g} and {high:.4g}'
      lines.append(f'{verdict_lib.NAMES.get(name, name)}: {text}')
    return ['', *lines] if lines else []

  def parameter_draws(self) -> dict[str, np.ndarray]:
    """Draws `[s, c]` of each unknown parameter of the likelihood, by name."""
    draws, others = {}, []
    for name, prior in self.posterior.likelihood.priors.items():
      if name in self.trace:
        draws[name] = self.trace[name][..., 0]
      else:
        others += [name + ''.join(f'[{i}]' for i in index) for index in np.ndindex(*prior.shape)]
    return draws | {name: self.trace['parameters'][..., i] for i, name in enumerate(others)}

  def weights(self, draw: int = -1) -> list[np.ndarray]:
    """The weights of a kept draw: a list of parts `[c, *event_shape]` of `posterior.split.network`.

    If layers are in data space, what the training inputs do not see of them is drawn with the
    number of the draw as seed, always the same.
    """
    checks.index('draw', draw, len(self.draws))
    number = self.draws.numbers[draw]
    return [np.asarray(p) for p in self.posterior.split.to_weights(self.draws[draw], [number, 0])]

  def assign(self, draw: int = -1, chain: int = 0) -> keras.Model:
    """Sets the weights of the Keras model to a kept draw, and returns the model."""
    checks.index('chain', chain, self.num_chains)
    network = self.posterior.split.network
    network.assign([p[chain] for p in self.weights(draw)])
    return network.model

  def to_arviz(self, weights: bool | None = None) -> Any:
    """The kept draws for ArviZ: an `InferenceData` with ArviZ 0.x, a `DataTree` with 1.x.

    All groups are at the kept draws, and so have the same chains and draws (give
    `num_kept_draws=num_results` to have all of them):

    ```none
    posterior             weights by layer, `hidden_1_kernel`; random projections of all weights
                          (`theta`), of the hidden ones (`hidden`) and of the outputs at the test
                          inputs (`f`); unknown parameters of the likelihood, as `noise_scale`
    sample_stats          acceptance_rate, lp, energy, step_size
    log_likelihood        of each training datum, for `arviz.loo`
    posterior_predictive  targets at the training inputs
    observed_data         the training targets, in the units of the user
    ```

    Attributes have the sampler, the seed, the version and the verdict. There is no `diverging`:
    samplers here do not tell.

    Args:
      weights: Whether to have the weights; by default, if there are at most 10,000, because ArviZ
        summarizes each of them.

    #### Examples

    ```python
    import arviz
    import numpy as np
    import tfp_reprior as tfr

    x = np.linspace(-1, 1, 10, dtype=np.float32)[:, np.newaxis]
    settings = dict(num_chains=2, num_results=40, num_burnin_steps=0, step_size=0.1)
    model = tfr.models.fcn((1,), 1, width=16, depth=1)
    result = tfr.sample_posterior(model, x, np.sin(3 * x), **settings, progress=False)
    data = result.to_arviz()
    data.posterior['noise_scale'].dims  # ==> ('chain', 'draw')
    arviz.summary(data, var_names=['noise_scale'])
    ```
    """
    return arviz_export.export(self, weights)

  def fitted(self) -> predicting.Prediction:
    """What each kept draw of all weights gives at the training inputs.

    Of `predict` it differs by the readout, which is that of the draw, and not integrated out: given
    a component, data are independent, as leave-one-out estimates ask for.
    """
    return self._predictor.fitted(self.draws, self.preparation)

  def save(self, path: Path) -> None:
    """Writes everything to the folder `path`, for `tfp_reprior.load_result`."""
    folder = checks.path('path', path)
    with files.writing_to('path', folder):
      files.make_folder(folder)
    run = self.draws.run
    saved_models.save(self.posterior.split.network.model, folder / 'model.keras')
    self.draws.copy_to(folder / 'draws')
    arrays = {f'trace/{name}': values for name, values in self.trace.items()}
    arrays |= {f'warmup/{name}': values for name, values in self.warmup_trace.items()}
    for name in ('mean', 'variance'):
      parts = getattr(self.theta_moments, name)
      arrays |= {f'theta_{name}/{i:04d}': p for i, p in enumerate(parts)}
    arrays |= {f'anchor/{i:04d}': p for i, p in enumerate(self.anchor or [])}
    if self._f_moments is not None:
      arrays['f_mean'], arrays['f_variance'] = self._f_moments
    data = {'x': self.posterior.x, 'y': self.posterior.y, 'x_test': self._x_test}
    data['y_test'] = self._y_test
    arrays |= {name: np.asarray(values) for name, values in data.items() if values is not None}
    description = {
      'settings': self.settings,
      'seconds': self.seconds,
      'is_complete': self.is_complete,
      'likelihood': self.posterior.likelihood.to_dict(),
      'preparation': self.preparation.to_json(),
      'prior_stds': self.posterior.split.prior_stds,
      'warmup': None if self.warmup is None else self.warmup.to_dict(),
    }
    description['arrays'] = files.save_arrays(folder / 'result.npz', arrays, run)
    description['model'] = files.file_digest(folder / 'model.keras')
    description['draws'] = self.draws.numbers
    description['first_outputs'] = identity.first_outputs(self.posterior)
    description['format'] = FORMAT
    files.save_json(folder / 'result.json', description, run)

  def __repr__(self):
    return (
      f'Result(model={self.posterior.split.model.name!r}, sampler={self.settings["sampler"]!r}, '
      f'num_chains={self.num_chains}, num_draws={self.num_draws}, is_complete={self.is_complete})'
    )


def _kind(value):
  return None if value is None else f'array of shape {np.shape(value)}'
