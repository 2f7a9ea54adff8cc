"""What is compiled by XLA, and what is not: the one place that decides.

On a GPU or TPU everything should be compiled. On a CPU it should not: Cholesky factors are 2 to 10
times slower in XLA, while matrix products cost the same either way. What does pay on a CPU is to
compile the updates of large states, chains of elementwise operations that XLA runs in one pass
over memory; this package does that by itself (`fuse`).

```python
import tfp_reprior as tfr

tfr.compilation.set_policy('never')  # no XLA at all, for example to debug
tfr.compilation.set_policy('auto')  # the default
```
"""

import contextlib
import ctypes
import functools
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from tfp_reprior.internal import checks, distribution
from tfp_reprior.internal import parts as parts_lib

__all__ = [
  'POLICIES',
  'compiles_everything',
  'full_precision',
  'function',
  'fuse',
  'get_policy',
  'keep_freed_memory',
  'set_policy',
]
__dir__ = __all__.copy

POLICIES = ('auto', 'always', 'never')

_policy = 'auto'


def set_policy(policy: str) -> None:
  """Sets what is compiled, for functions traced from now on.

  Args:
    policy: `'auto'`, as above; `'always'`, everything, on a CPU too; `'never'`, nothing.

  #### Examples

  ```python
  import tfp_reprior as tfr

  tfr.compilation.set_policy('never')  # plain TensorFlow, to step through with a debugger
  tfr.compilation.set_policy('auto')
  ```
  """
  global _policy
  _policy = checks.one_of('policy', policy, POLICIES)


def get_policy() -> str:
  """The policy in force.

  #### Examples

  ```python
  import tfp_reprior as tfr

  tfr.compilation.get_policy()  # ==> 'auto', unless it was set
  ```
  """
  return _policy


def compiles_everything() -> bool:
  """Whether `function` compiles: on accelerators, unless the policy says otherwise.

  Not in the scope of a strategy with several devices: XLA compiles for one.

  #### Examples

  ```python
  import tfp_reprior as tfr

  device = 'an accelerator' if tfr.compilation.compiles_everything() else 'a CPU'
  ```
  """
  if distribution.is_in_parts():
    return False
  has_accelerator = any(d.device_type != 'CPU' for d in tf.config.list_logical_devices())
  return _policy == 'always' or (_policy == 'auto' and has_accelerator)


def function(fn: Callable[..., Any]) -> Callable[..., Any]:
  """`tf.function`, compiled if `compiles_everything`: for whole sampling loops.

  #### Examples

  ```python
  import tensorflow as tf
  import tfp_reprior as tfr

  @tfr.compilation.function
  def total(x):
    return tf.while_loop(lambda i, s: i < 10, lambda i, s: (i + 1, s + x), (0, tf.zeros([])))[1]

  total(tf.constant(0.5))  # ==> 5.0
  ```
  """
  return tf.function(fn, autograph=False, jit_compile=compiles_everything())


def fuse(fn: Callable[..., Any]) -> Callable[..., Any]:
  """Compiles an elementwise function of (lists of) tensors, for large arguments.

  Args:
    fn: A function whose arguments are all tensors or structures of tensors. It is traced once for
      each signature, so it must not depend on anything else.

  Returns:
    A function with the same arguments and results.

  #### Examples

  ```python
  import tensorflow as tf
  import tfp_reprior as tfr

  @tfr.compilation.fuse
  def leap(positions, velocities, step_size):
    return [x + step_size * v for x, v in zip(positions, velocities)]

  leap([tf.zeros([3])], [tf.ones([3])], tf.constant(0.1))  # ==> [[0.1, 0.1, 0.1]]
  ```
  """
  compiled = tf.function(fn, autograph=False, jit_compile=True)

  @functools.wraps(fn)
  def call(*arguments):
    is_compiled = distribution.is_on_tpu()  # with everything around it
    if _policy == 'never' or is_compiled or not parts_lib.are_large(arguments):
      return fn(*arguments)
    return compiled(*arguments)

  return call


@contextlib.contextmanager
def full_precision() -> Iterator[None]:
  """A context in which products of float32 matrices are computed in float32 on all devices.

  By default TensorFlow rounds their factors to 10 bits on recent GPUs (TensorFloat-32), and to 7
  on TPUs (bfloat16). That is too few for a Gram matrix, whose small eigenvalues count. It is for
  functions that are run, or compiled, inside; `sample_posterior` runs in it.

  #### Examples

  ```python
  import tensorflow as tf
  import tfp_reprior as tfr

  psi = tf.random.normal([100, 20])
  with tfr.compilation.full_precision():
    gram = tf.matmul(psi, psi, transpose_a=True)
  ```
  """
  before = tf.config.experimental.tensor_float_32_execution_enabled()
  tf.config.experimental.enable_tensor_float_32_execution(False)
  try:
    yield
  finally:
    tf.config.experimental.enable_tensor_float_32_execution(before)


def keep_freed_memory() -> bool:
  """Lets this process keep the memory that it frees, for large states on a CPU under Linux.

  By default the C library returns every large tensor to the operating system as soon as it is
  freed, and gets it back page by page, zeroed, for the next one: for millions of weights that
  takes as long as the updates themselves. The setting is for the whole process, so it is yours to
  choose; the scripts and the command line of this package choose it.

  Returns:
    Whether the C library took the setting (glibc does; others need not).

  #### Examples

  ```python
  import tfp_reprior as tfr

  tfr.compilation.keep_freed_memory()  # once, at the start of a program
  ```
  """
  m_trim_threshold, m_mmap_threshold = -1, -3  # of malloc.h
  try:
    mallopt = ctypes.CDLL(None).mallopt
  except (OSError, AttributeError, TypeError):
    return False
  largest = 2**31 - 1  # the arguments are ints
  return bool(mallopt(m_mmap_threshold, largest) and mallopt(m_trim_threshold, largest))
