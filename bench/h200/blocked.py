#!/usr/bin/env python3
"""What one program's calls cost another one, beside a long kernel and when a program starts.

    blocked.py DIST [--output FILE] [--ways native,mps,openmps] [--parts calls,starts,networks,warm,holds]

DIST is an installation, as for run.py. Five measurements, the first two under two minutes a way:

    calls     what the calls of a program cost while another program's kernel of 2.5 s runs
    starts    a PyTorch, a CuPy and a driver API program start, twice each, while another program launches
              small kernels and waits for each: that one's longest wait, and the time of the start,
              beside its time on an idle device
    networks  the same beside four ResNet-50 too, and the longest wait where nothing starts. A minute a way
    warm      openmps alone: the three programs run, the daemon is stopped and started, and they start
              again beside small kernels: what the warm list spares. A minute
    holds     the longest wait of a program that launches small kernels while another one unregisters and
              frees memory, loads code with a variable whose last user has ended, and comes with a share of
              25 % of the SMs (a green context): each twice, with the other one's own times. Half a minute

FILE keeps what it has of other ways and parts.

Called by itself as `blocked.py long|calls|steady|driver|torch|cupy|unregister|free|variables|share`, it is one of these programs.
"""

import argparse
import ctypes
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

KERNEL_SECONDS = 2.5
CLOCKS_PER_SECOND = 1.9e9
SMALL_CLOCKS = 40_000
STARTS = ("driver", "cupy", "torch")
MIB = 1 << 20
PROGRAM_SECONDS_MAX = 60
NETWORKS = 4
NETWORK_SECONDS_MAX = 80
UNDISTURBED_SECONDS = 3

PTX = b""".version 7.0
.target sm_80
.address_size 64
.visible .entry spin(.param .u64 clocks) {
    .reg .b64 %r<4>; .reg .pred %p;
    ld.param.u64 %r1, [clocks];
    mov.u64 %r2, %clock64;
loop:
    mov.u64 %r3, %clock64;
    sub.s64 %r3, %r3, %r2;
    setp.lt.s64 %p, %r3, %r1;
    @%p bra loop;
    ret;
}
"""
OTHER_PTX = PTX.replace(b"spin", b"turn")
VARIABLE_PTX = PTX.replace(b"spin", b"vary").replace(b".visible .entry", b".visible .global .b8 table[4096];\n.visible .entry")
HOLDS = ("unregister", "free", "variables", "share")
SHARE = "25"


