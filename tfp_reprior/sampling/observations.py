"""What is recorded of each draw: projections, energy, running moments."""

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tfp_reprior import diagnostics
from tfp_reprior.diagnostics import verdict
from tfp_reprior.internal import parts as parts_lib
from tfp_reprior.sampling import moments, runner


class Summary(NamedTuple):
  """Running moments over draws.

  Attributes:
    theta: `Moments` of the weights, by chain.
    f_mean: `Moments` of the mean of an observation for test inputs `[c, m, k]`, given the weights,
      or given the hidden ones, if the readout is integrated out: the outputs with Gaussian noise,
      probabilities for classes; `()` without test inputs.
    f_variance: `Moments` of their variances, given the hidden weights; else zero.
  """

  theta: Any
  f_mean: Any = ()
  f_variance: Any = ()


class Observer:
  """Records draws of a sampler.

  Args:
    sampler: A `tfp_reprior.sampling.Sampler`.
    x_test: Inputs `[m, ...]`, or None.
    num_projections: Positive integer.
    seed: A seed of TFP, of the projections.
    thinning: Positive integer, transitions for each that is recorded, in warm-up.
  """

  def __init__(self, sampler, x_test, num_projections, seed, thinning=1):
    self._thinning = thinning
    self._sampler = sampler
    self._split = sampler.posterior.split
    self._x_test = x_test
    shapes, num_hidden = self._split.event_shapes, self._split.num_hidden

    def project(shapes):
      return diagnostics.RandomProjections(shapes, num_projections, seed, self._split.dtype)

    self._project_theta = project(shapes)
    # Apart from the readout, which may be drawn anew each time, and would hide them.
    self._project_hidden = project(shapes[:num_hidden]) if num_hidden else None
    if x_test is not None:
      self._project_f = project([(x_test.shape[0], self._split.num_outputs)])

  def empty(self, num_chains):
    """The `Summary` of no draws."""
    theta = [tf.zeros([num_chains, *s], self._split.dtype) for s in self._split.event_shapes]
    summary = Summary(moments.zeros_like(theta))
    if self._x_test is not None:
      f = tf.zeros([num_chains, self._x_test.shape[0], self._split.num_outputs], self._split.dtype)
      likelihood = self._sampler.posterior.likelihood
      medians = [tf.zeros([num_chains, *s], f.dtype) for s in likelihood.event_shapes]
      f = tf.zeros_like(likelihood.given(medians).mean(f))
      summary = summary._replace(f_mean=moments.zeros_like(f), f_variance=moments.zeros_like(f))
    return summary

  def warmup(self, state, results, summary, seed=0):
    """Traces a transition of warm-up: what settings are judged by."""
    parts = self._sampler.parts_fn(state)
    trace = {
      **self._kernel_trace(state, results),
      **self._weights_trace(parts),
      'f': self._project_f(self._split.apply_new(parts, self._x_test, seed)),
      'step_size': results.inner_results.new_step_size,  # of the next transition
      'steps': self._thinning * self._sampler.num_gradients(results.settings.num_integrator_steps),
    }
    return trace, summary

  def draw(self, state, results, summary, seed=0):
    """Traces a draw, and counts it in: one pass of the training data, and one of the test data."""
    parts, conditional = self._sampler.draw_fn(state)
    trace = {
      **self._kernel_trace(state, results),
      **self._weights_trace(parts),
      'theta': self._project_theta(parts),
    }
    trace |= self._parameters_trace(parts)
    summary = summary._replace(theta=moments.update(summary.theta, parts))
    if self._x_test is not None:
      if conditional is not None:
        readout = parts[self._split.num_hidden :]
        mean, variance, f = conditional.predict(self._x_test, readout, seed)
      else:
        f = self._split.apply_new(parts, self._x_test, seed)
        mean = self._sampler.posterior.likelihood_given(parts).mean(f)
        variance = tf.zeros_like(mean)
      trace['f'] = self._project_f(f)
      summary = summary._replace(
        f_mean=moments.update(summary.f_mean, mean),
        f_variance=moments.update(summary.f_variance, variance),
      )
    return trace, summary

  def _parameters_trace(self, parts):
    """Unknown scales by their names, and all other parameters of the likelihood together."""
    trace, others = {}, []
    for name, value in self._sampler.posterior.parameters_given(parts).items():
      flat = tf.reshape(value, [*parts[-1].shape[:1], -1])
      if name in verdict.NAMES:
        trace[name] = flat
      else:
        others.append(flat)
    return trace | ({'parameters': tf.concat(others, axis=-1)} if others else {})

  def _weights_trace(self, parts):
    hidden = parts[: self._split.num_hidden]
    if not hidden:
      return {}
    squared_norms = [
      _half_centered_squares(p, self._split.event_ndims[i]) for i, p in enumerate(hidden)
    ]
    return {
      'hidden': self._project_hidden(hidden),
      'squared_norms': 2.0 * tf.stack(squared_norms, axis=-1),
    }

  def _kernel_trace(self, state, results):
    inner = runner.innermost(results)
    # In coordinates of their own, chains could not be compared.
    state, change = self._sampler.unmap_fn(state)
    # While chains are cold, for other likelihoods than Gaussian ones, only about that.
    log_likelihood = (inner.target_log_prob - change) / results.settings.inverse_temperature
    ndims = self._split.event_ndims
    moving = state[: self._sampler.num_moving_parts]
    log_prob = log_likelihood - _sum_of_half_centered_squares(moving, ndims)
    energy = -log_prob
    if self._sampler.has_damping:
      energy += _sum_of_half_centered_squares(inner.momentum, ndims)
    return {'log_likelihood': log_likelihood, 'log_prob': log_prob, 'energy': energy}


def f_mean_and_variance(summary):
  """Mean and variance of `Summary.f_mean` over draws and chains, `[m, k]` each."""
  if not summary.f_mean:
    return None
  mean = moments.finish(summary.f_mean)
  conditional = moments.finish(summary.f_variance)
  # The mean of conditional variances, plus the variance of conditional means, within chains and
  # between them.
  within = np.mean(conditional.mean + mean.variance, axis=0)
  return np.mean(mean.mean, axis=0), within + np.var(mean.mean, axis=0)


def _half_centered_squares(part, event_ndims):
  """`1/2 sum(part**2 - 1)` `[c]`: centered, because the sum itself is lost in float32."""
  return 0.5 * parts_lib.sum_events(tf.square(part) - 1.0, part.shape.rank - event_ndims)


def _sum_of_half_centered_squares(parts, event_ndims):
  parts = parts_lib.to_list(parts)
  pairs = zip(parts, event_ndims, strict=False)
  return parts_lib.add_up([_half_centered_squares(p, n) for p, n in pairs])
