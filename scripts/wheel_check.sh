#!/usr/bin/env bash
# Builds sdist and wheel, installs the wheel alone into a fresh environment, and runs README there.
#
#   bash scripts/wheel_check.sh
#   PYTHON=python3.12 bash scripts/wheel_check.sh            # with another Python
#   bash scripts/wheel_check.sh scripts/lowest_versions.txt  # a file of constraints for pip
#   BLOCKS=python bash scripts/wheel_check.sh                # without the command line, which takes longer
#   ENVIRONMENT=venv312 bash scripts/wheel_check.sh          # in an environment that is there already
#   DIST=dist bash scripts/wheel_check.sh                    # with an sdist and a wheel that were built before
#
# Nothing of the checkout is on the path: what the wheel lacks is missed. Everything is made in a
# temporary folder, which is removed at the end.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
python="${PYTHON:-python3}"
constraints=()
if [[ $# -gt 0 ]]; then
  constraints=(--constraint "$(realpath "$1")")
fi
export PIP_DISABLE_PIP_VERSION_CHECK=1 TF_CPP_MIN_LOG_LEVEL="${TF_CPP_MIN_LOG_LEVEL:-2}"
unset PYTHONPATH

folder="$(mktemp -d)"
trap 'rm -rf "${folder}"' EXIT

dist="$(realpath "${DIST:-${folder}/dist}")"
if [[ -z "${DIST:-}" ]]; then
  echo '== Build (python -m build, twine check)'
  "${python}" -m venv "${folder}/build"
  "${folder}/build/bin/python" -m pip install --quiet --quiet build twine
  # From a copy, so that nothing is written to the checkout and no old build/ gets into the wheel.
  mkdir "${folder}/source"
  (cd "${root}" && git ls-files -z | xargs -0 cp --parents --target-directory="${folder}/source")
  "${folder}/build/bin/python" -m build --outdir "${dist}" "${folder}/source" >"${folder}/build.log" 2>&1 ||
    { cat "${folder}/build.log" >&2; exit 1; }
  "${folder}/build/bin/python" -m twine check --strict "${dist}"/*
fi
tar -tzf "${dist}"/*.tar.gz >"${folder}/sdist.txt"
for path in CHANGELOG.md CITATION.cff docs/index.md docs/images/toy.png tests/pages_test.py \
  testdata/tiny_images/1.0.0/features.json scripts/demo.py mkdocs.yml; do
  grep -q "/${path}$" "${folder}/sdist.txt" ||
    { echo "The sdist lacks ${path}." >&2; exit 1; }
done

echo '== Install (pip install tfp_reprior[data,plot], the wheel alone)'
environment="${ENVIRONMENT:-${folder}/venv}"
if [[ ! -d "${environment}" ]]; then
  "${python}" -m venv "${environment}"
  "${environment}/bin/python" -m pip install --quiet --quiet --upgrade pip
fi
environment="$(realpath "${environment}")"
start="$(date +%s)"
"${environment}/bin/python" -m pip install --quiet --quiet --force-reinstall --no-deps \
  "$(echo "${dist}"/*.whl)"
"${environment}/bin/python" -m pip install --quiet --quiet ${constraints[@]+"${constraints[@]}"} "$(echo "${dist}"/*.whl)[data,plot]"
installed="$(date +%s)"
"${environment}/bin/python" -m pip list --format=freeze |
  grep -iE '^(arviz|jinja2|keras|matplotlib|numpy|scikit.learn|tensorflow|tensorflow.probability|tf.keras|tfp.reprior)='
"${environment}/bin/python" --version

echo '== README (its Python blocks and its command line, in a fresh folder)'
mkdir "${folder}/work"
cd "${folder}/work"
PATH="${environment}/bin:${PATH}" "${environment}/bin/python" - "${root}/README.md" \
  "${start}" "${installed}" "${BLOCKS:-all}" <<'PYTHON'
import pathlib
import re
import subprocess
import sys
import time

text, (start, installed) = pathlib.Path(sys.argv[1]).read_text(), map(float, sys.argv[2:4])
print(f'pip install: {installed - start:.0f} s')
scope, is_first = {'__name__': 'readme'}, True
for comment, language, code in re.findall(
  r'(?:<!-- ([^\n]*?) -->\n)?^```(\w+)\n(.*?)^```$', text, re.M | re.S
):
  if comment.startswith('not run'):
    continue
  if language == 'python':
    exec(compile(code, 'README', 'exec'), scope)
    if is_first:
      print(f'pip install to first prediction: {time.time() - start:.0f} s')
      is_first = False
  elif language == 'bash' and sys.argv[4] == 'all':
    for line in code.replace('\\\n', ' ').splitlines():
      if line.startswith('tfp-reprior'):
        print('$', line, flush=True)
        subprocess.run(line, shell=True, check=True, stdout=subprocess.DEVNULL)
print(f'all of README: {time.time() - installed:.0f} s')
PYTHON
echo 'The wheel runs the examples of README.'
