#!/usr/bin/env bash
# Compiles the programs with other compilers and settings than the committed PTX, and compares what each makes of them
# with C: nvcc and NVRTC, optimised and for debugging, for several architectures.
#
# Needs python3 with venv and a C++ compiler; installs a pinned CUDA compiler into the ignored folder `.third-party`, as
# samples/kernels/build.sh does, unless CUDA_HOME names a toolkit (and NVRTC_HOME the folder of lib/libnvrtc.so, if that
# is another one). Results go to standard output, a line a setting; the exit status is 1 if one fails.
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
    if [ -n "${CUDA_HOME:-}" ]; then
        cuda="$CUDA_HOME"
        python=python3
        return
    fi
    "$root/samples/kernels/build.sh" --install
    if [ ! -e "$venv/nvrtc-$NVRTC" ]; then
        "$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps "nvidia-cuda-nvrtc==$NVRTC"
        touch "$venv/nvrtc-$NVRTC"
    fi
    cuda="$(echo "$venv"/lib/python3*/site-packages/nvidia/cu13)"
    python="$venv/bin/python"
}

# compile NAME COMPILER FLAG...: the programs' PTX in $ptx/NAME.
compile() {
    local name="$1" compiler="$2"
    shift 2
    if [ "$compiler" = nvrtc ]; then
        "$python" "$here/nvrtc.py" "$cuda" "${NVRTC_HOME:-$cuda}" "$here/programs" "$ptx/$name.new" "$@"
    else
        local source
        for source in "$here"/programs/*.cu; do
            echo "$source"
        done | xargs -P "$(nproc)" -I{} sh -c '
            source="$1" to="$2"; shift 2
            exec "$@" -o "$to/$(basename "$source" .cu).ptx" "$source"' \
            sh {} "$ptx/$name.new" "$cuda/bin/nvcc" -ptx -std=c++17 "$@"
    fi
    mv "$ptx/$name.new" "$ptx/$name"
}

# check NAME: the PTX in $ptx/NAME.
check() {
    if output="$("$dist/bin/openmps" bench kernels --check --ptx "$ptx/$1" 2>&1)"; then
        printf 'ok    %-24s %s\n' "$1" "$output"
    else
        printf 'FAIL  %-24s %s\n' "$1" "$output"
        failed=1
    fi
}

# Name, compiler, flags.
settings='
nvcc-O3-sm_80 nvcc -O3 -arch=compute_80
nvcc-O0-sm_80 nvcc -Xcicc -O0 -arch=compute_80
nvcc-G-sm_80 nvcc -G -arch=compute_80
nvcc-lineinfo-sm_90 nvcc -lineinfo -arch=compute_90
nvcc-fast-sm_80 nvcc --use_fast_math -arch=compute_80
nvcc-G-sm_90 nvcc -G -arch=compute_90
nvrtc-sm_80 nvrtc --gpu-architecture=compute_80
nvrtc-G-sm_80 nvrtc --gpu-architecture=compute_80 --device-debug
nvrtc-sm_90 nvrtc --gpu-architecture=compute_90
nvrtc-rdc-sm_80 nvrtc --gpu-architecture=compute_80 --relocatable-device-code=true
'

failed=0
while read -r name compiler flags; do
    [ -n "$name" ] && [ ! -d "$ptx/$name" ] || continue
    [ -n "${cuda:-}" ] || install_compilers
    rm -rf "$ptx/$name.new"
    mkdir "$ptx/$name.new"
    # shellcheck disable=SC2086 # flags are words
    compile "$name" "$compiler" $flags </dev/null
done <<<"$settings"
while read -r name _; do
    [ -z "$name" ] || check "$name" </dev/null
done <<<"$settings"
exit "$failed"
