#!/usr/bin/env python3
"""What programs notice of others that fault, of servers that die and of upgrades; writes JSON.

    recovery.py DIST [--output FILE] [--ways native,mps,openmps,standby,upgrade8] [--rounds N]
                     [--seconds S] [--events fault-trap,kill,...] [--unaffected ...] [--device N]

Beside ResNet-50 and BERT inference, training of GPT-2 and ResNet-18 with AMP, CuPy and Numba, each of
which compares every result, a program faults in each way that there is (`fault --kind`); with openmps
the server is also killed, an endless kernel is terminated, and servers and daemon are upgraded: each
event N times, in turn, as far as the S seconds go, which all ways share. Of each event and each other
program the longest time between two of its steps is taken, and beside it that of an undisturbed
program. `native` is time-slicing, `mps` NVIDIA's MPS, `standby` openmps with OPENMPS_STANDBY=1, `upgrade8`
upgrades under eight ResNet-50. The programs of a way run on from event to event; those that end are
started again where NVIDIA's MPS or time-slicing ends them.

With several devices an unaffected program may be NAME@N, which has device N alone, or stages, which has two; with
--device N faults and kills are of that device alone, and the table has a row for each program too.

A line is printed and FILE is written when an event is over; what FILE has stays, so that ways, events
and rounds can be measured one after the other. A table is printed at the end, when the time is over
and when the process is told to end. No setting of the GPU is changed, and no process stays.
"""

import argparse
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from common import Way, log, vendor_control

HERE = Path(__file__).resolve().parent
KINDS = ["null-write", "null-read", "stray-write", "neighbour", "misaligned", "trap", "assert", "stack"]
PYTORCH = ("resnet50", "bert", "stages", "train", "gpt2")
OURS = ("openmps", "standby", "upgrade8")
# Steps that each unaffected program makes after an event before it counts as over, and how long that
# may take, s.
STEPS_AFTER = 3
SETTLE_S_MAX = 20
# Undisturbed steps before the first event, s.
UNDISTURBED_S = 3
READY_S_MAX = 120
# No program of an event takes longer, s.
EVENT_S_MAX = 30
# A way ends so long before the time is over: its programs and its daemon have to.
END_S = 12


class TimeOver(Exception):
    """The process was told to end."""


def now():
    return time.clock_gettime(time.CLOCK_MONOTONIC)


class UnaffectedProgram:
    """A program that runs beside the events."""

    def __init__(self, name, number, directory):
        self.label = f"{number} {name}"
        self.name, _, self.device = name.partition("@")
        self.directory = Path(directory)
        self.steps = self.directory / f"steps{number}"
        self.said = self.directory / f"said{number}"
        self.process = self.pid = None
        self.offset, self.rest = 0, ""
        self.ready = False
        self.ends, self.outcomes = [], {"right": 0, "wrong": 0, "caught": 0}
        self.told = False

    def environment(self, way):
        # Each step of these begins with inputs that no step changes, and is waited for.
        replay = "auto" if self.name in ("train", "gpt2") else "always"
        device = {"CUDA_VISIBLE_DEVICES": self.device} if self.device else {}
        return {**way.environment, **device, "OPENMPS_REPLAY": replay}

    def start(self, way, stop, forker):
        if forker is not None and self.name in PYTORCH:
            self.pid = forker.start(self, self.environment(way), stop)
            return
        command = [sys.executable, str(HERE / "recovery_unaffected.py"), self.name, str(stop),
                   str(self.steps)]
        with open(self.said, "a") as said:
            self.process = subprocess.Popen(command, env=self.environment(way), stdout=said, stderr=said)
        self.pid = self.process.pid

    def alive(self):
        if self.process is not None:
            return self.process.poll() is None
        try:
            os.kill(self.pid, 0)
            return True
        except ProcessLookupError:
            return False

    def kill(self):
        if self.alive():
            os.kill(self.pid, signal.SIGKILL)
        if self.process is not None:
            self.process.wait()

    def read(self):
        """Takes in the steps that it has made since."""
        try:
            with open(self.steps) as file:
                file.seek(self.offset)
                text = file.read()
                self.offset = file.tell()
        except FileNotFoundError:
            return
        *lines, self.rest = (self.rest + text).split("\n")
        for line in lines:
            if line == "ready":
                self.ready = True
            else:
                end, outcome = line.split()
                self.ends.append(float(end))
                self.outcomes[outcome] += 1

    def last_words(self):
        """The last lines of its standard error, on one line."""
        lines = self.said.read_text(errors="replace").splitlines() if self.said.exists() else []
        lines = [line for line in lines if line.strip()]
        ours = [line for line in lines if line.startswith("openmps:")]
        return " / ".join(ours[-3:] + lines[-2:])[:600]

    def gap(self, begin, end):
        """The longest time between two steps of which one ends in the range, ms; None if it made none
        after the beginning."""
        times = [t for t in self.ends if begin - 10 <= t <= end]
        pairs = [b - a for a, b in zip(times, times[1:]) if b >= begin]
        return round(max(pairs) * 1e3, 2) if pairs else None


