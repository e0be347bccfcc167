"""What openmps adds to the start of a program: from loading the library to the first allocation."""

import subprocess
import sys

RUNS = 21
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
    """Milliseconds, by mode: least, median and most of several processes."""
    figures = {}
    for mode in ("alone", "daemon"):
        command, environment = [sys.executable, "-c", PROGRAM], openmps.environment(mode)
        # The first of all starts the server.
        runs = [subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True) for _ in range(RUNS + 1)]
        times = sorted(float(run.stdout) for run in runs[1:])
        figures[mode] = {"least_ms": times[0], "median_ms": times[RUNS // 2], "most_ms": times[-1]}
    return {mode: {name: round(value, 1) for name, value in row.items()} for mode, row in figures.items()}
