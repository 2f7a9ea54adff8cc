"""The compilation policy."""

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


def test_keeping_freed_memory_says_whether_it_worked():
  assert tfr.compilation.keep_freed_memory() in (True, False)
