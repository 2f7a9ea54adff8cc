"""Makes the data set of `testdata/`, on which tests go through TensorFlow Datasets.

`tiny_images` has 8 x 8 color images of three classes, as it were a small CIFAR-10: noise, with a
brighter band that lies across, upright, or slanted. It is drawn from a seed, and nothing in it
comes from elsewhere. Two runs give the same images in the same order, but protocol buffers leave
the order of the fields of each open, so that the files may differ.
"""

import numpy as np
import tensorflow_datasets as tfds
from absl import app, flags

_OUTPUT = flags.DEFINE_string('output', 'testdata', 'Folder of TensorFlow Datasets to write to.')

CLASSES = ('across', 'upright', 'slanted')
SIZES = {'train': 60, 'test': 30}
_SIZE = 8


def make_images(split):
  """Images `[n, 8, 8, 3]` of bytes and labels `[n]`, as many of each class."""
  rng = np.random.default_rng(list(SIZES).index(split))
  n = SIZES[split]
  images = rng.integers(0, 128, size=(n, _SIZE, _SIZE, 3), dtype=np.uint8)
  labels = np.arange(n) % len(CLASSES)
  rows, columns = np.indices((_SIZE, _SIZE))
  for image, label in zip(images, labels, strict=True):
    place = [rows, columns, (rows + columns) % _SIZE][label]
    image[place == rng.integers(_SIZE)] += 100
  return images, labels


# Not registered: what reads the set has to do with the files, as for sets that users made.
class TinyImages(tfds.core.GeneratorBasedBuilder, skip_registration=True):
  """Bands on 8 x 8 color images."""

  VERSION = tfds.core.Version('1.0.0')

  def _info(self):
    features = {
      'image': tfds.features.Image(shape=(_SIZE, _SIZE, 3)),
      'label': tfds.features.ClassLabel(names=CLASSES),
    }
    return tfds.core.DatasetInfo(
      builder=self,
      features=tfds.features.FeaturesDict(features),
      supervised_keys=('image', 'label'),
    )

  def _split_generators(self, dl_manager):
    del dl_manager
    return {split: self._generate_examples(split) for split in SIZES}

  def _generate_examples(self, split):
    for i, (image, label) in enumerate(zip(*make_images(split), strict=True)):
      yield i, {'image': image, 'label': int(label)}


def main(argv):
  if len(argv) > 1:
    raise app.UsageError(f'Unknown arguments: {argv[1:]}')
  builder = TinyImages(data_dir=_OUTPUT.value)
  builder.download_and_prepare()  # which downloads nothing, as all is made here
  sizes = ', '.join(f'{s.num_examples} {name}' for name, s in builder.info.splits.items())
  print(f'{builder.info.full_name} in {_OUTPUT.value}: {sizes} images')


if __name__ == '__main__':
  app.run(main)
