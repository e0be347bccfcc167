#!/usr/bin/env bash
# The proof of the architecture on a real GPU: the same programs (a) on NVIDIA's driver, (b) on
# NVIDIA's driver through our library without a daemon, (c) through daemon and server with
# NVIDIA's driver as provider; then small kernels of two and four processes, taking turns and
# sharing.
#
# Usage: bench/h200/prove.sh DIST [OUTPUT]
#   DIST    an installation: `cargo xtask dist --release` made it, perhaps on another machine
#   OUTPUT  where logs and results go [default: a directory made for it]
#
# It starts no process that outlives it and changes no setting of the GPU.
set -u
dist=$(realpath "${1:?usage: prove.sh DIST [OUTPUT]}") && [ -x "$dist/bin/openmps" ] ||
    { echo "no installation in $1"; exit 2; }
out=${2:-$(mktemp -d)}
mkdir -p "$out"
lib=$dist/lib/openmps
samples=$lib/samples
pipe=$(mktemp -d)
empty=$(mktemp -d)
export OPENMPS_LIB_DIR=$lib OPENMPS_PROVIDER=vendor
failures=0

native() { "$@"; }
passing() { LD_LIBRARY_PATH=$lib:${LD_LIBRARY_PATH:-} CUDA_MPS_PIPE_DIRECTORY=$empty "$@"; }
shared() { LD_LIBRARY_PATH=$lib:${LD_LIBRARY_PATH:-} CUDA_MPS_PIPE_DIRECTORY=$pipe "$@"; }

stop() {
    [ -n "${daemon:-}" ] && kill -TERM "$daemon" 2>/dev/null && wait "$daemon" 2>/dev/null
    cp "$pipe"/*.log "$out"/ 2>/dev/null
    rm -rf "$pipe" "$empty"
    # One file beside the results: what takes files back from a lent machine takes only a few.
    (cd "$out" && mkdir -p details && mv ./*.err ./*.out api_tour.* details/ 2>/dev/null
        tar czf details.tgz details && rm -rf details)
}
trap stop EXIT

say() { printf '\n== %s\n' "$*"; }

start_daemon() {
    CUDA_MPS_PIPE_DIRECTORY=$pipe CUDA_MPS_LOG_DIRECTORY=$pipe \
        "$dist/bin/nvidia-cuda-mps-control" -f >"$out/daemon.out" 2>&1 &
    daemon=$!
    for _ in $(seq 200); do [ -S "$pipe/control" ] && return 0; sleep 0.05; done
    echo "the daemon does not accept connections"; cat "$out/daemon.out"; exit 1
}

say "device"
nvidia-smi --query-gpu=name,driver_version,compute_mode --format=csv,noheader
"$dist/bin/openmps" doctor

start_daemon

say "the same programs three ways (the checksums must agree)"
printf '%-20s %-18s %-18s %-18s %s\n' program native pass-through "daemon+server" same
for program in vector_add matrix_multiply reduction histogram n_body mlp_inference \
    convnet_inference spin pipeline mandelbrot scan globals; do
    [ -x "$samples/$program" ] || continue
    row=()
    for way in native passing shared; do
        line=$($way timeout 20 "$samples/$program" --iterations 20 --json 2>"$out/$program.$way.err" | tail -1)
        printf '%s\n' "$line" >>"$out/$way.jsonl"
        row+=("$(printf '%s' "$line" | python3 -c '
import json, sys
try:
    r = json.load(sys.stdin); print(r["checksum"].replace(" ", "_") if r["verified"] else "WRONG")
except Exception: print("failed")')")
    done
    same=yes
    [ "${row[0]}" = "${row[1]}" ] && [ "${row[0]}" = "${row[2]}" ] && [ "${row[0]}" != failed ] &&
        [ "${row[0]}" != WRONG ] || { same=NO; failures=$((failures + 1)); }
    printf '%-20s %-18.18s %-18.18s %-18.18s %s\n' "$program" "${row[@]}" "$same"
    [ "$same" = yes ] || tail -3 "$out/$program".*.err
done

say "the API tour three ways"
for way in native passing shared; do
    $way timeout 60 "$samples/api_tour" >"$out/api_tour.$way" 2>&1
    status=$?
    echo "$way: exit $status, $(grep -c '^ok' "$out/api_tour.$way") ok, $(grep -c '^FAIL' "$out/api_tour.$way") failed"
    grep '^FAIL' "$out/api_tour.$way"
    [ $status -eq 0 ] || failures=$((failures + 1))
done

group() { # way count program arguments...: kernels a second of all together
    local way=$1 count=$2 program=$3 go
    shift 3
    go=$(mktemp -d)
    for i in $(seq "$count"); do
        $way timeout 20 "$samples/$program" "$@" --json --barrier "$go/go" >"$go/$i.json" 2>>"$out/group.err" &
    done
    for _ in $(seq 300); do
        [ "$(ls "$go" | grep -c '^go.ready')" -eq "$count" ] && break
        [ "$(jobs -rp | grep -vc "^$daemon$")" -eq 0 ] && break
        sleep 0.05
    done
    touch "$go/go"
    for job in $(jobs -p); do [ "$job" = "$daemon" ] || wait "$job"; done
    cat "$go"/*.json | python3 -c '
import json, sys
rows = [json.loads(l) for l in sys.stdin if l.strip()]
def rate(r): return r["kernels_per_s"] if "kernels_per_s" in r else sum(x["value"] for x in r["rows"] if x["name"] == "launches_per_s")
ok = all(r.get("verified", True) for r in rows)
print(f"{sum(map(rate, rows)):.0f} {len(rows)} {ok}")'
    rm -rf "$go"
}

say "kernels of 4 blocks, synchronised one by one: kernels a second (processes that reported, verified)"
for count in 1 2 4 8; do
    echo "$count processes: time-sliced $(group native $count spin --blocks 4 --seconds 2)   openmps $(group shared $count spin --blocks 4 --seconds 2)"
done

say "null launches a second"
for count in 1 2 4 8; do
    echo "$count processes: time-sliced $(group native $count microbench launches --seconds 2)   openmps $(group shared $count microbench launches --seconds 2)"
done

say "cost of calls: native, then through openmps"
for way in native shared; do
    $way timeout 60 "$samples/microbench" calls --json >"$out/calls.$way.json" 2>"$out/calls.$way.err"
done
python3 - "$out" <<'PY'
import json, sys
try:
    a, b = ({r["name"]: r for r in json.load(open(f"{sys.argv[1]}/calls.{w}.json"))["rows"]} for w in ("native", "shared"))
    for name, row in a.items():
        other = b.get(name, {"value": float("nan")})["value"]
        print(f"{name:<24} {row['value']:>12.2f} {other:>12.2f} {row['unit']:>4}  {other / row['value']:.2f}")
except Exception as error:
    print("no figures:", error)
PY

say "daemon's view"
shared "$samples/spin" --blocks 4 --seconds 3 >/dev/null 2>&1 &
sleep 2
for command in get_server_list ps device_query; do
    echo "-- $command"
    CUDA_MPS_PIPE_DIRECTORY=$pipe "$dist/bin/nvidia-cuda-mps-control" $command
done
wait $!
nvidia-smi --query-compute-apps=pid,used_memory,name --format=csv,noheader
say "failures: $failures"
exit $((failures > 0))
