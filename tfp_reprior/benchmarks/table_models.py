"""Models of tables to compare with: scikit-learn's, Laplace's, and NUTS on the same network.

Each takes a frame `x`, targets `y` and a frame `x_test`, and returns a predictive distribution at
the latter: for real targets a `tfp_reprior.sampling.Prediction`, for classes probabilities `[m, k]`
in the order of sorted classes. Those that sample return components by draws, `[s * c, m, k]` in
turn of chains, and a dict of figures. What a model needs beyond `tfp_reprior` and scikit-learn is
imported when it is called: an ImportError says that it is not installed.
"""

import functools
import warnings

import numpy as np
import sklearn.ensemble
import sklearn.exceptions
import sklearn.gaussian_process
import sklearn.linear_model
import sklearn.model_selection
import sklearn.neural_network
import sklearn.pipeline
import sklearn.preprocessing
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.gaussian_process import kernels

import tfp_reprior as tfr
from tfp_reprior.data import logarithms

_NUM_MEMBERS = 5
_NUM_CHAINS, _NUM_DRAWS = 4, 300  # of NUTS, after as many of warm-up
_MOST_FOLLOWED = 100  # training inputs whose outputs R-hat is of, as of the estimators
_WIDTH, _DEPTH = 64, 1  # of the networks, as the estimators have by default


def bnn(x, y, x_test, seed, is_class, **settings):
  """Ours, with nothing but the data. Returns figures of the run as well."""
  kind = tfr.sklearn.BNNClassifier if is_class else tfr.sklearn.BNNRegressor
  with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter('always', tfr.diagnostics.SamplingWarning)
    model = kind(random_state=seed, **settings).fit(x, y)
  mixing = model.result_.verdict.mixing['f']
  figures = {
    'chains': model.num_chains,
    'r_hat': mixing.r_hat,
    'ess': mixing.bulk_ess,
    'warned': any(issubclass(w.category, tfr.diagnostics.SamplingWarning) for w in caught),
  }
  prediction = model.result_.predict(x_test)
  if not is_class:
    return prediction, figures
  p = prediction.probabilities
  return (p if p.shape[-1] > 1 else np.concatenate([1 - p, p], axis=-1)), figures


def gaussian_process(x, y, x_test, seed, is_class):
  """Exact for real targets, a scale for each input; by Laplace's approximation for classes."""
  to_numbers = numbers()
  d = to_numbers.fit_transform(x).shape[1]
  if is_class:
    model = sklearn.gaussian_process.GaussianProcessClassifier(
      kernels.ConstantKernel() * kernels.RBF(np.sqrt(d)), random_state=seed
    )
    return _fit(to_numbers, model, x, y).predict_proba(x_test)
  kernel = kernels.ConstantKernel() * kernels.RBF(np.full(d, np.sqrt(d)), (1e-2, 1e4))
  model = sklearn.gaussian_process.GaussianProcessRegressor(
    kernel + kernels.WhiteKernel(), normalize_y=True, n_restarts_optimizer=1, random_state=seed
  )
  return _gaussian(*_fit(to_numbers, model, x, y).predict(x_test, return_std=True))


def gaussian_process_logarithms(x, y, x_test, seed, is_class):
  """That of logarithms, as `bnn` takes them."""
  largest = np.max(y)
  found = gaussian_process(x, logarithms.take(y, largest), x_test, seed, is_class)
  return tfr.sampling.LogPrediction(found, largest)


def linear(x, y, x_test, seed, is_class):
  """Bayesian ridge regression, or logistic regression with its penalty cross-validated."""
  if is_class:
    model = sklearn.linear_model.LogisticRegressionCV(
      scoring='neg_log_loss', max_iter=2000, random_state=seed
    )
    return _fit(numbers(), model, x, y).predict_proba(x_test)
  model = _fit(numbers(), sklearn.linear_model.BayesianRidge(), x, y)
  return _gaussian(*model.predict(x_test, return_std=True))


def boosted_trees(x, y, x_test, seed, is_class):
  """Histogram gradient boosting; the noise of real targets is that of five-fold residuals."""
  if is_class:
    model = sklearn.ensemble.HistGradientBoostingClassifier(random_state=seed)
    return _fit(numbers(), model, x, y).predict_proba(x_test)
  model = sklearn.pipeline.make_pipeline(
    numbers(), sklearn.ensemble.HistGradientBoostingRegressor(random_state=seed)
  )
  mean = model.fit(x, y).predict(x_test)
  return _gaussian(mean, np.full(len(mean), _residual_std(model, x, y)))


