#!/usr/bin/env python3
"""How long the driver takes to tell of a fault, and a process with a context to end; writes JSON.

    fault_times.py [--output FILE] [--rounds N]

Each case is a process of its own with one context, by itself, beside four streams of short kernels, or beside
a kernel of 300 ms. It faults in each way that there is, and asks for the state of its stream every half
millisecond. Columns, ms: until the last short kernel ended, until the management library had an event (an Xid), until
cuStreamQuery gave an error, and from then until the process was gone after SIGKILL. Cases named `kill` have no
fault. Half a minute; needs Python 3 and a driver alone. No setting of the GPU is changed.
"""

import argparse
import ctypes
import json
import statistics
import subprocess
import sys
import threading
import time

KINDS = ["null", "misaligned", "trap", "brkpt", "kill"]
BESIDE = ["nothing", "short", "long"]
NOT_READY = 600
# A case takes no longer than this, s.
CASE_S_MAX = 25
XID_EVENTS = 8
PTX = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry spin(.param .u64 ns)
{
    .reg .u64 %begin, %now, %ns;
    .reg .pred %p;
    ld.param.u64 %ns, [ns];
    mov.u64 %begin, %globaltimer;
again:
    mov.u64 %now, %globaltimer;
    sub.u64 %now, %now, %begin;
    setp.lt.u64 %p, %now, %ns;
    @%p bra again;
    ret;
}
.visible .entry store(.param .u64 address)
{
    .reg .u64 %a;
    ld.param.u64 %a, [address];
    st.global.u32 [%a], 1;
    ret;
}
.visible .entry trap_now() { trap; }
.visible .entry brkpt_now() { brkpt; ret; }
"""


def milliseconds(seconds):
    return round(seconds * 1e3, 1)


class XidEvents(threading.Thread):
    """Waits for the management library's event of a fault."""

    def __init__(self):
        super().__init__(daemon=True)
        self.at = None
        self.said = "no event"
        self.ready = threading.Event()

    def run(self):
        class EventData(ctypes.Structure):
            _fields_ = [("device", ctypes.c_void_p), ("type", ctypes.c_ulonglong),
                        ("data", ctypes.c_ulonglong), ("gpu", ctypes.c_uint), ("compute", ctypes.c_uint)]

        nvml = ctypes.CDLL("libnvidia-ml.so.1")
        device, events, data = ctypes.c_void_p(), ctypes.c_void_p(), EventData()
        codes = [nvml.nvmlInit_v2(), nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)),
                 nvml.nvmlEventSetCreate(ctypes.byref(events)),
                 nvml.nvmlDeviceRegisterEvents(device, ctypes.c_ulonglong(XID_EVENTS), events)]
        self.ready.set()
        if any(codes):
            self.said = f"NVML: {codes}"
            return
        code = nvml.nvmlEventSetWait_v2(events, ctypes.byref(data), CASE_S_MAX * 1000)
        self.at = time.monotonic()
        self.said = f"NVML: {code}" if code else f"Xid {data.data}"


def role(kind, beside):
    cuda = ctypes.CDLL("libcuda.so.1")

    def call(name, *arguments):
        if code := getattr(cuda, name)(*arguments):
            raise RuntimeError(f"{name}: {code}")

    context, module = ctypes.c_void_p(), ctypes.c_void_p()
    call("cuInit", 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
    call("cuCtxSetCurrent", context)
    call("cuModuleLoadData", ctypes.byref(module), PTX)

    def function(name):
        found = ctypes.c_void_p()
        call("cuModuleGetFunction", ctypes.byref(found), module, name)
        return found

    def stream():
        made = ctypes.c_void_p()
        call("cuStreamCreate", ctypes.byref(made), 1)
        return made

    def launch(function, stream, *values):
        values = [ctypes.c_ulonglong(value) for value in values]
        pointers = (ctypes.c_void_p * max(len(values), 1))(*[ctypes.addressof(value) for value in values])
        return cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, pointers, None)

    memory = ctypes.c_ulonglong()
    call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(1 << 30))
    spin, store = function(b"spin"), function(b"store")
    own, others = stream(), [stream() for _ in range(4)]
    faults = {"null": (store, 0), "misaligned": (store, memory.value + 1), "trap": (function(b"trap_now"),),
              "brkpt": (function(b"brkpt_now"),)}
    events = XidEvents()
    events.start()
    events.ready.wait()

    def keep_busy(streams):
        """True if a stream had ended what it had."""
        idle = [each for each in streams if cuda.cuStreamQuery(each) == 0]
        for each in idle:
            for _ in range(4):
                launch(spin, each, 50_000)
        return bool(idle)

    busy = others if beside == "short" else []
    until = time.monotonic() + 0.3
    while time.monotonic() < until:
        keep_busy(busy)
    if beside == "long":
        launch(spin, others[0], 300_000_000)
        time.sleep(0.02)
    begin = last = time.monotonic()
    if kind != "kill":
        launch(faults[kind][0], own, *faults[kind][1:])
    code = NOT_READY
    while kind != "kill" and code == NOT_READY and time.monotonic() < begin + CASE_S_MAX:
        if keep_busy(busy):
            last = time.monotonic()
        code = cuda.cuStreamQuery(own)
        time.sleep(0.0005)
    told = time.monotonic()
    # The event may come later than the error.
    if kind != "kill" and events.at is None:
        events.join(0.5)
    print(json.dumps({
        "code": code, "told_ms": milliseconds(told - begin),
        "others_ms": milliseconds(last - begin) if busy else None,
        "event_ms": milliseconds(events.at - begin) if events.at else None, "event": events.said,
    }), flush=True)
    while True:
        keep_busy(busy if kind == "kill" else [])
        time.sleep(0.001)


def case(kind, beside):
    process = subprocess.Popen([sys.executable, __file__, "role", kind, beside], stdout=subprocess.PIPE, text=True)
    line = process.stdout.readline()
    begin = time.monotonic()
    process.kill()
    process.wait()
    ended = milliseconds(time.monotonic() - begin)
    return {**json.loads(line or "{}"), "ended_ms": ended}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--output", default="fault_times.json")
    parser.add_argument("--rounds", type=int, default=2)
    arguments = parser.parse_args()
    rows = {}
    for number in range(arguments.rounds):
        for kind in KINDS:
            for beside in BESIDE:
                row = case(kind, beside)
                rows.setdefault(f"{kind} beside {beside}", []).append(row)
                print(f"{number + 1} {kind} beside {beside}: {json.dumps(row)}", file=sys.stderr, flush=True)
                with open(arguments.output, "w") as file:
                    json.dump(rows, file, indent=1)
    print("| case | others' last, ms | event | told, ms | ended, ms |\n| --- | --- | --- | --- | --- |")
    for name, here in rows.items():
        def median(key):
            values = [row[key] for row in here if row.get(key) is not None]
            return statistics.median(values) if values else "-"
        print(f"| {name} | {median('others_ms')} | {median('event_ms')} {here[0].get('event')} "
              f"| {median('told_ms')} | {median('ended_ms')} |")


if __name__ == "__main__":
    if sys.argv[1:2] == ["role"]:
        role(*sys.argv[2:4])
    else:
        main()
