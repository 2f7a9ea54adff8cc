"""Strategies of `tf.distribute` by name, with errors in time for what they would wait for."""

import json
import os
import re
import socket
import subprocess
import sys
import time

import tensorflow as tf

from tfp_reprior import errors
from tfp_reprior.internal import checks

NAMES = ('mirrored', 'multiworker', 'tpu')

_CONNECT = """
import sys
import tensorflow as tf
resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=sys.argv[1])
tf.config.experimental_connect_to_cluster(resolver)
"""


def make_strategy(name, devices=None, most_seconds=600.0):
  """A strategy by its name.

  Args:
    name: One of `NAMES`.
    devices: Text. For `'mirrored'`, which devices: how many, or their names, such as
      `'GPU:0,GPU:1'`; by default all GPUs, or, without any, all CPU devices. For `'tpu'`, where it
      is: `'local'`, the default, or an address such as `'grpc://10.0.0.2:8470'`.
    most_seconds: Positive float, how long other workers, or a TPU elsewhere, are waited for.

  Returns:
    A `tf.distribute.Strategy`.
  """
  checks.one_of('strategy', name, NAMES)
  if name == 'mirrored':
    return _mirrored(devices)
  if name == 'tpu':
    return _tpu(devices or 'local', most_seconds)
  if devices is not None:
    raise errors.InputError(
      "`strategy='multiworker'` takes all GPUs of each worker, or else its CPU: leave `devices` "
      f'out. Received: devices={devices}'
    )
  _meet(*_cluster(os.environ.get('TF_CONFIG')), most_seconds)
  return tf.distribute.MultiWorkerMirroredStrategy()


def _mirrored(devices):
  present = [d.name.removeprefix('/device:') for d in tf.config.list_logical_devices()]
  used = [d for d in present if d.startswith('GPU')] or [d for d in present if d.startswith('CPU')]
  if devices is not None and devices.isdigit():
    if not 1 <= int(devices) <= len(used):
      raise errors.InputError(
        f'`devices` must be from 1 to {len(used)} here ({", ".join(used)}). Received: '
        f'devices={devices}'
      )
    used = used[: int(devices)]
  elif devices is not None:
    used = devices.split(',')
    if not set(used) <= set(present) or len(set(used)) < len(used):
      raise errors.InputError(
        f'`devices` must be different ones of {", ".join(present)}. Received: devices={devices}'
      )
  # CPU devices share their memory. And by default, two strategies of one process would take each
  # other's exchanges for their own.
  is_cpu = all(d.startswith('CPU') for d in used)
  return tf.distribute.MirroredStrategy(
    used, cross_device_ops=tf.distribute.ReductionToOneDevice() if is_cpu else None
  )


def _tpu(address, most_seconds):
  if address != 'local':
    _check_tpu(address, most_seconds)
  resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=address)
  try:
    if address != 'local':
      tf.config.experimental_connect_to_cluster(resolver)
    tf.tpu.experimental.initialize_tpu_system(resolver)
  except tf.errors.OpError as e:
    reason = e.message.splitlines()[0]
    raise errors.InputError(
      f'No TPU can be used there ({reason}). Received: devices={address}'
    ) from e
  return tf.distribute.TPUStrategy(resolver)


def _check_tpu(address, most_seconds):
  """Refuses an address where no TPU answers: TensorFlow itself would wait for it without an end."""
  match = re.fullmatch(r'(?:grpc://)?([^:/]+):(\d+)', address)
  if not match:
    raise errors.InputError(
      "`devices` must be 'local', for the TPU of this machine, or an address such as "
      f"'grpc://10.0.0.2:8470'. Received: devices={address}"
    )
  if not _answers(f'{match[1]}:{match[2]}'):
    raise errors.InputError(f'Nothing answers at this address. Received: devices={address}')
  try:  # in a process that can be ended
    command = [sys.executable, '-c', _CONNECT, address]
    subprocess.run(command, timeout=most_seconds, check=True, capture_output=True)
  except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as e:
    raise errors.InputError(
      f'What answers at this address is no TPU, or is not ready within {most_seconds:g} seconds. '
      f'Received: devices={address}'
    ) from e


def _cluster(text):
  """The addresses of all workers, and which of them is this one, by TF_CONFIG."""
  try:
    config = json.loads(text)
    addresses = [a for kind in ('chief', 'worker') for a in config['cluster'].get(kind, [])]
    for address in addresses:
      _host_and_port(address)
    task = {kind: dict(enumerate(config['cluster'][kind])) for kind in config['cluster']}
    own = addresses.index(task[config['task']['type']][int(config['task']['index'])])
  except (AttributeError, IndexError, KeyError, TypeError, ValueError) as e:
    raise errors.InputError(
      "`strategy='multiworker'` needs the environment variable TF_CONFIG, with all workers and "
      'which of them this is, such as {"cluster": {"worker": ["host1:2222", "host2:2222"]}, '
      f'"task": {{"type": "worker", "index": 0}}}}. Received: TF_CONFIG={text}'
    ) from e
  return addresses, own


def _meet(addresses, own, most_seconds):
  """Waits until every other worker has been there.

  TensorFlow itself waits for them without an end, and lets nothing else run meanwhile.
  """
  missing = set(range(len(addresses))) - {own}
  end = time.monotonic() + most_seconds
  with _listen(addresses[own]):
    while missing:
      missing -= {i for i in missing if _answers(addresses[i])}
      if missing and time.monotonic() > end:
        raise errors.InputError(
          f'Some workers did not come within {most_seconds:g} seconds: '
          f'{", ".join(addresses[i] for i in sorted(missing))}. Start all of them, with the same '
          f'cluster in TF_CONFIG. Received: TF_CONFIG={os.environ["TF_CONFIG"]}'
        )
      if missing:
        time.sleep(0.2)


def _listen(address):
  try:
    return socket.create_server(_host_and_port(address))
  except OSError as e:
    raise errors.InputError(
      f'The address of this worker in TF_CONFIG cannot be used ({e.strerror}). Received: {address}'
    ) from e


def _answers(address):
  try:
    with socket.create_connection(_host_and_port(address), timeout=1.0):
      return True
  except OSError:
    return False


def _host_and_port(address):
  host, _, port = address.rpartition(':')
  return host, int(port)
