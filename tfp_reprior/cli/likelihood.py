"""Likelihoods on the command line, and targets as they want them."""

import tfp_reprior as tfr
from tfp_reprior import errors
from tfp_reprior.internal import parsing

HELP = """\
likelihoods:
  auto            gaussian for real targets, and if there is a --noise_scale; for two classes
                  bernoulli, for more categorical
  gaussian        targets are outputs of the network plus noise of --noise_scale; classes are fitted
                  as centered one-hot vectors, and the largest output wins
  student_t       as gaussian, with heavy tails, for targets with outliers
  heteroscedastic as gaussian, with noise that depends on the input, by further outputs
  categorical     classes, with probabilities that are the softmax of the outputs
  bernoulli       two classes, with one output, the log-odds of the second

A scale that is not known has a prior, --noise_scale=NAME:PARAMETERS, and is sampled with the
weights; so has what outputs are multiplied by, --output_scale:
  lognormal:LOC,SCALE       its logarithm is normal; lognormal:-1,1, the default of noise, is 0.37,
                            a factor 2.7 either way; that of --output_scale is lognormal:1,1 for
                            classes, and 1 for real targets
  halfnormal:SCALE          the absolute value of a normal number
  gamma:CONCENTRATION,RATE  inversegamma:CONCENTRATION,SCALE  uniform:LOW,HIGH"""

NAMES = ('gaussian', 'student_t', 'heteroscedastic', 'categorical', 'bernoulli')
_PRIORS = {
  'lognormal': ('LogNormal', 2),
  'halfnormal': ('HalfNormal', 1),
  'gamma': ('Gamma', 2),
  'inversegamma': ('InverseGamma', 2),
  'uniform': ('Uniform', 2),
}


def choose(args, data):
  """The name of the likelihood for the data, and what to tell of it, if it was left open."""
  if args.likelihood != 'auto':
    return args.likelihood, ''
  if data.num_classes is None or args.noise_scale is not None:
    return 'gaussian', ''
  name = 'bernoulli' if data.num_classes == 2 else 'categorical'
  return name, f'{data.num_classes} classes: --likelihood={name}; gaussian fits one-hot vectors'


def make(args):
  """The likelihood that the flags ask for."""
  scales = {'noise_scale': args.noise_scale, 'output_scale': args.output_scale}
  scales = {name: _scale(name, value) for name, value in scales.items() if value is not None}
  kind = tfr.likelihoods.NAMES[args.likelihood]
  if kind in tfr.likelihoods.CLASSES and 'noise_scale' in scales:
    raise errors.InputError(
      f'--noise_scale is of Gaussian noise. Received: --noise_scale={args.noise_scale} with '
      f'--likelihood={args.likelihood}'
    )
  return kind(**scales)


def is_prior(text):
  """Whether a text is meant as a prior of a scale, not as a number."""
  return ':' in text


def _scale(flag, value):
  """A number as it is, or the distribution that a text such as `'lognormal:-2,1'` names."""
  if not isinstance(value, str):
    return value
  import tensorflow_probability as tfp

  name, _, numbers = value.partition(':')
  try:
    distribution, num_parameters = _PRIORS[name]
    parameters = [parsing.number(number) for number in numbers.split(',')]
    if len(parameters) != num_parameters:
      raise ValueError
  except (KeyError, ValueError) as e:
    raise errors.InputError(
      f'--{flag} must be a number, or a prior as NAME:PARAMETERS, with one of '
      f'{", ".join(f"{n} ({count})" for n, (_, count) in _PRIORS.items())}; in brackets the number '
      f'of parameters. Received: --{flag}={value}'
    ) from e
  make = getattr(tfp.distributions, distribution)
  try:
    make(*parameters, validate_args=True)
  except Exception as e:  # TensorFlow raises anything
    raise errors.InputError(
      f'--{flag} must have parameters that {distribution} of TensorFlow Probability takes. '
      f'Received: --{flag}={value}'
    ) from e
  return make(*parameters)


def targets(likelihood, preparation, y):
  """Prepared targets `y` `[n, k]` as a likelihood wants them: of classes their labels `[n]`."""
  if not isinstance(likelihood, tfr.likelihoods.CLASSES):
    return y
  labels = preparation.restore_labels(y)
  if isinstance(likelihood, tfr.likelihoods.Bernoulli) and preparation.num_classes != 2:
    raise errors.InputError(
      '--likelihood=bernoulli is for two classes; use categorical for more. Received: data with '
      f'{preparation.num_classes} classes'
    )
  return labels
