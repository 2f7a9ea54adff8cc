#!/usr/bin/env bash
# Makes the tables of README and docs again: runs every command of the pages that writes figures to
# docs/results, cheapest first, and goes on where it was stopped.
#
#   bash scripts/reproduce.sh --list                            # what there is, and what is done
#   bash scripts/reproduce.sh --only=ess_width.json --data_dir=<folder>  # one table
#   bash scripts/reproduce.sh --hours=2 --data_dir=<folder of TFDS with cifar10>
set -euo pipefail

# shellcheck source=scripts/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh" all
cd "${PROJECT_ROOT}"
exec python scripts/reproduce.py "$@"
