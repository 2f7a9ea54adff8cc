"""Likelihoods on the command line, and targets as they want them."""

import tfp_reprior as tfr

HELP = """\
likelihoods:
  gaussian        targets are outputs of the network plus noise of --noise_scale; classes are fitted
                  as centered one-hot vectors, and the largest output wins
  categorical     classes, with probabilities that are the softmax of the outputs
  bernoulli       two classes, with one output, the log-odds of the second"""

NAMES = ('gaussian', 'categorical', 'bernoulli')


def make(args):
  """The likelihood that the flags ask for."""
  if args.likelihood == 'gaussian':
    return tfr.likelihoods.Gaussian(args.noise_scale)
  if args.noise_scale != args.parser.get_default('noise_scale'):
    raise ValueError(
      f'--noise_scale is of Gaussian noise. Received: --noise_scale={args.noise_scale:g} with '
      f'--likelihood={args.likelihood}'
    )
  is_binary = args.likelihood == 'bernoulli'
  return tfr.likelihoods.Bernoulli() if is_binary else tfr.likelihoods.Categorical()


def targets(likelihood, preparation, y):
  """Prepared targets `y` `[n, k]` as a likelihood wants them: of classes their labels `[n]`."""
  if isinstance(likelihood, tfr.likelihoods.Gaussian):
    return y
  labels = preparation.restore_labels(y)
  if isinstance(likelihood, tfr.likelihoods.Bernoulli) and preparation.num_classes != 2:
    raise ValueError(
      '--likelihood=bernoulli is for two classes; use categorical for more. Received: data with '
      f'{preparation.num_classes} classes'
    )
  return labels
