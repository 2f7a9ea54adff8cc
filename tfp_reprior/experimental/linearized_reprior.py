"""The linearised (NTK) map, as a bijector."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

from tfp_reprior import errors
from tfp_reprior.bijectors import caching
from tfp_reprior.densities import posterior as posterior_lib
from tfp_reprior.experimental import (
  linearization,
  newton,
  steps,
  tangent_kernel,
  taylor_log_det,
)
from tfp_reprior.internal import checks
from tfp_reprior.internal.types import Parts

METHODS = ('levenberg_marquardt', 'gradient_descent')
LOG_DETS = ('exact', 'taylor')


class LinearizedReprior(tfp.bijectors.Bijector):
  """Moves all weights towards the data, by a step of the network linearised at phi.

  ```none
  forward   theta = phi + J.T @ inv(lam I + J @ J.T) @ (y - f(phi))
  ```

  with f the outputs for the data, in one vector `[n k]`, and J `[n k, p]` their Jacobian at phi. It
  is one step of Levenberg and Marquardt; with several iterations, the next one starts at theta.
  The paper tried this map, and recommends `ReadoutReprior` instead; so do we. It is here to build
  on. What to know before (`docs/linearised.md` has figures):

  * For a linear model, theta is the exact posterior mean plus `Sigma @ phi`, with the posterior
    covariance `Sigma`, not its root: the posterior of phi has covariance `inv(Sigma)`, not I.
  * Where the network is narrow or `lam` is small, the map folds: its determinant changes sign, and
    several phi give one theta. Then it is no bijector, and a chain in phi weights each theta by the
    number of its phi, even with the exact log-determinant. `jacobian_sign` tells.
  * `inverse` is computed by Newton's iteration with dense Jacobians, for small networks. Chains
    where it finds no solution within `inverse_tolerance` get NaN, in which no kernel moves; with
    `validate_args` an error. Chains that start in phi need no inverse:
    `kernel.bootstrap_results(transformed_init_state=phi)`.

  Args:
    posterior: A `tfp_reprior.Posterior`, with noise of known scale.
    regularizer: `lam` of Levenberg and Marquardt, as for `Posterior.reprior`.
    method: `'levenberg_marquardt'`, or `'gradient_descent'` for steps
      `theta = phi + step_size * J.T @ (y - f(phi))`.
    num_iterations: Positive integer, the number of steps.
    step_size: Positive float, of gradient descent.
    subset: List of integers, which of the data the map is about, or None for all. The posterior is
      that of all data either way.
    log_det: `'exact'`, from the dense Jacobian `[p, p]`, for small networks; `'taylor'`, or a
      `tfp_reprior.experimental.TaylorSeries`, for the approximation of the paper,
      `log|det(I + H)|` with H the Hessian of `a . f` for fixed `a = inv(G) @ (y - f)`, to which the
      exact `n k log(lam) - log det(G)` is added, `G = lam I + J @ J.T`. It leaves out derivatives
      of a, and changes the stationary distribution of a chain. For gradient descent nothing but
      the rest of the series is left out.
    ntk_method: How `J @ J.T` is computed: `method` of `tfp_reprior.experimental.empirical_ntk`.
    chunk_size: Likewise.
    inverse_tolerance: Positive float, the largest error of a component of
      `forward(inverse(theta))`; by default the root of the machine epsilon, 1.5e-8 in float64.
    max_inverse_iterations: Positive integer, for each step.
    validate_args: Whether to raise an error if there is no inverse.
    name: Name of the operations.

  #### Examples

  ```python
  import numpy as np
  import tensorflow_probability as tfp
  import tfp_reprior as tfr

  x = np.linspace(-1, 1, 5)[:, np.newaxis]
  model = tfr.models.fcn((1,), 1, width=16, depth=1, dtype='float64')
  posterior = tfr.Posterior(model, x, np.sin(3 * x), noise_scale=0.3)
  linearized = tfr.experimental.LinearizedReprior(posterior, regularizer=1.0)
  phi = posterior.sample_prior(2, seed=1)  # two chains
  theta = linearized.forward(phi)
  ```
  """

  _cache = caching.Uncached()

  def __init__(
    self,
    posterior: posterior_lib.Posterior,
    regularizer: float | str | None = None,
    method: str = 'levenberg_marquardt',
    num_iterations: int = 1,
    step_size: float | None = None,
    subset: Sequence[int] | None = None,
    log_det: str | taylor_log_det.TaylorSeries = 'exact',
    ntk_method: str = 'auto',
    chunk_size: int | None = None,
    inverse_tolerance: float | None = None,
    max_inverse_iterations: int = 100,
    validate_args: bool = False,
    name: str = 'linearized_reprior',
  ) -> None:
    parameters = dict(locals())
    with tf.name_scope(name) as name:
      if not isinstance(posterior, posterior_lib.Posterior):
        raise errors.InputError(
          f'`posterior` must be a `tfp_reprior.Posterior`. Received: {type(posterior).__name__}'
        )
      checks.one_of('method', method, METHODS)
      self._num_iterations = checks.positive_integer('num_iterations', num_iterations)
      self._max_inverse_iterations = checks.positive_integer(
        'max_inverse_iterations', max_inverse_iterations
      )
      # What goes through the network in chunks has first derivatives only.
      split = posterior.split.in_chunks(None)
      self._event_ndims, dtype = split.event_ndims, split.dtype
      if inverse_tolerance is None:
        inverse_tolerance = float(np.sqrt(np.finfo(dtype.as_numpy_dtype).eps))
      self._inverse_tolerance = checks.positive('inverse_tolerance', inverse_tolerance)
      x, y = _choose(posterior, subset)
      self._step_fn: steps.LevenbergMarquardt | steps.GradientDescent
      if method == 'levenberg_marquardt':
        if step_size is not None:
          raise errors.InputError(
            f'`step_size` is of gradient descent only. Received: step_size={step_size}'
          )
        kernel = tangent_kernel.TangentKernel(split, ntk_method, chunk_size)
        lam = tf.convert_to_tensor(_known_regularizer(posterior, regularizer), dtype)
        self._step_fn = steps.LevenbergMarquardt(split, x, y, lam, kernel)
      else:
        if regularizer is not None or step_size is None:
          raise errors.InputError(
            '`gradient_descent` has a `step_size`, and no `regularizer`. Received: '
            f'step_size={step_size}, regularizer={regularizer}'
          )
        step_size = tf.convert_to_tensor(checks.positive('step_size', step_size), dtype)
        self._step_fn = steps.GradientDescent(split, x, y, step_size)
      self._series = _choose_series(log_det, method, split)
      super().__init__(
        forward_min_event_ndims=self._event_ndims,
        dtype=dtype,
        validate_args=validate_args,
        parameters=parameters,
        name=name,
      )

  @property
  def _parts_interact(self):
    return True

  def jacobian_sign(self, phi: Parts) -> tf.Tensor:
    """The sign of the determinant of the Jacobian, `[*chains]`, from the dense Jacobian.

    Where it is not the same everywhere, the map folds.
    """
    signs = [tf.linalg.slogdet(self._step_fn.jacobian(s.begin))[0] for s in self._steps(phi)]
    return tf.reduce_prod(tf.stack(signs), axis=0)

  def _forward(self, x):
    return self._steps(x)[-1].end

  def _forward_log_det_jacobian(self, x):
    return sum(self._step_log_det(step) for step in self._steps(x))

  def _inverse(self, y):
    parts = [tf.convert_to_tensor(p) for p in y]
    for _ in range(self._num_iterations):
      parts = self._invert_step(parts)
    return parts

  def _inverse_log_det_jacobian(self, y):
    return -self._forward_log_det_jacobian(self._inverse(y))

  def _steps(self, parts):
    """The steps from `parts`, computed anew in each call: a gradient tape must see all of them."""
    result = [self._step_fn([tf.convert_to_tensor(p) for p in parts])]
    for _ in range(self._num_iterations - 1):
      result.append(self._step_fn(result[-1].end))
    return result

  def _step_log_det(self, step):
    if self._series is None:
      return tf.linalg.slogdet(self._step_fn.jacobian(step.begin))[1]
    return step.gram_log_det + taylor_log_det.taylor_log_det(
      self._step_fn.potential, step.begin, step.coefficients, self._event_ndims, self._series
    )

  def _invert_step(self, parts):
    """The parts from which a step leads to `parts`."""

    def flat(function):
      return lambda v: linearization.flatten(
        function(linearization.unflatten(v, parts)), self._event_ndims
      )

    def jacobian_fn(v):
      return self._step_fn.jacobian(linearization.unflatten(v, parts))

    @tf.custom_gradient
    def solve(targets):
      begin = newton.solve(
        flat(lambda p: self._step_fn(p).end),
        jacobian_fn,
        targets,
        flat(self._step_fn.guess_begin)(targets),
        self._inverse_tolerance,
        self._max_inverse_iterations,
      )

      def gradient(upstream):  # of the implicit function
        solved = tf.linalg.solve(jacobian_fn(begin), upstream[..., tf.newaxis], adjoint=True)
        return solved[..., 0]

      return begin, gradient

    begin = solve(linearization.flatten(parts, self._event_ndims))
    if self.validate_args:
      begin = tf.debugging.check_numerics(
        begin, f'There is no inverse within `inverse_tolerance={self._inverse_tolerance:g}`.'
      )
    return linearization.unflatten(begin, parts)

  def __repr__(self):
    settings = ', '.join(
      f'{name}={self.parameters[name]!r}' for name in ('method', 'num_iterations', 'log_det')
    )
    return f"tfr.LinearizedReprior('{self.name}', {settings}, dtype={self.dtype.name})"

  __str__ = __repr__


def _choose(posterior, subset):
  """The inputs `[n, ...]` and targets `[n, k]` of the map."""
  x, y = posterior.x, posterior.surrogate_targets
  if subset is None:
    return x, y
  indices = np.asarray(subset)
  n = x.shape[0]
  if indices.ndim != 1 or indices.dtype.kind not in 'iu' or indices.size == 0:
    raise errors.InputError(f'`subset` must be a list of integers. Received: subset={subset}')
  if len(set(indices.tolist())) < len(indices) or indices.min() < 0 or indices.max() >= n:
    raise errors.InputError(
      f'`subset` must hold different numbers from 0 to {n - 1}. Received: subset={subset}'
    )
  return tf.gather(x, indices), tf.gather(y, indices)


def _choose_series(log_det, method, split):
  """The `TaylorSeries` that `log_det` stands for, or None for the exact log-determinant."""
  if isinstance(log_det, taylor_log_det.TaylorSeries):
    series = log_det.checked()
  elif checks.one_of('log_det', log_det, LOG_DETS) == 'exact':
    return None
  else:
    series = taylor_log_det.TaylorSeries()
  is_linear = method == 'levenberg_marquardt' and taylor_log_det.is_piecewise_linear(split)
  skips = is_linear if series.skips_first_order is None else series.skips_first_order
  if skips and method == 'gradient_descent':
    raise errors.InputError(
      'The first order is not zero for gradient descent. Received: skips_first_order=True'
    )
  return series._replace(skips_first_order=skips)


def _known_regularizer(posterior, regularizer):
  value = posterior.regularizer(regularizer)
  if callable(value):
    raise errors.InputError(
      '`regularizer` must be a number where the noise is unknown. Received: '
      f'regularizer={regularizer}'
    )
  return value
