"""Why chains disagree: they drift, stay apart, or are slow."""

import numpy as np

from tfp_reprior.diagnostics import convergence

# Chains drift if their means move by this many deviations, and stay apart if they differ from each
# other so much more than from themselves, in variance.
_DRIFT, _APART = 0.5, 4.0


def explain(draws, what):
  """What is the case with the quantity that chains disagree about most.

  Args:
    draws: `[s, c]` or `[s, c, r]`.
    what: What they are of, with a verb: `'the energy has'`.

  Returns:
    text, advice: Sentences.
    chains: Tuple of the chains at fault, from 0 on; empty if it is none alone.
  """
  draws = np.asarray(draws)
  num_chains = draws.shape[1]
  draws = draws.reshape([*draws.shape[:2], -1])
  worst = int(np.argmax(np.nan_to_num(convergence.r_hat(draws), nan=0.0)))
  column = draws[..., [worst]].astype(np.float64)
  x = convergence.rank_normalized(column)[..., 0]  # [s, c], unit variance
  half = len(x) // 2
  before, after = np.mean(x[:half], axis=0), np.mean(x[-half:], axis=0)
  means, change = (before + after) / 2, after - before
  error = np.std(change, ddof=1) / np.sqrt(num_chains) if num_chains > 1 else 0.0
  if abs(np.mean(change)) > max(_DRIFT, 3 * error):
    which, verb = ('The chains', 'drift') if num_chains > 1 else ('The chain', 'drifts')
    return (
      f'{which} still {verb}: {what} moved between the first half of the draws and the second.',
      'Warm up longer (num_warmup_steps), then run longer (num_results).',
      (),
    )
  # Chains that wander by themselves differ from one half to the next as much as from each other.
  if num_chains > 1 and np.var(means, ddof=1) > _APART * np.mean(change**2) / 4:
    far = int(np.argmax(np.abs(means - np.median(means))))
    rest = np.delete(means, far)
    is_alone = num_chains > 2 and abs(means[far] - np.mean(rest)) > 3 * np.std(rest)
    text = f'Chain {far + 1} stays apart from the others' if is_alone else 'The chains stay apart'
    return (
      f'{text} in {what.rpartition(" ")[0]}: there are regions that chains hardly cross between.',
      'Do not trust averages over chains. Wider networks have fewer such regions; much longer runs '
      'may cross them.',
      (far,) if is_alone else (),
    )
  return (
    f'The chains are slow: {what} hardly begun to mix.',
    'Run many times longer (num_results), or take a sampler that mixes faster.',
    (),
  )
