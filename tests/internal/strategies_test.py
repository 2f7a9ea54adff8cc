"""Strategies by name: what they need, and what is refused in time."""

import json
import socket

import pytest

from tfp_reprior.cli import main
from tfp_reprior.internal import strategies


@pytest.mark.parametrize('devices', ['0', '1000'])
def test_as_many_devices_as_there_are(devices):
  with pytest.raises(ValueError, match=f'`devices` must be from 1 to .* devices={devices}$'):
    strategies.make_strategy('mirrored', devices)


@pytest.mark.parametrize('devices', ['CPU:0,CPU:77', 'CPU:0,CPU:0', '-1', ''])
def test_devices_are_named_as_they_are(devices):
  with pytest.raises(ValueError, match=f'`devices` must be different ones .* devices={devices}$'):
    strategies.make_strategy('mirrored', devices)


def test_strategies_are_named():
  with pytest.raises(ValueError, match="`strategy` must be one of 'mirrored', .*='central'"):
    strategies.make_strategy('central')
  assert strategies.make_strategy('mirrored', 'CPU:0').num_replicas_in_sync == 1


def test_devices_need_a_strategy(tmp_path, capsys):
  code = main.main(['sample', '--data=toy', '--devices=2', f'--run_dir={tmp_path}'])
  assert code != 0
  assert '--devices needs a --strategy. Received: --devices=2' in capsys.readouterr().err


@pytest.mark.parametrize(
  'config',
  [
    None,
    '',
    '{"cluster": ',
    '[]',
    '{"cluster": {"worker": ["127.0.0.1:2222"]}}',
    '{"cluster": {"worker": ["127.0.0.1:2222"]}, "task": {"type": "worker", "index": 1}}',
    '{"cluster": {"worker": ["127.0.0.1:2222"]}, "task": {"type": "worker", "index": -1}}',
    '{"cluster": {"worker": ["127.0.0.1"]}, "task": {"type": "worker", "index": 0}}',
    '{"cluster": {"ps": ["127.0.0.1:2222"]}, "task": {"type": "ps", "index": 0}}',
  ],
)
def test_workers_need_a_tf_config(config, monkeypatch, tmp_path, capsys):
  monkeypatch.delenv('TF_CONFIG', raising=False)
  if config is not None:
    monkeypatch.setenv('TF_CONFIG', config)
  flags = ['--data=toy', '--strategy=multiworker', f'--run_dir={tmp_path}']
  assert main.main(['sample', *flags]) == 1
  message = capsys.readouterr().err
  assert "`strategy='multiworker'` needs the environment variable TF_CONFIG" in message
  assert message.strip().endswith(f'Received: TF_CONFIG={config}'.strip())


def _set_tf_config(monkeypatch, *ports):
  cluster = {'worker': [f'127.0.0.1:{port}' for port in ports]}
  config = {'cluster': cluster, 'task': {'type': 'worker', 'index': 0}}
  monkeypatch.setenv('TF_CONFIG', json.dumps(config))


def _free_port():
  with socket.create_server(('127.0.0.1', 0)) as server:
    return server.getsockname()[1]


def test_a_worker_that_does_not_come_is_named(monkeypatch):
  own, other = _free_port(), _free_port()
  _set_tf_config(monkeypatch, own, other)
  message = f'did not come within 0.1 seconds: 127.0.0.1:{other}. .* Received: TF_CONFIG='
  with pytest.raises(ValueError, match=message):
    strategies.make_strategy('multiworker', most_seconds=0.1)


def test_the_port_of_a_worker_must_be_free(monkeypatch):
  with socket.create_server(('', 0)) as taken:
    port = taken.getsockname()[1]
    _set_tf_config(monkeypatch, port, _free_port())
    with pytest.raises(
      ValueError, match=f'The address of this worker .* Received: 127.0.0.1:{port}'
    ):
      strategies.make_strategy('multiworker')


@pytest.mark.parametrize('devices', ['8', 'my-tpu', 'grpc://10.0.0.2', 'http://host:80/tpu'])
def test_a_tpu_has_an_address(devices):
  with pytest.raises(ValueError, match=f"`devices` must be 'local'.* Received: devices={devices}$"):
    strategies.make_strategy('tpu', devices)


def test_an_address_where_nothing_answers_is_no_tpu():
  address = f'grpc://127.0.0.1:{_free_port()}'
  with pytest.raises(ValueError, match=f'Nothing answers .* Received: devices={address}'):
    strategies.make_strategy('tpu', address)


def test_an_address_where_something_else_answers_is_no_tpu():
  with socket.create_server(('127.0.0.1', 0)) as server:
    address = f'127.0.0.1:{server.getsockname()[1]}'
    with pytest.raises(ValueError, match=f'no TPU, or is not ready within 10 s.*={address}'):
      strategies.make_strategy('tpu', address, most_seconds=10.0)


def test_a_machine_without_a_tpu_says_so(tmp_path, capsys):
  assert main.main(['sample', '--data=toy', '--strategy=tpu', f'--run_dir={tmp_path}']) == 1
  said = capsys.readouterr().err
  assert 'error: No TPU can be used there (TPUs not found' in said
  assert said.strip().endswith('Received: devices=local')


def test_workers_take_all_their_devices(monkeypatch):
  with pytest.raises(ValueError, match="'multiworker'` takes all GPUs .* Received: devices=2"):
    strategies.make_strategy('multiworker', '2')
