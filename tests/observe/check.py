#!/usr/bin/env python3
"""Holds what openmps shows against the readers that are made for it: Perfetto's own messages,
Prometheus' parser, a browser.

    check.py DIST [--browser] [--screenshots DIR]

DIST is an installation, made by `cargo xtask dist`. The readers come from PyPI (perfetto, protobuf,
prometheus-client; with --browser playwright, whose Chromium must be installed) into an environment
beside this file, which git ignores. Runs on the software GPU, with a daemon of its own.
"""

import argparse
import collections
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
ENVIRONMENT = HERE / ".venv"


def with_readers(packages):
    """Goes on in an environment that has these packages."""
    python = ENVIRONMENT / "bin" / "python"
    if Path(sys.prefix) == ENVIRONMENT:
        return
    if not python.exists():
        venv.create(ENVIRONMENT, with_pip=True)
    subprocess.run([python, "-m", "pip", "install", "-q", *packages], check=True)
    os.execv(python, [str(python), *sys.argv])


def openmps(dist, *arguments, **options):
    return subprocess.run([dist / "bin/openmps", *arguments], text=True, check=True,
                          capture_output=True, **options)


def check_trace(dist, directory):
    """A trace's slices are what the program launched, and its arrows lead somewhere."""
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as messages

    path = directory / "run.pftrace"
    openmps(dist, "run", "--trace", path, dist / "lib/openmps/samples/vector_add", "--warm-up", "3",
            "--iterations", "40")
    trace = messages.Trace()
    trace.ParseFromString(path.read_bytes())
    begins, names, open_slices = collections.Counter(), collections.Counter(), collections.Counter()
    out, into, tracks = set(), set(), {}
    for packet in trace.packet:
        if packet.HasField("track_descriptor"):
            tracks[packet.track_descriptor.uuid] = packet.track_descriptor
        if not packet.HasField("track_event"):
            continue
        event = packet.track_event
        assert event.track_uuid in tracks, "an event without a track"
        if event.type == messages.TrackEvent.TYPE_SLICE_BEGIN:
            begins[event.categories[0]] += 1
            names[event.name] += 1
            open_slices[event.track_uuid] += 1
            out.update(event.flow_ids)
            into.update(event.terminating_flow_ids)
        else:
            open_slices[event.track_uuid] -= 1
    assert all(count == 0 for count in open_slices.values()), "a slice has no end"
    assert begins["kernel"] == 43, begins
    assert begins["sm"] >= 43 and begins["copy"] > 0, begins
    assert names["vector_add"] >= 43 and out == into and len(out) >= 43, names
    processes = [t.process.process_name for t in tracks.values() if t.HasField("process")]
    assert any("vector_add" in name for name in processes), processes
    print(f"trace: {dict(begins)}, {len(tracks)} tracks, {len(out)} arrows")


def check_metrics(text):
    """Prometheus' own parser reads the text, and the numbers are those of the program."""
    from prometheus_client.openmetrics.parser import text_string_to_metric_families

    families = {family.name: family for family in text_string_to_metric_families(text)}
    kernels = sum(sample.value for sample in families["openmps_client_kernels"].samples)
    assert kernels > 0, "no kernels"
    assert "DCGM_FI_DEV_GPU_UTIL" in families and "DCGM_FI_PROF_SM_ACTIVE" in families
    print(f"metrics: {len(families)} families, {kernels:.0f} kernels")


def check_board():
    board = json.loads((HERE.parent.parent / "docs/observe/grafana.json").read_text())
    text = (HERE.parent.parent / "crates/observe/src/metrics.rs").read_text()
    for panel in board["panels"]:
        for target in panel["targets"]:
            for name in re.findall(r"(?:openmps|DCGM)_\w+", target["expr"]):
                base = re.sub(r"_total$", "", name)
                assert f'"{base}"' in text, f"{name} is no metric"
    print(f"board: {len(board['panels'])} panels name metrics that there are")


