#!/usr/bin/env bash
# Shows what repriorisation gains, on a page. Arguments go to demo.py; --help lists them.
set -euo pipefail

# shellcheck source=scripts/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh" all

# No `cd` before this: paths among the arguments are relative to the caller's folder.
python "${PROJECT_ROOT}/scripts/demo.py" "$@"
