#!/bin/bash
# PTX of compilers for the test `emitted`: installs Triton and nvcc with CUB and Thrust from PyPI into .third-party,
# has them compile kernels without a GPU, and runs each on every tier. Further PTX may be put into the same
# folder, such as what `XLA_FLAGS=--xla_dump_to` or Warp's kernel cache hold.
#
#     crates/simt-jit/tests/emitted.sh [--only-make]
set -eu
cd "$(dirname "$0")/../../.."
here=$PWD/crates/simt-jit/tests
place=$PWD/.third-party/emitted
mkdir -p "$place/ptx"
if [ ! -x "$place/python/bin/python" ]; then
    python3 -m venv "$place/python"
    "$place/python/bin/pip" install -q triton numpy nvidia-cuda-nvcc nvidia-cuda-cccl nvidia-cuda-runtime nvidia-cuda-crt nvidia-nvvm
fi
"$place/python/bin/python" "$here/emitted_triton.py" "$place/ptx"
root=$(dirname "$(dirname "$(find "$place/python" -name nvcc -type f | head -1)")")
for arch in 80 90; do
    "$root/bin/nvcc" -I "$root/include" -I "$root/include/cccl" -std=c++17 -arch=compute_$arch -ptx "$here/emitted_cub.cu" -o "$place/ptx/cub_$arch.ptx"
done
[ "${1:-}" = --only-make ] && exit
OPENMPS_EMITTED=$place/ptx cargo test --release -p simt-jit --test filetests emitted -- --nocapture
