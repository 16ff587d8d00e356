#!/usr/bin/env bash
# Tries the library with other versions than those of constraints.txt, in a new environment in FOLDER:
#   tests/try_versions.sh FOLDER torch==2.6.0 numpy==1.26.0
# pip refuses a version that pyproject.toml does not promise. The tests are those that need no extra.
set -euo pipefail
clone=$(cd "$(dirname "$0")/.." && pwd)
folder=${1:?give a folder outside the clone, then versions such as torch==2.6.0}
shift
"${PYTHON:-python3}" -m venv "$folder"
folder=$(cd "$folder" && pwd)
"$folder/bin/pip" install --quiet "$clone" pytest hypothesis "$@"
cd "$clone/tests"
OMP_NUM_THREADS=1 "$folder/bin/python" -m pytest -q -p no:cacheprovider test_{nets,train,store,run,report,cli,zoo_cli}.py \
  test_{model_zoo,contract,results,results_file,datasets,estimator,zoo_folder,jobs,metrics}.py
