#!/usr/bin/env bash
# Runs programs and test-suites that ship with their own CUDA runtime through openmps, on the software GPU.
# `tests/compat/run.sh --help` says how. Needs python3 with venv, a C++ compiler, and an installation: OPENMPS_DIST
# names it, or `cargo xtask dist` makes it. What it fetches from PyPI goes into the ignored folder `.third-party/`.
exec python3 -B "$(dirname "${BASH_SOURCE[0]}")/driver" "$@"
