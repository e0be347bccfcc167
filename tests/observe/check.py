#!/usr/bin/env python3
"""Holds what openmps shows against the readers that are made for it: Perfetto's own messages and SQL,
Prometheus, Grafana's schema, NVTX, a terminal, a browser.

    check.py DIST [--only trace,ranges,advise,util,top,metrics,board,browser] [--screenshots DIR]

DIST is an installation, made by `cargo xtask dist`. The readers come from PyPI into an environment
beside this file, which git ignores; Prometheus and Chromium are the system's (`apt-get install
prometheus chromium`), and what needs one that is not there says so and fails only where --only names
it. Runs on the software GPU, with a daemon of its own.
"""

import argparse
import collections
import contextlib
import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import urllib.error
import urllib.request
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
ENVIRONMENT = HERE / ".venv"
PACKAGES = ["perfetto", "protobuf", "prometheus-client", "grafana-foundation-sdk", "nvtx", "pillow", "playwright"]
PARTS = ["trace", "ranges", "advise", "util", "top", "metrics", "board", "browser"]
READY_SECONDS_MAX = 120
# A thread that is stopped between two looks at the clock makes a slice of the trace longer by so much.
PAUSE_NS_MAX = 20_000_000
# Times that a trace is recorded, where the daemon or a server does not answer for long.
RECORDINGS_MAX = 5


def with_readers():
    """Goes on in an environment that has the packages."""
    if Path(sys.prefix) == ENVIRONMENT:
        return
    python = ENVIRONMENT / "bin/python"
    if not python.exists():
        venv.create(ENVIRONMENT, with_pip=True)
    subprocess.run([python, "-m", "pip", "install", "-q", *PACKAGES], check=True)
    os.execv(python, [str(python), *sys.argv])


def until(what, condition):
    """What `condition` returns once that is true."""
    end = time.monotonic() + READY_SECONDS_MAX
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < end, f"not within {READY_SECONDS_MAX} s: {what}; {found}"
        time.sleep(0.05)


class Scene:
    """A daemon of its own, and programs that end with it."""

    def __init__(self, dist, directory):
        self.dist, self.directory, self.started = dist, directory, []
        os.environ.update(CUDA_MPS_PIPE_DIRECTORY=str(directory / "pipe"), OPENMPS_PROVIDER="soft",
                          CUDA_MPS_LOG_DIRECTORY=str(directory / "log"), OPENMPS_SOFT_DIR=str(directory))

    def openmps(self, *arguments):
        done = subprocess.run([self.dist / "bin/openmps", *arguments], text=True, capture_output=True)
        assert done.returncode == 0, f"openmps {arguments}: {done.stdout}{done.stderr}"
        return done

    def shell(self, line):
        done = subprocess.run([self.dist / "bin/nvidia-cuda-mps-control"], input=line + "\n", text=True,
                              capture_output=True)
        assert done.returncode == 0, f"{line}: {done.stdout}{done.stderr}"
        return json.loads(done.stdout)

    def sample(self, name):
        return str(self.dist / "lib/openmps/samples" / name)

    def start(self, *words, **options):
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        program = subprocess.Popen([str(word) for word in words], **{**quiet, **options})
        self.started.append(program)
        return program

    def run(self, name, *arguments):
        """A sample that goes on running."""
        return self.start(self.dist / "bin/openmps", "run", "-q", "--", self.sample(name), *arguments)

    def waiting(self, name, *arguments):
        """A sample that has done its warm-up and waits for ever."""
        go = self.directory / f"go.{len(self.started)}"
        program = self.run(name, *arguments, "--barrier", go)
        ready = self.directory / f"{go.name}.ready.{program.pid}"
        until(f"{name} is ready or has ended", lambda: ready.exists() or program.poll() is not None)
        assert program.poll() is None, f"{name} has ended: {program.returncode}"
        return program

    def end(self, programs=None):
        programs = self.started if programs is None else programs
        for program in programs:
            program.terminate()
        for program in programs:
            program.wait()


