"""Installs `tfp_reprior`."""

import pathlib
import re

import setuptools

_ROOT = pathlib.Path(__file__).resolve().parent


def _read(path):
  return (_ROOT / path).read_text(encoding='utf-8')


def _version():
  # Read as text: importing the package would need TensorFlow before it is installed.
  match = re.search(r"^__version__ = '([^']+)'$", _read('tfp_reprior/version.py'), re.MULTILINE)
  if match is None:
    raise ValueError("`tfp_reprior/version.py` must hold a line like __version__ = '0.1.0'.")
  return match.group(1)


# Where the project lives. mkdocs.yml and CITATION.cff name it too, and a test compares.
_URL = 'https://github.com/tfp-reprior/tfp-reprior'


def _long_description():
  """README with links and pictures that work outside of the repository, such as on PyPI."""

  def absolute(match):
    is_image, text, target = match.groups()
    if re.match(r'[a-z]+:|#', target):
      return match.group()
    return f'{is_image}[{text}]({_URL}/{"raw" if is_image else "blob"}/main/{target})'

  return re.sub(r'(!?)\[([^\]]*)\]\(([^)\s]+)\)', absolute, _read('README.md'))


_TENSORFLOW_RANGE = '>=2.18,<2.22'

# Tested with tensorflow 2.21.0, tensorflow-probability 0.25.0, tf-keras 2.21.0, keras 3.15.1,
# numpy 2.4.6, absl-py 2.5.1 and tqdm 4.70.1 on Python 3.11; docs/versions.md has the others.
_INSTALL_REQUIRES = [
  f'tensorflow{_TENSORFLOW_RANGE}',
  'tensorflow-probability>=0.25,<0.26',
  # TensorFlow Probability fails to import without it.
  f'tf-keras{_TENSORFLOW_RANGE}',
  'keras>=3.6,<4',
  'numpy>=1.26,<3',
  'absl-py>=2.1',
  'tqdm',
]

# Tested with scikit-learn 1.9.1, matplotlib 3.11.2, jinja2 3.1.6, arviz 0.23.4, and, on
# Python 3.12, arviz 1.3.0.
_DATA = ['scikit-learn']
_TFDS = [
  'tensorflow-datasets>=4.9.7,<5',
  # TensorFlow Datasets imports it on every Python, but asks for it below Python 3.9 only.
  'importlib_resources',
]
_PLOT = ['matplotlib', 'jinja2>=3.1', 'arviz>=0.20']
_DOCS = ['mkdocs-material>=9.5', 'mkdocstrings[python]>=0.26']
_TEST = [
  'hypothesis>=6.100',
  # Pinned, because another version may ask for more types.
  'mypy==2.4.1',
  # To run the notebooks.
  'ipykernel',
  'nbclient',
  'nbformat',
  'pandas',
  'pytest>=8',
  'pytest-xdist>=3.6',
  # Pinned, because another version may format the same code in another way.
  'ruff==0.17.4',
  'scipy',
]

setuptools.setup(
  name='tfp-reprior',
  version=_version(),
  description='Samples the exact posterior of wide Bayesian neural networks, fast, '
  'in TensorFlow Probability and Keras.',
  long_description=_long_description(),
  long_description_content_type='text/markdown',
  author='The tfp_reprior authors',
  url=_URL,
  project_urls={
    'Documentation': f'{_URL}/tree/main/docs',
    'Source': _URL,
    'Issues': f'{_URL}/issues',
    'Changelog': f'{_URL}/blob/main/CHANGELOG.md',
    'Paper': 'https://arxiv.org/abs/2206.07673',
  },
  license='Apache-2.0',
  license_files=['LICENSE'],
  packages=setuptools.find_packages(include=['tfp_reprior*']),
  package_data={'tfp_reprior': ['py.typed'], 'tfp_reprior.report': ['templates/*']},
  entry_points={'console_scripts': ['tfp-reprior = tfp_reprior.cli.main:main']},
  python_requires='>=3.10',
  install_requires=_INSTALL_REQUIRES,
  extras_require={
    'data': _DATA,
    'tfds': _TFDS,
    'plot': _PLOT,
    'docs': _DOCS,
    'test': _TEST + _DOCS + _DATA + _TFDS + _PLOT,
    'gpu': [f'tensorflow[and-cuda]{_TENSORFLOW_RANGE}'],
    'all': _DATA + _TFDS + _PLOT,
  },
  classifiers=[
    'Development Status :: 3 - Alpha',
    'Intended Audience :: Developers',
    'Intended Audience :: Science/Research',
    'Operating System :: MacOS',
    'Operating System :: POSIX :: Linux',
    'Programming Language :: Python :: 3',
    'Programming Language :: Python :: 3 :: Only',
    'Programming Language :: Python :: 3.10',
    'Programming Language :: Python :: 3.11',
    'Programming Language :: Python :: 3.12',
    'Programming Language :: Python :: 3.13',
    'Topic :: Scientific/Engineering :: Artificial Intelligence',
    'Topic :: Scientific/Engineering :: Mathematics',
    'Typing :: Typed',
  ],
  keywords='bayesian neural-networks mcmc langevin repriorisation tensorflow-probability keras',
)
