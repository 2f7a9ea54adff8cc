"""How chains are judged: projections, effective sample size, R-hat, and the verdict on a run."""

from tfp_reprior.diagnostics.convergence import (
  RunningDiagnostics,
  bulk_effective_sample_size,
  effective_sample_size,
  r_hat,
  r_hat_squared,
  tail_effective_sample_size,
)
from tfp_reprior.diagnostics.projections import RandomProjections
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
  'judge',
  'measure',
  'r_hat',
  'r_hat_squared',
  'tail_effective_sample_size',
]
__dir__ = __all__.copy
