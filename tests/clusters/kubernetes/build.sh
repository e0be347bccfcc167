#!/usr/bin/env bash
# Builds Kubernetes' four programs, containerd and runc as Go modules: build.sh DIRECTORY VERSION. On two cores half an
# hour the first time, and some GB of build cache.
set -euo pipefail

to=$(realpath -m "$1")
version=$2
containerd=v2.4.2
runc=v1.5.3
mkdir -p "$to"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export GOFLAGS=-mod=mod GOTOOLCHAIN=local

module() {
    mkdir -p "$work/$1"
    cd "$work/$1"
    printf 'module %s\n\ngo %s\n' "$1" "$2" >go.mod
}

module kubernetes 1.26.0
go mod download "k8s.io/kubernetes@v$version"
of_kubernetes=$(go env GOMODCACHE)/k8s.io/kubernetes@v$version/go.mod
{
    printf 'module kubernetes\n\ngo 1.26.0\n\nrequire k8s.io/kubernetes v%s\n\nreplace (\n' "$version"
    # Its parts are modules too, of version 0.MINOR.PATCH.
    awk -v version="v0${version#1}" '/=> \.\/staging/ {print "\t" $1 " => " $1 " " version}' "$of_kubernetes"
    echo ')'
} >go.mod
names=k8s.io/component-base/version
go build -ldflags "-X $names.gitVersion=v$version -X $names.gitMajor=1 -X $names.gitMinor=$(echo "$version" | cut -d. -f2)" \
    -o "$to/" k8s.io/kubernetes/cmd/kube-apiserver k8s.io/kubernetes/cmd/kube-controller-manager \
    k8s.io/kubernetes/cmd/kube-scheduler k8s.io/kubernetes/cmd/kubelet

module containerd 1.26.6
printf '\nrequire github.com/containerd/containerd/v2 %s\n' "$containerd" >>go.mod
commands=github.com/containerd/containerd/v2/cmd
go build -o "$to/" "$commands/containerd" "$commands/containerd-shim-runc-v2" "$commands/ctr"

module runc 1.26.0
go get "github.com/opencontainers/runc@$runc"
# With seccomp where its C library is; run.py prefers the system's runc.
tags=$(pkg-config --exists libseccomp 2>/dev/null && echo seccomp || true)
go build -tags "$tags" -o "$to/runc" github.com/opencontainers/runc
