#!/usr/bin/env bash
# Checks the format, lints, checks types, builds the documentation, and runs the tests.
#
# Arguments go to pytest; paths among them are relative to the project root:
#   bash scripts/test.sh                         # all but the slow tests
#   bash scripts/test.sh -m slow                 # the slow ones
#   bash scripts/test.sh tests/densities
set -euo pipefail

# shellcheck source=scripts/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh" test
cd "${PROJECT_ROOT}"

echo '== Format (ruff format --check)'
python -m ruff format --check .

echo '== Lint (ruff check)'
python -m ruff check .

echo '== Types (mypy)'
python -m mypy

echo '== Documentation (mkdocs build --strict)'
# Strict: a broken link is an error (with --quiet it is not). Nothing is fetched, and nothing of the
# package is imported.
site="$(mktemp -d)"
trap 'rm -rf "${site}"' EXIT
NO_MKDOCS_2_WARNING=1 python -m mkdocs build --strict --site-dir "${site}"

echo '== Tests (pytest)'
# Neighbours share models and graphs, which `worksteal` leaves in one process.
python -m pytest -n 2 --dist=worksteal --durations=10 "$@"
