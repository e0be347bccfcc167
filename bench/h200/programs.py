#!/usr/bin/env python3
"""Runs unmodified CUDA programs on NVIDIA's driver and through openmps, and compares what they say.

    programs.py DIST [--output FILE] [--only PATTERN]

DIST is an installation, as for run.py. The programs: the samples of DIST (their checksums), those of
tests/compat (nvcc with static and shared runtime, CuPy, Numba) and of programs/ (PyTorch, Triton,
JAX). A program's line says ok if it ends well both ways and says the same; `native fails` if it
does not run on the driver alone either. nvcc's are built first. PATTERN is a regular
expression for family and name, as in `nvcc (arrays|textures)`.
"""

import argparse
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from common import HERE, Way, log

COMPAT = HERE.parent.parent / "tests/compat"
SECONDS_MAX = 100
# These cause faults on purpose, which reach all programs on a device without isolation: they run alone.
FAULTY = ("printf_assert", "launch_errors")
SAMPLES = ("vector_add matrix_multiply reduction histogram n_body mlp_inference convnet_inference "
           "spin pipeline mandelbrot scan globals").split()


def sample_checksum(output):
    return json.loads(output.strip().splitlines()[-1])["checksum"]


def programs(dist, built):
    """(family, name, command, what to compare of its output)."""
    samples = dist / "lib/openmps/samples"
    for name in SAMPLES:
        yield "samples", name, [samples / name, "--iterations", "20", "--json"], sample_checksum
    yield "samples", "api_tour", [samples / "api_tour"], lambda _: "passes"
    for binary in sorted(built.iterdir()):
        yield "nvcc", binary.name, [binary], lambda _: "passes"
    for family in ("cupy", "numba"):
        for source in sorted((COMPAT / family).glob("*.py")):
            yield family, source.stem, [sys.executable, source], lambda _: "passes"
    for source in sorted((HERE / "programs").glob("*.py")):
        yield source.stem.split("_")[0], source.stem, [sys.executable, source], str.strip


def build(directory, only):
    """Compiles the programs of tests/compat/nvcc with both runtimes, side by side."""
    def compile_one(job):
        source, runtime = job
        output = directory / f"{source.stem}-{runtime}"
        own = re.search("^// nvcc: (.*)", source.read_text(), re.M)
        options = own.group(1).split() if own else []
        target = [] if "-gencode" in options else ["-arch=sm_90"]
        command = ["nvcc", "-std=c++17", f"-cudart={runtime}", *target, *options, source,
                   "-o", output]
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
        if done.returncode:
            log(f"{source.name}: {done.stderr.strip().splitlines()[-1:]}")

    jobs = [(source, runtime) for source in sorted((COMPAT / "nvcc").glob("*.cu"))
            for runtime in ("static", "shared")
            if re.search(only, f"nvcc {source.stem}-{runtime}")]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(compile_one, jobs))


def run_one(way, command):
    """Exit status, standard output, and the end of standard error."""
    try:
        done = subprocess.run([str(part) for part in command], env=way.environment,
                              capture_output=True, text=True, timeout=SECONDS_MAX)
        return done.returncode, done.stdout, done.stderr[-600:]
    except subprocess.TimeoutExpired:
        return "timeout", "", f"longer than {SECONDS_MAX} s"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dist", type=Path)
    parser.add_argument("--output", type=Path, default=Path("programs.json"))
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    dist = arguments.dist.resolve()
    rows = []
    with tempfile.TemporaryDirectory() as built:
        built = Path(built)
        build(built, arguments.only)
        native, shared = Way("native", dist), Way("openmps", dist)
        # So that what failed says why.
        shared.environment["OPENMPS_TRACE"] = "errors"
        with native.running(), shared.running(), \
                concurrent.futures.ThreadPoolExecutor(4) as pool:
            chosen = [program for program in programs(dist, built)
                      if re.search(arguments.only, f"{program[0]} {program[1]}")]
            alone = [program for program in chosen if program[1].startswith(FAULTY)]
            jobs = [(program, [pool.submit(run_one, way, program[2]) for way in (native, shared)])
                    for program in chosen if program not in alone]
            for program, both in jobs:
                rows.append(judge(program, [job.result() for job in both]))
            for program in alone:
                rows.append(judge(program, [run_one(way, program[2]) for way in (native, shared)]))
        arguments.output.with_suffix(".log").write_text(shared.log)
    arguments.output.write_text(json.dumps(rows, indent=1) + "\n")
    failed = sum(row["verdict"] not in ("ok", "native fails") for row in rows)
    print(f"{len(rows)} programs, {failed} fail through openmps alone")


def what_failed(output, errors):
    """Why a program failed, as it says: its errors, else the checks that it names, else its last words."""
    checks = [line for line in output.splitlines() if line.startswith("FAIL")]
    return errors or "\n".join(checks) or output[-300:]


def judge(program, results):
    family, name, _, compare = program
    (native_status, native_output, native_errors), (status, output, errors) = results
    if native_status != 0:
        verdict, reason = "native fails", what_failed(native_output, native_errors)
        if status != 0:
            reason += f"\nthrough openmps too: {what_failed(output, errors)}"
    elif status != 0:
        verdict, reason = "FAILS", f"exit {status}: {what_failed(output, errors)}"
    else:
        same = compare(native_output) == compare(output)
        verdict, reason = ("ok", "") if same else ("DIFFERS", f"{native_output}\n---\n{output}")
    print(f"{verdict:13} {family:8} {name} {reason.strip().splitlines()[-1:] or ''}", flush=True)
    return {"family": family, "name": name, "verdict": verdict, "reason": reason[-1500:]}


if __name__ == "__main__":
    main()
