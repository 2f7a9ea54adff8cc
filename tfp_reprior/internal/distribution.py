"""Replicas: the one place that knows `tf.distribute`.

Rows, of data or of chains, are split over the replicas of a strategy; everything else is the same
on all of them. A loop, and the state that it carries, stay outside: each step sends the state to
the replicas and takes back what they agree on. `MirroredStrategy` and
`MultiWorkerMirroredStrategy` need it so, because they cannot add up over replicas within a loop. On
a TPU the whole loop can go inside `Shards.run`.

Shards are as equal as can be. Where they must be equal, as on a TPU, the last row is repeated.
"""

import contextlib

import tensorflow as tf

from tfp_reprior import errors


class Shard:
  """Rows of the data: those of one replica, or all.

  Args:
    rows: List of tensors `[m, ...]`.
    num_replicas: Positive integer, how many shards there are.
  """

  def __init__(self, rows, num_replicas=1):
    self.rows = list(rows)
    self._num_replicas = num_replicas

  def run(self, fn, *arguments):
    """`fn(shard, *arguments)`."""
    return fn(self, *arguments)

  def map_rows(self, fn, rows, axis):
    """`fn(*rows)`."""
    del axis
    return fn(*rows)

  def all_sum(self, values):
    """Sums a list of tensors over all shards, in one exchange for each dtype.

    Not to be differentiated: the gradient that TensorFlow gives it is that of the sum of what all
    replicas return.
    """
    if self._num_replicas == 1:
      return values
    sums = list(values)
    for dtype in dict.fromkeys(v.dtype for v in values):  # in the same order everywhere
      indices = [i for i, v in enumerate(values) if v.dtype == dtype]
      packed = tf.distribute.get_replica_context().all_reduce(
        tf.distribute.ReduceOp.SUM, [values[i] for i in indices]
      )
      for i, total in zip(indices, packed, strict=True):
        sums[i] = total
    return sums


class Shards:
  """The data, split by rows over the replicas of a strategy.

  If rows had to be repeated, each shard has one tensor more, `[m, 1]`: one, or zero where the row
  does not count.

  Args:
    strategy: A `tf.distribute.Strategy`.
    rows: List of tensors `[n, ...]`.
    dtype: Of the ones and zeros.
  """

  def __init__(self, strategy, rows, dtype):
    self._strategy = check_strategy(strategy)
    rows = list(rows)
    n = rows[0].shape[0]
    num_repeated = sum(_sizes(strategy, n)) - n
    self._rows = [_split(strategy, r) for r in rows]
    if num_repeated:
      counts = tf.concat([tf.ones([n, 1], dtype), tf.zeros([num_repeated, 1], dtype)], axis=0)
      self._rows.append(_split(strategy, counts))

  def run(self, fn, *arguments):
    """Runs `fn(shard, *arguments)` on every replica, for a result that is the same on all."""
    strategy = self._strategy

    def run_shard(rows, *arguments):
      return fn(Shard(rows, strategy.num_replicas_in_sync), *arguments)

    results = strategy.run(run_shard, args=(self._rows, *arguments))
    return tf.nest.map_structure(lambda r: strategy.experimental_local_results(r)[0], results)

  def map_rows(self, fn, rows, axis):
    """As the function `map_rows`, for other rows than those of the data."""
    return map_rows(self._strategy, fn, rows, axis)


def map_rows(strategy, fn, rows, axis):
  """Evaluates `fn(*rows)`, some of the rows on each replica.

  Args:
    strategy: A `tf.distribute.Strategy`.
    fn: Function of tensors `[m, ...]`, each row by itself; returns a structure of tensors.
    rows: List of tensors `[n, ...]`.
    axis: Integer, not negative: that of the rows in what `fn` returns.

  Returns:
    What `fn(*rows)` would return.
  """
  if strategy.num_replicas_in_sync == 1:
    return fn(*rows)
  rows = [tf.convert_to_tensor(r) for r in rows]
  n = rows[0].shape[0]
  results = strategy.run(fn, args=[_split(strategy, r) for r in rows])

  def join(result):
    shards = strategy.experimental_local_results(result)
    is_all = len(shards) == strategy.num_replicas_in_sync  # and no other process has more
    joined = tf.concat(shards, axis) if is_all else strategy.gather(result, axis)
    joined = joined[(slice(None),) * axis + (slice(n),)]  # without repeated rows
    return tf.ensure_shape(joined, [*shards[0].shape[:axis], n, *shards[0].shape[axis + 1 :]])

  return tf.nest.map_structure(join, results)


def check_strategy(strategy):
  """Refuses what is not a strategy whose replicas work in step."""
  if not isinstance(strategy, tf.distribute.Strategy) or isinstance(
    strategy, tf.distribute.experimental.ParameterServerStrategy
  ):
    raise errors.InputError(
      '`strategy` must be a `tf.distribute.Strategy` with replicas in step, such as '
      f'`tf.distribute.MirroredStrategy()`. Received: strategy={strategy!r}'
    )
  return strategy


def takes_loops(strategy):
  """Whether a loop with exchanges in it goes inside: on a TPU, and where there are none."""
  return isinstance(strategy, (tf.distribute.TPUStrategy, tf.distribute.OneDeviceStrategy))


def is_on_tpu():
  """Whether what is traced here becomes part of a program for TPUs."""
  return isinstance(tf.distribute.get_strategy(), tf.distribute.TPUStrategy)


def scope(strategy):
  """A context in which `is_in_parts` and `is_on_tpu` know of the strategy, which may be None."""
  return contextlib.nullcontext() if strategy is None else strategy.scope()


def is_in_parts():
  """Whether programs are for several devices, so that none of them can compile a whole one."""
  return tf.distribute.get_strategy().num_replicas_in_sync > 1


def needs_equal_shards(strategy):
  """Whether all replicas run one program, with one set of shapes."""
  return strategy.extended.experimental_require_static_shapes


def _sizes(strategy, n):
  """Rows of each shard; more than `n` in all if some have to be repeated."""
  num_shards = strategy.num_replicas_in_sync
  if needs_equal_shards(strategy) or n < num_shards:
    return [-(-n // num_shards)] * num_shards
  return [n // num_shards + (i < n % num_shards) for i in range(num_shards)]


def _split(strategy, rows):
  """Rows `[n, ...]` as a value for each replica, on its device."""
  n = rows.shape[0]
  sizes = _sizes(strategy, n)
  if sum(sizes) > n:
    rows = tf.concat([rows, tf.repeat(rows[-1:], sum(sizes) - n, axis=0)], axis=0)
  shards = tf.split(rows, sizes)
  devices = iter(strategy.extended.worker_devices)  # of this process, in the order of replicas

  def shard(context):
    with tf.device(next(devices)):
      return tf.identity(shards[context.replica_id_in_sync_group])

  return strategy.experimental_distribute_values_from_function(shard)
