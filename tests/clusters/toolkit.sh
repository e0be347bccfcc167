#!/usr/bin/env bash
# NVIDIA's container toolkit with a driver root of openmps: `tests/clusters/toolkit.sh [INSTALLATION]`. Builds nvidia-ctk
# and nvidia-cdi-hook as a Go module into .third-party (minutes, once), lays a driver root, generates a spec from it, has
# podman run a program with it by NVIDIA's own hooks, and sets a memory limit by the hook apply-cuda-memory-limits.
# As root, with Go, podman and runc. Status 77 says that something it needs cannot be had.
set -euo pipefail
here=$(cd "$(dirname "$0")/../.." && pwd)
dist=${1:-$(cd "$here" && cargo xtask dist | tail -1)}
version=v1.20.2
tools=$here/.third-party/toolkit
cannot() {
    echo "the toolkit test cannot run: $1" >&2
    exit 77
}
[ "$(id -u)" = 0 ] || cannot "it is for root"
command -v podman runc >/dev/null || cannot "podman and runc are wanted"
if [ ! -x "$tools/nvidia-ctk" ] || [ ! -x "$tools/nvidia-cdi-hook" ]; then
    command -v go >/dev/null || cannot "Go is wanted to build NVIDIA's container toolkit"
    mkdir -p "$tools"
    for name in nvidia-ctk nvidia-cdi-hook; do
        GOBIN=$tools go install "github.com/NVIDIA/nvidia-container-toolkit/cmd/$name@$version" >/dev/null 2>&1 ||
            cannot "$name cannot be built"
    done
fi

work=$(mktemp -d /tmp/openmps-toolkit-XXXXXX)
chmod 755 "$work"
root=$work/driver
kind=test$$.example/gpu
spec=/var/run/cdi/openmps-test-$$.json
export OPENMPS_PROVIDER=soft OPENMPS_SOFT_DIR=$work/soft
mkdir -p "$OPENMPS_SOFT_DIR" /var/run/cdi
chmod 1777 "$OPENMPS_SOFT_DIR"
end() {
    status=$?
    CUDA_MPS_PIPE_DIRECTORY=$root/tmp/nvidia-mps "$dist/bin/nvidia-cuda-mps-control" quit -t 0 >/dev/null 2>&1 || true
    [ "$status" = 0 ] || tail -n 20 "$root/var/log/nvidia-mps/control.log" >&2 2>/dev/null || true
    rm -f "$spec"
    rm -rf "$work"
}
trap end EXIT

"$dist/bin/openmps" driver-root "$root" >/dev/null
export CUDA_MPS_PIPE_DIRECTORY=$root/tmp/nvidia-mps CUDA_MPS_LOG_DIRECTORY=$root/var/log/nvidia-mps
"$root/usr/bin/nvidia-cuda-mps-control" -d -p 3 -m
control() { "$root/usr/bin/nvidia-cuda-mps-control" "$@"; }

# The generator has NVML from the root, and no variable of the daemon's.
env -u CUDA_MPS_PIPE_DIRECTORY -u CUDA_MPS_LOG_DIRECTORY "$tools/nvidia-ctk" --quiet cdi generate --driver-root "$root" \
    --vendor "${kind%/*}" --class "${kind#*/}" --nvidia-cdi-hook-path "$tools/nvidia-cdi-hook" --format json \
    --output "$spec"
for wanted in libcuda.so. libnvidia-ml.so. libopenmps-soft.so. nvidia-smi nvidia-cuda-mps-control; do
    grep -qF "$wanted" "$spec" || { echo "the spec lacks $wanted" >&2; cat "$spec" >&2; exit 1; }
done

# A root file system with the C library, and nothing of CUDA.
image=$work/image
mkdir -m 777 -p "$image"/{tmp,proc,sys,dev,etc,run,usr/bin,usr/lib64,usr/lib/"$(uname -m)"-linux-gnu}
ln -s usr/bin "$image/bin"
ln -s usr/lib "$image/lib"
ln -s usr/lib64 "$image/lib64"
: >"$image/etc/ld.so.conf"
for program in /bin/sh /bin/cat /bin/ls "$dist/lib/openmps/samples/vector_add"; do
    cp -L "$program" "$image/usr/bin/"
