#!/usr/bin/env python3
"""What programs notice of others that fault, of servers that die and of upgrades; writes JSON.

    recovery.py DIST [--output FILE] [--ways native,mps,openmps,standby,upgrade8] [--rounds N]
                     [--budget SECONDS] [--innocents ...]

Beside ResNet-50 and BERT inference, training of GPT-2 and ResNet-18 with AMP, CuPy and Numba, each of
which compares every result, a program faults N times in each way that there is (`fault --kind`); with
openmps the server is also killed N times, an endless kernel is terminated, and servers and daemon are
upgraded. Of each event and each innocent program the longest time between two of its steps is taken,
and given beside that of an undisturbed program. `native` is time-slicing, `mps` NVIDIA's MPS, `standby`
openmps with OPENMPS_STANDBY=1, `upgrade8` upgrades under eight ResNet-50. The kinds take turns until
the budget of a way (its programs' start not counted) is spent, so that all have about as many rounds.
MPS and time-slicing have few rounds: with the one all innocents end at the first fault. No setting of
the GPU is changed, and no process stays.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from run import Way, log

HERE = Path(__file__).resolve().parent
KINDS = ["null-write", "null-read", "stray-write", "neighbour", "misaligned", "trap", "assert", "stack"]
# Time from one event to the next, and what of it belongs to the event, s.
PAUSE = 0.5
# Rounds of the ways that are there for comparison.
ROUNDS_OF_OTHERS = 3
READY_S_MAX = 180


def now():
    return time.clock_gettime(time.CLOCK_MONOTONIC)


def last_words(process):
    """The last lines of a program's standard error, on one line."""
    process.said.seek(0)
    lines = [line for line in process.said.read().splitlines() if line.strip()]
    ours = [line for line in lines if line.startswith("openmps:")]
    return " / ".join(ours[-3:] + lines[-2:])[:600]


class Innocents:
    def __init__(self, way, names, directory):
        self.stop = Path(directory) / "stop"
        environment = dict(way.environment)
        self.processes = []
        for name in names:
            # Each step begins with inputs that no step changes, and is waited for.
            environment["OPENMPS_REPLAY"] = "auto" if name in ("train", "gpt2") else "always"
            command = [sys.executable, str(HERE / "recovery_innocent.py"), name, str(self.stop)]
            said = tempfile.TemporaryFile("w+")
            process = subprocess.Popen(command, env=dict(environment), text=True,
                                       stdout=subprocess.PIPE, stderr=said)
            process.said = said
            self.processes.append(process)
        for process in self.processes:
            process.stdout.readline()

    def alive(self):
        for process in self.processes:
            if process.poll() is not None and not getattr(process, "told", False):
                process.told = True
                log(f"an innocent ended with status {process.returncode}: {last_words(process)}")
        return sum(process.poll() is None for process in self.processes)

    def finish(self):
        self.stop.touch()
        results = []
        for process in self.processes:
            try:
                output, _ = process.communicate(timeout=60)
            except subprocess.TimeoutExpired:
                process.kill()
                output, _ = process.communicate()
            errors = last_words(process)
            try:
                results.append(json.loads(output.strip().splitlines()[-1]))
            except (IndexError, ValueError):
                results.append({"died": errors or f"status {process.returncode}"})
            if errors:
                results[-1]["said"] = errors
        return results


def gap(ends, begin, end):
    """The longest time between two steps of which one ends in the range, ms."""
    times = [t for t in ends if begin - 5 <= t <= end + 5]
    pairs = [(b - a) for a, b in zip(times, times[1:]) if b >= begin and a <= end]
    return max(pairs) * 1e3 if pairs else None


def summary(gaps):
    known = sorted(g for g in gaps if g is not None)
    if not known:
        return None
    return {"p50_ms": round(statistics.median(known), 2), "max_ms": round(known[-1], 2),
            "count": len(known)}


def control(way, line, seconds=60):
    program = str(way.dist / "bin/nvidia-cuda-mps-control")
    done = subprocess.run([program, *line.split()], env=way.environment, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=seconds)
    return done.stdout.split()


def fault(way, kind):
    return lambda: subprocess.run([way.samples / "fault", "--kind", kind], env=way.environment,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                  timeout=60).returncode


def serving(way):
    for pid in control(way, "get_server_list"):
        if control(way, f"get_server_status {pid}") == ["ACTIVE"]:
            return int(pid)
    return None


def kill_server(way):
    def act():
        pid = serving(way)
        if pid is not None:
            os.kill(pid, signal.SIGKILL)
        return 0
    return act


