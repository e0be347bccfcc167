"""What openmps adds to the start of a program: from loading the library to the first allocation.

The time by the clock is what a person waits for, but on a busy machine it is other programs' time too. So the processor
time of the process is measured as well, less that of a process that does the same without CUDA.
"""

import os
import statistics
import subprocess
import sys

RUNS = 21
NOTHING = "import ctypes, time; print((time.perf_counter() - time.perf_counter()) * 1000)"
PROGRAM = """
import ctypes, time
begin = time.perf_counter()
cuda = ctypes.CDLL("libcuda.so.1")
context, memory = ctypes.c_void_p(), ctypes.c_uint64()
for status in (
    cuda.cuInit(0),
    cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0),
    cuda.cuCtxSetCurrent(context),
    cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(4096)),
):
    assert status == 0, status
print((time.perf_counter() - begin) * 1000)
"""


def measure(openmps):
    """Milliseconds by mode: by the clock (least, median, most of several processes) and of the processor (median)."""
    figures, (_, idle) = {}, several(NOTHING, openmps.environment("alone"))
    for mode in ("alone", "daemon"):
        clock, processor = several(PROGRAM, openmps.environment(mode))
        figures[mode] = {
            "least_ms": clock[0],
            "median_ms": statistics.median(clock),
            "most_ms": clock[-1],
            "processor_ms": statistics.median(processor) - statistics.median(idle),
        }
    return {mode: {name: round(value, 1) for name, value in row.items()} for mode, row in figures.items()}


def several(program, environment):
    """Times by the clock and of the processor of some processes, milliseconds, sorted."""
    # The first of all starts the server.
    runs = [one(program, environment) for _ in range(RUNS + 1)][1:]
    return [sorted(column) for column in zip(*runs)]


def one(program, environment):
    process = subprocess.Popen([sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE)
    with process.stdout as output:
        clock = output.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise subprocess.CalledProcessError(process.returncode, process.args)
    return float(clock), 1000 * (usage.ru_utime + usage.ru_stime)