def recorded(scene, path):
    """Records several programs: what the daemon has counted, its clients, and how the recorder ended."""
    recorder = scene.start(scene.dist / "bin/openmps", "trace", "--seconds", "3600", "--output", path,
                           stderr=subprocess.PIPE, text=True)
    assert "recording" in recorder.stderr.readline()
    programs = [scene.waiting("vector_add", "--size", "65536", "--warm-up", "7"),
                scene.waiting("n_body", "--size", "512", "--work", "3", "--warm-up", "4"),
                scene.waiting("spin", "--blocks", "2", "--work", "30000", "--warm-up", "5"),
                scene.waiting("mlp_inference", "--warm-up", "3")]

    def told():
        # A server that does not answer in time is told of without its clients.
        counts, report = scene.shell("counts"), scene.shell("report")
        pids = {(s["pid"], c["id"]): c for s in report["servers"] for c in s["clients"]}
        are_all = len(pids) == len(programs) and pids.keys() == {(of["server"], of["client"]) for of in counts}
        return are_all and (counts, pids)

    counts, pids = until("the daemon tells of all programs", told)
    recorder.send_signal(signal.SIGINT)
    ended = recorder.wait(), recorder.stderr.read()
    scene.end(programs)
    until("the programs are gone", lambda: not any(s["clients"] for s in scene.shell("report")["servers"]))
    return counts, pids, ended


def check_trace(scene):
    """SQL on the trace of several programs gives what the daemon has counted."""
    import trace_sql

    path = scene.directory / "mix.pftrace"
    for _ in range(RECORDINGS_MAX):
        counts, pids, (status, said) = recorded(scene, path)
        # It says so where the daemon or a server was asked in vain, as on a machine that stood still.
        if not re.search("ended early|is not there", said):
            break
        print(f"trace: recorded again: {said}")
    assert status == 0, said
    trace = trace_sql.Database(path)
    seen = {(row["pid"], row["kernel"]): row for row in trace.ask(trace_sql.KERNELS)}
    on_sms = {row["pid"]: row["sm_active_ns"] for row in trace.ask(trace_sql.ON_SMS)}
    kernels = 0
    for client in counts:
        of = pids[client["server"], client["client"]]
        for kernel in client["kernels"]:
            row = seen.pop((of["pid"], kernel["name"]), None)
            assert row, f"{kernel} of {of['pid']} is not in the trace: {said}"
            assert row["launches"] == kernel["launches"], (row, kernel)
            assert abs(row["device_ns"] - kernel["device_ns"]) <= 0.01 * kernel["device_ns"], (row, kernel)
            kernels += kernel["launches"]
        counted = of["work"]["sm_active_ns"]
        # A launch is on its SM from its first block there to its last, the pauses between them too.
        assert 0.99 * counted <= on_sms[of["pid"]] <= 1.2 * counted + PAUSE_NS_MAX, (on_sms, of)
    assert not seen, f"kernels that were not counted: {seen}"
    copied = collections.Counter()
    for row in trace.ask(trace_sql.COPIES):
        copied[row["pid"], row["name"]] += row["bytes"]
    for of in pids.values():
        assert copied[of["pid"], "copy to device"] == of["copies"]["bytes_in"], (copied, of["copies"])
        assert copied[of["pid"], "copy to host"] == of["copies"]["bytes_out"], (copied, of["copies"])
    [arrows], [wrong], [crossed] = (trace.ask(q) for q in (
        trace_sql.ARROWS, trace_sql.WRONG_ARROWS, trace_sql.CROSSED))
    assert arrows["arrows"] >= kernels and wrong["wrong"] == 0 and crossed["crossed"] == 0, (arrows, wrong, crossed)
    print(f"trace: {kernels} kernels of {len(pids)} programs as they were counted, {arrows['arrows']} arrows "
          f"({trace.reader})")


# As a program that uses PyTorch's or JAX's ranges: NVTX's own library, and launches by the driver API.
MARKED = """
import nvtx, subprocess, sys, time
with nvtx.annotate("epoch 0"):
    for step in range(3):
        with nvtx.annotate("step"):
            subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
"""


def check_ranges(scene):
    """Ranges that NVTX's Python package marks are slices, one within the other."""
    import trace_sql

    path, program = scene.directory / "marked.pftrace", scene.directory / "marked.py"
    program.write_text(MARKED)
    scene.openmps("run", "-q", "--trace", path, "--", sys.executable, program, scene.sample("vector_add"),
                  "--warm-up", "1", "--iterations", "2")
    trace = trace_sql.Database(path)
    ranges = {(row["name"], row["depth"]): row["times"] for row in trace.ask(trace_sql.RANGES)}
    assert ranges == {("epoch 0", 0): 1, ("step", 1): 3}, ranges
    kernels = trace.ask("SELECT COUNT(*) AS n FROM slice WHERE category = 'kernel'")[0]["n"]
    inside = trace.ask("""SELECT COUNT(*) AS n FROM slice AS k JOIN slice AS r
        ON r.category = 'nvtx' AND r.name = 'step' AND k.ts >= r.ts AND k.ts < r.ts + r.dur
        WHERE k.category = 'kernel'""")[0]["n"]
    assert kernels == inside == 9, (kernels, inside)
    print(f"ranges: {sum(ranges.values())} of NVTX, {inside} kernels within them")


