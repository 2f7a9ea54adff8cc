"""What this package raises on purpose.

Everything else is a bug, here or in a package below: the command line shows its traceback.
"""

from typing import Any

__all__ = ['InputError', 'MissingPackageError', 'RunError']
__dir__ = __all__.copy


class InputError(ValueError, TypeError):
  """A mistake in what was given: an argument, a file, a flag, data, a model.

  The message names it, the value received, and often what to do. It is a `ValueError` and a
  `TypeError`, for code that catches those.

  #### Examples

  ```python
  import tfp_reprior as tfr

  try:
    tfr.models.fcn((1,), 1, width=-3)
  except tfr.errors.InputError as e:
    print(e)  # `width` must be a positive integer. Received: width=-3
  ```
  """

  # AutoGraph raises errors of other constructors as one of its own, which is no `ValueError`.
  __init__ = Exception.__init__


class MissingPackageError(InputError, ImportError):
  """A package that is not installed, with the command that installs it.

  #### Examples

  ```python
  import tfp_reprior as tfr

  try:
    tfr.data.load('digits')
  except tfr.errors.MissingPackageError as e:
    print(e)  # The built-in data sets come with scikit-learn: pip install tfp-reprior[data]
  ```
  """


class RunError(RuntimeError):
  """A run that failed, though nothing that was given is wrong in itself.

  Attributes:
    result: The `tfp_reprior.sampling.Result`, if there is one that could not be saved; else `None`.

  #### Examples

  ```python
  import numpy as np
  import tfp_reprior as tfr

  x = np.linspace(-1, 1, 10, dtype=np.float32)[:, np.newaxis]
  model = tfr.models.fcn((1,), 1, width=16, depth=1)
  try:
    result = tfr.sample_posterior(
      model, x, x, num_results=20, num_burnin_steps=0, step_size=0.1, run_dir='run', progress=False
    )
  except tfr.errors.RunError as e:  # the disk is full, for example
    result = e.result
  ```
  """

  def __init__(self, message: str, result: Any = None) -> None:
    super().__init__(message)
    self.result = result
