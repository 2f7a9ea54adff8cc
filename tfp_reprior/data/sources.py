"""Raw data that come with other packages, or are made up."""

import re

import numpy as np

from tfp_reprior import errors
from tfp_reprior.data.preparation import RawData

# A name of TensorFlow Datasets, maybe with a configuration and a version, and no other place.
_NAME = re.compile(r'[A-Za-z][A-Za-z0-9_]*(/[A-Za-z0-9_.+-]+)?(:[0-9]+\.[0-9]+\.[0-9]+)?')


def toy(num_train, num_test, rng):
  """Noisy values of a function of one input, with a gap in the inputs.

  ```none
  y = sin(4 x) + x + 0.1 N(0, 1)
  ```

  Training inputs are uniform on [-1, -0.4] and [0.4, 1]; test inputs are a grid on [-1.5, 1.5], so
  that predictions should be certain near the data, and uncertain in the gap and outside.

  Args:
    num_train: Positive integer `n`; 20 if `None`.
    num_test: Positive integer `m`; 200 if `None`.
    rng: A `numpy.random.Generator`.

  Returns:
    A `RawData`.
  """
  num_train, num_test = num_train or 20, num_test or 200
  x = rng.uniform(0.4, 1.0, num_train) * rng.choice([-1.0, 1.0], num_train)
  x_test = np.linspace(-1.5, 1.5, num_test)
  y, y_test = (np.sin(4 * a) + a + 0.1 * rng.normal(size=len(a)) for a in (x, x_test))
  columns = (a[:, np.newaxis] for a in (x, y, x_test, y_test))
  return RawData(*columns, feature_names=('x',), target_name='y', by_column=True)


def digits():
  """8 x 8 images of handwritten digits."""
  bunch = _sklearn_datasets().load_digits()
  names = tuple(str(name) for name in bunch.target_names)
  return RawData(bunch.images, bunch.target, class_names=names, target_name='digit')


def diabetes():
  """10 features and one real target. The features come with equal scales, which are kept."""
  bunch = _sklearn_datasets().load_diabetes()
  return RawData(
    bunch.data,
    bunch.target[:, np.newaxis],
    feature_names=tuple(bunch.feature_names),
    target_name='progression',
  )


def _sklearn_datasets():
  try:
    from sklearn import datasets  # kept out of `import tfp_reprior`
  except ImportError as e:
    raise errors.MissingPackageError(
      'The built-in data sets come with scikit-learn: pip install tfp-reprior[data]'
    ) from e
  return datasets


def tensorflow_dataset(name, data_dir, others):
  """Images and labels that TensorFlow Datasets prepared in a folder.

  Args:
    name: Of the data set, as in TensorFlow Datasets.
    data_dir: Folder; `None` for the default one of TensorFlow Datasets.
    others: What else a name might be, as text, for the error that says so.

  Returns:
    A `RawData`.
  """
  try:
    import tensorflow_datasets as tfds  # kept out of `import tfp_reprior`
  except ImportError as e:
    raise errors.MissingPackageError(
      f'`name` must be {others}, or a data set of TensorFlow Datasets, which is not installed: '
      f'pip install tfp-reprior[tfds]. Received: name={name!r}'
    ) from e
  unknown = errors.InputError(
    f'`name` must be {others}, or a data set of TensorFlow Datasets, of its catalogue or in '
    f'`data_dir`. Received: name={name!r}, data_dir={data_dir!r}'
  )
  if not _NAME.fullmatch(str(name)):
    raise unknown  # such as `huggingface:...`, for which it would go to the network, and run code
  try:
    # Neither this nor `as_dataset` below downloads.
    builder = tfds.builder(str(name), data_dir=data_dir, try_gcs=False)
  except Exception as e:  # of a folder that is damaged, anything
    raise unknown from e
  label = _check_features(name, builder.info)
  if not builder.info.splits:
    raise errors.InputError(
      f'`data_dir` must hold {name!r} as prepared by TensorFlow Datasets; to prepare it, run on a '
      f'machine with network: python -c "import tensorflow_datasets as tfds; '
      f"tfds.load('{name}', data_dir={data_dir!r})\". Received: data_dir={data_dir!r}"
    )

  def arrays(split):
    try:
      return tfds.as_numpy(builder.as_dataset(split=split, batch_size=-1, as_supervised=True))
    except Exception as e:  # what is damaged can fail in any way
      raise errors.InputError(
        f'{name!r} in `data_dir` is damaged, or not all there ({str(e).splitlines()[0]}). '
        f'Received: data_dir={data_dir!r}'
      ) from e

  test = arrays('test') if 'test' in builder.info.splits else (None, None)
  return RawData(*arrays('train'), *test, class_names=tuple(label.names), target_name='label')


def _check_features(name, info):
  """The feature of the labels, if there is one, and inputs all have the same shape."""
  import tensorflow_datasets as tfds

  keys = info.supervised_keys or ()
  features = [info.features[key] for key in keys] if len(keys) == 2 else []
  is_classified = len(features) == 2 and isinstance(features[1], tfds.features.ClassLabel)
  if not is_classified or not features[0].shape or None in features[0].shape:
    raise errors.InputError(
      '`name` must be a data set of inputs of one shape and their classes, such as cifar10 or '
      f'mnist. Received: name={name!r}, with features {", ".join(info.features)}'
    )
  return features[1]
