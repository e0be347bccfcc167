#!/usr/bin/env python3
"""How programs end on a GPU through openmps, and what that does to others.

    ends.py DIST [--output FILE]

DIST is an installation, as for run.py. Three questions, each a part of the JSON:

    killed   a neighbour checks every result while processes beside it are killed in mid-kernel:
             is the neighbour right, is all device memory back, does the server go on?
    faults   a program does what it must not: does the log name its kernel, and the address if it
             was one, and is there a server for the next program?
    printed  does what kernels print come to their own program?

About a minute. Faults are felt by every client on a device without isolation, so nothing else may
use the daemon meanwhile; it is one of its own.
"""

import argparse
import json
import subprocess
import tempfile
import time
from pathlib import Path

from common import Way, log, used_memory_mib, wait_until_ready

VICTIMS = 12
# A kernel of a quarter of a second at 1.98 GHz: a kill meets it in the middle.
VICTIM_CYCLES = 500_000_000
NEIGHBOUR_SECONDS = 20
# Kinds of the sample `fault`, its kernels, and the address (its page) where there is one.
FAULTS = {
    "null-write": ("write_word", 0x0),
    "null-read": ("read_word", 0x0),
    "stray-write": ("write_word", 0x00FF_FFFF_F000),
    "misaligned": ("write_word", None),
    "trap": ("trap_now", None),
}
# How often the program after a fault is tried, a tenth of a second apart.
NEXT_TRIES = 50
# Longest that anything here may take.
SECONDS_MAX = 60


def run(way, *command):
    command = [str(part) for part in command]
    return subprocess.run(command, env=way.environment, capture_output=True, text=True,
                          timeout=SECONDS_MAX)


def server_log(way):
    directory = Path(way.environment["CUDA_MPS_LOG_DIRECTORY"])
    return (directory / "server.log").read_text(errors="replace")


def server_pids(way):
    answer = run(way, way.dist / "bin/nvidia-cuda-mps-control", "get_server_list")
    return answer.stdout.split()


def wait_for_memory(expected):
    """Used memory, once it is what it was or some seconds have passed."""
    for _ in range(50):
        if used_memory_mib() <= expected:
            break
        time.sleep(0.1)
    return used_memory_mib()


def killed(way):
    way.begin_group()
    # What the driver takes once and keeps is taken before the count begins.
    run(way, way.samples / "matrix_multiply", "--iterations", 20)
    run(way, way.samples / "spin", "--seconds", 0.2)
    servers, before = server_pids(way), used_memory_mib()
    neighbour = way.start([way.samples / "matrix_multiply", "--seconds", NEIGHBOUR_SECONDS,
                           "--verify-each", "--json"])
    for number in range(VICTIMS):
        with tempfile.TemporaryDirectory() as directory:
            barrier = Path(directory) / "go"
            victim = way.start([way.samples / "spin", "--kernel", "clock", "--work", VICTIM_CYCLES,
                                "--blocks", 64, "--seconds", 60, "--json", "--barrier", barrier])
            wait_until_ready(barrier, [victim], SECONDS_MAX)
            barrier.touch()
            time.sleep(0.05 + 0.01 * number)
            victim.kill()
            victim.communicate()
    was_there = neighbour.poll() is None
    report = way.result(neighbour)
    after = wait_for_memory(before)
    text = server_log(way)
    return {
        "victims": VICTIMS,
        "neighbour_right": bool(report and report["verified"] and was_there),
        "same_server": server_pids(way) == servers,
        "memory_before_mib": before,
        "memory_after_mib": after,
        "left_behind": [line for line in text.splitlines() if "left behind" in line],
    }


def faults(way):
    rows = []
    for kind, (kernel, address) in FAULTS.items():
        seen = len(server_log(way))
        ended = run(way, way.samples / "fault", "--kind", kind, "--json")
        said = json.loads(ended.stdout.strip().splitlines()[-1]) if ended.stdout.strip() else {}
        # Until the server that the fault has spoiled is gone, new clients are refused.
        begin = time.monotonic()
        for _ in range(NEXT_TRIES):
            next_one = run(way, way.samples / "vector_add", "--json")
            if next_one.returncode == 0:
                break
            time.sleep(0.1)
        lines = server_log(way)[seen:].splitlines()
        sticky = [line.split("] ", 1)[1] for line in lines if "has a sticky error" in line]
        rows.append({
            "kind": kind,
            "error": said.get("error"),
            "log": sticky,
            "device": [line.split("] ", 1)[1] for line in lines if "device's fault" in line],
            "names_kernel": any(kernel in line for line in sticky),
            "names_address": address is None or any(f"address is {address:#x}" in line
                                                    for line in sticky),
            "next_right": next_one.returncode == 0,
            "next_after_s": time.monotonic() - begin,
        })
        log(f"{kind}: {rows[-1]}")
    return rows


def printed(way, native):
    command = [way.samples / "printf"]
    # Threads of two blocks print in an order of their own.
    lines = lambda text: sorted(text.splitlines())
    alone = run(way, *command).stdout
    both = [way.start(command) for _ in range(2)]
    together = [process.communicate(timeout=SECONDS_MAX)[0] for process in both]
    expected = run(native, *command).stdout
    return {"alone_same_as_native": lines(alone) == lines(expected) and bool(expected),
            "of_two_same_as_native": sum(lines(text) == lines(expected) for text in together),
            "lines_in_log": server_log(way).count("Kernels of one of the clients")}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dist", type=Path)
    parser.add_argument("--output", type=Path, default=Path("ends.json"))
    arguments = parser.parse_args()
    dist = arguments.dist.resolve()
    way, native = Way("openmps", dist), Way("native", dist)
    results = {}
    with native.running(), way.running():
        run(way, way.samples / "vector_add")
        for name, part in (("killed", lambda: killed(way)),
                           ("printed", lambda: printed(way, native)),
                           ("faults", lambda: faults(way))):
            try:
                results[name] = part()
            except Exception as error:  # One part that fails does not cost the others.
                results[name] = {"failed": repr(error)}
            log(f"{name}: {results[name]}")
    arguments.output.write_text(json.dumps(results, indent=1) + "\n")
    arguments.output.with_suffix(".log").write_text(way.log)


if __name__ == "__main__":
    main()
