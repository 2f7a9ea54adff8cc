"""Workers: processes that run the same program, each with devices of its own."""

import contextlib
import warnings
import zlib

import numpy as np
import tensorflow as tf

from tfp_reprior import errors

_GONE = (
  tf.errors.UnavailableError,
  tf.errors.AbortedError,
  tf.errors.CancelledError,
  tf.errors.DeadlineExceededError,
  tf.errors.FailedPreconditionError,
)


class DisagreementError(errors.InputError):
  """What all workers raise together."""


class LostWorkerError(errors.RunError):
  """What the others raise when one has failed."""


class Workers:
  """The processes of a strategy, or the only one.

  All run the same Python program and meet in every exchange. So what a program does next must not
  depend on what only one of them knows, such as the time: that goes through `gather` first.

  Args:
    strategy: A `tf.distribute.Strategy`, or None.

  Attributes:
    count: How many there are.
    is_chief: Whether this is the one that writes.
  """

  def __init__(self, strategy=None):
    self.count, self.is_chief = 1, True
    if strategy is None:
      return
    num_local = len(strategy.extended.worker_devices)
    self.count = strategy.num_replicas_in_sync // num_local
    self.is_chief = strategy.extended.should_checkpoint
    if self.count == 1:
      return
    ids = strategy.experimental_distribute_values_from_function(
      lambda context: tf.constant(context.replica_id_in_sync_group)
    )
    self._index = int(strategy.experimental_local_results(ids)[0]) // num_local

    def add_up(rows):
      [total] = tf.distribute.get_replica_context().all_reduce(
        tf.distribute.ReduceOp.SUM, [tf.identity(rows)]
      )
      return total

    def sum_over_workers(rows):
      return strategy.experimental_local_results(strategy.run(add_up, args=(rows,)))[0] / num_local

    self._sum = tf.function(sum_over_workers, autograph=False)

  def gather(self, values):
    """The numbers of all workers, `[count, m]`, the chief's first. All have to call it."""
    rows = np.zeros([self.count, len(values)])
    if self.count == 1:
      rows[0] = values
      return rows
    rows[self._index] = values
    return self._sum(tf.constant(rows)).numpy()

  def wait(self):
    """Waits until all have come here."""
    self.gather([0.0])

  def check_same(self, what, *contents):
    """Refuses bytes, or arrays, that are not the same for all workers.

    Args:
      what: Text, what has to be the same.
      *contents: Bytes or arrays.
    """
    if self.count == 1:
      return
    digest = 0
    for content in contents:
      digest = zlib.crc32(np.ascontiguousarray(content), digest)
    digests = self.gather([digest])[:, 0]
    others = np.flatnonzero(digests != digests[0])
    if len(others):
      raise DisagreementError(
        f'All workers must have the same {what}. Received: other ones than those of the chief on '
        f'worker {", ".join(str(i) for i in others)}'
      )

  @contextlib.contextmanager
  def watched(self):
    """Ends all workers if one fails: no exchange can be made without it."""
    try:
      yield
    except BaseException as e:
      if self.count == 1 or isinstance(e, (DisagreementError, LostWorkerError)):
        raise
      if isinstance(e, _GONE):
        raise LostWorkerError(
          'Another worker of this run has ended, and there is no going on without it: see what it '
          'says, and start all workers again. With a `run_dir` the run goes on from its last '
          f'checkpoint. TensorFlow received: {_reason(e)}'
        ) from e
      _tell_others()
      raise


def _tell_others():
  """Ends the other workers, where this TensorFlow can.

  They do not see the failure of this one in an exchange that was not begun; nor, if its process
  ends in order, by its silence. No public name tells them.
  """
  try:
    from tensorflow.python.eager import context

    report = context.context().report_error_to_cluster
  except (ImportError, AttributeError):
    warnings.warn('Cannot tell the other workers that this one fails: end them.', stacklevel=2)
    return
  with contextlib.suppress(tf.errors.OpError):  # as of a second time
    report(tf.errors.UNAVAILABLE, 'A worker has failed')


def _reason(error):
  """The line of a message of many that says what happened."""
  lines = [line for line in error.message.splitlines() if 'aborted by' in line]
  return (lines or error.message.splitlines() or [type(error).__name__])[0]
