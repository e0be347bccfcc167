"""A pytest plugin: one JSON line a test, tests shared out among several processes, and an end when the device is lost.

A fault of one kernel spoils the process for all tests after it, on any GPU. So after a test that failed the device is
asked; if it answers with an error that does not go away, the process ends with `DEVICE_LOST`. The program that
started it goes on with the tests that are left, in a new one.

COMPAT_RESULTS names the file. Tests that it has already are not run again; nor are those that COMPAT_DONE lists, if
that is set: a JSON list of names without their files. The line `{"id": ..., "outcome": "started"}`
stands before a test's result, so that a crash has a name.

COMPAT_CLAIMS names a folder that all processes of one test file share. A process claims a few neighbouring tests by
making a file there, with the name of its results in it: what has another one's name is that one's to run.
"""

import ctypes
import json
import os
import pathlib
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
DEVICE_LOST = 77
# Errors after which every call fails: addresses, instructions, traps, time limits, launch failures; what kernels do that
# the software GPU does not.
STICKY = {214, 700, 702, 710, 714, 715, 716, 717, 718, 719, 801, 805, 806, 807, 808, 809}
# Few enough that the last process is not waited for long, many enough that a class's preparations are made seldom.
CLAIM_TESTS_MAX = 8

path = os.environ["COMPAT_RESULTS"]
claims = pathlib.Path(os.environ["COMPAT_CLAIMS"])
current = {}


def write(row):
    with open(path, "a") as results:
        results.write(json.dumps(row) + "\n")


def finished():
    """The tests that have a result of this process or of one before it, by their names without the file."""
    done = set(json.loads(os.environ.get("COMPAT_DONE", "[]")))
    if os.path.exists(path):
        with open(path) as results:
            rows = [json.loads(line) for line in results]
        done |= {within_file(row["id"]) for row in rows if row["outcome"] != "started"}
    return done


def within_file(nodeid):
    return nodeid.partition("::")[2]


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session):
    if session.config.option.collectonly:
        return None
    done = finished()
    for number, chunk in enumerate(chunks(session.items)):
        if claimed(number):
            left = [item for item in chunk if within_file(item.nodeid) not in done]
            for item, following in zip(left, left[1:] + [None]):
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
    return True


def chunks(items):
    """Neighbouring tests of one class or file, a few at a time: the same in each process."""
    chunk = []
    for item in items:
        if chunk and (len(chunk) == CLAIM_TESTS_MAX or item.parent is not chunk[0].parent):
            yield chunk
            chunk = []
        chunk.append(item)
    if chunk:
        yield chunk


def claimed(number):
    """Whether these tests are this process's to run."""
    claim = claims / str(number)
    try:
        with open(claim, "x") as file:
            file.write(path)
        return True
    except FileExistsError:
        return claim.read_text() == path


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logstart(nodeid):
    current.clear()
    current.update(id=nodeid, outcome="passed", since=time.monotonic())
    write({"id": nodeid, "outcome": "started"})


def pytest_runtest_logreport(report):
    if report.nodeid != current.get("id") or current["outcome"] == "failed":
        return
    if report.failed:
        current.update(outcome="failed", why=reason(report))
    elif report.skipped:
        current.update(outcome="skipped", why=reason(report))


def pytest_runtest_logfinish(nodeid):
    row = {key: value for key, value in current.items() if key != "since"}
    row["seconds"] = round(time.monotonic() - current["since"], 2)
    write(row)
    if row["outcome"] == "failed" and device_is_lost():
        os._exit(DEVICE_LOST)


def pytest_collectreport(report):
    if report.failed:
        write({"id": report.nodeid, "outcome": "failed", "why": reason(report)})


def reason(report):
    """The last line that says what was wrong."""
    if isinstance(report.longrepr, tuple):
        return report.longrepr[2]
    if hasattr(report, "wasxfail"):
        return "expected to fail: " + report.wasxfail
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash else str(report.longrepr)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    text = lines[0] if crash and lines else lines[-1] if lines else ""
    # Recorded results are the same on every machine: no place of this one in them.
    return text.replace(f"{ROOT}/", "")[:300]


def device_is_lost():
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return driver.cuCtxSynchronize() in STICKY
