#!/usr/bin/env bash
# Lists the targets of BUILD, by `bazel query`, without network.
#
#   bash scripts/bazel_query.sh                        # all targets
#   bash scripts/bazel_query.sh 'tests(//...)'         # another query
#   bash scripts/bazel_query.sh 'labels(deps, //...)'  # what they depend on; fails if it is not there
#
# Two repositories that MODULE.bazel would fetch have stand-ins here: rules_python, with rules that
# take the attributes that we use and build nothing, and pypi, with an empty target for each package
# of requirements_lock.txt. So this shows that Bazel loads BUILD, and not that anything builds.
# Written for Bazel 4.2, in Debian's package bazel-bootstrap. Writes to a temporary folder only.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
scratch="$(mktemp -d)"
# Bazel takes the right to write from some of what it makes.
trap 'chmod -R u+w "${scratch}"; rm -rf "${scratch}"' EXIT

# The project by links, beside the WORKSPACE file that Bazel 4 asks for.
mkdir -p "${scratch}"/{project,pypi,rules_python/python}
touch "${scratch}"/{project,pypi,rules_python}/WORKSPACE "${scratch}/rules_python/python/BUILD"
for path in "${root}"/* "${root}/.bazelignore"; do
  [[ "${path##*/}" == bazel-* ]] || ln -s "${path}" "${scratch}/project/"
done

cat >"${scratch}/rules_python/python/defs.bzl" <<'STARLARK'
def _library(ctx):
    return []

def _program(ctx):
    script = ctx.actions.declare_file(ctx.label.name)
    ctx.actions.write(script, "", is_executable = True)
    return [DefaultInfo(executable = script)]

_LIBRARY = {
    "data": attr.label_list(allow_files = True),
    "deps": attr.label_list(),
    "imports": attr.string_list(),
    "srcs": attr.label_list(allow_files = [".py"]),
}
_PROGRAM = dict(_LIBRARY, main = attr.label(allow_single_file = [".py"]), main_module = attr.string())

py_library = rule(_library, attrs = _LIBRARY)
py_binary = rule(_program, attrs = _PROGRAM, executable = True)
py_test = rule(_program, attrs = _PROGRAM, test = True)
STARLARK

# Names as rules_python writes them in labels: scikit-learn is @pypi//scikit_learn.
sed -nE 's/^([A-Za-z0-9._-]+)==.*/\1/p' "${root}/requirements_lock.txt" | tr 'A-Z.-' 'a-z__' |
  while read -r name; do
    mkdir "${scratch}/pypi/${name}"
    echo "filegroup(name = '${name}', visibility = ['//visibility:public'])" \
      >"${scratch}/pypi/${name}/BUILD"
  done

cd "${scratch}/project"
# In a batch, so that no server stays behind, and without your settings in ~/.bazelrc.
bazel --batch --nohome_rc --output_user_root="${scratch}/output" query \
  --override_repository=rules_python="${scratch}/rules_python" \
  --override_repository=pypi="${scratch}/pypi" \
  --noshow_progress "${1:-//...}"
