"""Fair timing: contestants in turn, medians, and what the machine can do."""

import json
import os
import pathlib
import platform
import time

import keras
import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp


def alternate(contestants, num_rounds):
  """Median seconds of each contestant.

  Every round runs each contestant once, in turn, so that a slow moment of the machine hits all of
  them; two rounds to warm up are not counted.

  Args:
    contestants: Dict of functions without arguments, which return tensors.
    num_rounds: Positive integer.

  Returns:
    Dict of seconds.
  """
  seconds = {name: [] for name in contestants}
  for i in range(num_rounds + 2):
    for name, run in contestants.items():
      begin = time.perf_counter()
      for result in tf.nest.flatten(run()):
        _ = result.shape  # eager results are complete on a CPU when the call returns
      if i >= 2:
        seconds[name].append(time.perf_counter() - begin)
  return {name: float(np.median(s)) for name, s in seconds.items()}


def matmul_gflops(size=1024, num_rounds=20):
  """What a square float32 matrix product achieves here: the limit of everything else."""
  matrix = tf.random.stateless_normal([size, size], seed=[1, 2])
  product = tf.function(lambda: tf.matmul(matrix, matrix))
  return 2e-9 * size**3 / alternate({'matmul': product}, num_rounds)['matmul']


def machine_facts():
  """What the figures depend on, as a dict of strings and numbers."""
  return {
    'processor': processor(),
    'cores': os.cpu_count(),
    'devices': [d.device_type for d in tf.config.list_logical_devices()],
    'python': platform.python_version(),
    'tensorflow': tf.__version__,
    'tensorflow_probability': tfp.__version__,
    'keras': keras.__version__,
    'matmul_gflops': round(matmul_gflops(), 1),
  }


def processor():
  """The name of the processor."""
  try:
    with open('/proc/cpuinfo') as file:
      names = [line.split(':')[1].strip() for line in file if line.startswith('model name')]
    return names[0]
  except (OSError, IndexError):
    return platform.processor() or platform.machine()


def report(rows, path=None, facts=None):
  """Prints figures as they come, as a Markdown table, and writes all of them to a file.

  Args:
    rows: Iterable of dicts with the same keys. Those of dicts are written, but not printed.
    path: A .json file, written anew after each row; by default none.
    facts: As of `machine_facts`, to print first and write too; by default none.

  Returns:
    List of the rows.
  """
  if facts is not None:
    print(facts, '\n')
  done = []
  for row in rows:
    shown = {key: value for key, value in row.items() if not isinstance(value, dict)}
    lines = [shown.values()] if done else [shown, ['---'] * len(shown), shown.values()]
    for line in lines:
      print('| ' + ' | '.join(map(_cell, line)) + ' |', flush=True)
    done.append(row)
    if path is not None:
      figures = done if facts is None else {'machine': facts, 'rows': done}
      pathlib.Path(path).write_text(json.dumps(figures, indent=1))
  return done


def _cell(value):
  return f'{value:.3g}' if isinstance(value, float) else str(value)
