"""How chains and predictions are judged: effective sample size, R-hat, metrics, the verdict."""

from tfp_reprior.diagnostics.convergence import (
  RunningDiagnostics,
  bulk_effective_sample_size,
  effective_sample_size,
  r_hat,
  r_hat_squared,
  tail_effective_sample_size,
)
from tfp_reprior.diagnostics.metrics import evaluate
from tfp_reprior.diagnostics.projections import RandomProjections
from tfp_reprior.diagnostics.slow_chains import slow_effective_sample_size
from tfp_reprior.diagnostics.verdict import (
  Mixing,
  Reason,
  SamplingWarning,
  Verdict,
  judge,
  measure,
)

__all__ = [
  'Mixing',
  'RandomProjections',
  'Reason',
  'RunningDiagnostics',
  'SamplingWarning',
  'Verdict',
  'bulk_effective_sample_size',
  'effective_sample_size',
  'evaluate',
  'judge',
  'measure',
  'r_hat',
  'r_hat_squared',
  'slow_effective_sample_size',
  'tail_effective_sample_size',
]
__dir__ = __all__.copy
