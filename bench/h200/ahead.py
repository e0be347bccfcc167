#!/usr/bin/env python3
"""Programs that run far ahead of their streams: which come to their end, by way, and who is served afterwards.

    ahead.py DIST [--output FILE] [--ways native,mps,openmps] [--timeout S]

DIST is an installation, as for run.py. Each case of the sample `ahead` has a daemon of its own, and all run at once:
a queue of the device that is full stalls one context alone. A program that does not end within --timeout is killed;
then another one runs at the same daemon, which says whether the stalled work costs others anything. Under a minute.
"""

import argparse
import concurrent.futures
import json
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from common import Way, vendor_control  # noqa: E402

# Case, streams, launches of each.
CASES = (
    ("values", 1, 750), ("values", 1, 1000), ("values", 1, 1100), ("values", 6, 750), ("values", 40, 250),
    ("values", 40, 1000), ("threads", 2, 5000), ("host-function", 2, 1500), ("graphs", 20, 100), ("host-functions", 1, 2000),
    ("graph-host-functions", 1, 500), ("graph-gone", 1, 1), ("staging", 1, 1),
)


def run(way, words, seconds):
    begin = time.monotonic()
    program = subprocess.Popen([way.samples / "ahead", *map(str, words)], env=way.environment, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        text = program.communicate(timeout=seconds)[0]
        result = "right" if program.returncode == 0 else f"status {program.returncode}: {text.strip()[-200:]}"
    except subprocess.TimeoutExpired:
        program.kill()
        program.communicate()
        result = "stands still"
    return result, time.monotonic() - begin


def measure(name, dist, case, seconds):
    kind, streams, launches = case
    way = Way(name, dist)
    row = {"way": name, "case": " ".join(map(str, case))}
    try:
        with way.running():
            words = ("--case", kind, "--streams", streams, "--launches", launches)
            row["result"], row["took_s"] = run(way, words, seconds)
            # A server whose client left work that never ends is replaced first.
            row["next"], row["next_s"] = run(way, ("--case", "values", "--streams", 2, "--launches", 10), 40)
    except subprocess.TimeoutExpired as error:
        row["daemon"] = f"{error}"[:200]
    if row.get("next") != "right" or name == "openmps" and row["result"] != "right":
        row["log"] = way.log[-3000:]
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dist", type=Path)
    parser.add_argument("--output", type=Path, default=Path("ahead.json"))
    parser.add_argument("--ways", default="native,mps,openmps")
    parser.add_argument("--timeout", type=float, default=12, metavar="S", help="of each program (12)")
    options = parser.parse_args()
    ways = [way for way in options.ways.split(",") if way != "mps" or vendor_control() is not None]
    asked = [(way, case) for case in CASES for way in ways]
    rows = []
    print(f"{'case':26} {'way':8} {'result':14} {'s':>6}   then", flush=True)
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        started = [pool.submit(measure, way, options.dist.resolve(), case, options.timeout) for way, case in asked]
        for row in (future.result() for future in started):
            rows.append(row)
            options.output.write_text(json.dumps(rows, indent=1) + "\n")
            print(f"{row['case']:26} {row['way']:8} {row.get('result', '-')[:60]:14} {row.get('took_s', 0):6.2f}   "
                  f"{row.get('next', '-')[:60]} {row.get('next_s', 0):.2f} s {row.get('daemon', '')}", flush=True)


if __name__ == "__main__":
    main()
