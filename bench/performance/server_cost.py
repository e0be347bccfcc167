#!/usr/bin/env python3
"""Processor time of the server for a launch, at several numbers of programs; of one installation, or of two in turns.

    server_cost.py DIST [BEFORE] [--clients 1,4,8,16] [--seconds 2] [--rounds 3] [--set NAME=VALUE]... [--place free,same,other]
                   [--record FILE --machine TEXT]

DIST and BEFORE are installations (`cargo xtask dist --release` in a checkout of their commits). Two workloads: `launches`, empty
kernels launched one behind the other as fast as a program can, and `waits`, each waited for. While the programs run, the time of the
server's threads (/proc/PID/task/*/schedstat), that of the programs, and the kernels that the server has counted are read twice,
--seconds apart. A row is the median of the rounds: kernels a second of all programs together; the time of the sessions' threads, of
the whole server (on the software GPU it also runs the kernels) and of the programs' threads for a kernel, ns; and the server's
cycles at the clock that /proc/cpuinfo says; how often a session's thread slept, for a kernel. --set gives the second of two runs an environment variable: with it BEFORE may be left
out, and DIST is compared with itself. --place compares DIST with itself where the session's thread of each program is left where the
system puts it, is on the program's processor, or on another one; the programs are spread over the processors. OPENMPS_PROVIDER=vendor measures a GPU's driver.
"""

import argparse
import datetime
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

WORKLOADS = {
    "launches": ["microbench", "launches", "--json", "--seconds"],
    "waits": ["spin", "--kernel", "clock", "--work", "1", "--json", "--seconds"],
}
COLUMNS = ["workload", "programs", "kernels/s", "session, ns", "server, ns", "program, ns", "server, cycles", "sleeps of the session"]
START_SECONDS_MAX = 120


def clock_ghz():
    found = re.search(r"^cpu MHz\s*: ([\d.]+)", Path("/proc/cpuinfo").read_text(), re.M)
    return float(found.group(1)) / 1000 if found else None


def thread_times(pid):
    """Of each thread its name, its time on a processor, ns, and how often it has slept."""
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            sleeps = re.search(r"^voluntary_ctxt_switches:\s*(\d+)", (task / "status").read_text(), re.M)
            found[task.name] = ((task / "comm").read_text().strip(), int((task / "schedstat").read_text().split()[0]), int(sleeps.group(1)))
        except (OSError, ProcessLookupError):
            pass  # It has ended.
    return found


