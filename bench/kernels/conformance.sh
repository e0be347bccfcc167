#!/usr/bin/env bash
# Compiles the programs with other compilers and settings than the committed PTX, and compares what each makes of them
# with C: nvcc and NVRTC, optimised and for debugging, for several architectures.
#
# Needs python3 with venv and a C++ compiler; installs a pinned CUDA compiler into the ignored folder `.third-party`, as
# samples/kernels/build.sh does. Results go to standard output, a line a setting; the exit status is 1 if one fails.
#
#   bench/kernels/conformance.sh [DIST [PTX]]
#
# DIST is what `cargo xtask dist` made [default: target/debug/dist]. PTX is a folder to keep the PTX in; what is there
# already is not compiled again, so that a machine without compilers can check it. OPENMPS_PROVIDER=vendor runs the same
# on a real GPU.
set -euo pipefail

NVRTC=13.0.88
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
root="$(cd "$here/../.." && pwd)"
dist="$(cd "${1:-$root/target/debug/dist}" && pwd)"
venv="$root/.third-party/cuda-13.0"

if [ -n "${2:-}" ]; then
    mkdir -p "$2"
    ptx="$(cd "$2" && pwd)"
else
    ptx="$(mktemp -d)"
    trap 'rm -rf "$ptx"' EXIT
fi

install_compilers() {
    [ -z "${cuda:-}" ] || return 0
    "$root/samples/kernels/build.sh" --install
    if [ ! -e "$venv/nvrtc-$NVRTC" ]; then
        "$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps "nvidia-cuda-nvrtc==$NVRTC"
        touch "$venv/nvrtc-$NVRTC"
    fi
    cuda="$(echo "$venv"/lib/python3*/site-packages/nvidia/cu13)"
}

failed=0
# check NAME: the PTX in $ptx/NAME.
check() {
    if output="$("$dist/bin/openmps" bench kernels --check --ptx "$ptx/$1" 2>&1)"; then
        printf 'ok    %-24s %s\n' "$1" "$output"
    else
        printf 'FAIL  %-24s %s\n' "$1" "$output"
        failed=1
    fi
}

# nvcc_with NAME FLAG...
nvcc_with() {
    local name="$1"
    shift
    if [ ! -d "$ptx/$name" ]; then
        install_compilers
        mkdir "$ptx/$name"
        for source in "$here"/programs/*.cu; do
            "$cuda/bin/nvcc" -ptx -std=c++17 "$@" -o "$ptx/$name/$(basename "$source" .cu).ptx" "$source"
        done
    fi
    check "$name"
}

# nvrtc_with NAME OPTION...
nvrtc_with() {
    local name="$1"
    shift
    if [ ! -d "$ptx/$name" ]; then
        install_compilers
        mkdir "$ptx/$name"
        "$venv/bin/python" "$here/nvrtc.py" "$cuda" "$here/programs" "$ptx/$name" "$@"
    fi
    check "$name"
}

nvcc_with nvcc-O3-sm_80 -O3 -arch=compute_80
nvcc_with nvcc-O0-sm_80 -Xcicc -O0 -arch=compute_80
nvcc_with nvcc-G-sm_80 -G -arch=compute_80
nvcc_with nvcc-lineinfo-sm_90 -lineinfo -arch=compute_90
nvcc_with nvcc-fast-sm_80 --use_fast_math -arch=compute_80
nvrtc_with nvrtc-sm_80 --gpu-architecture=compute_80
nvrtc_with nvrtc-G-sm_80 --gpu-architecture=compute_80 --device-debug
nvrtc_with nvrtc-sm_90 --gpu-architecture=compute_90
nvrtc_with nvrtc-rdc-sm_80 --gpu-architecture=compute_80 --relocatable-device-code=true
exit "$failed"
