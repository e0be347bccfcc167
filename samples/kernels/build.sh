#!/usr/bin/env bash
# Makes the .ptx beside each .cu of this folder and of bench/kernels/programs.
#
# The PTX is committed, so that samples and benchmarks build with nothing but a Rust toolchain; run this only after a change to a
# .cu file. It installs a pinned CUDA 13.0 compiler from PyPI wheels into the ignored folder `.third-party/cuda-13.0`
# of the repository (needs `python3` with venv, and a C++ compiler for the preprocessor), and nothing anywhere else.
#
# Why 13.0: it writes PTX ISA 9.0, which a CUDA 13.0 driver still accepts. Why compute_80: it is what the software GPU
# reports, and every later device can compile it.
#
#   samples/kernels/build.sh            rewrites the .ptx files
#   samples/kernels/build.sh --install  only installs the compiler
#   samples/kernels/build.sh --check    compiles into a scratch folder and fails if a committed .ptx differs
#
# The same sources give the same bytes on any machine: sources are named relative to their folder, no line information
# is asked for, and the versions below are exact.
set -euo pipefail

NVCC=13.0.88
RUNTIME=13.0.96
CCCL=13.0.85
FLAGS=(-ptx -O3 -std=c++17 -arch=compute_80)

cd "$(dirname "${BASH_SOURCE[0]}")"
root="$(cd ../.. && pwd)"
venv="$root/.third-party/cuda-13.0"
stamp="$venv/installed-$NVCC-$RUNTIME-$CCCL"

if [ ! -e "$stamp" ]; then
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps \
        "nvidia-cuda-nvcc==$NVCC" "nvidia-cuda-crt==$NVCC" "nvidia-nvvm==$NVCC" \
        "nvidia-cuda-runtime==$RUNTIME" "nvidia-cuda-cccl==$CCCL"
    touch "$stamp"
fi
[ "${1:-}" != --install ] || exit 0
cuda="$(echo "$venv"/lib/python3*/site-packages/nvidia/cu13)"
export PATH="$cuda/bin:$PATH"

scratch=
if [ "${1:-}" = --check ]; then
    scratch="$(mktemp -d)"
    trap 'rm -rf "$scratch"' EXIT
fi

failed=0
for folder in samples/kernels bench/kernels/programs; do
    cd "$root/$folder"
    for source in *.cu; do
        name="${source%.cu}"
        out="${scratch:-.}/$name.ptx"
        nvcc "${FLAGS[@]}" -o "$out" "$source"
        if grep -q -e "$root" -e "$HOME/" "$out"; then
            echo "$folder/$name.ptx names a path of this machine" >&2
            failed=1
        fi
        if [ -n "$scratch" ] && ! cmp -s "$out" "$name.ptx"; then
            echo "$folder/$name.ptx is not what $source compiles to" >&2
            failed=1
        fi
    done
done
exit "$failed"