done
for file in "$image"/usr/bin/* "$dist/lib/openmps/libcuda.so.1" "$dist/bin/openmps"; do
    ldd "$file" | grep -o '/[^ ]*' | while read -r library; do
        case $library in *ld-linux*) to=usr/lib64 ;; *) to=usr/lib/$(uname -m)-linux-gnu ;; esac
        cp -Ln "$library" "$image/$to/" || true
    done
done
# Release 1.20.2 looks for the daemon's directory as a file, so it is mounted by hand: plugins do that.
run() {
    podman --runtime runc run --rm --network none --ulimit nofile=1024:1024 --ulimit nproc=1024:1024 \
        --device "$kind=all" -v "$root/tmp/nvidia-mps:/tmp/nvidia-mps" -e OPENMPS_PROVIDER=vendor "$@"
}
run --rootfs "$image" vector_add --iterations 2
grep -q "NEW CLIENT" "$CUDA_MPS_LOG_DIRECTORY/control.log" || { echo "it did not come to the daemon" >&2; exit 1; }
run --user 41008:41008 --rootfs "$image" vector_add --iterations 2
run -e OPENMPS_PROVIDER=soft --rootfs "$image" nvidia-smi -L | grep -q '^GPU 0: '

# The hook by which a container's NVIDIA_GPU_MEMORY_LIMIT becomes its cgroup's limit, as the runtime calls it: with the
# container's state on standard input and without an environment. It wants version 2 of cgroups at /sys/fs/cgroup.
uuid=$(control device list --format=csv,noheader | grep -o 'GPU-[0-9a-f-]*' | head -1)
mount=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
[ -n "$mount" ] || cannot "no cgroup of version 2 is mounted"
own=$(sed -n 's/^0:://p' /proc/self/cgroup)
group=${own%/}/openmps-toolkit-$$
mkdir "$mount$group"
bundle=$work/bundle
mkdir "$bundle"
cat >"$bundle/config.json" <<END
{"ociVersion": "1.0.2", "process": {"args": ["x"], "cwd": "/", "env": ["NVIDIA_GPU_MEMORY_LIMIT=64"]}, "root": {"path": "x"}}
END
sleep 600 &
holder=$!
echo "$holder" >"$mount$group/cgroup.procs"
printf '{"ociVersion": "1.0.2", "id": "x", "status": "created", "pid": %s, "bundle": "%s"}' "$holder" "$bundle" >"$work/state"
unshare -m sh -c 'umount -R /sys/fs/cgroup 2>/dev/null; mount -t cgroup2 none /sys/fs/cgroup && exec "$@"' sh \
    env -i OPENMPS_PROVIDER=soft OPENMPS_SOFT_DIR="$OPENMPS_SOFT_DIR" "$tools/nvidia-cdi-hook" \
    apply-cuda-memory-limits --driver-root "$root" --gpu-id "$uuid" --container-spec "$work/state"
control memacct list --format=csv,noheader | grep -q "^$group,.*,64M,64M," ||
    { echo "the hook set no limit: $(control memacct list)" >&2; exit 1; }
in_group() { sh -c 'echo $$ >"$0" && exec "$@"' "$mount$group/cgroup.procs" "$@"; }
export LD_LIBRARY_PATH=$dist/lib/openmps
in_group "$dist/lib/openmps/samples/vector_add" --size 1048576 --iterations 1 >/dev/null
# Three vectors of 32 MiB.
if in_group "$dist/lib/openmps/samples/vector_add" --size 8388608 --iterations 1 2>"$work/refused" >/dev/null; then
    echo "the limit of 64 MiB does not bite" >&2
    exit 1
fi
grep -q CUDA_ERROR_OUT_OF_MEMORY "$work/refused"
kill "$holder"
wait "$holder" 2>/dev/null || true
for _ in $(seq 50); do rmdir "$mount$group" 2>/dev/null && break; sleep 0.1; done
echo "nvidia-ctk $version: spec, container, user 41008, limit of 64 MiB"
