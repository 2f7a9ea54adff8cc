"""Names for the types that signatures share."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

# An activation as Keras takes it, by name or as a function.
Activation = str | Callable[..., Any]

# The standard deviation of Gaussian noise: one, one for each output, or its prior.
NoiseScale = float | Sequence[float] | np.ndarray | tfp.distributions.Distribution

# A scale of a likelihood: a positive number, or its prior, as it is or as files hold it.
Scale = float | Mapping[str, Any] | tfp.distributions.Distribution

# The tensors of a state, `[*chains, *event_shape]` each.
Parts = Sequence[tf.Tensor]

Path = str | os.PathLike[str]

# A seed as scikit-learn takes it.
RandomState = int | np.random.RandomState | None

# A seed of TFP: see `tfp.random.sanitize_seed`.
Seed = int | Sequence[int] | tf.Tensor | None

# The shape of a tensor; None for a size that is not known yet.
Shape = tuple[int | None, ...]

# The state of a chain, as `tfp.mcmc` has it: one tensor, or a list of parts.
State = tf.Tensor | Sequence[tf.Tensor]

# A setting of a kernel: one for all parts, or a list with one for each.
StepSize = float | tf.Tensor | Sequence[float | tf.Tensor]