def mlp_ensemble(x, y, x_test, seed, is_class):
  """Five networks from independent starts; for real targets stopped early, noise as of trees."""

  def make(member):
    kind = 'MLPClassifier' if is_class else 'MLPRegressor'
    settings = dict(
      early_stopping=not is_class, max_iter=1000, learning_rate_init=3e-3, n_iter_no_change=30
    )
    network = getattr(sklearn.neural_network, kind)(
      hidden_layer_sizes=[_WIDTH] * _DEPTH, random_state=seed * _NUM_MEMBERS + member, **settings
    )
    if not is_class:
      network = sklearn.compose.TransformedTargetRegressor(
        network, transformer=sklearn.preprocessing.StandardScaler()
      )
    return sklearn.pipeline.make_pipeline(numbers(), network)

  members = [make(i).fit(x, y) for i in range(_NUM_MEMBERS)]
  if is_class:
    return np.mean([m.predict_proba(x_test) for m in members], axis=0)
  means = np.array([m.predict(x_test) for m in members])
  noise = _residual_std(make(0), x, y)
  return _gaussian(np.mean(means, axis=0), np.sqrt(np.var(means, axis=0) + noise**2))


def nuts(x, y, x_test, seed, is_class):
  """NumPyro's NUTS on the posterior of `bnn` for columns of numbers: network, prior, likelihood."""
  import jax
  import jax.numpy as jnp
  import numpyro
  from numpyro import distributions as dist

  scaler = sklearn.pipeline.make_pipeline(numbers(), sklearn.preprocessing.StandardScaler())
  x, x_test = scaler.fit_transform(x), scaler.transform(x_test)
  classes, labels = np.unique(y, return_inverse=True) if is_class else (None, None)
  largest = None if is_class else logarithms.choose('auto', x, y[:, np.newaxis])
  y = y if largest is None else logarithms.take(y, largest)
  center, unit = (0.0, 1.0) if is_class else (np.mean(y), np.std(y))
  num_outputs = len(classes) if is_class and len(classes) > 2 else 1

  def network(inputs):
    sizes = [inputs.shape[1], *[_WIDTH] * _DEPTH, num_outputs]
    for i, (fan_in, units) in enumerate(zip(sizes[:-1], sizes[1:], strict=True)):
      is_last = i == _DEPTH
      kernel = numpyro.sample(f'kernel{i}', dist.Normal().expand([fan_in, units]).to_event(2))
      bias = numpyro.sample(f'bias{i}', dist.Normal().expand([units]).to_event(1))
      scale = (1.0 if is_last else 2**0.5) / fan_in**0.5
      inputs = scale * inputs @ kernel + 0.1 * bias
      inputs = inputs if is_last else jax.nn.gelu(inputs, approximate=False)
    return inputs

  def model(inputs, targets=None):
    f = network(jnp.asarray(inputs))
    if not is_class:
      noise = numpyro.sample('noise', dist.LogNormal(-1.0, 1.0))
      numpyro.deterministic('f', f)
      return numpyro.sample('y', dist.Normal(f[:, 0], noise), obs=targets)
    f = f * numpyro.sample('scale', dist.LogNormal(1.0, 1.0))
    logits = f if num_outputs > 1 else jnp.concatenate([jnp.zeros_like(f), f], axis=1)
    numpyro.deterministic('f', jax.nn.softmax(logits))
    return numpyro.sample('y', dist.Categorical(logits=logits), obs=targets)

  sampler = numpyro.infer.MCMC(
    numpyro.infer.NUTS(model, max_tree_depth=7),
    num_warmup=_NUM_DRAWS,
    num_samples=_NUM_DRAWS,
    num_chains=_NUM_CHAINS,
    chain_method='sequential',
    progress_bar=False,
  )
  sampler.run(jax.random.PRNGKey(seed), x, labels if is_class else (y - center) / unit)
  draws = sampler.get_samples()
  predict = numpyro.infer.Predictive(model, draws, return_sites=['f'])

  def in_turn(values):  # [c * s, ...], chain by chain, to [s, c, ...]
    values = np.asarray(values, np.float64)
    return np.swapaxes(values.reshape([_NUM_CHAINS, _NUM_DRAWS, *values.shape[1:]]), 0, 1)

  followed = in_turn(predict(jax.random.PRNGKey(0), x[:_MOST_FOLLOWED])['f'])
  figures = {
    'chains': _NUM_CHAINS,
    'r_hat': float(np.max(tfr.diagnostics.r_hat(followed))),
    'ess': float(np.min(tfr.diagnostics.bulk_effective_sample_size(followed))),
  }
  f = in_turn(predict(jax.random.PRNGKey(0), x_test)['f'])  # [s, c, m, k]
  f = f.reshape([-1, *f.shape[2:]])
  if is_class:
    return f, figures
  noise = in_turn(draws['noise']).reshape([-1, 1, 1])
  prediction = tfr.sampling.Prediction(center + unit * f, np.zeros_like(f), (unit * noise) ** 2)
  if largest is not None:
    prediction = tfr.sampling.LogPrediction(prediction, largest)
  return prediction, figures


