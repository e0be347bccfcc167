#!/usr/bin/env python3
"""Which driver calls wait for all work of a context, and which hold the driver's lock meanwhile.

    waitcalls.py [--output FILE]

Compiles waitcalls.cu with nvcc and runs it on the bare driver, with CUDA_MODULE_LOADING EAGER and LAZY.
Writes a table: loading, call, what it waits for, its duration and the longest launch of another thread
meanwhile, in ms, beside a kernel of 400 ms. `crates/server/src/device/sync/calls.rs` is held against it.
"""

import argparse
import os
import subprocess
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Between what calls cost by themselves (module loads: some ms) and the kernel's length.
WAITED_MS = 200
SECONDS_MAX = 120

KERNEL = """
__device__ int g[4096];
extern "C" __global__ void k{number}(int *p) {{
    volatile int a[{words}];
    a[threadIdx.x % {words}] = threadIdx.x;
    p[threadIdx.x] = a[threadIdx.x % {words}] + g[threadIdx.x];
}}
"""


def build(directory):
    cubins = []
    for number, words in ((1, 2), (2, 2), (3, 4096)):
        source, cubin = directory / f"k{number}.cu", directory / f"k{number}.cubin"
        source.write_text(KERNEL.format(number=number, words=words))
        subprocess.run(["nvcc", "-arch=sm_90", "-cubin", "-o", cubin, source], check=True)
        cubins.append(cubin)
    program = directory / "waitcalls"
    command = ["nvcc", "-O2", "-std=c++17", "-arch=sm_90", "-w", "-o", program, HERE / "waitcalls.cu"]
    for folder in ("/usr/local/nvidia/lib64", "/usr/local/cuda/lib64/stubs"):
        if Path(folder).is_dir():
            command += ["-L", folder]
    subprocess.run([*command, "-lcuda"], check=True)
    return [program, *cubins]


def waits_for(call_ms, launch_ms):
    if call_ms < WAITED_MS:
        return "nothing"
    return "context, lock held" if launch_ms >= WAITED_MS else "context"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("waitcalls.tsv"))
    arguments = parser.parse_args()
    rows = ["loading\tcall\twaits for\tcall ms\tlongest launch ms\tanswer"]
    with tempfile.TemporaryDirectory() as directory:
        command = build(Path(directory))
        for loading in ("EAGER", "LAZY"):
            environment = dict(os.environ, CUDA_MODULE_LOADING=loading)
            found = subprocess.run(command, env=environment, timeout=SECONDS_MAX, check=True,
                                   stdout=subprocess.PIPE, text=True).stdout
            for line in found.splitlines():
                call, call_ms, launch_ms, answer = line.split("\t")
                kind = waits_for(float(call_ms), float(launch_ms))
                rows.append("\t".join((loading, call, kind, call_ms, launch_ms, answer)))
    arguments.output.write_text("\n".join(rows) + "\n")
    print(*rows, sep="\n")


if __name__ == "__main__":
    main()
