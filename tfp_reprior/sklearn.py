"""Estimators for scikit-learn: `fit`, `predict` and intervals, for tables of numbers and text."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
from numpy.typing import ArrayLike

from tfp_reprior import diagnostics, errors, likelihoods, models
from tfp_reprior.data import tables
from tfp_reprior.internal import checks, gradients
from tfp_reprior.internal.types import Activation, NoiseScale, Path, RandomState
from tfp_reprior.sampling import prediction, preparing, result_files, runs

try:
  import sklearn.base
  import sklearn.utils
  from sklearn.utils import multiclass, validation
except ImportError as e:
  raise errors.MissingPackageError(
    '`tfp_reprior.sklearn` needs scikit-learn: pip install tfp-reprior[data]'
  ) from e

__all__ = ['BNNClassifier', 'BNNRegressor']
__dir__ = __all__.copy

_MOST_FOLLOWED = 100  # training inputs whose outputs the verdict looks at
# Of these outputs, beyond which `fit` warns.
_BAD_R_HAT, _FEWEST_ESS = 1.05, 100
_UNKNOWN = diagnostics.Mixing(*[np.nan] * 4)
_CLASSES = ('categorical', 'bernoulli')
_REALS = ('gaussian', 'student_t', 'heteroscedastic')  # likelihoods of real targets
_BYTES = '_result_bytes'  # in the state of a pickled estimator


class _BNN(sklearn.base.BaseEstimator):
  """What both estimators share."""

  def _sample(self, x, y, reals, num_outputs, likelihood, log_targets='auto'):
    """Samples; `y` are labels, or None for the real targets `reals`, which are standardized."""
    how = {'log_targets': log_targets, 'missing': self.missing}
    preparation, likelihood = preparing.fit(x, reals, likelihood, **how)
    x = preparation.inputs(x)
    y = preparation.targets(reals) if y is None else y
    model = self.model
    if model is None:
      model = models.fcn(x.shape[1:], num_outputs, self.width, self.depth, self.activation)
    elif not isinstance(model, keras.Model):
      model = model(x.shape[1:], num_outputs)
    with warnings.catch_warnings():
      # Of weights too, which predictions may do without.
      warnings.simplefilter('ignore', diagnostics.SamplingWarning)
      self.result_ = runs.sample_posterior(
        model,
        x,
        y,
        likelihood=likelihood,
        x_test=x[:_MOST_FOLLOWED],
        num_chains=self.num_chains,
        num_results=self.num_results,
        num_warmup_steps=self.num_warmup_steps,
        thinning=self.thinning,
        start=self.start,
        seed=checks.random_state(self.random_state),
        run_dir=self.run_dir,
        progress=self.progress,
        standardize=preparation,
      )
    verdict = self.result_.verdict
    outputs = verdict.mixing.get('f', _UNKNOWN)  # of a few draws it is not known
    is_rough = not (outputs.r_hat <= _BAD_R_HAT and outputs.bulk_ess >= _FEWEST_ESS)
    if is_rough or verdict.level == 'failed':
      found = f'Outputs have R-hat {outputs.r_hat:.2f}, ESS {outputs.bulk_ess:.0f}.'
      warnings.warn(f'{found} {verdict}', diagnostics.SamplingWarning, stacklevel=3)

  def _predict(self, X):
    validation.check_is_fitted(self)
    x = self._inputs(X, reset=False)
    with gradients.forgotten():
      return self.result_.predict(x)

  def _inputs(self, X, reset):
    """A `Table`, if there are columns of text or missing values to impute; else numbers."""
    table = tables.as_table(X)
    is_mixed = table is not None and any(c.dtype == object for c in table.columns.values())
    if is_mixed or (table is not None and self.missing == 'impute'):
      validation.validate_data(self, X, reset=reset, skip_check_array=True)
      return table
    finite = 'allow-nan' if self.missing == 'impute' else True
    X = validation.validate_data(self, X, reset=reset, dtype=np.float64, ensure_all_finite=finite)
    if self.missing == 'impute':
      return tables.as_table({f'column {i}': X[:, i] for i in range(X.shape[1])})
    return X

  def __getstate__(self):
    state = dict(super().__getstate__())
    if 'result_' in state:
      state[_BYTES] = result_files.to_bytes(state.pop('result_'))
    return state

  def __setstate__(self, state):
    super().__setstate__({name: value for name, value in state.items() if name != _BYTES})
    if _BYTES in state:
      self.result_ = result_files.from_bytes(state[_BYTES])


class BNNRegressor(sklearn.base.MultiOutputMixin, sklearn.base.RegressorMixin, _BNN):
  """Regression with a Bayesian neural network, for scikit-learn.

  Samples the posterior of the weights and of the noise, after standardizing inputs and targets.
  `fit` warns with a `tfp_reprior.diagnostics.SamplingWarning` if the run failed, or if its outputs
  have an R-hat above 1.05 or fewer than 100 effective samples; `result_.verdict` has it all.

  Args:
    width: Positive integer, units of each hidden layer.
    depth: Positive integer, hidden layers.
    activation: Name of an activation, or a function.
    model: A `keras.Model` that ends in a linear readout, instead of the three above; or a function
      `(input_shape, num_outputs) -> keras.Model`.
    noise_scale: Positive float, the standard deviation of the noise in the units of `y`, or its
      prior; by default the noise is unknown, with a prior.
    likelihood: `'gaussian'`; `'student_t'`, with heavy tails, for targets with outliers;
      `'heteroscedastic'`, with noise that depends on the input, for which a `model` has twice as
      many outputs. Or an object of `tfp_reprior.likelihoods`, without a `noise_scale`.
    log_targets: Whether the network is of logarithms of `y`, as of prices. By default, if `y` is
      positive and these are far easier to explain; not with a `likelihood` or `noise_scale`.
    num_chains: Positive integer, chains side by side.
    num_results: Positive integer, draws of each chain.
    thinning: Positive integer, steps for each draw, about.
    num_warmup_steps: Positive integer, as of `tfp_reprior.sample_posterior`.
    start: Where chains start, as of `tfp_reprior.sample_posterior`.
    random_state: Integer, the seed of everything random; or as everywhere in scikit-learn.
    run_dir: Folder to which the run is saved, and from which the same `fit` goes on.
    missing: `'refuse'`, or `'impute'` missing inputs: by the median, or the most frequent category.
    progress: Whether to show progress bars.

  Attributes:
    result_: The `tfp_reprior.sampling.Result`: traces, verdict, `summary()`.
    n_features_in_: Number of columns.
    feature_names_in_: Their names, if `X` was a DataFrame.

  #### Examples

  ```python
  import numpy as np
  from tfp_reprior.sklearn import BNNRegressor

  rng = np.random.default_rng(0)
  X = rng.uniform(-10, 10, size=(30, 2))
  y = 100 + 5 * X[:, 0] + rng.normal(size=30)
  regressor = BNNRegressor(width=16, depth=1, num_results=50, thinning=2, num_warmup_steps=200)
  mean, std = regressor.fit(X, y).predict(X[:3], return_std=True)  # [3] each
  regressor.predict_quantiles(X[:3], [0.05, 0.95])  # [3, 2], an interval for new observations
  ```
  """

  def __init__(
    self,
    width: int = 64,
    depth: int = 1,
    activation: Activation = 'gelu',
    model: keras.Model | Callable[..., keras.Model] | None = None,
    noise_scale: NoiseScale | None = None,
    likelihood: str | likelihoods.Likelihood = 'gaussian',
    log_targets: bool | str = 'auto',
    num_chains: int = 4,
    num_results: int = 400,
    thinning: int = 5,
    num_warmup_steps: int | None = None,
    start: str = 'auto',
    random_state: RandomState = 0,
    run_dir: Path | None = None,
    missing: str = 'refuse',
    progress: bool = False,
  ) -> None:
    self.width = width
    self.depth = depth
    self.activation = activation
    self.model = model
    self.noise_scale = noise_scale
    self.likelihood = likelihood
    self.log_targets = log_targets
    self.num_chains = num_chains
    self.num_results = num_results
    self.thinning = thinning
    self.num_warmup_steps = num_warmup_steps
    self.start = start
    self.random_state = random_state
    self.run_dir = run_dir
    self.missing = missing
    self.progress = progress

  def fit(self, X: Any, y: ArrayLike) -> 'BNNRegressor':
    """Samples the posterior.

    Args:
      X: Inputs `[n, d]`: an array, or a DataFrame, which may have columns of text.
      y: Targets `[n]` or `[n, k]`.

    Returns:
      The estimator.
    """
    x = self._inputs(X, reset=True)
    y = _as_numbers(_targets(y))
    y = validation.check_array(y, ensure_2d=False, dtype=np.float64, input_name='y', estimator=self)
    validation.check_consistent_length(X, y)
    self._is_vector = y.ndim == 1
    reals = y.reshape([len(y), -1])
    likelihood = self._likelihood()
    num_outputs = reals.shape[1] * likelihood.outputs_per_target
    self._sample(x, None, reals, num_outputs, likelihood, self.log_targets)
    return self

  def _likelihood(self):
    if not isinstance(self.likelihood, likelihoods.Likelihood):
      checks.one_of('likelihood', self.likelihood, _REALS)
      return likelihoods.NAMES[self.likelihood](self.noise_scale)
    if self.noise_scale is not None:
      raise errors.InputError(
        '`noise_scale` goes with the name of a likelihood: give it, or an object. Received: '
        f'noise_scale={self.noise_scale!r}, likelihood={self.likelihood!r}'
      )
    return self.likelihood

  def predict(self, X: Any, return_std: bool = False) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
    """The predictive mean at inputs `[m, d]`: `[m]`, or `[m, k]` if `y` was a matrix.

    Args:
      X: Inputs `[m, d]`, as in `fit`.
      return_std: Whether to return the standard deviation of new observations, with noise, as well.

    Returns:
      The mean, or the pair of mean and standard deviation.
    """
    found = self._predict(X)
    mean = self._shaped(found.mean)
    return (mean, self._shaped(found.stddev)) if return_std else mean

  def predict_quantiles(self, X: Any, quantiles: Sequence[float] = (0.05, 0.5, 0.95)) -> np.ndarray:
    """Quantiles of new observations, noise included: `[m, q]`, or `[m, k, q]` for a matrix `y`."""
    values = self._predict(X).quantile(prediction.check_levels(quantiles, 'quantiles'))
    return np.moveaxis(self._shaped(values), 0, -1)

  def sample_y(self, X: Any, n_samples: int = 1, random_state: RandomState = 0) -> np.ndarray:
    """Draws new observations: `[m, n_samples]`, or `[m, k, n_samples]` for a matrix `y`."""
    values = self._predict(X).sample(n_samples, checks.random_state(random_state))
    return np.moveaxis(self._shaped(values), 0, -1)

  def _shaped(self, values):
    return values[..., 0] if self._is_vector else values


class BNNClassifier(sklearn.base.ClassifierMixin, _BNN):
  """Classification with a Bayesian neural network, for scikit-learn.

  All but the likelihood is as of `BNNRegressor`: by default one output for two classes, and one for
  each of more.

  Args:
    width: Positive integer, units of each hidden layer.
    depth: Positive integer, hidden layers.
    activation: Name of an activation, or a function.
    model: A `keras.Model`, or a function that builds one, as of `BNNRegressor`.
    likelihood: `'auto'`; `'bernoulli'`, one output for two classes; `'categorical'`, one output for
      each class; or an object of `tfp_reprior.likelihoods`, of one of the two kinds.
    num_chains: Positive integer, chains side by side.
    num_results: Positive integer, draws of each chain.
    thinning: Positive integer, steps for each draw, about.
    num_warmup_steps: Positive integer, as of `tfp_reprior.sample_posterior`.
    start: Where chains start, as of `tfp_reprior.sample_posterior`.
    random_state: Integer, the seed of everything random; or as everywhere in scikit-learn.
    run_dir: Folder to which the run is saved, and from which the same `fit` goes on.
    missing: `'refuse'`, or `'impute'` missing inputs.
    progress: Whether to show progress bars.

  Attributes:
    classes_: The classes, sorted.
    result_: The `tfp_reprior.sampling.Result`.
    n_features_in_: Number of columns.
    feature_names_in_: Their names, if `X` was a DataFrame.

  #### Examples

  ```python
  import numpy as np
  from tfp_reprior.sklearn import BNNClassifier

  X = np.random.default_rng(0).normal(size=(30, 2))
  y = np.where(X[:, 0] > 0, 'right', 'left')
  classifier = BNNClassifier(width=16, depth=1, num_results=50, thinning=2, num_warmup_steps=200)
  classifier.fit(X, y).predict_proba([[0.1, 0.0]])  # [1, 2], of 'left' and 'right'
  ```
  """

  def __init__(
    self,
    width: int = 64,
    depth: int = 1,
    activation: Activation = 'gelu',
    model: keras.Model | Callable[..., keras.Model] | None = None,
    likelihood: str | likelihoods.Likelihood = 'auto',
    num_chains: int = 4,
    num_results: int = 400,
    thinning: int = 30,
    num_warmup_steps: int | None = None,
    start: str = 'auto',
    random_state: RandomState = 0,
    run_dir: Path | None = None,
    missing: str = 'refuse',
    progress: bool = False,
  ) -> None:
    self.width = width
    self.depth = depth
    self.activation = activation
    self.model = model
    self.likelihood = likelihood
    self.num_chains = num_chains
    self.num_results = num_results
    self.thinning = thinning
    self.num_warmup_steps = num_warmup_steps
    self.start = start
    self.random_state = random_state
    self.run_dir = run_dir
    self.missing = missing
    self.progress = progress

  def fit(self, X: Any, y: ArrayLike) -> 'BNNClassifier':
    """Samples the posterior.

    Args:
      X: Inputs `[n, d]`: an array, or a DataFrame, which may have columns of text.
      y: Classes `[n]`, numbers or text.

    Returns:
      The estimator.
    """
    x = self._inputs(X, reset=True)
    y = _targets(y)
    sklearn.utils.assert_all_finite(y, input_name='y', estimator_name='BNNClassifier')
    y = validation.column_or_1d(y, warn=True)
    validation.check_consistent_length(X, y)
    multiclass.check_classification_targets(y)
    self.classes_, labels = np.unique(y, return_inverse=True)
    k = len(self.classes_)
    if k < 2:
      raise errors.InputError(
        f'`y` must have two classes or more. Received: one class, {self.classes_[0]}'
      )
    likelihood = self._likelihood(k)
    is_binary = isinstance(likelihood, likelihoods.Bernoulli)
    self._sample(x, labels, None, 1 if is_binary else k, likelihood)
    return self

  def _likelihood(self, k):
    likelihood = self.likelihood
    if likelihood == 'auto':
      likelihood = 'bernoulli' if k == 2 else 'categorical'
    if not isinstance(likelihood, likelihoods.CLASSES):
      likelihood = likelihoods.NAMES[checks.one_of('likelihood', likelihood, _CLASSES)]()
    if isinstance(likelihood, likelihoods.Bernoulli) and k != 2:
      raise errors.InputError(
        f'A Bernoulli likelihood is for two classes. Received: {k} classes, '
        f'likelihood={self.likelihood!r}'
      )
    return likelihood

  def predict(self, X: Any) -> np.ndarray:
    """The most probable class at inputs `[m, d]`: `[m]`."""
    probabilities = self.predict_proba(X)
    return self.classes_[np.argmax(probabilities, axis=-1)]

  def predict_proba(self, X: Any) -> np.ndarray:
    """Probabilities of the classes in the order of `classes_`: `[m, k]`."""
    return self._predict(X).class_probabilities

  def sample_y(self, X: Any, n_samples: int = 1, random_state: RandomState = 0) -> np.ndarray:
    """Draws classes of new observations: `[m, n_samples]`."""
    labels = self._predict(X).sample(n_samples, checks.random_state(random_state))
    return self.classes_[labels.reshape([n_samples, -1]).T]


def _targets(y):
  if y is None:
    raise errors.InputError('`y` is missing: requires y to be passed, but the target y is None')
  return y


def _as_numbers(y):
  """Targets as they are, if text among them can be read as numbers."""
  values = np.asarray(y)
  if values.dtype.kind in 'OU':
    try:
      values.astype(np.float64)
    except ValueError as e:
      raise errors.InputError(
        f'`y` must hold numbers; `BNNClassifier` is for classes. Received: {e}'
      ) from e
  return y