def laplace(x, y, x_test, seed, is_class, depth=_DEPTH):
  """Laplace's approximation of one network of the same width, by `laplace-torch`.

  All layers, with Kronecker factors; precisions of the prior, and noise, by the evidence, while the
  network is trained.
  """
  import torch
  from laplace.curvature import CurvlinopsGGN
  from laplace.marglik_training import marglik_training

  torch.manual_seed(seed)
  to_numbers = numbers()
  inputs = torch.tensor(to_numbers.fit_transform(x), dtype=torch.float32)
  new = torch.tensor(to_numbers.transform(x_test), dtype=torch.float32)
  center, unit = (0.0, 1.0) if is_class else (np.mean(y), np.std(y))
  if is_class:
    classes, labels = np.unique(y, return_inverse=True)
    targets, num_outputs = torch.tensor(labels), len(classes)
  else:
    targets = torch.tensor((y - center) / unit, dtype=torch.float32)[:, None]
    num_outputs = 1
  sizes = [inputs.shape[1], *[_WIDTH] * depth, num_outputs]
  layers = [
    layer
    for pair in zip(sizes[:-1], sizes[1:], strict=True)
    for layer in (torch.nn.Linear(*pair), torch.nn.GELU())
  ]
  network = torch.nn.Sequential(*layers[:-1])
  rows = torch.utils.data.TensorDataset(inputs, targets)
  found, *_ = marglik_training(
    network,
    torch.utils.data.DataLoader(rows, batch_size=len(rows)),
    'classification' if is_class else 'regression',
    backend=CurvlinopsGGN,
    optimizer_kwargs={'lr': 1e-2},
    n_epochs=500,
    n_epochs_burnin=50,
    marglik_frequency=10,
  )
  if is_class:
    return found(new, link_approx='probit').detach().numpy().astype(np.float64)
  mean, variance = (np.asarray(v.detach(), np.float64).reshape(-1) for v in found(new))
  noise_variance = float(found.sigma_noise.detach() ** 2)
  return _gaussian(center + unit * mean, unit * np.sqrt(variance + noise_variance))


MODELS = {
  'bnn': bnn,
  'bnn_no_logarithms': functools.partial(bnn, log_targets=False),
  'bnn_student_t': functools.partial(bnn, likelihood='student_t'),
  'bnn_heteroscedastic': functools.partial(bnn, likelihood='heteroscedastic'),
  'gaussian_process': gaussian_process,
  'gaussian_process_logarithms': gaussian_process_logarithms,
  'linear': linear,
  'boosted_trees': boosted_trees,
  'mlp_ensemble': mlp_ensemble,
  'nuts': nuts,
  'laplace': laplace,
  'laplace_two_layers': functools.partial(laplace, depth=2),
}
# Those that are not for classes.
REAL_ONLY = (
  'bnn_no_logarithms',
  'bnn_student_t',
  'bnn_heteroscedastic',
  'gaussian_process_logarithms',
)


def numbers():
  """Standardized numbers, and one-hot categories, of a frame."""
  return make_column_transformer(
    (sklearn.preprocessing.StandardScaler(), make_column_selector(dtype_include='number')),
    (
      sklearn.preprocessing.OneHotEncoder(handle_unknown='ignore', sparse_output=False),
      make_column_selector(dtype_exclude='number'),
    ),
  )


def _fit(to_numbers, model, x, y):
  with warnings.catch_warnings():
    warnings.simplefilter('ignore', sklearn.exceptions.ConvergenceWarning)  # of kernels at bounds
    warnings.simplefilter('ignore', FutureWarning)
    return sklearn.pipeline.make_pipeline(to_numbers, model).fit(x, y)


def _residual_std(model, x, y):
  predicted = sklearn.model_selection.cross_val_predict(model, x, y, cv=5)
  return np.sqrt(np.mean((predicted - y) ** 2))


def _gaussian(mean, std):
  means = np.asarray(mean)[np.newaxis, :, np.newaxis]
  variances = np.square(np.asarray(std))[np.newaxis, :, np.newaxis]
  return tfr.sampling.Prediction(means, variances, 0.0)
