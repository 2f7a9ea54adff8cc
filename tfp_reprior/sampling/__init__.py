"""The sampling driver, its results and their files."""

from tfp_reprior.sampling.class_prediction import (
  BernoulliPrediction,
  CategoricalPrediction,
  ClassPrediction,
)
from tfp_reprior.sampling.distribution_prediction import DistributionPrediction
from tfp_reprior.sampling.log_prediction import LogPrediction
from tfp_reprior.sampling.prediction import Prediction
from tfp_reprior.sampling.result import Result
from tfp_reprior.sampling.result_files import load_result
from tfp_reprior.sampling.runs import sample_posterior, warm_up
from tfp_reprior.sampling.sampler import Sampler
from tfp_reprior.sampling.samplers import make_sampler
from tfp_reprior.sampling.settings import Settings
from tfp_reprior.sampling.warmup import Block, Warmup, WarmupError

__all__ = [
  'BernoulliPrediction',
  'Block',
  'CategoricalPrediction',
  'ClassPrediction',
  'DistributionPrediction',
  'LogPrediction',
  'Prediction',
  'Result',
  'Sampler',
  'Settings',
  'Warmup',
  'WarmupError',
  'load_result',
  'make_sampler',
  'sample_posterior',
  'warm_up',
]
__dir__ = __all__.copy
