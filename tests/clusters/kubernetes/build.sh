#!/usr/bin/env bash
# Builds Kubernetes' four programs, containerd and runc as Go modules: build.sh DIRECTORY VERSION. On two cores half an
# hour the first time, and some GB of build cache. What is there already stays; GOFLAGS=-p=1 leaves a core to others.
set -euo pipefail

to=$(realpath -m "$1")
version=$2
containerd=v2.4.2
runc=v1.5.3
mkdir -p "$to"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export GOFLAGS="-mod=mod ${GOFLAGS:-}" GOTOOLCHAIN=local

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
minor=$(echo "$version" | cut -d. -f2)
for program in kube-apiserver kube-controller-manager kube-scheduler kubelet; do
    [ -x "$to/$program" ] && continue
    go build -ldflags "-s -w -X $names.gitVersion=v$version -X $names.gitMajor=1 -X $names.gitMinor=$minor" \
        -o "$to/$program" "k8s.io/kubernetes/cmd/$program"
done

module containerd 1.26.6
printf '\nrequire github.com/containerd/containerd/v2 %s\n' "$containerd" >>go.mod
commands=github.com/containerd/containerd/v2/cmd
for program in containerd containerd-shim-runc-v2 ctr; do
    [ -x "$to/$program" ] || go build -ldflags "-s -w" -o "$to/$program" "$commands/$program"
done

[ -x "$to/runc" ] && exit
module runc 1.26.0
go get "github.com/opencontainers/runc@$runc"
# With seccomp where its C library is; run.py prefers the system's runc.
tags=$(pkg-config --exists libseccomp 2>/dev/null && echo seccomp || true)
go build -tags "$tags" -o "$to/runc" github.com/opencontainers/runc
