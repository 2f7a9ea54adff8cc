"""A split with further parts is the split of the weights, with parts in between."""

import numpy as np
import pytest
import tensorflow as tf

import tfp_reprior as tfr
from tfp_reprior.models import extended_split, stateless


def _splits():
  split = tfr.models.ReadoutSplit(tfr.models.fcn((3,), 2, width=4, depth=1, dtype='float64'))
  return split, extended_split.ExtendedSplit(split, [(), (5,)], lambda further: 1.0)


def test_further_parts_stand_before_the_readout():
  split, extended = _splits()
  assert split.event_shapes == [(3, 4), (4,), (4, 2), (2,)] and split.num_hidden == 2
  assert extended.event_shapes == [(3, 4), (4,), (), (5,), (4, 2), (2,)]
  assert extended.num_hidden == 4 and extended.num_parameters == split.num_parameters + 6
  assert extended.event_ndims == [2, 1, 0, 1, 2, 1]
  assert extended.inner is split


@pytest.mark.parametrize('chains', [(), (3,)])
def test_outputs_are_those_of_the_weights(chains):
  split, extended = _splits()
  x = np.random.default_rng(1).normal(size=(5, 3))
  parts = extended.sample_prior(chains, seed=1)
  assert [p.shape for p in parts] == [(*chains, *s) for s in extended.event_shapes]
  weights = parts[:2] + parts[4:]
  np.testing.assert_array_equal(extended.embed(parts[:4], x), split.embed(weights[:2], x))
  np.testing.assert_array_equal(extended.apply(parts, x), split.apply(weights, x))


@pytest.mark.parametrize('chunk_sizes, rows', [([3], {3, 1}), ([3, 2], {2, 1}), ([3, None], {7})])
@pytest.mark.parametrize('order', ['chunks of the extended', 'extended of chunks'])
def test_a_network_sees_no_more_rows_than_a_chunk(chunk_sizes, rows, order, monkeypatch):
  split, whole = _splits()
  if order == 'chunks of the extended':
    chunked = whole
    for size in chunk_sizes:
      chunked = chunked.in_chunks(size)
  else:
    inner = split.in_chunks(chunk_sizes[0])
    chunked = extended_split.ExtendedSplit(inner, [(), (5,)], lambda further: 1.0)
    for size in chunk_sizes[1:]:
      chunked = chunked.in_chunks(size)
  assert chunked.chunk_size == chunk_sizes[-1] and whole.chunk_size is None
  assert chunked.event_shapes == whole.event_shapes and chunked.num_hidden == whole.num_hidden
  x = tf.constant(np.random.default_rng(1).normal(size=(7, 3)))
  parts = whole.sample_prior(2, seed=1)
  expected = whole.apply(parts, x)
  seen, call = [], stateless.StatelessModel.__call__

  def counted(model, values, x):
    seen.append(x.shape[0])
    return call(model, values, x)

  monkeypatch.setattr(stateless.StatelessModel, '__call__', counted)
  np.testing.assert_allclose(chunked.apply(parts, x), expected, rtol=0, atol=1e-12)
  assert set(seen) == rows


def test_a_draw_is_assigned_without_the_further_parts():
  _, extended = _splits()
  parts = extended.sample_prior(seed=1)
  extended.assign(parts)
  current = extended.current_parts()
  for i, (part, now) in enumerate(zip(parts, current, strict=True)):
    np.testing.assert_array_equal(now, np.zeros(part.shape) if i in (2, 3) else part)


def test_parts_are_checked_with_the_further_ones():
  _, extended = _splits()
  parts = extended.sample_prior(seed=1)
  with pytest.raises(ValueError, match='`parts` must be a list of 6 tensors .*Received: 4 parts'):
    extended.apply(parts[:2] + parts[4:], np.ones([5, 3]))
