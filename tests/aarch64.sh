#!/usr/bin/env bash
# tests/aarch64.sh [service | FILTER...]
# Compiles the software GPU's interpreter for AArch64 and runs its tests there, by emulation: what it needs is
# installed where that is possible (rustup's target; as root Debian's cross compiler and qemu-user). Long random
# tests are left out; with FILTER runs the tests that match instead. With `service` runs the tests of client, channel,
# daemon's rules and server instead, and compiles the rest: a quarter of an hour. Ends with status 77, and says why,
# where something is missing and cannot be installed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
target=aarch64-unknown-linux-gnu

missing() {
    printf 'SKIPPED: the interpreter on AArch64: %s\n' "$1" >&2
    exit 77
}

if [ ! -d "$(rustc --print sysroot)/lib/rustlib/$target/lib" ]; then
    command -v rustup >/dev/null || missing "no standard library for $target, and no rustup to add it"
    rustup target add $target || missing "rustup could not add $target"
fi
if ! command -v aarch64-linux-gnu-gcc >/dev/null || ! command -v qemu-aarch64 >/dev/null; then
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || missing "install gcc-aarch64-linux-gnu and qemu-user"
    (apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user) >&2 || missing "apt-get could not install what is needed"
fi

export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -L /usr/aarch64-linux-gnu"
if [ "${1:-}" = service ]; then
    cargo check --target $target -p openmps -p soft-gpu -p nvtx -p samples -p control
    # What the emulator lacks: SCM_RIGHTS cut by the limit of descriptors, userfaultfd, exact memory maps, and times of
    # the machine itself.
    skips=(--skip too_many_files_are_refused --skip pages_are_exchanged_under_a_signal_handler
        --skip a_lost_connection_keeps_no_memory --skip a_stream_that_does_not_move_leaves_room)
    cargo test --target $target -p cuda-api -p channel -p client -p nvml -p recovery -p scheduling --lib -- "${skips[@]}"
    exec cargo test --target $target -p server --lib --test kernels
fi
# Native code is made for x86-64 only: what is above the interpreter compiles, and finds none here.
cargo check --quiet --target $target -p simt-jit
if [ $# -gt 0 ]; then
    exec cargo test --target $target -p simt-interpreter -- "$@"
fi
exec cargo test --target $target -p simt-interpreter -- --skip random --skip throughput
