"""Strategies of `tf.distribute` by name, with errors in time for what they would wait for."""

import json
import os
import socket
import time

import tensorflow as tf

from tfp_reprior.internal import checks

NAMES = ('mirrored', 'multiworker')

_MOST_SECONDS = 600.0  # to wait for other workers


def make_strategy(name, devices=None, most_seconds=_MOST_SECONDS):
  """A strategy by its name.

  Args:
    name: One of `NAMES`.
    devices: Text. For `'mirrored'`, which devices: how many, or their names, such as
      `'GPU:0,GPU:1'`; by default all GPUs, or, without any, all CPU devices.
    most_seconds: Positive float, how long other workers are waited for.

  Returns:
    A `tf.distribute.Strategy`.
  """
  checks.one_of('strategy', name, NAMES)
  if name == 'mirrored':
    return _mirrored(devices)
  if devices is not None:
    raise ValueError(
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
      raise ValueError(
        f'`devices` must be from 1 to {len(used)} here ({", ".join(used)}). Received: '
        f'devices={devices}'
      )
    used = used[: int(devices)]
  elif devices is not None:
    used = devices.split(',')
    if not set(used) <= set(present) or len(set(used)) < len(used):
      raise ValueError(
        f'`devices` must be different ones of {", ".join(present)}. Received: devices={devices}'
      )
  # CPU devices share their memory. And by default, two strategies of one process would take each
  # other's exchanges for their own.
  is_cpu = all(d.startswith('CPU') for d in used)
  return tf.distribute.MirroredStrategy(
    used, cross_device_ops=tf.distribute.ReductionToOneDevice() if is_cpu else None
  )


def _cluster(text):
  """The addresses of all workers, and which of them is this one, by TF_CONFIG."""
  try:
    config = json.loads(text)
    addresses = [a for kind in ('chief', 'worker') for a in config['cluster'].get(kind, [])]
    ports = [int(address.rpartition(':')[2]) for address in addresses]
    task = {kind: dict(enumerate(config['cluster'][kind])) for kind in config['cluster']}
    own = addresses.index(task[config['task']['type']][int(config['task']['index'])])
  except (AttributeError, IndexError, KeyError, TypeError, ValueError) as e:
    raise ValueError(
      "`strategy='multiworker'` needs the environment variable TF_CONFIG, with all workers and "
      'which of them this is, such as {"cluster": {"worker": ["host1:2222", "host2:2222"]}, '
      f'"task": {{"type": "worker", "index": 0}}}}. Received: TF_CONFIG={text}'
    ) from e
  return addresses, ports, own


def _meet(addresses, ports, own, most_seconds):
  """Waits until every other worker has been there.

  TensorFlow itself waits for them without an end, and lets nothing else run meanwhile.
  """
  missing = set(range(len(addresses))) - {own}
  end = time.monotonic() + most_seconds
  with _listen(ports[own]):
    while missing:
      missing -= {i for i in missing if _answers(addresses[i], ports[i])}
      if missing and time.monotonic() > end:
        raise ValueError(
          f'Some workers did not come within {most_seconds:g} seconds: '
          f'{", ".join(addresses[i] for i in sorted(missing))}. Start all of them, with the same '
          f'cluster in TF_CONFIG. Received: TF_CONFIG={os.environ["TF_CONFIG"]}'
        )
      if missing:
        time.sleep(0.2)


def _listen(port):
  try:
    return socket.create_server(('', port))
  except OSError as e:
    raise ValueError(
      f'The port of this worker in TF_CONFIG cannot be used ({e.strerror}). Received: port {port}'
    ) from e


def _answers(address, port):
  try:
    with socket.create_connection((address.rpartition(':')[0], port), timeout=1.0):
      return True
  except OSError:
    return False