class Forker:
    """A process that has imported PyTorch once, and becomes each unaffected program."""

    def __init__(self, way):
        command = [sys.executable, str(HERE / "recovery_unaffected.py"), "--fork"]
        self.process = subprocess.Popen(command, env=way.environment, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.is_ready = False

    def start(self, other, environment, stop):
        if not self.is_ready:
            self.is_ready = self.process.stdout.readline().strip() == "ready"
            if not self.is_ready:
                raise OSError("PyTorch cannot be imported")
        wanted = {"name": other.name, "stop": str(stop), "steps": str(other.steps),
                  "said": str(other.said), "environment": environment}
        print(json.dumps(wanted), file=self.process.stdin, flush=True)
        return int(self.process.stdout.readline())

    def end(self):
        self.process.stdin.close()
        self.process.wait()


class UnaffectedPrograms:
    def __init__(self, way, names, forker, deadline):
        self.directory = tempfile.TemporaryDirectory()
        self.stop = Path(self.directory.name) / "stop"
        self.all = [UnaffectedProgram(name, number, self.directory.name) for number, name in enumerate(names)]
        for other in self.all:
            other.start(way, self.stop, forker)
        end = min(deadline, now() + READY_S_MAX)
        while now() < end and any(not i.ready and i.alive() for i in self.all):
            time.sleep(0.1)
            self.read()
        for other in self.all:
            if not other.ready:
                other.kill()
        self.alive()

    def read(self):
        for other in self.all:
            other.read()

    def alive(self):
        self.read()
        for other in self.all:
            if not other.alive() and not other.told:
                other.told = True
                log(f"{other.label} has ended: {other.last_words()}")
        return [other for other in self.all if other.alive()]

    def settle(self, since, deadline):
        """Waits until each has made some steps since then."""
        end = min(deadline, now() + SETTLE_S_MAX)

        def waits(other):
            after = sum(t > since for t in other.ends[-STEPS_AFTER:])
            return after < STEPS_AFTER and other.alive()

        self.read()
        while now() < end and any(waits(other) for other in self.all):
            time.sleep(0.02)
            self.read()

    def end(self):
        self.stop.touch()
        end = now() + 3
        while now() < end and self.alive():
            time.sleep(0.05)
        for other in self.all:
            other.kill()
        self.directory.cleanup()


def control(way, line, seconds=EVENT_S_MAX):
    program = str(way.dist / "bin/nvidia-cuda-mps-control")
    done = subprocess.run([program, *line.split()], env=way.environment, text=True,
                          capture_output=True, timeout=seconds)
    return done.stdout.split()


def server_in(way, state):
    """PID of a server in that state: of the way's device, if it has one."""
    done = subprocess.run([way.dist / "bin/openmps", "ps", "--json"], env=way.environment, text=True,
                          capture_output=True, timeout=EVENT_S_MAX)
    report = json.loads(done.stdout)
    for server in report.get("servers", []):
        here = way.device is None or report["devices"][way.device]["uuid"] in [d["uuid"] for d in server["devices"]]
        if here and server["state"] == state:
            return server["pid"]
    return None


# An event: what it is asked for by, and a function that has it happen. It gives the status of what it
# ran, and since when programs may have noticed.


def fault(way, kind):
    def act():
        begin = now()
        command = [way.samples / "fault", "--kind", kind]
        device = {} if way.device is None else {"CUDA_VISIBLE_DEVICES": str(way.device)}
        done = subprocess.run(command, env={**way.environment, **device}, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=EVENT_S_MAX)
        # What the faulting program was told.
        return f"{done.returncode} ({' '.join(done.stdout.split())[-120:]})", begin
    return act


def kill_server(way):
    def act():
        pid = server_in(way, "ACTIVE")
        begin = now()
        if pid is None:
            return "no server", begin
        os.kill(pid, signal.SIGKILL)
        return 0, begin
    return act


def endless(way):
    def act():
        process = subprocess.Popen([way.samples / "endless"], env=way.environment,
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            process.stdout.readline()
            time.sleep(0.3)
            begin = now()
            control(way, f"terminate_client {server_in(way, 'ACTIVE')} {process.pid}")
            process.wait(EVENT_S_MAX)
            # It is told that it was terminated.
            return 0, begin
        finally:
            process.kill()
            process.wait()
    return act


def upgrade(way):
    def act():
        begin = now()
        return " ".join(control(way, "upgrade", 60)), begin
    return act


def events_of(name, way):
    events = {f"fault-{kind}": fault(way, kind) for kind in KINDS}
    if name == "upgrade8":
        return {"upgrade": upgrade(way)}
    if name in OURS:
        events |= {"kill": kill_server(way), "terminate": endless(way), "upgrade": upgrade(way)}
    return events


class Report:
    """What was measured, and the file that has it."""

    def __init__(self, path):
        self.path = path
        self.ways = {}
        if path is not None and path.exists():
            self.ways = json.loads(path.read_text())

    def way(self, name):
        return self.ways.setdefault(name, {"undisturbed": {}, "events": [], "unaffected": [], "log": []})

    def write(self):
        if self.path is not None:
            text = json.dumps(self.ways, indent=1) + "\n"
            unfinished = self.path.with_suffix(".new")
            unfinished.write_text(text)
            unfinished.replace(self.path)

    def count(self, name, what):
        return sum(event["what"] == what for event in self.way(name)["events"])

    def rows_of_programs(self, ways, kinds):
        """With several devices: the longest gap of each program for each kind of event, ms."""
        labels = [i["name"] for i in self.way(ways[0])["unaffected"]] if ways else []
        if not any("@" in label for label in labels):
            return []
        lines = []
        for kind in kinds:
            for label in labels:
                cells = []
                for name in ways:
                    of_it = [e for e in self.ways[name]["events"] if e["what"] == kind]
                    gaps = [e["gaps"][label] for e in of_it if e["gaps"].get(label) is not None]
                    ended = sum(label in e["ended"] for e in of_it)
                    cells.append((f"{max(gaps):.0f}" if gaps else "-") + (f" ({ended} ended)" if ended else ""))
                lines.append(f"| {kind}: {label} | " + " | ".join(cells) + " |")
        return lines

    def table(self):
        """A row for each kind of event, a column for each way: over all unaffected programs that went on
        the median and the longest of their gaps, ms, and how many programs ended."""
        ways = [name for name in self.ways if self.ways[name]["events"]]
        lines = ["| event | " + " | ".join(ways) + " |", "| --- |" + " --- |" * len(ways)]
        undisturbed = [max((g for g in self.ways[name]["undisturbed"].values() if g), default=None)
                       for name in ways]
        lines.append("| undisturbed, longest | " + " | ".join(
            "-" if gap is None else f"{gap:.0f}" for gap in undisturbed) + " |")
        kinds = dict.fromkeys(e["what"] for name in ways for e in self.ways[name]["events"])
        for kind in kinds:
            cells = []
            for name in ways:
                of_it = [e for e in self.ways[name]["events"] if e["what"] == kind]
                gaps = [gap for e in of_it for gap in e["gaps"].values() if gap is not None]
                ended = sum(len(e["ended"]) for e in of_it)
                cell = f"{statistics.median(gaps):.0f} / {max(gaps):.0f}" if gaps else "-"
                cells.append(f"{cell} ({len(of_it)}{f', {ended} ended' if ended else ''})"
                             if of_it else "-")
            lines.append(f"| {kind} | " + " | ".join(cells) + " |")
        lines += self.rows_of_programs(ways, kinds)
        for what in ("right", "wrong", "caught"):
            counts = (sum(i[what] for i in self.ways[name]["unaffected"]) for name in ways)
            lines.append(f"| steps {what} | " + " | ".join(map(str, counts)) + " |")
        return "\n".join(lines)


@contextlib.contextmanager
def logged(way, here, report):
    """Keeps of the way's logs, at the end, whose a fault was and where the time of a pause went."""
    try:
        yield
    finally:
        note_log(way, here)
        report.write()


def note_log(way, here):
    words = ("fault", "fatal GPU error", "goes on at", "stood by", "stands by", "Received new client",
             "restored what it had", "Warm list:", "loaded ahead", "have declared to server",
             "Startup", "Creating server context", "CUDA version of the provider", "Server has started", "Exiting")
    lines = [line for line in way.log.splitlines() if any(word in line for word in words)]
    here["log"] = (here["log"] + lines)[-600:]
    for line in [line for line in lines if "restored what it had" in line][-24:]:
        log(line)


def measure(name, dist, names, arguments, report, deadline, forkers):
    way = Way("openmps" if name in OURS else name, dist)
    way.device = arguments.device
    if name == "standby":
        way.environment["OPENMPS_STANDBY"] = "1"
    if name == "upgrade8":
        names = ["resnet50"] * 8
    here = report.way(name)
    with logged(way, here, report), way.running():
        forker = None
        if any(of in PYTORCH for of in names):
            # Its library path is that of the way.
            kind = way.environment.get("LD_LIBRARY_PATH", "")
            forker = forkers.setdefault(kind, None) or Forker(way)
            forkers[kind] = forker
        others = UnaffectedPrograms(way, names, forker, deadline)
        log(f"{name}: {len(others.alive())} of {len(names)} unaffected programs run")
        begin = now()
        time.sleep(UNDISTURBED_S)
        others.read()
        for other in others.all:
            here["undisturbed"][other.label] = other.gap(begin, now())
        report.write()
        counted = {}

        def count():
            """Adds what programs did since."""
            for other in others.all:
                before = counted.setdefault(id(other), {})
                row = next((r for r in here["unaffected"] if r["name"] == other.label), None)
                if row is None:
                    row = {"name": other.label, "right": 0, "wrong": 0, "caught": 0}
                    here["unaffected"].append(row)
                for what, number in other.outcomes.items():
                    row[what] += number - before.get(what, 0)
                    before[what] = number
                words = other.last_words()
                if words:
                    row["said"] = words

        def happen(what, act):
            alive = others.alive()
            if name == "standby":
                end = min(deadline, now() + SETTLE_S_MAX)
                while now() < end and server_in(way, "STANDBY") is None:
                    time.sleep(0.05)
            try:
                status, begin = act()
            except subprocess.TimeoutExpired:
                status, begin = "too long", now() - EVENT_S_MAX
            took = now() - begin
            others.settle(now(), deadline)
            end = now()
            left = others.alive()
            ended = [i for i in alive if i not in left]
            gaps = {i.label: i.gap(begin, end) for i in left}
            here["events"].append({"what": what, "status": status, "took_ms": round(took * 1e3, 1),
                                   "gaps": gaps, "ended": [i.label for i in ended]})
            count()
            report.write()
            log(f"{name}: {what}: status {status}, {took * 1e3:.0f} ms, settled in "
                f"{(end - begin) * 1e3:.0f} ms, gaps {gaps}"
                + (f", ended {[i.label for i in ended]}" if ended else ""))

        try:
            wanted = arguments.events.split(",") if arguments.events else None
            events = {what: act for what, act in events_of(name, way).items()
                      if wanted is None or what in wanted}
            while now() < deadline:
                # What has been measured least often is next, so that all have as many rounds.
                what = min(events, key=lambda what: report.count(name, what), default=None)
                if what is None or report.count(name, what) >= arguments.rounds:
                    break
                if not others.alive():
                    if name in OURS:
                        break
                    count()
                    others.end()
                    others = UnaffectedPrograms(way, names, forker, deadline)
                    if not others.alive():
                        break
                happen(what, events[what])
        finally:
            others.read()
            count()
            others.end()

def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("dist", type=Path)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--ways", default="native,mps,openmps,standby,upgrade8")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=330, help="for all, to the table")
    parser.add_argument("--events", help="fault-KIND, kill, terminate, upgrade; without it all")
    parser.add_argument("--unaffected", default="resnet50,bert,gpt2,train,cupy,numba")
    parser.add_argument("--device", type=int, help="faults and kills are of this device's server alone")
    arguments = parser.parse_args()
    report, forkers, end = Report(arguments.output), {}, now() + arguments.seconds

    def over(*_):
        raise TimeOver

    signal.signal(signal.SIGTERM, over)
    signal.signal(signal.SIGINT, over)
    ways = [way for way in arguments.ways.split(",") if way != "mps" or vendor_control() is not None]
    try:
        for number, name in enumerate(ways):
            # What one way does not use is for those after it.
            deadline = now() + (end - now()) / (len(ways) - number) - END_S
            try:
                measure(name, arguments.dist.resolve(), arguments.unaffected.split(","), arguments,
                        report, deadline, forkers)
            except (OSError, ValueError, subprocess.SubprocessError) as error:
                log(f"{name}: {error!r}")
    except TimeOver:
        log("told to end")
    finally:
        for forker in forkers.values():
            forker.end()
        report.write()
        print(report.table(), flush=True)


if __name__ == "__main__":
    main()