def endless(way):
    def act():
        process = subprocess.Popen([way.samples / "endless"], env=way.environment,
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        process.stdout.readline()
        time.sleep(0.3)
        begin = now()
        control(way, f"terminate_client {serving(way)} {process.pid}")
        process.wait(60)
        return begin
    return act


def measure(name, dist, names, rounds, budget):
    ours = name in ("openmps", "standby", "upgrade8")
    way = Way("openmps" if ours else name, dist)
    if name == "standby":
        way.environment["OPENMPS_STANDBY"] = "1"
    if name == "upgrade8":
        names = ["resnet50"] * 8
    with way.running(), tempfile.TemporaryDirectory() as directory:
        innocents = Innocents(way, names, directory)
        events, end = [], now() + budget

        def happen(what, act):
            begin = now()
            try:
                status = act()
            except subprocess.TimeoutExpired:
                status = "too long"
            if isinstance(status, float):
                begin, status = status, 0
            time.sleep(PAUSE)
            events.append({"what": what, "begin": begin, "end": now(), "status": status})

        upgrade = ("upgrade", lambda: control(way, "upgrade", 200) and 0)
        acts = [("undisturbed", lambda: 0)]
        if name == "upgrade8":
            acts.append(upgrade)
        else:
            acts += [(f"fault {kind}", fault(way, kind)) for kind in KINDS]
        if name in ("openmps", "standby"):
            acts += [("server killed", kill_server(way)),
                     ("endless kernel terminated", endless(way)), upgrade]
        for number in range(rounds if ours else ROUNDS_OF_OTHERS):
            for what, act in acts:
                if innocents.alive() > 0 and now() < end:
                    happen(what, act)
            if now() >= end or innocents.alive() == 0:
                break
        log(f"{name}: {number + 1} rounds, {innocents.alive()} of {len(names)} innocents run")
        results = innocents.finish()
    report = {"way": name, "innocents": [], "events": {}}
    for result in results:
        ends = result.pop("ends", [])
        report["innocents"].append({**result, "steps": len(ends)})
        result["times"] = ends
    for what in dict.fromkeys(event["what"] for event in events):
        of_it = [event for event in events if event["what"] == what]
        report["events"][what] = {
            "innocents": {f"{number} {r.get('name', '?')}":
                              summary([gap(r["times"], e["begin"], e["end"]) for e in of_it])
                          for number, r in enumerate(results)},
            "statuses": sorted({str(event["status"]) for event in of_it}),
        }
    report["server_log"] = [line for line in way.log.splitlines() if "fault" in line][-20:]
    return report


def table(reports):
    """A row for each kind of event, a column for each way: the worst innocent's median and longest gap,
    ms, of so many events; "died" where none was left."""
    kinds = dict.fromkeys(kind for report in reports for kind in report.get("events", {}))
    lines = ["| event | " + " | ".join(report["way"] for report in reports) + " |"]
    lines.append("| --- |" + " --- |" * len(reports))
    for kind in kinds:
        cells = []
        for report in reports:
            of_it = report.get("events", {}).get(kind, {}).get("innocents", {})
            gaps = [gap for gap in of_it.values() if gap]
            worst = max(gaps, key=lambda gap: gap["p50_ms"], default=None)
            cells.append(f"{worst['p50_ms']} / {worst['max_ms']} ({worst['count']})" if worst else "-")
        lines.append(f"| {kind} | " + " | ".join(cells) + " |")
    for what in ("wrong", "caught", "died"):
        count = lambda report: sum(bool(i.get(what)) if what == "died" else i.get(what, 0)
                                   for i in report.get("innocents", []))
        lines.append(f"| innocents: {what} | " + " | ".join(str(count(r)) for r in reports) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("dist", type=Path)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--ways", default="native,mps,openmps,standby,upgrade8")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--budget", type=float, default=100, help="seconds of events a way")
    parser.add_argument("--innocents", default="resnet50,bert,gpt2,train,cupy,numba")
    arguments = parser.parse_args()
    reports = []
    for name in arguments.ways.split(","):
        try:
            reports.append(measure(name, arguments.dist.resolve(), arguments.innocents.split(","),
                                   arguments.rounds, arguments.budget))
        except (OSError, TypeError) as error:
            reports.append({"way": name, "failed": str(error)})
        text = json.dumps(reports, indent=1)
        if arguments.output:
            arguments.output.write_text(text + "\n")
    print(table(reports))


main()
