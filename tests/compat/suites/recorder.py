"""A pytest plugin: one JSON line a test, and an end to the process when the device is lost.

A fault of one kernel spoils the process for all tests after it, on any GPU. So after a test that failed the device is
asked; if it answers with an error that does not go away, the process ends with `DEVICE_LOST` and whoever started it
goes on with the tests that are left, in a new one.

COMPAT_RESULTS names the file. Tests that it has already are not run again. The line `{"id": ..., "outcome": "started"}`
stands before a test's result, so that a crash has a name.
"""

import ctypes
import json
import os
import pathlib
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
DEVICE_LOST = 77
# Errors after which every call fails: addresses, instructions, traps, time limits, launch failures.
STICKY = {214, 700, 702, 710, 714, 715, 716, 717, 718, 719, 805, 806, 807, 808, 809}

path = os.environ["COMPAT_RESULTS"]
current = {}


def write(row):
    with open(path, "a") as results:
        results.write(json.dumps(row) + "\n")


def pytest_collection_modifyitems(config, items):
    with open(path, "a+") as results:
        results.seek(0)
        done = {json.loads(line)["id"] for line in results}
    items[:] = [item for item in items if item.nodeid not in done]


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
