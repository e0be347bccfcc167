#!/usr/bin/env bash
# Users whom only another name service knows (libnss-extrausers, as LDAP's modules are), under one daemon of
# root's: `tests/name_service.sh [INSTALLATION]`. In a mount namespace of its own: nothing of the system is
# changed. Status 77 says that something it needs cannot be had.
set -euo pipefail
dist=${1:-$(cargo xtask dist | tail -1)}
cannot() {
    echo "the name service test cannot run: $1" >&2
    exit 77
}

if [ -z "${NAME_SERVICE_WORK:-}" ]; then
    [ "$(id -u)" = 0 ] || cannot "it is for root"
    unshare -m true 2>/dev/null || cannot "unshare makes no mount namespace"
    NAME_SERVICE_WORK=$(mktemp -d)
    export NAME_SERVICE_WORK
    trap 'rm -rf "$NAME_SERVICE_WORK"' EXIT
    chmod 755 "$NAME_SERVICE_WORK"
    if ! (cd "$NAME_SERVICE_WORK" && timeout 60 apt-get download libnss-extrausers) >/dev/null 2>&1; then
        cannot "libnss-extrausers cannot be downloaded"
    fi
    dpkg -x "$NAME_SERVICE_WORK"/libnss-extrausers_*.deb "$NAME_SERVICE_WORK/package"
    unshare -m --propagation private bash "$0" "$dist"
    exit
fi

work=$NAME_SERVICE_WORK
cd /
library=$(dirname "$(find "$work/package" -name 'libnss_extrausers.so.2' | head -1)")
mkdir -p "$work"/{extrausers,pipe,log,soft,cache}
chmod 1777 "$work/soft" "$work/cache"
cat >"$work/extrausers/passwd" <<END
ldapone:x:42001:42100::/nonexistent:/bin/sh
ldaptwo:x:42002:42101::/nonexistent:/bin/sh
END
printf 'gpuusers:x:42100:\nothers:x:42101:\n' >"$work/extrausers/group"
: >"$work/extrausers/shadow"
sed -E 's/^(passwd|group):.*/\1: files extrausers/' /etc/nsswitch.conf >"$work/nsswitch.conf"
mount --bind "$work/nsswitch.conf" /etc/nsswitch.conf
mount -t tmpfs none /var/lib
mkdir /var/lib/extrausers
cp "$work"/extrausers/* /var/lib/extrausers

export LD_LIBRARY_PATH=$library:$dist/lib/openmps OPENMPS_LIB_DIR=$dist/lib/openmps OPENMPS_PROVIDER=soft
export CUDA_MPS_PIPE_DIRECTORY=$work/pipe CUDA_MPS_LOG_DIRECTORY=$work/log
export OPENMPS_SOFT_DIR=$work/soft CUDA_CACHE_PATH=$work/cache
[ "$(id -un 42001)" = ldapone ] || cannot "the system's programs do not ask libnss-extrausers"
as() { setpriv --reuid "$1" --regid "$2" --clear-groups "${@:3}"; }
as 42001 42100 test -r "$dist/lib/openmps/samples/vector_add" || cannot "users cannot read the installation"
control=$dist/bin/nvidia-cuda-mps-control

# A group of that service may come, and its members by their names are told to root; others may not.
"$control" -d --allow @gpuusers
trap '"$control" quit -t 0' EXIT
as 42001 42100 "$dist/lib/openmps/samples/vector_add" --iterations 5 >/dev/null
if as 42002 42101 "$dist/lib/openmps/samples/vector_add" --iterations 5 >/dev/null 2>"$work/refused"; then
    echo "a user who is not allowed was served" >&2
    exit 1
fi
grep -q 'does not serve ldaptwo' "$work/log/control.log" || { cat "$work/log/control.log" >&2; exit 1; }
"$control" start_server -uid 42001
"$dist/bin/openmps" ps --json | grep '"user":"ldapone"' >/dev/null || { echo "no server of ldapone" >&2; exit 1; }
server=$("$control" get_server_list | head -1)
grep -qP "^Uid:\t42001\t42001\t42001\t42001" "/proc/$server/status"
grep -qP "^Gid:\t42100\t42100" "/proc/$server/status"
tr '\0' '\n' <"/proc/$server/environ" | grep -x 'HOME=/nonexistent' >/dev/null
echo "users of libnss-extrausers are served by name"
