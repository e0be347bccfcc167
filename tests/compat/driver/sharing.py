"""Runs a suite's test files in several processes at a time, resumed after crashes and faults.

Each worker takes up file after file; when none is left it helps with the file that is longest under way, whose tests the
processes share out among themselves (`recorder.py`). What is not done when the time is up has no result.
"""

import collections
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent.parent
# A test that says nothing for this long is ended; the slowest take a minute on a quiet machine.
TEST_SECONDS_MAX = 600
# How often a file is taken up again: a file in which more tests crash has a common cause.
RESUMES_MAX = 40
# What the recorder ends a process with after a fault of the device.
DEVICE_LOST = 77


class File:
    """One test file: the processes that are at it, and whether anything is left to begin with."""

    def __init__(self, path, scratch):
        self.path, self.scratch = path, scratch
        self.workers, self.results = 0, []
        self.exhausted = False
        (scratch / "claims").mkdir(parents=True)


class Sharing:
    """A suite under way."""

    def __init__(self, suite, mode, openmps, files, jobs, seconds_max, done):
        self.suite, self.mode, self.openmps, self.jobs = suite, mode, openmps, jobs
        seconds_max = seconds_max or float("inf")
        self.deadline = time.monotonic() + seconds_max
        self.test_seconds_max = min(TEST_SECONDS_MAX, seconds_max / 3)
        # Tests that are not to be run, by file.
        self.done = collections.defaultdict(list)
        for name in done:
            path, _, inner = name.partition("::")
            self.done[path].append(inner)
        scratch = openmps.scratch / f"{suite.name}-{mode}"
        self.files = [File(path, scratch / "-".join(self.inner(path).with_suffix("").parts)) for path in files]
        # Long files first: fewer are left to be helped with.
        self.waiting = collections.deque(sorted(self.files, key=lambda file: -file.path.stat().st_size))
        self.under_way = []
        self.lock = threading.Lock()

    def inner(self, path):
        return path.relative_to(self.suite.root)

    def run(self, keep):
        """All results by test; each file's are given to `keep` when its last process ends."""
        workers = [threading.Thread(target=self.work, args=(keep,)) for _ in range(self.jobs)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return {name: row for file in self.files for name, row in self.rows(file).items()}

    def work(self, keep):
        while time.monotonic() < self.deadline and (file := self.next()):
            with self.lock:
                results = file.scratch / f"{len(file.results)}.jsonl"
                file.results.append(results)
            self.run_file(file, results)
            with self.lock:
                file.workers -= 1
                file.exhausted = True
                if file.workers == 0:
                    self.finish(file, keep)

    def next(self):
        """A file that no process works on, or the first of those under way in which tests may be left."""
        with self.lock:
            if self.waiting:
                file = self.waiting.popleft()
                self.under_way.append(file)
            else:
                open_files = [file for file in self.under_way if not file.exhausted]
                file = min(open_files, key=lambda file: file.workers, default=None)
            if file:
                file.workers += 1
            return file

    def finish(self, file, keep):
        rows = self.rows(file)
        keep(rows)
        counts = collections.Counter(row["outcome"] for row in rows.values())
        text = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
        left = len(self.waiting) + sum(file.workers > 0 for file in self.under_way)
        print(f"[{len(self.files) - left}/{len(self.files)}] {self.inner(file.path)}: {text}", file=sys.stderr, flush=True)

    def rows(self, file):
        """A file's results so far. Pytest names a test after the directory that it takes for the root; here it is the suite's."""
        return {
            "::".join([str(self.inner(file.path)), *name.split("::")[1:]]): row
            for results in file.results
            for name, row in read(results)[0].items()
        }

    def run_file(self, file, results):
        """Runs what this worker gets of a file's tests."""
        command = [
            self.suite.environment.python, "-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider", "-p", "recorder",
            *self.suite.arguments, self.suite.target(file.path),
        ]  # fmt: skip
        # numba-cuda's modules must not be found by the working directory.
        cwd = file.scratch if self.suite.package else self.suite.root
        python_path = [str(HERE / "suites"), *filter(None, [os.environ.get("PYTHONPATH")])]
        settings = {
            **self.suite.settings,
            "COMPAT_RESULTS": str(results),
            "COMPAT_CLAIMS": str(file.scratch / "claims"),
            "COMPAT_DONE": json.dumps(self.done[str(self.inner(file.path))]),
            "PYTHONPATH": ":".join(python_path),
        }
        environment = self.openmps.environment(self.mode, settings)
        for _ in range(RESUMES_MAX):
            with open(results.with_suffix(".log"), "a") as log:
                process = subprocess.Popen(
                    command, cwd=cwd, env=environment, stdout=log, stderr=log, start_new_session=True
                )
                status = self.wait(process, results)
            unfinished = read(results)[1]
            if time.monotonic() >= self.deadline or (unfinished is None and status != DEVICE_LOST):
                break
            if unfinished is not None:
                why = f"no end in {self.test_seconds_max:.0f} s" if status is None else f"the process ended with {status}"
                with open(results, "a") as output:
                    output.write(json.dumps({"id": unfinished, "outcome": "crashed", "why": why}) + "\n")

    def wait(self, process, results):
        """The exit status; None if a test took too long, or the time is up, and the process was ended."""
        size, since = -1, time.monotonic()
        while True:
            try:
                return process.wait(timeout=1)
            except subprocess.TimeoutExpired:
                now = os.path.getsize(results) if results.exists() else 0
                if now != size:
                    size, since = now, time.monotonic()
                if time.monotonic() >= min(self.deadline, since + self.test_seconds_max):
                    # With the processes that tests started.
                    os.killpg(process.pid, signal.SIGKILL)
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
