#!/bin/bash
# Two builds of openmps beside each other on the kernels of `openmps bench kernels`: which is faster, and by
# how much. Runs them in turn, so that what else the machine does is the same for both.
#
#   bench/kernels/compare.sh [--rounds N] OLD NEW [OPTION...]
#
# OLD and NEW are openmps binaries; options go to `openmps bench kernels` (--only NAME). An older
# binary is built from its commit in a work tree of its own:
#
#   git worktree add /tmp/old 78e8ce0 && (cd /tmp/old && cargo build --release -p openmps)
#   bench/kernels/compare.sh /tmp/old/target/release/openmps target/release/openmps
#
# Prints for each instruction set the geometric mean of new speed / old speed (1 is as fast, more is faster) and
# the kernels that lost most. Exit 1 if a mean is below 0.97 or a kernel below 0.92.
set -euo pipefail
rounds=3
if [ "${1:-}" = --rounds ]; then rounds=$2; shift 2; fi
[ $# -ge 2 ] || { sed -n '2,15s/^# \{0,1\}//p' "$0" >&2; exit 2; }
old=$(realpath "$1"); new=$(realpath "$2"); shift 2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
sets="avx512 avx2"
grep -q avx512bw /proc/cpuinfo || sets=avx2
for set in $sets; do
    for round in $(seq "$rounds"); do
        for which in old new; do
            OPENMPS_SOFT_SIMD=$set "${!which}" bench kernels --json "$@" >"$folder/$set.$which.$round.json"
        done
    done
done
python3 - "$folder" "$rounds" $sets <<'END'
import json, math, sys

folder, rounds, sets = sys.argv[1], int(sys.argv[2]), sys.argv[3:]


def speeds(name):
    """Speed of each kernel on the software GPU, in its unit a second: the best of all rounds."""
    best = {}
    for n in range(1, rounds + 1):
        with open(f"{folder}/{name}.{n}.json") as file:
            for row in json.load(file)["rows"]:
                best[row["kernel"]] = max(row["ours"], best.get(row["kernel"], 0))
    return best


wrong = False
for isa in sets:
    old, new = speeds(f"{isa}.old"), speeds(f"{isa}.new")
    ratios = sorted((new[name] / old[name], name) for name in old.keys() & new.keys())
    if not ratios:
        sys.exit(f"{isa}: no kernel was measured with both")
    mean = math.exp(sum(math.log(ratio) for ratio, _ in ratios) / len(ratios))
    wrong |= mean < 0.97 or ratios[0][0] < 0.92
    print(f"{isa}: geometric mean {mean:.3f} of {len(ratios)} kernels; " + ", ".join(
        f"{name} {ratio:.3f}" for ratio, name in ratios[:3]) + f"; best {ratios[-1][1]} {ratios[-1][0]:.3f}")
sys.exit(wrong)
END
