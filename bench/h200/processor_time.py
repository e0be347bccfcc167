#!/usr/bin/env python3
"""Profile of the processors while many processes run a network: where their time goes, a step.

    processor_time.py DIST [--output FILE] [--ways mps,oversubscribed] [--networks bert] [--processes 16] [--perf PERF]

DIST is an installation, as for run.py; the ways are those of its part stretches, with settings of the environment
behind a plus sign, as in oversubscribed+OPENMPS_SPIN_US=10. While all processes run the network,
Linux's perf samples all processors (cpu-clock, so no counters are needed) for three seconds. The table has processor
time for each step of the network in us, by process (server, clients, others, idle) and by object (libraries, the
kernel); below it stand the functions of the server that take most. FILE has all of it as JSON. Half a minute a way;
needs perf, PyTorch and transformers.
"""

import argparse
import collections
import contextlib
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from common import HERE, Way, log, machine

SAMPLES_PER_SECOND = 997
SECONDS = 3
# How long a process runs its network: the samples are taken in the middle.
NETWORK_SECONDS = 6
READY_SECONDS_MAX = 80
# Functions that take less of a step are not kept, and not shown.
KEPT_US_MIN = 10
SHOWN_US_MIN = 20
LINE = re.compile(r"^\s*(?P<comm>.+?)\s+(?P<pid>-?\d+)/(?P<tid>-?\d+)\s+(?P<ip>[0-9a-f]+)\s+(?P<symbol>.*?)\s+\((?P<object>.*)\)\s*$")


def switches(pid):
    """Context switches of a process' threads so far: voluntary, and taken from the processor."""
    totals = [0, 0]
    for status in Path(f"/proc/{pid}/task").glob("*/status"):
        with contextlib.suppress(OSError):
            text = status.read_text()
            for index, kind in enumerate(["voluntary", "nonvoluntary"]):
                totals[index] += int(re.search(rf"^{kind}_ctxt_switches:\s*(\d+)", text, re.M).group(1))
    return totals


def samples(perf, recording):
    """(pid, thread's name, object, function) of each sample."""
    command = [perf, "script", "-i", recording, "-F", "comm,pid,tid,ip,sym,dso"]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace")
    if done.returncode:
        raise SystemExit(f"perf script failed: {done.stderr.strip()}")
    for line in done.stdout.splitlines():
        found = LINE.match(line)
        if found:
            symbol = found["symbol"]
            if symbol == "[unknown]":
                symbol = hex(int(found["ip"], 16) & ~0xFF)
            yield int(found["pid"]), found["comm"], Path(found["object"]).name, symbol


def profile(way, perf, network, count):
    with tempfile.TemporaryDirectory() as directory:
        way.begin_group()
        processes = [way.start([sys.executable, HERE / "networks.py", network, NETWORK_SECONDS, directory, count])
                     for _ in range(count)]
        end = time.monotonic() + READY_SECONDS_MAX
        while time.monotonic() < end and len(list(Path(directory).glob(f"{network}.*"))) < count:
            time.sleep(0.05)
        time.sleep((NETWORK_SECONDS - SECONDS) / 2)
        pids = {process.pid for process in processes}
        of_servers = way.servers()
        observed = [*of_servers, *pids]
        before = {pid: switches(pid) for pid in observed}
        recording = Path(directory) / "perf.data"
        command = [perf, "record", "-q", "-a", "-e", "cpu-clock", "-F", str(SAMPLES_PER_SECOND), "-o", recording,
                   "--", "sleep", str(SECONDS)]
        recorded = subprocess.run(command, capture_output=True, text=True)
        after = {pid: switches(pid) for pid in observed}
        results = [way.result(process) for process in processes]
        if None in results:
            log(f"{way.name}: {network}: {way.failures[:2]}")
        per_s = sum(result[network]["per_s"] for result in results if result)
        if recorded.returncode:
            raise SystemExit(f"perf record failed: {recorded.stderr.strip()}")
        if not per_s:
            raise SystemExit(f"{way.name}: no process of {network} has made a step")
        by_object, by_function, by_thread = (collections.Counter() for _ in range(3))
        for pid, thread, of, function in samples(perf, recording):
            who = "server" if pid in of_servers else "clients" if pid in pids else "idle" if pid == 0 else "others"
            by_object[who, of] += 1
            by_function[who, of, function] += 1
            if who == "server":
                by_thread[re.sub(r"\d+", "N", thread)] += 1
        us = 1e6 / SAMPLES_PER_SECOND / (per_s * SECONDS)

        def rows(counter, least=0):
            return [[*(key if isinstance(key, tuple) else (key,)), round(number * us, 2)]
                    for key, number in counter.most_common() if number * us >= least]

        def switched(of):
            return [sum(after[pid][kind] - before[pid][kind] for pid in of) / (per_s * SECONDS) for kind in range(2)]

        return {"per_s": per_s, "objects": rows(by_object), "threads_of_server": rows(by_thread),
                "functions": rows(by_function, KEPT_US_MIN),
                "switches_of_server": switched(of_servers), "switches_of_clients": switched(pids)}


def show(name, network, figures):
    print(f"\n{name}, {network}: {figures['per_s']:.0f} steps a second; processor time for each step, us")
    totals = collections.Counter()
    for who, _, time_us in figures["objects"]:
        totals[who] += time_us
    for who, total in totals.most_common():
        parts = [f"{of} {time_us:.0f}" for of_who, of, time_us in figures["objects"] if of_who == who and time_us >= 5]
        print(f"  {who} {total:.0f}: {', '.join(parts[:14])}")
    print("  threads of the server: " + ", ".join(f"{of} {time_us:.0f}" for of, time_us in figures["threads_of_server"][:10]))
    for who in ["server", "clients"]:
        voluntary, taken = figures[f"switches_of_{who}"]
        print(f"  {who}: {voluntary:.1f} sleeps and {taken:.1f} times without its processor a step")
    print("".join(f"  {text}\n" for text in figures["stretches"][:1]), end="")
    for who in ["server", "clients"]:
        for of_who, of, function, time_us in figures["functions"]:
            if of_who == who and time_us >= SHOWN_US_MIN:
                print(f"    {who:8} {time_us:7.1f}  {of:28} {function[:90]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dist", type=Path)
    parser.add_argument("--output", type=Path, default=Path("processor_time.json"))
    parser.add_argument("--ways", default="mps,oversubscribed")
    parser.add_argument("--networks", default="bert")
    parser.add_argument("--processes", type=int, default=16)
    parser.add_argument("--perf", default="perf")
    options = parser.parse_args()
    results = {"machine": machine(), "processes": options.processes, "ways": {}}
    for name in options.ways.split(","):
        for network in options.networks.split(","):
            kind, *settings = name.split("+")
            way = Way(kind, options.dist.resolve())
            way.environment.update(setting.split("=", 1) for setting in settings)
            with way.running():
                way.start([way.samples / "vector_add"]).communicate()
                figures = profile(way, options.perf, network, options.processes)
            figures["stretches"] = [line.split("}: ")[-1] for line in way.log.splitlines() if " launches went in " in line]
            results["ways"].setdefault(name, {})[network] = figures
            options.output.write_text(json.dumps(results))
            show(name, network, figures)
            sys.stdout.flush()


if __name__ == "__main__":
    main()
