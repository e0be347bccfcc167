"""Test-suites of other projects: each file in a process of its own, resumed after crashes and faults."""

import collections
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import threading
import time

import environments

HERE = pathlib.Path(__file__).resolve().parent.parent
# A test that says nothing for this long is ended; the slowest take a minute on a quiet machine.
TEST_SECONDS_MAX = 600
# How often a file is taken up again: a file in which more tests crash has a common cause.
RESUMES_MAX = 40


class Suite(collections.namedtuple("Suite", "name environment root files package arguments settings")):
    """Where a suite's tests are, and how pytest is to run them."""

    def target(self, path):
        """What pytest is to call a file."""
        inner = path.relative_to(self.root)
        return self.package + ".".join(inner.with_suffix("").parts) if self.package else str(path)


def numba():
    environment = environments.NUMBA_SUITE.make()
    root = environment.site_packages / "numba_cuda/numba/cuda/tests"
    files = [path for part in ("cudadrv", "cudapy", "nocuda") for path in sorted((root / part).glob("test_*.py"))]
    # By module name, which pytest must find as it is: by path it would take numba/cuda for the package `cuda`, which is
    # another one, and processes that tests start would not find the test's module.
    arguments = ["-p", "numba_suite", "--import-mode=importlib", "-o", "consider_namespace_packages=true", "--pyargs"]
    return Suite("numba-cuda", environment, root, files, "numba.cuda.tests.", arguments, {})


def cupy():
    environment = environments.CUPY_SUITE.make()
    root = environments.cupy_tests()
    files = sorted((root / "tests/cupy_tests/core_tests").rglob("test_*.py"))
    settings = {**environments.CUPY_SETTINGS, "NVCC": str(environments.NVCC.make().cuda / "bin/nvcc")}
    return Suite("cupy", environment, root, files, None, ["-m", "not slow"], settings)


SUITES = {"numba": numba, "cupy": cupy}


def run(suite, installation, only, jobs, keep):
    """All results, by test: {"outcome", "why", "seconds"}; each file's are also given to `keep` when they are there."""
    files = [path for path in suite.files if only.search(str(path.relative_to(suite.root)))]
    done = 0
    results = {}
    lock = threading.Lock()

    def one(path):
        nonlocal done
        rows = run_file(suite, installation, path)
        with lock:
            done += 1
            results.update(rows)
            keep(rows)
            counts = collections.Counter(row["outcome"] for row in rows.values())
            text = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
            print(f"[{done}/{len(files)}] {path.relative_to(suite.root)}: {text}", file=sys.stderr, flush=True)

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for future in [pool.submit(one, path) for path in files]:
            future.result()
    return results


def run_file(suite, installation, path):
    """Results of one file's tests."""
    scratch = installation.scratch / ("-".join(path.relative_to(suite.root).with_suffix("").parts))
    results = scratch.with_suffix(".jsonl")
    command = [
        suite.environment.python, "-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider", "-p", "recorder",
        *suite.arguments, suite.target(path),
    ]  # fmt: skip
    # numba-cuda's modules must not be found by the working directory.
    cwd = installation.scratch if suite.package else suite.root
    settings = {**suite.settings, "COMPAT_RESULTS": str(results), "PYTHONPATH": str(HERE / "suites")}
    for _ in range(RESUMES_MAX):
        with open(scratch.with_suffix(".log"), "a") as log:
            process = subprocess.Popen(
                command, cwd=cwd, env=installation.environment("alone", settings), stdout=log, stderr=log
            )
            status = wait(process, results)
        unfinished = read(results)[1]
        if unfinished is None and status not in (77,):
            break
        if unfinished is not None:
            why = "no end in %d s" % TEST_SECONDS_MAX if status is None else f"the process ended with {status}"
            with open(results, "a") as file:
                file.write(json.dumps({"id": unfinished, "outcome": "crashed", "why": why}) + "\n")
    # Pytest names a test after the directory that it takes for the root; here it is the suite's.
    inner = path.relative_to(suite.root)
    return {"::".join([str(inner), *name.split("::")[1:]]): row for name, row in read(results)[0].items()}


def wait(process, results):
    """The exit status; None if a test took too long and the process was ended."""
    size, since = -1, time.monotonic()
    while True:
        try:
            return process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            now = os.path.getsize(results) if results.exists() else 0
            if now != size:
                size, since = now, time.monotonic()
            elif time.monotonic() - since > TEST_SECONDS_MAX:
                process.kill()
                process.wait()
                return None


def read(results):
    """What a results file says: results by test, and the test that has begun and not ended."""
    rows, started = {}, None
    for line in results.read_text().splitlines() if results.exists() else []:
        row = json.loads(line)
        started = row["id"] if row["outcome"] == "started" else None
        if row["outcome"] != "started":
            rows[row.pop("id")] = row
    return rows, started
