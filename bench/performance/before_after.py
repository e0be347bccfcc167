#!/usr/bin/env python3
"""Driver calls of two installations of openmps on the software GPU, one run each in turns: launches, waits, copies, allocation.

    before_after.py BEFORE AFTER [--rounds 7] [--seconds 1] [--clients 1,2] [--output FILE]

BEFORE and AFTER are installations, each made by `cargo xtask dist --release` in a checkout of its commit. A round is
`openmps bench --json` of the one and then of the other, the other way round in every second round; a row is the median through a
daemon of each, their ratio, and the noise: how far the rounds of one installation lie apart (half the distance of their quartiles, as a
share of the median, of the noisier one). What differs by more than twice its noise, and more than 3 %, is marked; the exit status is 1
if something is marked that is worse. Wants a quiet machine: half a minute a round.

Whether several devices cost a program on one device anything, before they came (6ba4fc5) and now:

    git worktree add ../before 6ba4fc5
    (cd ../before && cargo xtask dist --release) && cargo xtask dist --release
    bench/performance/before_after.py ../before/target/release/dist target/release/dist
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

# A difference that is no finding however quiet the machine was.
SLACK = 0.03


def bench(installation, arguments):
    """Figures through a daemon by name, and whether more of one is better."""
    words = [str(installation / "bin/openmps"), "bench", "--json", "--seconds", str(arguments.seconds), "--clients", arguments.clients]
    environment = {**os.environ, "OPENMPS_SOFT_DEVICES": "1"}
    done = subprocess.run(words, capture_output=True, text=True, timeout=600, env=environment)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}: {done.stderr.strip()}")
    rows = json.loads(done.stdout)
    rows = rows["rows"] if isinstance(rows, dict) else rows
    return {row["name"]: (row["through_openmps"], row["unit"]) for row in rows}


def spread(values):
    """Half the distance of the quartiles, as a share of the median."""
    if len(values) < 4:
        return (max(values) - min(values)) / 2 / statistics.median(values)
    low, _, high = statistics.quantiles(values, n=4)
    return (high - low) / 2 / statistics.median(values)


def compare(before, after):
    """Rows of what both measured."""
    for name in before[0]:
        if not all(name in run for run in before + after):
            continue
        olds, news = ([run[name][0] for run in runs] for runs in (before, after))
        if min(olds + news) <= 0:
            continue
        unit = before[0][name][1]
        old, new, noise = statistics.median(olds), statistics.median(news), max(spread(olds), spread(news))
        ratio = new / old
        differs = abs(ratio - 1) > max(SLACK, 2 * noise)
        # Rates are better when they are more, times when they are less.
        is_worse = differs and ((ratio < 1) == unit.endswith("/s"))
        yield {"name": name, "unit": unit, "before": old, "after": new, "ratio": round(ratio, 3), "noise": round(noise, 3),
               "verdict": "worse" if is_worse else "better" if differs else ""}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--clients", default="1,2")
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    runs = {"before": [], "after": []}
    for number in range(arguments.rounds):
        order = ["before", "after"] if number % 2 == 0 else ["after", "before"]
        for which in order:
            runs[which].append(bench(getattr(arguments, which).resolve(), arguments))
        print(f"round {number + 1} of {arguments.rounds}", file=sys.stderr, flush=True)
    rows = list(compare(runs["before"], runs["after"]))
    print(f"{'':28}{'unit':>6}{'before':>14}{'after':>14}{'ratio':>8}{'noise':>8}")
    for row in rows:
        print(f"{row['name']:28}{row['unit']:>6}{row['before']:14.2f}{row['after']:14.2f}{row['ratio']:8.3f}{row['noise']:8.3f}"
              f"  {row['verdict']}")
    if arguments.output:
        arguments.output.write_text(json.dumps({"rows": rows, "rounds": arguments.rounds, "load": os.getloadavg()}, indent=1) + "\n")
    return any(row["verdict"] == "worse" for row in rows)


if __name__ == "__main__":
    sys.exit(main())