def check_advise(scene):
    """What leaves SMs idle is said to gain by copies; the numbers are those that were measured."""
    done = scene.openmps("advise", "--json", "--copies", "2", "--", scene.sample("spin"), "--blocks", "1",
                         "--kernel", "clock", "--seconds", "2")
    advice = json.loads(done.stdout)
    measured = {row["copies"]: row for row in advice["measured"]}
    assert set(measured) == {2}, advice
    kernel = advice["analysis"]["kernels"][0]
    assert kernel["limiter"] == "grid" and kernel["blocks"] == 1, kernel
    assert 0 < advice["analysis"]["sm_share"] < 0.9 and advice["words"], advice
    ceilings = advice["analysis"]["ceilings"]
    assert all(value > 0 for value in ceilings.values()), ceilings
    assert ceilings["cache_bytes_per_s"] >= ceilings["memory_bytes_per_s"], ceilings
    assert 0 < kernel["roof"]["of_instructions"] <= 1 and kernel["roof"]["bound"] != "memory", kernel
    print(f"advise: {advice['words'][0]}")


def check_metrics(fetch, pids):
    """Prometheus' own parsers read both formats, and each program has its series. The text in Prometheus' own."""
    from prometheus_client.openmetrics.parser import (
        text_string_to_metric_families as families_of_open_metrics,
    )
    from prometheus_client.parser import text_string_to_metric_families

    def told():
        # There are none without an answer of the daemon, and some are missing without one of a server.
        text = fetch()
        families = {family.name: family for family in text_string_to_metric_families(text)}
        kernels = families.get("openmps_client_kernels")
        told_of = {sample.labels["pid"] for sample in kernels.samples} if kernels else set()
        return told_of == {str(pid) for pid in pids} and (text, families)

    open_metrics = {family.name for family in families_of_open_metrics(fetch(OPEN_METRICS))}
    text, families = until("all programs have metrics, and no other has", told)
    for name in ["GPU_UTIL", "FB_USED", "FB_FREE", "FB_TOTAL"]:
        assert f"DCGM_FI_DEV_{name}" in families, name
    assert "DCGM_FI_PROF_SM_ACTIVE" in families and "DCGM_FI_PROF_SM_OCCUPANCY" in families
    assert {"openmps_client_kernels", "openmps_faults"} <= open_metrics & set(families), open_metrics
    samples = families["openmps_client_kernels"].samples
    print(f"metrics: {len(families)} families, {sum(s.value for s in samples):.0f} kernels")
    return text


def check_util(scene):
    """One program of one block makes GPU-Util full and uses one SM; eight use eight."""
    done = scene.openmps("demo", "--util", "--seconds", "2", "--json")
    one, eight = json.loads(done.stdout)
    assert (one["programs"], eight["programs"]) == (1, 8), done.stdout
    assert one["gpu_util"] > 0.5 and one["sm_activity"] <= 1.01 / one["sms"], done.stdout
    assert eight["sm_activity"] > 2 * one["sm_activity"], done.stdout
    print(f"util: {one['gpu_util']:.0%} with {one['sm_activity']:.0%} of the SMs, then {eight['sm_activity']:.0%}")


