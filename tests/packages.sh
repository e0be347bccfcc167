#!/usr/bin/env bash
# Packages in systems as they come: installed, used, replaced while programs run, removed without a trace; and read by
# the linters of their formats. By hand, as root; not part of CI.
#
#   tests/packages.sh [--only tar,wheel,deb,rpm,lint] [--suites bullseye,trixie] [DIRECTORY]
#
# DIRECTORY has the packages [default: those that cargo xtask package builds now, some minutes]. The systems are made
# by debootstrap from the mirror of this machine and kept in .third-party/systems. Installs debootstrap, rpm, lintian
# and rpmlint where they are not there. Status 77 says that something it needs cannot be had.
set -euo pipefail
cd "$(dirname "$0")/.."

only=tar,wheel,deb,rpm,lint
suites=bullseye,trixie
packages=
while [ $# -gt 0 ]; do
    case $1 in
    --only) only=$2; shift 2 ;;
    --suites) suites=$2; shift 2 ;;
    --help | -h) sed -n '2,/^set -/s/^# \{0,1\}//p' "$0" | sed '$d'; exit 0 ;;
    *) packages=$(realpath "$1"); shift ;;
    esac
done
cannot() {
    echo "the test of packages cannot run: $1" >&2
    exit 77
}
for kind in ${only//,/ }; do
    [[ " tar wheel deb rpm lint " == *" $kind "* ]] || { echo "--only $kind: tar, wheel, deb, rpm or lint" >&2; exit 2; }
done
wants() { [[ ",$only," == *",$1,"* ]]; }
[ "$(id -u)" = 0 ] || cannot "it is for root: chroot and mounts"
for tool in debootstrap rpm lintian rpmlint; do
    command -v "$tool" >/dev/null || apt-get install -y -qq "$tool" >/dev/null 2>&1 || cannot "no $tool"
done
if [ -z "$packages" ]; then
    packages=$PWD/target/package
    for kind in tar wheel deb rpm; do
        wants "$kind" && cargo xtask package "$kind" --output "$packages"
    done
fi
one() {
    local found=("$packages"/$1)
    [ -e "${found[0]}" ] || { echo "$packages has no $1" >&2; exit 1; }
    printf '%s\n' "${found[@]}"
}
# Where this machine has its packages from; one of the two files may be missing.
mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources 2>/dev/null |
    sed -n 's/^URIs: *//p; s/^deb \(\[[^]]*\] \)\{0,1\}\([^ ]*\) .*/\2/p' | grep -v security | head -1 || true)