class Driver:
    """The driver API as programs load it."""

    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")
        self("cuInit", 0)
        context = ctypes.c_void_p()
        self("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self("cuCtxSetCurrent", context)

    def __call__(self, name, *arguments):
        result = getattr(self.library, name)(*arguments)
        if result:
            raise SystemExit(f"{name} answered {result}")

    def module(self, text):
        module = ctypes.c_void_p()
        self("cuModuleLoadData", ctypes.byref(module), text + b"\0")
        return module

    def kernel(self, text, name):
        function = ctypes.c_void_p()
        self("cuModuleGetFunction", ctypes.byref(function), self.module(text), name)
        return function

    def launch(self, function, clocks):
        value = ctypes.c_uint64(int(clocks))
        parameters = (ctypes.c_void_p * 1)(ctypes.cast(ctypes.byref(value), ctypes.c_void_p))
        self("cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, None, parameters, None)

    def wait(self):
        self("cuCtxSynchronize")


def say(value):
    print(json.dumps(value), flush=True)


def long_kernel():
    driver = Driver()
    spin = driver.kernel(PTX, b"spin")
    driver.launch(spin, 1000)
    driver.wait()
    say("ready")
    driver.launch(spin, CLOCKS_PER_SECOND * KERNEL_SECONDS)
    driver.wait()


def steady():
    """Launches and waits until standard input ends: the longest wait since the first byte."""
    import threading
    driver = Driver()
    spin = driver.kernel(PTX, b"spin")
    driver.launch(spin, SMALL_CLOCKS)
    driver.wait()
    say("ready")
    marks = []

    def listen():
        while sys.stdin.buffer.raw.read(1):
            marks.append(True)
        marks.append(False)

    threading.Thread(target=listen, daemon=True).start()
    longest = count = 0
    while not marks or marks[-1]:
        start = time.perf_counter()
        driver.launch(spin, SMALL_CLOCKS)
        driver.wait()
        took = time.perf_counter() - start
        if marks:
            longest, count = max(longest, took), count + 1
    say({"longest_ms": longest * 1e3, "kernels": count})


def calls():
    found = {}

    def timed(name, call):
        start = time.perf_counter()
        result = call()
        found[name] = (time.perf_counter() - start) * 1e3
        return result

    driver = timed("context", Driver)
    module = timed("load PTX", lambda: driver.module(OTHER_PTX))
    function, pointer = ctypes.c_void_p(), ctypes.c_uint64()
    driver("cuModuleGetFunction", ctypes.byref(function), module, b"turn")
    size = ctypes.c_size_t
    timed("allocate 64 MiB", lambda: driver("cuMemAlloc_v2", ctypes.byref(pointer), size(64 * MIB)))
    timed("launch and wait", lambda: (driver.launch(function, 100), driver.wait()))
    data = bytes(MIB)
    timed("copy 1 MiB in", lambda: driver("cuMemcpyHtoD_v2", pointer, data, size(MIB)))
    timed("free 64 MiB", lambda: driver("cuMemFree_v2", pointer))
    pinned = ctypes.c_void_p()
    allocate = lambda: driver("cuMemHostAlloc", ctypes.byref(pinned), size(16 * MIB), 0)
    timed("allocate pinned 16 MiB", allocate)
    timed("free pinned", lambda: driver("cuMemFreeHost", pinned))
    buffer = ctypes.create_string_buffer(8 * MIB)
    pages = ctypes.c_void_p((ctypes.addressof(buffer) + 4095) & ~4095)
    timed("register 4 MiB", lambda: driver("cuMemHostRegister_v2", pages, size(4 * MIB), 0))
    timed("unregister", lambda: driver("cuMemHostUnregister", pages))
    stream = ctypes.c_void_p()
    timed("make a stream", lambda: driver("cuStreamCreate", ctypes.byref(stream), 1))
    timed("destroy it", lambda: driver("cuStreamDestroy_v2", stream))
    timed("unload", lambda: driver("cuModuleUnload", module))
    say(found)


def driver_program():
    driver = Driver()
    driver.launch(driver.kernel(OTHER_PTX, b"turn"), 100)
    driver.wait()


def cupy_program():
    import cupy
    values = cupy.arange(1 << 20, dtype=cupy.float32)
    assert float((values * 2 + 1).sum()) > 0
    assert float(cupy.linalg.norm(values.reshape(1024, 1024) @ values.reshape(1024, 1024))) > 0


def torch_program():
    import torch
    import torchvision
    network = torchvision.models.resnet18(weights=None).cuda().eval()
    with torch.no_grad():
        assert network(torch.zeros(1, 3, 224, 224, device="cuda")).isfinite().all()


def times_of(call, count):
    """The median and the longest of some calls, ms."""
    times = []
    for _ in range(count):
        start = time.perf_counter()
        call()
        times.append((time.perf_counter() - start) * 1e3)
    return {"median_ms": sorted(times)[count // 2], "longest_ms": max(times), "calls": count}


def unregister():
    driver = Driver()
    buffer = ctypes.create_string_buffer(5 * MIB)
    pages = ctypes.c_void_p((ctypes.addressof(buffer) + 4095) & ~4095)

    def again():
        driver("cuMemHostRegister_v2", pages, ctypes.c_size_t(4 * MIB), 0)
        driver("cuMemHostUnregister", pages)

    say(times_of(again, 100))


def free():
    driver, size = Driver(), ctypes.c_size_t
    pointer, pinned = ctypes.c_uint64(), ctypes.c_void_p()

    def again():
        driver("cuMemAlloc_v2", ctypes.byref(pointer), size(64 * MIB))
        driver("cuMemHostAlloc", ctypes.byref(pinned), size(16 * MIB), 0)
        driver("cuMemFreeHost", pinned)
        driver("cuMemFree_v2", pointer)

    say(times_of(again, 50))


def variables():
    driver = Driver()

    def again():
        module, function = driver.module(VARIABLE_PTX), ctypes.c_void_p()
        driver("cuModuleGetFunction", ctypes.byref(function), module, b"vary")
        driver.launch(function, 100)
        driver.wait()
        driver("cuModuleUnload", module)

    say(times_of(again, 10))


def share():
    """Its environment gives it a share: its streams are a green context's."""
    driver = Driver()
    function = driver.kernel(OTHER_PTX, b"turn")
    say(times_of(lambda: (driver.launch(function, 100), driver.wait()), 20))


PROGRAMS = {"unregister": unregister, "free": free, "variables": variables, "share": share,
            "long": long_kernel, "calls": calls, "steady": steady, "driver": driver_program,
            "cupy": cupy_program, "torch": torch_program}


def beside_a_long_kernel(way):
    way.begin_group()
    runs = []
    for _ in range(2):
        holder = way.start([sys.executable, __file__, "long"])
        holder.stdout.readline()
        runs.append(way.result(way.start([sys.executable, __file__, "calls"])))
        holder.communicate()
    return {"first": runs[0], "second": runs[1]}


def seconds_of(way, program):
    start = time.monotonic()
    process = way.start([sys.executable, __file__, program])
    _, errors = process.communicate(timeout=PROGRAM_SECONDS_MAX)
    if process.returncode:
        way.failures.append(errors.strip().splitlines()[-1:])
    return time.monotonic() - start


def neighbour_of(way, start):
    """What a program that launches small kernels sees while `start` goes on."""
    way.begin_group()
    neighbour = way.start([sys.executable, __file__, "steady"], stdin=subprocess.PIPE)
    neighbour.stdout.readline()
    neighbour.stdin.write("x")
    neighbour.stdin.flush()
    seconds = start()
    neighbour.stdin.close()
    neighbour.stdin = None
    return {"seconds": seconds, **(way.result(neighbour) or {}), "failures": way.failures}


def starts(way, runs=("first", "second")):
    return {program: {run: neighbour_of(way, lambda: seconds_of(way, program)) for run in runs}
            for program in STARTS}


def add_idle(way, found):
    for program in STARTS:
        found[program]["idle_seconds"] = seconds_of(way, program)
    return found


def beside_small_kernels(way):
    return add_idle(way, starts(way))


def beside_networks(way):
    with tempfile.TemporaryDirectory() as directory:
        command = [sys.executable, Path(__file__).with_name("networks.py"), "resnet50",
                   NETWORK_SECONDS_MAX, directory, NETWORKS]
        networks = [way.start(command) for _ in range(NETWORKS)]
        try:
            end = time.monotonic() + NETWORK_SECONDS_MAX
            while len(os.listdir(directory)) < NETWORKS:
                if time.monotonic() > end or any(n.poll() is not None for n in networks):
                    return {"failures": ["the networks did not start"]}
                time.sleep(0.01)
            undisturbed = neighbour_of(way, lambda: time.sleep(UNDISTURBED_SECONDS))
            found = starts(way)
            found["undisturbed"] = undisturbed
            found["networks_left"] = sum(n.poll() is None for n in networks)
        finally:
            for network in networks:
                network.kill()
                network.communicate()
    return add_idle(way, found)


def hold(way, program):
    found = {}

    def run():
        start = time.monotonic()
        if program == "share":
            way.environment["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = SHARE
        process = way.start([sys.executable, __file__, program])
        way.environment.pop("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", None)
        found.update(way.result(process) or {})
        return time.monotonic() - start

    return {"neighbour": neighbour_of(way, run), "own": found}


def holds(way):
    undisturbed = neighbour_of(way, lambda: time.sleep(UNDISTURBED_SECONDS))
    found = {program: {run: hold(way, program) for run in ("first", "second")} for program in HOLDS}
    return {"undisturbed": undisturbed, **found}


def context_of(way):
    """What `openmps ps` says of calls that wait, and of the warm list."""
    command = [way.dist / "bin/openmps", "ps", "--json"]
    said = subprocess.run(command, env=way.environment, capture_output=True, text=True).stdout
    return [server.get("context") for server in json.loads(said)["servers"]]


def from_the_warm_list(way_of):
    with tempfile.TemporaryDirectory() as cache:
        found = {}
        for life in ("empty list", "second server"):
            way = way_of()
            way.environment["OPENMPS_WARM"] = "256M"
            way.environment["XDG_CACHE_HOME"] = cache
            way.environment.pop("CUDA_CACHE_PATH", None)
            with way.running():
                way.start([sys.executable, __file__, "driver"]).communicate()
                found[life] = {**starts(way, ("first",)), "context": context_of(way)}
        return found


def main():
    from common import Way, log
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dist", type=Path)
    parser.add_argument("--output", type=Path, default=Path("blocked.json"))
    parser.add_argument("--ways", default="native,mps,openmps")
    parser.add_argument("--parts", default="calls,starts")
    arguments = parser.parse_args()
    parts = arguments.parts.split(",")
    measured = json.loads(arguments.output.read_text()) if arguments.output.exists() else {}
    measure = {"calls": beside_a_long_kernel, "starts": beside_small_kernels,
               "networks": beside_networks, "holds": holds}
    for name in arguments.ways.split(","):
        rows = measured.setdefault(name, {})
        # A server each, so that a first start is one.
        for part in (part for part in parts if part in measure):
            way = Way(name, arguments.dist.resolve())
            with tempfile.TemporaryDirectory() as cache:
                # With nothing on the warm list.
                way.environment["XDG_CACHE_HOME"] = cache
                with way.running():
                    # The server is there before anything is measured.
                    way.start([sys.executable, __file__, "driver"]).communicate()
                    rows[part] = measure[part](way)
                    if name == "openmps":
                        rows[part + "_context"] = context_of(way)
            # Names of programs, without where they are on this machine.
            reports = [line for line in way.log.splitlines() if "for a quiescent point" in line]
            rows.setdefault("log", []).extend(re.sub(r"(?<= )/\S*/", "", r) for r in reports)
        if "warm" in parts and name == "openmps":
            rows["warm"] = from_the_warm_list(lambda: Way(name, arguments.dist.resolve()))
        arguments.output.write_text(json.dumps(measured, indent=1) + "\n")
        log(json.dumps(rows, indent=1))


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] in PROGRAMS:
        PROGRAMS[sys.argv[1]]()
    else:
        main()