@contextlib.contextmanager
def terminal(scene, **environment):
    """`openmps top` in a terminal of 80 x 24: the process, and what reads the terminal until a pattern is there."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    before = termios.tcgetattr(slave)
    top = scene.start(scene.dist / "bin/openmps", "top", stdin=slave, stdout=slave, stderr=slave,
                      env={**os.environ, "TERM": "xterm-256color", **environment})
    end = time.monotonic() + READY_SECONDS_MAX
    screen = ""

    def read():
        nonlocal screen
        assert time.monotonic() < end, f"not within {READY_SECONDS_MAX} s: {screen[-2000:]}"
        if select.select([master], [], [], 0.05)[0]:
            screen += os.read(master, 65536).decode(errors="replace")

    def shows(pattern):
        while not pattern.search(screen):
            read()
        return screen

    yield top, shows, lambda keys: os.write(master, keys)
    # What a program has not read yet keeps it from ending.
    while top.poll() is None:
        read()
    assert termios.tcgetattr(slave) == before, "the terminal is not as it was"
    os.close(master)
    os.close(slave)


def check_top(scene):
    """Colours but with NO_COLOR; the terminal is as it was after `q` and after SIGTERM."""
    named, coloured = re.compile("n_body"), re.compile(r"\x1b\[(?:\d+;)*(?:3[0-7]|9[0-7]|38;5;\d+)(?:;\d+)*m")
    with terminal(scene, NO_COLOR="") as (top, shows, press):
        shows(named)
        shows(coloured)
        press(b"q")
    with terminal(scene, NO_COLOR="1") as (top, shows, press):
        found = coloured.search(shows(named))
        assert not found, found
        top.terminate()
    print("top: colours but with NO_COLOR; q and SIGTERM leave the terminal as it was")


@contextlib.contextmanager
def web(scene):
    """The page: its address without a token, and the token."""
    program = scene.start(scene.dist / "bin/openmps", "web", "--listen", "127.0.0.1:0", stderr=subprocess.PIPE, text=True)
    # It may say before that the daemon has not answered yet.
    urls = (re.search(r"http://\S+", line) for line in program.stderr)
    url = next(filter(None, urls), None)
    assert url, "no address was printed"
    yield url.group().split("/?token=")
    scene.end([program])


OPEN_METRICS = "application/openmetrics-text; version=1.0.0"


def fetched(base, path, token, accept="*/*"):
    request = urllib.request.Request(base + path, headers={"Authorization": f"Bearer {token}", "Accept": accept})
    return urllib.request.urlopen(request, timeout=READY_SECONDS_MAX).read().decode()


def check_unauthorised(base):
    for path in ["/", "/metrics", "/events", "/api/state", "/?token=wrong"]:
        try:
            urllib.request.urlopen(base + path, timeout=READY_SECONDS_MAX)
            raise SystemExit(f"{path} is given without a token")
        except urllib.error.HTTPError as error:
            assert error.code == 401, (path, error)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("dist", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--screenshots", type=Path)
    arguments = parser.parse_args()
    with_readers()
    sys.path.insert(0, str(HERE))
    import browser
    import scrape
    named = [name for name in arguments.only.split(",") if name]
    parts = named or PARTS
    assert set(parts) <= set(PARTS), f"parts are {PARTS}"
    if "board" in parts:
        scrape.check_board()
    with tempfile.TemporaryDirectory(prefix="openmps-observe-") as directory:
        scene = Scene(arguments.dist.resolve(), Path(directory))
        scene.openmps("up")
        try:
            for name, check in [("trace", check_trace), ("ranges", check_ranges), ("advise", check_advise),
                                ("util", check_util)]:
                if name in parts:
                    check(scene)
            if not {"top", "metrics", "browser"} & set(parts):
                return
            programs = [scene.run("spin", "--blocks", "1", "--seconds", "600"),
                        scene.run("n_body", "--blocks", "2", "--seconds", "600"),
                        scene.run("vector_add", "--size", "262144", "--seconds", "600")]
            pids = {program.pid for program in programs}
            until("the programs run", lambda: pids == {
                c["pid"] for s in scene.shell("report")["servers"] for c in s["clients"] if c["kernels"] > 0})
            if "top" in parts:
                check_top(scene)
            if not {"metrics", "browser"} & set(parts):
                return
            with web(scene) as (base, token):
                check_unauthorised(base)
                if "metrics" in parts:
                    text = check_metrics(lambda accept="*/*": fetched(base, "/metrics", token, accept), pids)
                    if scrape.is_installed():
                        scrape.check_names(text)
                        scrape.check_prometheus(Path(directory), base.removeprefix("http://"), token, pids)
                    else:
                        print("prometheus: not installed, not asked")
                        assert not named
                if "browser" in parts:
                    if shutil.which("chromium"):
                        browser.check(f"{base}/?token={token}", arguments.screenshots)
                    else:
                        print("browser: chromium is not installed")
                        assert not named
        finally:
            scene.end()
            subprocess.run([scene.dist / "bin/openmps", "down", "--timeout", "0"], capture_output=True)


if __name__ == "__main__":
    main()
