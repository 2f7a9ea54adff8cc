"""The compilation policy."""

import ctypes

import pytest
import tensorflow as tf

import tfp_reprior as tfr

LARGE = 2**18


def _double():
  """A fused function, and a list that grows each time that it is run as Python code."""
  runs = []

  @tfr.compilation.fuse
  def double(x, others):
    runs.append(tf.executing_eagerly())
    return 2.0 * x + others[0]

  return double, runs


def test_large_arguments_are_compiled_once(compilation_policy):
  compilation_policy('auto')
  double, runs = _double()
  for _ in range(3):
    result = double(tf.ones([LARGE]), [tf.ones([])])
  assert runs == [False]  # traced once
  assert float(result[-1]) == 3.0


def test_small_arguments_are_not(compilation_policy):
  compilation_policy('auto')
  double, runs = _double()
  double(tf.ones([10]), [tf.ones([])])
  assert runs == [True]


def test_never_means_never(compilation_policy):
  compilation_policy('never')
  double, runs = _double()
  double(tf.ones([LARGE]), [tf.ones([])])
  assert runs == [True]
  assert not tfr.compilation.compiles_everything()


def test_always_compiles_whole_functions_on_a_cpu(compilation_policy):
  compilation_policy('always')
  assert tfr.compilation.compiles_everything()
  function = tfr.compilation.function(lambda x: x + 1.0)
  assert 'HloModule' in function.experimental_get_compiler_ir(tf.ones([3]))()


def test_auto_leaves_whole_functions_alone_without_accelerator(compilation_policy):
  if any(d.device_type != 'CPU' for d in tf.config.list_logical_devices()):
    pytest.skip('there is an accelerator here')
  compilation_policy('auto')
  assert not tfr.compilation.compiles_everything()


def test_policies_are_named():
  with pytest.raises(ValueError, match="`policy` must be one of .* Received: policy='maybe'"):
    tfr.compilation.set_policy('maybe')


# Of malloc.h, with the largest int.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, INT_MAX = -1, -3, 2147483647


@pytest.mark.parametrize('refused', [None, M_TRIM_THRESHOLD, M_MMAP_THRESHOLD])
def test_freed_memory_is_kept_by_two_settings_of_the_c_library(refused, monkeypatch):
  settings = {}

  class Library:
    def __init__(self, name):
      assert name is None, 'the library that this process has loaded'

    def mallopt(self, parameter, value):
      settings[parameter] = value
      return int(parameter != refused)

  monkeypatch.setattr(ctypes, 'CDLL', Library)
  assert tfr.compilation.keep_freed_memory() is (refused is None)
  if refused is None:
    assert settings == {M_TRIM_THRESHOLD: INT_MAX, M_MMAP_THRESHOLD: INT_MAX}


@pytest.mark.parametrize('error', [None, OSError, TypeError])
def test_freed_memory_is_not_kept_without_mallopt(error, monkeypatch):
  def load(name):
    if error is not None:
      raise error
    return object()

  monkeypatch.setattr(ctypes, 'CDLL', load)
  assert tfr.compilation.keep_freed_memory() is False
