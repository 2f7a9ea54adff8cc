"""Layers in NTK parametrisation, and their covariances under the prior, in plain NumPy."""

import math

import numpy as np
import scipy.special

ACTIVATIONS = {
  'linear': lambda x: x,
  'relu': lambda x: np.maximum(x, 0),
  'erf': scipy.special.erf,
  'tanh': np.tanh,
  'gelu': lambda x: x * scipy.special.ndtr(x),
}


# Forward passes.


def conv2d(x, kernel, strides=(1, 1), padding='same'):
  """Convolution (without a flip, as in Keras) by explicit loops over the outputs."""
  n, *size = x.shape[:3]
  taps, filters = kernel.shape[:2], kernel.shape[3]
  if padding == 'same':
    pads = [_same_padding(size[i], taps[i], strides[i]) for i in (0, 1)]
    x = np.pad(x, [(0, 0), *pads, (0, 0)])
  out = [(x.shape[1 + i] - taps[i]) // strides[i] + 1 for i in (0, 1)]
  y = np.zeros([n, *out, filters])
  for i, j in np.ndindex(*out):
    top, left = i * strides[0], j * strides[1]
    patch = x[:, top : top + taps[0], left : left + taps[1]]
    y[:, i, j] = np.einsum('nabc,abcf->nf', patch, kernel)
  return y


def _same_padding(size, taps, stride):
  """Zeros before and after, for `ceil(size / stride)` outputs."""
  total = max((-(-size // stride) - 1) * stride + taps - size, 0)
  return total // 2, total - total // 2


def ntk_conv2d(x, kernel, weight_std, stride=1):
  """The layer without bias and activation, with zeros around."""
  return weight_std / math.sqrt(math.prod(kernel.shape[:3])) * conv2d(x, kernel, (stride, stride))


def ntk_dense(x, kernel, weight_std):
  """The layer without bias and activation."""
  return weight_std / math.sqrt(len(kernel)) * x @ kernel


def softmax(logits):
  """Over the last dimension."""
  return scipy.special.softmax(logits, axis=-1)


def attention_weights(x, query_kernel, num_heads, query_std):
  """`softmax(queries @ queries.T / head_size)` `[num_heads, n, length, length]`."""
  queries = np.split(ntk_dense(x, query_kernel, query_std), num_heads, axis=-1)
  return np.stack([softmax(q @ np.swapaxes(q, -1, -2) / q.shape[-1]) for q in queries])


def ntk_self_attention(x, query_kernel, value_kernel, kernel, num_heads, query_std=1.0):
  """The layer with `weight_std=1`, without bias and activation."""
  values = np.split(ntk_dense(x, value_kernel, 1.0), num_heads, axis=-1)
  weights = attention_weights(x, query_kernel, num_heads, query_std)
  mixed = [w @ v for w, v in zip(weights, values, strict=True)]
  return ntk_dense(np.concatenate(mixed, axis=-1), kernel, 1.0)


# Covariances between positions, of one channel, given one input. For linear layers these are exact
# at every width, for activations in the limit of great width.


def input_covariance(x):
  """`[*positions, *positions]` of an input `[*positions, channels]`."""
  flat = x.reshape(-1, x.shape[-1])
  return (flat @ flat.T / x.shape[-1]).reshape(x.shape[:-1] * 2)


def conv2d_covariance(cov, weight_std, stride=1, taps=3):
  """After a convolution with zeros around: `[h, w, h, w]` to `[h', w', h', w']`."""
  size = cov.shape[:2]
  padded = np.pad(cov, 2 * [_same_padding(s, taps, stride) for s in size])
  out = [-(-s // stride) for s in size]
  total = 0.0
  for a, b in np.ndindex(taps, taps):
    rows = slice(a, a + stride * (out[0] - 1) + 1, stride)
    columns = slice(b, b + stride * (out[1] - 1) + 1, stride)
    total = total + padded[rows, columns, rows, columns]
  return weight_std**2 / taps**2 * total


def activation_covariance(cov, activation):
  """`E[f(u) f(v)]` for normal u, v: Cho and Saul (2009) for the ReLU, Williams (1997) for erf."""
  if activation == 'linear':
    return cov
  size = math.isqrt(cov.size)
  matrix = cov.reshape(size, size)
  variances = np.diag(matrix)
  if activation == 'relu':
    scale = np.sqrt(np.outer(variances, variances))
    angle = np.arccos(np.clip(matrix / scale, -1, 1))
    moments = scale * (np.sin(angle) + (np.pi - angle) * np.cos(angle)) / (2 * np.pi)
  else:
    scale = np.sqrt(np.outer(1 + 2 * variances, 1 + 2 * variances))
    moments = 2 / np.pi * np.arcsin(2 * matrix / scale)
  return moments.reshape(cov.shape)


def variances(cov):
  """The diagonal, `[*positions]`."""
  positions = cov.shape[: cov.ndim // 2]
  return np.diag(cov.reshape(math.prod(positions), -1)).reshape(positions)
