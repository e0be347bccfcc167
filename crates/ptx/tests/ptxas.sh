#!/usr/bin/env bash
# Compares the instruction table with ptxas, the one judge of PTX there is: fetches it from PyPI into the ignored folder
# `.third-party/ptxas/` and runs tests/ptxas.rs with it. Arguments go to the tests: `crates/ptx/tests/ptxas.sh spellings`.
# OPENMPS_PTXAS names another ptxas; OPENMPS_PTXAS_ONLY the start of the instructions' names to compare;
# OPENMPS_PTXAS_STEP=10 takes every tenth mutation: all of them are hours.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
if [ -z "${OPENMPS_PTXAS:-}" ]; then
    home=$PWD/.third-party/ptxas
    [ -d "$home" ] || python3 -m pip install --quiet --no-deps --target "$home" nvidia-cuda-nvcc==13.5.37
    OPENMPS_PTXAS=$(find "$home" -path '*/bin/ptxas' -print -quit)
    export OPENMPS_PTXAS
    chmod +x "$OPENMPS_PTXAS"
fi
exec cargo test -p ptx --test ptxas -- --include-ignored --nocapture "$@"
