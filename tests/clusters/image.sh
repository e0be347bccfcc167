#!/usr/bin/env bash
# The OCI image under podman: the daemon in one container, programs that verify their results in others, which have
# other users, read-only roots and PID namespaces of their own.
#
# tests/clusters/image.sh [IMAGE.tar [LIBRARIES]]: needs root, podman and runc. Status 77: something it needs is missing.
# LIBRARIES is the lib/openmps of another release: a container more has those in place of the image's.
set -euo pipefail
cd "$(dirname "$0")/../.."

image=${1:-$(ls -t target/package/openmps-*-oci-*.tar 2>/dev/null | head -1)}
if [ -z "$image" ] || ! command -v podman runc >/dev/null; then
    echo "needs podman, runc and an image: cargo xtask package oci" >&2
    exit 77
fi

other=${2:-}
work=$(mktemp -d)
# The limits are those that a container without CAP_SYS_RESOURCE may have.
run=(podman --root "$work/storage" --runroot "$work/run" --cgroup-manager=cgroupfs --runtime runc)
options=(--network none --ulimit nofile=1024:1024 --ulimit nproc=1024:1024)
name=localhost/openmps:$(basename "$image" | cut -d- -f2)

finish() {
    "${run[@]}" rm --force --time 5 --all >/dev/null 2>&1 || true
    umount -l "$work/storage/overlay" 2>/dev/null || true
    rm -rf "$work"
}
trap finish EXIT

"${run[@]}" load --quiet --input "$image"
mkdir "$work/pipe" "$work/log"
"${run[@]}" run --detach --name daemon "${options[@]}" \
    --volume "$work/pipe:/run/nvidia-mps" --volume "$work/log:/var/log/nvidia-mps" "$name" >/dev/null

# A command of the image beside the daemon.
ask() {
    "${run[@]}" exec daemon openmps "$@"
}
for _ in $(seq 100); do
    ask ps >/dev/null 2>&1 && break
    sleep 0.1
done
ask ps

failed=0
sample=/usr/lib/openmps/samples/n_body
# container NAME [OPTION ...] -- PROGRAM [ARGUMENT ...]: a sample that verifies its results, in a container of its own.
container() {
    local what=$1 given=()
    shift
    while [ "$1" != -- ]; do
        given+=("$1")
        shift
    done
    shift
    local program=$1
    shift
    if "${run[@]}" run --rm "${options[@]}" "${given[@]}" --volume "$work/pipe:/run/nvidia-mps" \
        --entrypoint "$program" "$name" "$@" --seconds 2 --verify-each >"$work/$what.log" 2>&1; then
        echo "ok: $what"
    else
        echo "FAILED: $what"
        cat "$work/$what.log"
        return 1
    fi
}

program() {
    container "$@" -- /usr/bin/openmps run -- "$sample"
}

program root &
first=$!
program other-user --user 1000:1000 &
second=$!
program read-only --user 1001:1001 --read-only --cap-drop all --security-opt no-new-privileges &
third=$!
program user-namespace --uidmap 0:200000:2000 --gidmap 0:200000:2000 &
fourth=$!
fifth=
if [ -n "$other" ]; then
    # A build with a system's own linker needs the system's unwinder, which the image has not.
    cp -a "$other" "$work/other"
    cp -L "$(ldconfig -p | sed -n 's/.*libgcc_s.so.1 (.*x86-64.* => //p' | head -1)" "$work/other/"
    container other-release --volume "$work/other:/other:ro" --env LD_LIBRARY_PATH=/other \
        --env CUDA_MPS_PIPE_DIRECTORY=/run/nvidia-mps --env OPENMPS_REQUIRE=1 -- "$sample" &
    fifth=$!
fi
sleep 1.5
ask ps
for one in "$first" "$second" "$third" "$fourth" $fifth; do
    wait "$one" || failed=1
done
# One server has served all of them.
[ "$(grep -c "Server has started" "$work/log/server.log")" = 1 ]
"${run[@]}" stop --time 20 daemon >/dev/null
[ "$failed" = 0 ]
echo "the image works"
