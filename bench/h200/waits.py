#!/usr/bin/env python3
"""What it costs others that one program's streams wait.

    waits.py DIST [--output FILE] [--ways native,mps,openmps]

DIST is an installation, as for run.py. Twelve processes launch and wait, again and again, for three
seconds. A second after their start another one has three streams wait for a second: for a value in
memory, a host function, a kernel of the same stream, an event. Said are the longest waits of the
twelve, and how soon the streams that waited were done. Under a minute; nvcc compiles waits.cu first.
"""

import argparse
import json
import subprocess
import tempfile
import time
from pathlib import Path

from common import HERE, Way, log

KINDS = ("value", "host", "kernel", "event")
NEIGHBOURS = 12
NEIGHBOUR_SECONDS = 3
# Neighbours have their contexts by then.
HEAD_START_SECONDS = 1.2
HOLD_SECONDS = 1
# Who is not done by then, counted from the start of the one that holds, never will be.
ALL_SECONDS_MAX = 9


def build(directory):
    program = directory / "waits"
    command = ["nvcc", "-O2", "-std=c++17", "-arch=sm_90", HERE / "waits.cu", "-o", program, "-lcuda"]
    subprocess.run([str(part) for part in command], check=True)
    return program


def beside(way, program, kind):
    way.begin_group()
    neighbours = [way.start([program, "beside", NEIGHBOUR_SECONDS]) for _ in range(NEIGHBOURS)]
    time.sleep(HEAD_START_SECONDS)
    holder = way.start([program, "hold", kind, HOLD_SECONDS])
    way.deadline = time.monotonic() + ALL_SECONDS_MAX
    held = way.result(holder)
    found = [way.result(neighbour) for neighbour in neighbours]
    longest = sorted(one["longest_ms"] for one in found if one)
    result = {"done_after_s": held and held["done_after_s"], "longest_ms": longest,
              "stuck": NEIGHBOURS - len(longest)}
    log(f"{way.name}: {kind}: {result} {way.failures[:1] or ''}")
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dist", type=Path)
    parser.add_argument("--output", type=Path, default=Path("waits.json"))
    parser.add_argument("--ways", default="native,mps,openmps")
    arguments = parser.parse_args()
    measured = {}
    with tempfile.TemporaryDirectory() as directory:
        program = build(Path(directory))
        for name in arguments.ways.split(","):
            way = Way(name, arguments.dist.resolve())
            with way.running():
                # The server is there before anything is measured.
                way.start([program, "beside", 0.1]).communicate()
                measured[name] = {kind: beside(way, program, kind) for kind in KINDS}
    arguments.output.write_text(json.dumps(measured, indent=1) + "\n")


if __name__ == "__main__":
    main()
