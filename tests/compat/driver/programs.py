"""The programs of this folder, by family: how each is built and run."""

import collections
import concurrent.futures
import pathlib
import re
import subprocess
import sys
import threading
import time

import environments
import nvcc

HERE = pathlib.Path(__file__).resolve().parent.parent
# Starting Numba or CuPy takes minutes where many programs share the cores.
SECONDS_MAX = 600
# In a process of its own without a daemon; as a client; as two clients at the same time.
MODES = ("alone", "daemon", "two")

# What the client library says, when it is asked to, of each function that a program called.
CALLED = re.compile(r"^openmps: called (\w+)$", re.MULTILINE)

# `command` is a function: what it answers may have to be compiled or fetched first.
Program = collections.namedtuple("Program", "name command settings library_path")


def python(folder, environment, family=None, settings=None):
    """The programs of a folder; `family`: what they are called where it is not the folder's name."""

    def find(only):
        paths = {f"{family or folder}/{path.stem}": path for path in sorted((HERE / folder).glob("*.py"))}
        return [
            Program(name, lambda path=path: [environment.make().python, path], settings or {}, list)
            for name, path in paths.items()
            if only.search(name)
        ]

    return find


def compiled(only):
    builds = [build for build in nvcc.builds() if only.search(build.name)]
    return [
        Program(build.name, lambda build=build: [build.make()], {}, lambda build=build: build.library_path)
        for build in builds
    ]


# Folders of families that have no folder of their name.
SOURCES = {"warp_1_19": "warp"}

# Compilers and pip use all cores by themselves.
MAKING = threading.Lock()

FAMILIES = {
    "nvcc": compiled,
    "numba": python("numba", environments.NUMBA),
    "numba_jitlink": python("numba_jitlink", environments.NUMBA_JITLINK),
    "cupy": python("cupy", environments.CUPY),
    "triton": python("triton", environments.TRITON, settings={"TRITON_DEFAULT_FP_FUSION": "1"}),
    "jax": python("jax", environments.JAX),
    "warp": python("warp", environments.WARP_12),
    # It makes PTX for a driver that is not older than its own toolkit, else machine code.
    "warp_1_19": python(SOURCES["warp_1_19"], environments.WARP_19, "warp_1_19", {"OPENMPS_DRIVER_VERSION": "13.4"}),
    "cuda_python": python("cuda_python", environments.CUDA_PYTHON),
    "nvml": python("nvml", environments.NVML),
}


def find(families, only):
    return [program for family in families for program in FAMILIES[family](only)]


def run(found, modes, openmps, jobs, done, keep):
    """Results by "name (mode)": {"outcome", "why", "seconds", "calls"}; each is also given to `keep` when it is there.
    Those in `done` are not run."""
    todo = [(program, mode) for program in found for mode in modes if f"{program.name} ({mode})" not in done]
    results = {}
    lock = threading.Lock()

    def one(program, mode):
        row = run_one(program, mode, openmps)
        with lock:
            results[f"{program.name} ({mode})"] = row
            keep(program.name, mode, row)
            text = "ok" if row["outcome"] == "passed" else "FAIL " + row["why"]
            print(f"[{len(results)}/{len(todo)}] {program.name} ({mode}) {text}", file=sys.stderr, flush=True)

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for future in [pool.submit(one, *each) for each in todo]:
            future.result()
    return results


def run_one(program, mode, openmps):
    with MAKING:
        try:
            command, library_path = program.command(), program.library_path()
        except (subprocess.CalledProcessError, OSError) as error:
            return {"outcome": "failed", "seconds": 0, "why": f"cannot be made: {error}"[:200]}
    environment = openmps.environment("alone" if mode == "alone" else "daemon", program.settings, library_path)
    if mode == "daemon":
        environment["OPENMPS_TRACE"] = "calls"
    since = time.monotonic()
    processes = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        for _ in range(2 if mode == "two" else 1)
    ]
    ends = [finish(process) for process in processes]
    whys = [why for why, _ in ends if why]
    row = {"outcome": "failed" if whys else "passed", "seconds": round(time.monotonic() - since, 1)}
    if whys:
        row["why"] = whys[0]
    calls = {name for _, output in ends for name in CALLED.findall(output)}
    return {**row, "calls": sorted(calls)} if calls else row


def finish(process):
    """Why a program failed (empty if it did not), and what it wrote."""
    try:
        output, _ = process.communicate(timeout=SECONDS_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        return f"no end in {SECONDS_MAX} s", process.communicate()[0]
    if process.returncode == 0:
        return "", output
    lines = [line.strip() for line in CALLED.sub("", output).splitlines() if line.strip()]
    # What openmps says of it explains more than the program's error code.
    told = [line for line in lines if line.startswith("openmps: ")][-1:] + lines[-1:]
    return f"status {process.returncode}: {'; '.join(dict.fromkeys(told))[:300]}", output
