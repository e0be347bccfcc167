#!/usr/bin/env bash
# A real Kubernetes control plane and nodes on one machine without Docker: the chart is installed by helm, pods with
# shares of the software GPU compute and verify. By hand, as root; not part of CI (building takes half an hour once).
#
#   tests/clusters/kubernetes.sh [--version 1.37.2] [--nodes 1] [--image ARCHIVE] [--only NAME,...] [--bless] [--keep]
#
# Needs Go 1.26, etcd, iptables, conntrack, the CNI plugins and a C compiler (Debian: etcd-server
# containernetworking-plugins conntrack iptables gcc). Built programs are kept in .third-party/clusters/VERSION, or in
# the directory that OPENMPS_CLUSTERS names. OPENMPS_DIST names an installation, else one is built; OPENMPS_K8S the
# agent's program. The image is made of these, or is an archive of cargo xtask package oci (--image). --bless writes
# what the cluster said as golden files, which the simulators are compared with.
set -euo pipefail
cd "$(dirname "$0")/../.."
here=tests/clusters/kubernetes

version=1.37.2
words=()
while [ $# -gt 0 ]; do
    case $1 in
    --version) version=$2; shift 2 ;;
    --help | -h) sed -n '2,/^set -/s/^# \{0,1\}//p' "$0" | sed '$d'; exit 0 ;;
    *) words+=("$1"); shift ;;
    esac
done
[ "$(id -u)" = 0 ] || { echo "it needs root: network namespaces, mounts, containers" >&2; exit 1; }

programs=${OPENMPS_CLUSTERS:-.third-party/clusters}/$version
if [ ! -x "$programs/kubelet" ] || [ ! -x "$programs/containerd" ] || [ ! -x "$programs/runc" ]; then
    "$here/build.sh" "$programs" "$version"
fi
deploy/helm/check.sh >/dev/null
dist=${OPENMPS_DIST:-$(cargo xtask dist | tail -1)}
agent=${OPENMPS_K8S:-}
if [ -z "$agent" ]; then
    cargo build --release -p openmps-k8s
    agent=target/release/openmps-k8s
fi
exec python3 "$here/run.py" --programs "$programs" --dist "$dist" --agent "$agent" --tools .third-party/helm "${words[@]}"
