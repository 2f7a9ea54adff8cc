# shellcheck shell=bash
# Sets up the Python environment of this project. To be sourced, with the extras to install:
#
#   source scripts/environment.sh test
#
# Makes `.venv` in the project root if there is none, installs the package into it in editable
# mode unless that is done already, and puts it first in PATH. $PYTHON names the Python to make
# `.venv` from; it is python3 if unset. On failure, says why and returns 1.

PROJECT_ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"

_is_recent_python() {
  "$1" -c 'import sys; sys.exit(sys.version_info < (3, 10))' >/dev/null 2>&1
}

_make_venv() {
  local python="${PYTHON:-python3}"
  if ! _is_recent_python "${python}"; then
    echo "This project needs Python 3.10 or later; \`${python}\` is missing or older." >&2
    echo 'Name one to use, for example: PYTHON=python3.11 bash scripts/test.sh' >&2
    return 1
  fi
  if ! "${python}" -m venv "${PROJECT_ROOT}/.venv"; then
    # What is left has no pip, and the next run would take it for complete.
    rm -rf "${PROJECT_ROOT}/.venv"
    echo "\`${python} -m venv\` failed. On Debian and Ubuntu, install python3-venv first." >&2
    return 1
  fi
}

# Prints a hash of all that decides what has to be installed: the Python, the extras, and the
# files that state the version and the requirements.
_fingerprint() {
  local extras="$1"
  "${PROJECT_ROOT}/.venv/bin/python" - "${PROJECT_ROOT}" "${extras}" <<'PYTHON'
import hashlib
import pathlib
import sys

root, extras = pathlib.Path(sys.argv[1]), sys.argv[2]
digest = hashlib.sha256(repr((sys.version, extras)).encode())
for path in ('setup.py', 'pyproject.toml', 'tfp_reprior/version.py'):
  digest.update((root / path).read_bytes())
print(digest.hexdigest())
PYTHON
}

_install() {
  local extras="$1"
  # One stamp for each set of extras: test.sh and demo.sh ask for different ones in turn.
  local stamp="${PROJECT_ROOT}/.venv/installed-${extras:-none}.sha256"
  local fingerprint
  fingerprint="$(_fingerprint "${extras}")" || return 1
  if [[ -f "${stamp}" && "$(<"${stamp}")" == "${fingerprint}" ]]; then
    return 0
  fi
  echo "Installing tfp_reprior[${extras}] into .venv (about two minutes the first time)"
  # Quiet twice, for errors only: setuptools warns of every editable installation.
  local install=(
    "${PROJECT_ROOT}/.venv/bin/python" -m pip install
    --quiet --quiet --disable-pip-version-check
  )
  # The pip that comes with Python 3.10 may search for hours for versions that fit together.
  if ! "${install[@]}" --upgrade pip ||
    ! (cd "${PROJECT_ROOT}" && "${install[@]}" --editable ".[${extras}]"); then
    echo 'The installation failed for the reason above.' >&2
    echo 'If .venv itself is damaged, remove it and run this again.' >&2
    return 1
  fi
  echo "${fingerprint}" >"${stamp}"
}

_environment() {
  local IFS=','
  local extras="$*"
  if [[ ! -e "${PROJECT_ROOT}/.venv" ]]; then
    _make_venv || return 1
  elif ! _is_recent_python "${PROJECT_ROOT}/.venv/bin/python"; then
    echo '.venv holds no working Python 3.10 or later. Remove it and run this again.' >&2
    return 1
  fi
  _install "${extras}" || return 1
  export VIRTUAL_ENV="${PROJECT_ROOT}/.venv"
  export PATH="${VIRTUAL_ENV}/bin:${PATH}"
  # Errors of TensorFlow only: it reports on the processor and on missing GPUs at every start.
  export TF_CPP_MIN_LOG_LEVEL="${TF_CPP_MIN_LOG_LEVEL:-2}"
}

_environment "$@"