mirror=${mirror:-http://deb.debian.org/debian}

root=
leave() {
    [ -n "$root" ] || return 0
    # Processes of that system alone: /proc has those of the machine.
    for process in /proc/[0-9]*; do
        [ "$(readlink "$process/root" 2>/dev/null)" != "$root" ] || kill -9 "${process#/proc/}" 2>/dev/null || true
    done
    umount -lR "$root" 2>/dev/null || true
    # Never what is mounted there, if that could not be taken away.
    rm -rf --one-file-system "$root" "$root.before"
    root=
}
trap leave EXIT

# Makes a new system of a suite and has its commands run there.
enter() {
    local kept=.third-party/systems/$1.tar
    if [ ! -e "$kept" ]; then
        mkdir -p .third-party/systems
        local new
        new=$(mktemp -d)
        debootstrap --variant=minbase --include=python3,python3-venv,python3-pip,rpm,procps "$1" "$new" "$mirror" \
            >/dev/null || cannot "debootstrap $1 from $mirror"
        tar -cf "$kept.new" -C "$new" . && mv "$kept.new" "$kept"
        rm -rf "$new"
    fi
    root=$(mktemp -d "${TMPDIR:-/tmp}/openmps-packages-XXXXXX")
    # rpm's scripts have mounts of their own, for which the root has to be one.
    mount --bind "$root" "$root"
    mount --make-private "$root"
    tar -xf "$kept" -C "$root"
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    mount --make-rslave "$root/dev"
    mount -t tmpfs none "$root/run"
    mkdir -p "$root/packages"
    cp "$packages"/openmps* "$root/packages/"
    # The system as it was: what is left when all is removed is found by this.
    files >"$root.before"
}
files() {
    # Neither what runs leaves in /run nor caches of the tools that install are a package's.
    chroot "$root" find / -xdev \( -path /proc -o -path /dev -o -path /run -o -path /tmp -o -path /packages \
        -o -path /var/lib/dpkg -o -path /var/log -o -path /var/cache -o -path /var/lib/rpm -o -path /root \
        -o -name __pycache__ \) -prune -o -printf '%y %p\n' | sort
}
# Nothing is left; $2 is a pattern of what does not count.
expect_as_before() {
    local not=${2:-^$}
    diff <(grep -v "$not" "$root.before") <(files | grep -v "$not") || { echo "$1: files are left or missing" >&2; exit 1; }
}
in_system() { chroot "$root" env -i HOME=/root PATH="$PATH_THERE" OPENMPS_PROVIDER=soft LANG=C.UTF-8 "$@"; }
PATH_THERE=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

# A program computes and verifies alone, beside others, and while `$2...` is carried out. `$1` is a directory of samples.
use() {
    local samples=$1
    shift
    in_system openmps run -- "$samples/vector_add" --json | tail -1 | grep -q '"verified":true'
    in_system openmps demo --processes 2 --seconds 1 >/dev/null
    in_system openmps doctor >/dev/null || true
    in_system openmps up >/dev/null
    in_system openmps run -- "$samples/n_body" --until /tmp/stop --verify-each --json >"$root/tmp/said" 2>&1 &
    local program=$!
    for _ in $(seq 100); do
        in_system openmps ps | grep -q n_body && break
        sleep 0.2
    done
    if [ $# -gt 0 ]; then
        in_system "$@" >/dev/null
        in_system openmps upgrade >/dev/null
    fi
    in_system touch /tmp/stop
    wait "$program"
    tail -1 "$root/tmp/said" | grep -q '"verified":true'
    in_system openmps down >/dev/null
}
passed() { echo "$suite: $*"; }

for suite in ${suites//,/ }; do
    if wants tar; then
        enter "$suite"
        in_system sh -c 'cd /tmp && tar -xzf /packages/openmps-*-linux.tar.gz && mv openmps-*-linux unpacked'
        in_system /tmp/unpacked/install.sh --prefix /opt/first >/dev/null
        in_system mv /opt/first /opt/moved
        PATH_THERE=/opt/moved/bin:$PATH_THERE use /opt/moved/lib/openmps/samples \
            /tmp/unpacked/install.sh --prefix /opt/moved
        in_system /opt/moved/lib/openmps/uninstall.sh >/dev/null
        # The prefix is the user's; it is empty.
        in_system rmdir /opt/moved
        expect_as_before tar
        passed "archive: installed, moved, used, installed over while a program ran, uninstalled"
        leave
    fi
    if wants wheel; then
        enter "$suite"
        in_system python3 -m venv /opt/venv
        in_system sh -c '/opt/venv/bin/pip install --quiet --no-index /packages/openmps-*.whl'
        lib=$(in_system sh -c 'echo /opt/venv/lib/python3*/site-packages/openmps')
        samples=$(in_system find /opt/venv -type d -name samples | head -1)
        [ -n "$lib" ] && [ -n "$samples" ]
        PATH_THERE=/opt/venv/bin:$PATH_THERE use "$samples"
        in_system /opt/venv/bin/pip uninstall --quiet --yes openmps
        in_system find /opt/venv -iname '*openmps*' | (! grep .)
        in_system rm -rf /opt/venv
        expect_as_before wheel
        passed "wheel: installed into a clean environment, used, uninstalled"
        leave
    fi
    if wants deb; then
        enter "$suite"
        in_system sh -c 'dpkg -i /packages/*.deb' >/dev/null
        use /usr/lib/openmps/samples sh -c 'dpkg -i /packages/*.deb'
        in_system dpkg --purge openmps-nvidia-mps openmps-samples openmps >/dev/null
        expect_as_before deb
        passed "deb: installed, used, replaced while a program ran, purged"
        leave
    fi
    if wants rpm; then
        enter "$suite"
        # Debian's packages are unknown to rpm.
        in_system sh -c 'rpm -i --nodeps /packages/*.rpm'
        use /usr/lib/openmps/samples sh -c 'rpm -U --force --nodeps /packages/*.rpm'
        in_system sh -c 'rpm -e $(rpm -qa --qf "%{NAME}\n" | grep ^openmps)' 2>/dev/null
        # Directories that all packages share are those of Red Hat's package filesystem, which is not there.
        expect_as_before rpm '^d'
        passed "rpm: installed, used, replaced while a program ran, removed"
        leave
    fi
done

if wants lint; then
    suite=linters
    if compgen -G "$packages/*.deb" >/dev/null; then
        lintian --allow-root --fail-on error,warning "$packages"/*.deb
        passed "lintian: nothing"
    fi
    if compgen -G "$packages/*.rpm" >/dev/null; then
        rpmlint --rpmlintrc tests/packages.rpmlintrc "$packages"/*.rpm | tail -1
    fi
    if compgen -G "$packages/*.whl" >/dev/null; then
        [ -x .third-party/wheels/bin/twine ] || {
            python3 -m venv .third-party/wheels
            .third-party/wheels/bin/pip install --quiet twine auditwheel
        }
        .third-party/wheels/bin/twine check --strict "$packages"/*.whl
        .third-party/wheels/bin/auditwheel show "$packages"/openmps-*.whl | grep -A2 'consistent with'
    fi
fi
