#!/bin/bash
# PTX of compilers for the test `emitted`: installs Triton, Warp, CUTLASS' headers and nvcc with CUB and Thrust from PyPI
# into .third-party, has them compile kernels without a GPU, and runs each on every tier. Where OPENMPS_DIST names an
# installation, the programs of tests/compat/jax run on its software GPU and give XLA's PTX too. Further PTX may be put into
# the same folder.
#
#     crates/simt-jit/tests/emitted.sh [--only-make]
set -eu
cd "$(dirname "$0")/../../.."
here=$PWD/crates/simt-jit/tests
place=$PWD/.third-party/emitted
mkdir -p "$place/ptx/warp"
python=$place/python/bin/python
if [ ! -x "$python" ]; then
    python3 -m venv "$place/python"
    "$python" -m pip install -q triton numpy nvidia-cuda-nvcc nvidia-cuda-cccl nvidia-cuda-runtime nvidia-cuda-crt nvidia-nvvm
fi
"$python" -m pip install -q --no-deps warp-lang==1.12.1 nvidia-cutlass==4.2.0.0
"$python" "$here/emitted_triton.py" "$place/ptx"
"$python" "$here/emitted_warp.py" "$place/ptx/warp"
root=$(dirname "$(dirname "$(find "$place/python" -name nvcc -type f | head -1)")")
headers=$(dirname "$(dirname "$(find "$place/python" -path '*include/cutlass/cutlass.h')")")
compile() {
    "$root/bin/nvcc" -I "$root/include" -I "$root/include/cccl" -I "$headers" -std=c++17 --expt-relaxed-constexpr \
        -arch="compute_$2" -ptx "$here/emitted_$1.cu" -o "$place/ptx/$1_$2.ptx"
}
compile cub 80
compile cub 90
compile cutlass 80
if [ -n "${OPENMPS_DIST:-}" ]; then
    tests/compat/run.sh jax --list >/dev/null
    for program in elementwise indexing products reductions control_flow training; do
        XLA_FLAGS="--xla_dump_to=$place/ptx/xla" "$OPENMPS_DIST/bin/openmps" run --no-daemon -- \
            .third-party/jax/bin/python "tests/compat/jax/$program.py"
    done
fi
[ "${1:-}" = --only-make ] && exit
OPENMPS_EMITTED=$place/ptx cargo test --release -p simt-jit --test filetests emitted -- --nocapture