def check_browser(url, screenshots):
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # Playwright's own Chromium, or the system's where that cannot be installed.
        own = Path(playwright.chromium.executable_path).exists()
        browser = playwright.chromium.launch(
            executable_path=None if own else shutil.which("chromium"), args=["--no-sandbox"])
        errors = []
        # First as it is served; then without its policy, which forbids what waits for functions.
        for bypass in [False, True]:
            page = browser.new_page(viewport={"width": 1280, "height": 900}, bypass_csp=bypass)
            page.on("console", lambda m: errors.append(m.text) if m.type == "error" else None)
            page.on("pageerror", lambda error: errors.append(str(error)))
            page.goto(url)
            page.locator("canvas.chart").first.wait_for()
            page.locator("#rows tr[id]").first.wait_for()
        chart = page.locator("canvas.chart").first
        chart.wait_for()
        first = int(chart.get_attribute("data-points"))
        page.wait_for_function(
            "first => +document.querySelector('canvas.chart').dataset.points > first + 1", arg=first)
        page.click("#record")
        page.wait_for_function("+document.querySelector('#timeline').dataset.records > 0")
        span = lambda: page.evaluate(
            "(d => d.to - d.from)(document.querySelector('#timeline').dataset)")
        whole = span()
        page.click("#in")
        assert span() < whole, "the timeline does not zoom"
        page.focus("#timeline")
        page.keyboard.press("-")
        assert span() == whole, "keys do not zoom"
        page.click("#advise")
        page.wait_for_selector("#advice li")
        if screenshots:
            for name, scheme, width in [("light", "light", 1280), ("dark", "dark", 1280),
                                        ("narrow", "light", 360)]:
                page.emulate_media(color_scheme=scheme)
                page.set_viewport_size({"width": width, "height": 900})
                page.wait_for_timeout(300)
                page.screenshot(path=screenshots / f"web-{name}.png", full_page=True)
        for width in [360, 768, 2560]:
            page.set_viewport_size({"width": width, "height": 900})
            wide = page.evaluate("document.documentElement.scrollWidth")
            assert wide <= width, f"the page is {wide} wide at {width}"
        page.set_viewport_size({"width": 1280, "height": 900})
        rows = page.locator("#rows tr[id]").count()
        page.locator("#rows button").first.click()
        page.click("#yes")
        page.wait_for_function(
            "rows => document.querySelectorAll('#rows tr[id]').length < rows", arg=rows)
        assert not errors, errors
        browser.close()
    print("browser: charts move, the timeline zooms, a client was ended, no console errors")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("dist", type=Path)
    parser.add_argument("--browser", action="store_true")
    parser.add_argument("--screenshots", type=Path)
    arguments = parser.parse_args()
    packages = ["perfetto", "protobuf", "prometheus-client"]
    with_readers(packages + (["playwright"] if arguments.browser else []))
    check_board()
    with tempfile.TemporaryDirectory(prefix="openmps-observe-") as directory:
        directory = Path(directory)
        os.environ["CUDA_MPS_PIPE_DIRECTORY"] = str(directory / "pipe")
        os.environ["CUDA_MPS_LOG_DIRECTORY"] = str(directory / "log")
        os.environ["OPENMPS_PROVIDER"] = "soft"
        dist = arguments.dist.resolve()
        openmps(dist, "up")
        started = []
        try:
            check_trace(dist, directory)
            for _ in range(2):
                started.append(subprocess.Popen(
                    [dist / "bin/openmps", "run", dist / "lib/openmps/samples/spin", "--blocks", "1",
                     "--seconds", "120"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
            web = subprocess.Popen([dist / "bin/openmps", "web", "--listen", "127.0.0.1:0", "--token"],
                                   stderr=subprocess.PIPE, text=True)
            started.append(web)
            url = re.search(r"http://\S+", web.stderr.readline()).group()
            base, token = url.split("/?token=")
            try:
                urllib.request.urlopen(base + "/metrics")
                raise SystemExit("metrics without a token")
            except urllib.error.HTTPError as error:
                assert error.code == 401, error
            time.sleep(3)
            request = urllib.request.Request(base + "/metrics",
                                             headers={"Authorization": f"Bearer {token}"})
            check_metrics(urllib.request.urlopen(request).read().decode())
            if arguments.browser:
                check_browser(url, arguments.screenshots)
        finally:
            for program in started:
                program.terminate()
            for program in started:
                program.wait()
            openmps(dist, "down", "--timeout", "0")


if __name__ == "__main__":
    main()