class Daemon:
    def __init__(self, installation, settings):
        self.installation = installation
        self.directory = tempfile.TemporaryDirectory()
        place = Path(self.directory.name)
        library = installation / "lib/openmps"
        self.environment = {**os.environ, **settings, "CUDA_MPS_PIPE_DIRECTORY": str(place / "pipe"), "CUDA_MPS_LOG_DIRECTORY": str(place),
                            "OPENMPS_LIB_DIR": str(library), "OPENMPS_PROVIDER": os.environ.get("OPENMPS_PROVIDER", "soft"),
                            "XDG_CACHE_HOME": str(place), "LD_LIBRARY_PATH": f"{library}:{os.environ.get('LD_LIBRARY_PATH', '')}"}
        program = installation / "bin/nvidia-cuda-mps-control"
        self.process = subprocess.Popen([program, "-f"], env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until(lambda: (place / "pipe/control").exists(), "the daemon does not start")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)
        self.directory.cleanup()

    def report(self):
        words = [self.installation / "bin/openmps", "ps", "--json"]
        done = subprocess.run(words, env=self.environment, capture_output=True, text=True, timeout=30)
        return json.loads(done.stdout)

    def start(self, words):
        sample = self.installation / "lib/openmps/samples" / words[0]
        return subprocess.Popen([sample, *words[1:]], env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def until(condition, otherwise):
    end = time.monotonic() + START_SECONDS_MAX
    while not condition():
        if time.monotonic() > end:
            raise SystemExit(otherwise)
        time.sleep(0.005)


def reading(daemon, programs):
    """Kernels so far, and times of the server's threads and of the programs'."""
    report = daemon.report()
    (server,) = (of for of in report["servers"] if of["clients"])
    kernels = sum(client["kernels"] for client in server["clients"])
    own = sum(ns for program in programs for _, ns, _ in thread_times(program.pid).values())
    return time.monotonic(), kernels, thread_times(server["pid"]), own


def put(daemon, programs, place):
    """Has each program keep to one processor and its session's thread to the same or to the next one."""
    processors = sorted(os.sched_getaffinity(0))
    (server,) = (of["pid"] for of in daemon.report()["servers"] if of["clients"])
    threads = {name: int(task) for task, (name, _, _) in thread_times(server).items()}
    for number, program in enumerate(programs):
        own, other = (processors[(number + step) % len(processors)] for step in (0, 1))
        for task in thread_times(program.pid):
            os.sched_setaffinity(int(task), {own})
        os.sched_setaffinity(threads[f"client {program.pid}"], {own if place == "same" else other})


def measure(installation, settings, place, workload, count, seconds):
    with Daemon(installation, settings) as daemon:
        # The server's start is not measured.
        daemon.start(["vector_add", "--iterations", "1"]).communicate()
        barrier = Path(daemon.directory.name) / "go"
        words = [*WORKLOADS[workload], str(seconds * 3 + 1), "--barrier", str(barrier)]
        programs = [daemon.start(words) for _ in range(count)]
        until(lambda: len(list(barrier.parent.glob("go.ready.*"))) == count, "the programs do not start")
        if place != "free":
            put(daemon, programs, place)
        barrier.touch()
        time.sleep(seconds / 2)
        begin = reading(daemon, programs)
        time.sleep(seconds)
        end = reading(daemon, programs)
        for program in programs:
            program.kill()
            program.communicate()
    kernels, took = end[1] - begin[1], end[0] - begin[0]
    spent = []
    for task, (name, ns, sleeps) in end[2].items():
        _, ns_before, sleeps_before = begin[2].get(task, (name, 0, 0))
        spent.append((name.startswith("client "), ns - ns_before, sleeps - sleeps_before))
    sessions = [of for of in spent if of[0]]
    return {"per_s": kernels / took, "session_ns": sum(ns for _, ns, _ in sessions) / kernels,
            "server_ns": sum(ns for _, ns, _ in spent) / kernels, "program_ns": (end[3] - begin[3]) / kernels,
            "sleeps": sum(sleeps for _, _, sleeps in sessions) / kernels}


def median(rows):
    return {name: statistics.median(row[name] for row in rows) for name in rows[0]}


def cells(workload, count, row, ghz):
    cycles = f"{row['server_ns'] * ghz:.0f}" if ghz else "-"
    return [workload, str(count), f"{row['per_s']:.0f}", *(f"{row[name]:.0f}" for name in ("session_ns", "server_ns", "program_ns")), cycles, f"{row['sleeps']:.3f}"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("dist", type=Path)
    parser.add_argument("before", type=Path, nargs="?")
    parser.add_argument("--clients", default="1,4,8,16")
    parser.add_argument("--workloads", default=",".join(WORKLOADS))
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--place")
    parser.add_argument("--record", type=Path, help="a result of bench/performance/results")
    parser.add_argument("--machine", default="")
    arguments = parser.parse_args()
    settings = dict(word.split("=", 1) for word in arguments.set)
    ways = {"": (arguments.dist.resolve(), settings, "free")}
    if arguments.place:
        ways = {place: (arguments.dist.resolve(), settings, place) for place in arguments.place.split(",")}
    elif arguments.before or settings:
        ways = {"before": ((arguments.before or arguments.dist).resolve(), {}, "free"), "after": (arguments.dist.resolve(), settings, "free")}
    ghz, table = clock_ghz(), []
    for workload in arguments.workloads.split(","):
        for count in map(int, arguments.clients.split(",")):
            runs = {way: [] for way in ways}
            for turn in range(arguments.rounds):
                for way in list(ways) if turn % 2 == 0 else reversed(list(ways)):
                    runs[way].append(measure(*ways[way], workload, count, arguments.seconds))
            for way, rows in runs.items():
                row = cells(workload, count, median(rows), ghz)
                print(f"{way:8}" + "".join(f"{name} {cell:12}" for name, cell in zip(COLUMNS, row)), flush=True)
                table.append(([way] if way else []) + row)
    if arguments.record:
        result = {"command": f"bench/performance/server_cost.py DIST {'BEFORE ' if arguments.before else ''}"
                             f"{f'--place {arguments.place} ' if arguments.place else ''}--rounds {arguments.rounds}",
                  "machine": arguments.machine, "date": datetime.date.today().isoformat(),
                  "columns": ([] if "" in ways else ["place" if arguments.place else "build"]) + COLUMNS}
        head = "".join(f"  {json.dumps(key)}: {json.dumps(value)},\n" for key, value in result.items())
        body = ",\n".join("    " + json.dumps(row) for row in table)
        arguments.record.write_text(f'{{\n{head}  "rows": [\n{body}\n  ]\n}}\n')


if __name__ == "__main__":
    sys.exit(main())
