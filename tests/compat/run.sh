#!/usr/bin/env bash
# Runs programs that ship with their own CUDA runtime through openmps, on the software GPU.
#
#   tests/compat/run.sh [nvcc|numba|cupy]...      (all three if none is named)
#
# Each program runs twice: in a process of its own ("alone", no daemon) and as a client of a daemon ("daemon"). A line a
# program, `ok NAME` or `FAIL NAME why`, then a summary; exits 1 if anything failed. docs/compat.md says which fail.
#
# Compilers and packages come from PyPI, with exact versions, into the ignored folder `.third-party/` of the repository.
# Needs bash, python3 with venv, a C++ compiler, and an installation: OPENMPS_DIST names it, or `cargo xtask dist` makes it.
set -euo pipefail

NVCC=13.0.88
RUNTIME=13.0.96
CCCL=13.0.85
NUMPY=2.4.6
SECONDS_MAX=120

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
root="$(cd "$here/../.." && pwd)"
third_party="$root/.third-party"
dist="${OPENMPS_DIST:-}"
if [ -z "$dist" ]; then
    dist="$(cd "$root" && cargo xtask dist | tail -1)"
fi

scratch="$(mktemp -d)"
daemon_pid=
cleanup() {
    if [ -n "$daemon_pid" ]; then
        echo quit | CUDA_MPS_PIPE_DIRECTORY="$scratch/daemon" "$dist/bin/nvidia-cuda-mps-control" >/dev/null 2>&1 || true
    fi
    rm -rf "$scratch"
}
trap cleanup EXIT
mkdir "$scratch/alone" "$scratch/daemon" "$scratch/log"

# venv NAME PACKAGE...: a virtual environment with exactly these packages, made once.
venv() {
    local place="$third_party/$1" stamp
    shift
    stamp="$place/installed-$(printf '%s\n' "$@" | sha256sum | cut -c1-16)"
    if [ ! -e "$stamp" ]; then
        rm -rf "$place"
        mkdir -p "$third_party"
        python3 -m venv "$place"
        "$place/bin/pip" install --quiet --disable-pip-version-check --no-deps "$@"
        touch "$stamp"
    fi
}

# run MODE NAME COMMAND...: one program, and its line.
passed=0
failed=0
run() {
    local mode="$1" name="$2" why
    shift 2
    if env LD_LIBRARY_PATH="$dist/lib/openmps${library_path:+:$library_path}" OPENMPS_PROVIDER=soft \
        CUDA_MPS_PIPE_DIRECTORY="$scratch/$mode" CUPY_CACHE_DIR="$scratch/cupy-cache" \
        timeout "$SECONDS_MAX" "$@" >"$scratch/output" 2>&1; then
        echo "ok $name ($mode)"
        passed=$((passed + 1))
    else
        why="status $?: $( (grep -v "^ *$" "$scratch/output" || true) | tail -1 | cut -c1-200)"
        echo "FAIL $name ($mode) $why"
        failed=$((failed + 1))
    fi
}

both() {
    run alone "$@"
    run daemon "$@"
}

compat_nvcc() {
    local venv_name=compat-nvcc cuda source name runtime program
    venv "$venv_name" "nvidia-cuda-nvcc==$NVCC" "nvidia-cuda-crt==$NVCC" "nvidia-nvvm==$NVCC" \
        "nvidia-cuda-runtime==$RUNTIME" "nvidia-cuda-cccl==$CCCL"
    cuda="$(echo "$third_party/$venv_name"/lib/python3*/site-packages/nvidia/cu13)"
    # The wheel has the library without the name that linkers look for.
    ln -sf libcudart.so.13 "$cuda/lib/libcudart.so"
    for source in "$here"/nvcc/*.cu; do
        name="$(basename "$source" .cu)"
        for runtime in static shared; do
            program="$third_party/compat-build/$name-$runtime"
            mkdir -p "$(dirname "$program")"
            if [ ! "$program" -nt "$source" ] || [ ! "$program" -nt "$here/nvcc/check.h" ]; then
                PATH="$cuda/bin:$PATH" nvcc -O2 -std=c++17 -gencode arch=compute_80,code=compute_80 \
                    -cudart "$runtime" -L"$cuda/lib" -o "$program" "$source"
            fi
            library_path="$cuda/lib" both "nvcc/$name-$runtime" "$program"
        done
    done
}

# Without nvidia-nvjitlink: Numba then links through the driver (cuLink*) and hands over PTX, which the software GPU runs;
# nvJitLink makes machine code, which it does not.
compat_numba() {
    local source
    venv compat-numba numba-cuda==0.30.4 numba==0.68.1 llvmlite==0.50.0 "numpy==$NUMPY" packaging==26.3 \
        cuda-bindings==13.5.0 cuda-core==1.2.2 cuda-pathfinder==1.9.0 \
        "nvidia-cuda-nvrtc==$NVCC" "nvidia-cuda-runtime==$RUNTIME" "nvidia-nvvm==$NVCC" "nvidia-cuda-cccl==$CCCL"
    for source in "$here"/numba/*.py; do
        both "numba/$(basename "$source" .py)" "$third_party/compat-numba/bin/python" "$source"
    done
}

# CUPY_COMPILE_WITH_PTX has CuPy ask NVRTC for PTX in the place of machine code.
compat_cupy() {
    local source
    venv compat-cupy cupy-cuda13x==14.2.0 "numpy==$NUMPY" cuda-pathfinder==1.9.0 \
        "nvidia-cuda-nvrtc==$NVCC" "nvidia-cuda-runtime==$RUNTIME" "nvidia-cuda-cccl==$CCCL"
    for source in "$here"/cupy/*.py; do
        CUPY_COMPILE_WITH_PTX=1 both "cupy/$(basename "$source" .py)" \
            "$third_party/compat-cupy/bin/python" "$source"
    done
}

families=("$@")
[ ${#families[@]} -gt 0 ] || families=(nvcc numba cupy)
for family in "${families[@]}"; do
    case "$family" in
        nvcc | numba | cupy) ;;
        *) echo "usage: tests/compat/run.sh [nvcc|numba|cupy]..." >&2; exit 2 ;;
    esac
done

CUDA_MPS_PIPE_DIRECTORY="$scratch/daemon" CUDA_MPS_LOG_DIRECTORY="$scratch/log" OPENMPS_PROVIDER=soft \
    "$dist/bin/nvidia-cuda-mps-control" -d
daemon_pid=started
for family in "${families[@]}"; do
    "compat_$family"
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
